"""All readings of a diagnosis in their order, and the page that holds them."""

from collections.abc import Iterator, Mapping

from pgrl_cli.config.problems import legible
from pgrl_cli.readings.baselines import baselines
from pgrl_cli.readings.deltas import delta_modes
from pgrl_cli.readings.divergences import kl_terms, kl_terms_of_sequences
from pgrl_cli.readings.losses import losses, samples
from pgrl_cli.readings.numbers import counted
from pgrl_cli.readings.reading import Found, Reading
from pgrl_cli.readings.rewards import groups, reward
from pgrl_cli.readings.traps import traps
from pgrl_cli.readings.truth import truth

MARK = "<!-- written by pgrl diagnose -->"
"""The first line of the page, by which it is known again."""


def readings(found: Found) -> list[Reading]:
    """A table for each question."""
    kls = (kl_terms, kl_terms_of_sequences)
    every = (truth, delta_modes, baselines, losses, samples, *kls, reward, groups, traps)
    return [reading for each in every if (reading := each(found)) is not None]


def title(found: Found) -> str:
    """What is diagnosed, in a line."""
    subject = found["subject"]
    return f"{legible(subject['config'])}, seed {subject['seed']}, after {counted(subject['epochs'], 'epoch')}"


def opening(found: Found) -> Iterator[str]:
    """What is looked at, and how closely, in sentences."""
    subject = found["subject"]
    size, prompts = subject["group_size"], subject["prompts"]
    yield (
        f"A {subject['policy']} policy with {counted(subject['parameters'], 'parameter')} on the task "
        f"{subject['task']}; {counted(prompts, 'prompt')}, {counted(size, 'response')} to each; "
        f"{subject['delta_mode']}, {subject['loss_mode']} loss."
    )
    if subject["looked_at_as"] != subject["delta_mode"]:
        yield (
            f"What {subject['delta_mode']} makes of a response does not follow from one group of whole responses, so "
            f"it is not looked at: where this config's delta mode is asked for, {subject['looked_at_as']} stands in."
        )
    every = subject["responses_per_prompt"]
    if subject["exact"]:
        told = f"All {every:,} responses to a prompt are" if every != 1 else "The only response to a prompt is"
        yield f"{told} gone through: figures are exact, but for those with ± and those of sampled rollouts."
    else:
        many = "more responses to a prompt than can be counted here" if every is None else f"{every:,} responses"
        yield (
            f"There are {many}, too many to go through: {subject['responses_looked_at']:,} sampled ones stand for "
            "them. Every figure is an estimate; ± is its standard error."
        )
    yield f"The reference is {subject['reference']}."
    yield (
        "Gradients are with respect to the parameters. A rollout is one group of responses to each prompt; its "
        "gradient, unless something else is said, that of an epoch's first step with average: response_sum."
    )
    if subject["kl_coefficient"]:
        yield "This config's KL takes no part but where KL terms are looked at."


def markdown(found: Found, pictures: Mapping[str, str]) -> str:
    """The page; pictures by the section that they show, each the path of a file."""
    parts = [MARK, f"# Diagnosis of {_plain(title(found))}", " ".join(map(_plain, opening(found)))]
    shown = dict(pictures)
    for reading in readings(found):
        parts += [f"## {reading.question}", _table(reading), _plain(reading.legend)]
        parts += ["\n".join(f"* {_plain(sentence)}" for sentence in reading.sentences)] if reading.sentences else []
        if reading.section in shown:
            parts.append(f"![{reading.question}]({shown.pop(reading.section)})")
    return "\n\n".join(parts) + "\n"


def _table(reading: Reading) -> str:
    sides = [":---"] * reading.words + ["---:"] * (len(reading.columns) - reading.words)
    rows = [reading.columns, tuple(sides), *reading.rows]
    return "\n".join(f"| {' | '.join(map(_plain, row))} |" for row in rows)


def _plain(text: str) -> str:
    """A text in which Markdown finds nothing to do."""
    for sign in ("\\", "|", "<", "*", "`", "_", "["):
        text = text.replace(sign, f"\\{sign}")
    return text
