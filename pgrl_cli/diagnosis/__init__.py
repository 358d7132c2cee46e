"""What is true of a policy and its estimators on a vocabulary that is small enough to go through.

`subject` is what is looked at, `population` its responses with their probabilities; one module for each question.
Gradients are with respect to the parameters, in float64. One rollout is one group of responses to each prompt, and its
gradient the mean over all of them of advantage times score (`average: response_sum`, an epoch's first step).
"""
