"""python -m pgrl_cli"""

from pgrl_cli.cli import app

app(prog_name="pgrl")
