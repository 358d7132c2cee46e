"""`pgrl sample`: what a run's policy answers."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgrl_cli.config.problems import ConfigError, Problem
from pgrl_cli.console import failures_told, note, print_json

if TYPE_CHECKING:
    from pgrl_cli.sampling import Attempts


def sample(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, an id, or latest.")],
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", "-p", help="Such as '3 1 2' or '7+25='; the task's own without it.")
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="The prompts that were never trained on instead.")
    ] = False,
    count: Annotated[int | None, typer.Option("-n", min=1, max=10_000, help="Responses to each; 5 without it.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest tokens instead: one response each.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of a run with `seeds`; its first without it.")] = None,
    draw: Annotated[int, typer.Option("--draw", min=0, help="Another number draws other responses.")] = 0,
    runs_dir: Annotated[Path, typer.Option(help="Where ids are looked up.", file_okay=False)] = Path("runs"),
    attempts: Annotated[
        bool | None,
        typer.Option(
            "--attempts/--no-attempts",
            help="What k attempts at the task's prompts earn; of a reward of your own only if asked for.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    """Sample from a run's policy as its last checkpoint has it; and what several attempts earn at their best."""
    with failures_told(debug):
        from pgrl_cli import sampling
        from pgrl_cli.runs import Run
        from pgrl_cli.store import resolved

        if greedy and (count is not None or draw):
            raise ConfigError([Problem("has one response to each prompt; leave -n and --draw out", "--greedy")])
        if held_out and prompt:
            raise ConfigError([Problem("takes the task's own prompts; leave --prompt out", "--held-out")])
        folder = Run(resolved(run, runs_dir, kind="run"))
        with sampling.trained(folder, seed) as trained:
            prompts = sampling.prompts_of(prompt or [], trained.parts, held_out)
            responses = trained.greedy(prompts) if greedy else trained.responses(prompts, count or 5, draw)
            for told in trained.notes:
                note(told)
            samples = sampling.told(trained, prompts, responses)
            if not as_json:
                print(*("\n".join(_lines_of(each)) for each in samples), sep="\n\n", flush=True)
            asked = not trained.config.sources if attempts is None else attempts
            earned, exact = sampling.attempts_of(trained, held_out) if asked else ([], None)
        if as_json:
            table = [asdict(each) for each in earned]
            print_json({"run": str(folder.folder), "samples": samples, "attempts": table, "attempts_exact": exact})
        elif earned:
            of_what = "every response there is" if exact else "sampled responses"
            print(*_table_of(earned, "held-out" if held_out else "task's", of_what), sep="\n")


def _table_of(earned: "list[Attempts]", whose: str, of_what: str) -> list[str]:
    """What several attempts earn, readable."""
    return [
        "",
        f"what k attempts earn at their best: mean over the {whose} prompts, from {of_what}",
        "k         " + "".join(f"{each.attempts:>8}" for each in earned),
        "best of k " + "".join(f"{each.best_reward:>8.3f}" for each in earned),
        "pass@k    " + "".join(f"{each.passed:>8.3f}" for each in earned),
    ]


def _lines_of(sample: dict[str, Any]) -> list[str]:
    """A prompt with its responses, readable."""
    known = sample["solution"] is not None
    lines = [f"prompt {_said(sample, 'prompt')}" + (f"   right answer {_said(sample, 'solution')}" if known else "")]
    for each in sample["responses"]:
        told = f"  {_said(each, 'response')}   probability {each['probability']:.4f}   reward {each['reward']:g}"
        lines.append(told + ("   right" if each["right"] else ""))
    return lines


def _said(row: dict[str, Any], name: str) -> str:
    """Token ids, behind what they say where that is known."""
    ids = " ".join(map(str, row[name]))
    return f"{row[f'{name}_text']} ({ids})" if f"{name}_text" in row else ids
