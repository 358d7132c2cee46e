"""The mathematics: pure functions of tensors, one equation each.

Axes are named `run prompt response token vocab`; `...` stands for any axes in front, so the same equation
serves one run, many runs side by side, and the steps of an epoch all at once.
"""
