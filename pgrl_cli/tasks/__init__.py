"""Tasks: the prompts, and the rewards that judge responses to them.

A task is a function of knobs; called without any it gives the lecture's. Its rewards are found by name in its own
table, beside a user's own file (`own_rewards`).
"""

from pgrl_cli.registry import table
from pgrl_cli.tasks.arithmetic import addition, multiplication
from pgrl_cli.tasks.copying import copy, reverse
from pgrl_cli.tasks.countdown import countdown
from pgrl_cli.tasks.parity import parity
from pgrl_cli.tasks.sorting import sorting
from pgrl_cli.tasks.two_state import two_state

TASKS = table(sorting, two_state, copy, reverse, addition, multiplication, countdown, parity)
