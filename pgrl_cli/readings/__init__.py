"""A diagnosis read out: a table for each question, and what follows from its numbers, in words. No torch.

`reading` is what all of them are; `page` puts them together. They know a diagnosis as JSON holds it.
"""
