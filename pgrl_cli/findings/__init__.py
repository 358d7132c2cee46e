"""What stands out in a run while it trains: seen in the lines of metrics.jsonl alone, so that it can be told again.

A kind of finding is a function of how the run has gone; each is said once. In a run with `seeds` a finding is said when
a tenth of the living seeds has it, and counted on from there. numpy, no torch.
"""

from pgrl_cli.findings.noticing import KINDS, Finding, Findings
from pgrl_cli.findings.window import Facts

__all__ = ["KINDS", "Facts", "Finding", "Findings"]
