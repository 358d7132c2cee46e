"""A sweep's plan: every cell's config resolved, cells that can train side by side put into stacks of even work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import orjson

from pgrl_cli.assembly import must_agree, scored_by
from pgrl_cli.cells import Cell, digest_of
from pgrl_cli.config import Config, ConfigError, Problem
from pgrl_cli.config.problems import listed, nearest, short
from pgrl_cli.config.schema import WarmStart, work_of
from pgrl_cli.config.sweep_spec import Spec, folder_name, told
from pgrl_cli.experiment import refuse_a_missing_gpu, too_large
from pgrl_cli.resolution import DROPPED, resolve
from pgrl_cli.stacks import json_of
from pgrl_cli.training.evaluation import EVALUATED
from pgrl_cli.training.measures import METRICS, OF_SOME
from pgrl_cli.words import written
from pgrl_cli.workload import bytes_of

ID_DIGITS = 12
"""Of a hash in hexadecimal: among 100,000 cells two share one with a probability of 2e-5."""
MOST_BYTES = 500_000_000
"""What the tensors of a stack may take."""
WORTH_A_NOTE = 1_000_000_000
"""A cell that takes more by itself, which no stack can make smaller, is told of."""


@dataclass(frozen=True)
class Piece:
    """A cell's resolved config on its way into a stack."""

    label: str
    parameters: Mapping[str, Any]
    config: Config

    @cached_property
    def id(self) -> str:
        """A hash of the config as it is written, and of the sources of rewards of the user's own."""
        digest = sha256(written(self.config).encode())
        for path in self.config.sources.values():
            digest.update(path.read_bytes())
        return digest.hexdigest()[:ID_DIGITS]

    @property
    def runs(self) -> int:
        return len(self.config.run_seeds)

    @cached_property
    def bytes(self) -> int:
        return bytes_of(self.config) * self.runs

    @cached_property
    def work(self) -> int:
        """Optimizer steps of all its runs."""
        return work_of(self.config.settings)


@dataclass(frozen=True)
class Plan:
    """What a sweep is going to do."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


def planned(spec: Spec, processes: int) -> Plan:
    """The cells of a sweep with their stacks; every config is resolved. Raises ConfigError with all problems."""
    pieces, notes = _pieces(spec)
    _refuse_an_unknown_metric(spec, pieces)
    _refuse_what_no_memory_holds(spec, pieces)
    stacks = list(stacked(pieces, processes)) if spec.launcher == "stacked" else [[piece] for piece in pieces]
    where = {piece.id: (number, place) for number, stack in enumerate(stacks) for place, piece in enumerate(stack)}
    cells = (
        Cell(
            id=piece.id,
            label=piece.label,
            folder=f"cells/{folder_name(piece.label, piece.id)}",
            stack=where[piece.id][0],
            place=where[piece.id][1],
            parameters=_in_json(piece.parameters),
            config=json_of(piece.config),
            sources={str(path): digest_of(path) for path in piece.config.sources.values()},
        )
        for piece in pieces
    )
    large = [piece for piece in pieces if piece.bytes > WORTH_A_NOTE]
    notes += tuple(
        f"the cell {piece.label} takes about {piece.bytes / 1e9:.1f} GB: its seeds share one stack" for piece in large
    )
    return Plan(tuple(cells), notes)


def _refuse_an_unknown_metric(spec: Spec, pieces: Sequence[Piece]) -> None:
    names = [*METRICS, *OF_SOME, *EVALUATED]
    for piece in pieces:
        weights = piece.config.weights()
        names += [f"reward/{word}" for word in weights if len(weights) > 1]
    if spec.metric.name not in names:
        known = list(dict.fromkeys(names))
        name = spec.metric.name
        message = f"metric: came {short(name)!r}; possible: {listed(known, 40)}.{nearest(name, known)}"
        raise ConfigError([Problem(message, spec.file)])


def _refuse_what_no_memory_holds(spec: Spec, pieces: Sequence[Piece]) -> None:
    if spec.launcher == "ray":  # its machines are others
        return
    told = [f"the cell {piece.label}: {why}" for piece in pieces if (why := too_large(piece.bytes))]
    if told:
        raise ConfigError([Problem(each, spec.file) for each in told])


def stacked(pieces: Sequence[Piece], processes: int) -> Iterator[list[Piece]]:
    """Pieces that can train side by side, together: each stack within memory, the work even over the processes.

    Groups are laid end to end and cut where a process has its share, so that few are cut. Within a stack, those that
    are scored alike are neighbours.
    """
    groups: dict[bytes, list[Piece]] = {}
    for piece in pieces:
        groups.setdefault(_key(must_agree(piece.config)), []).append(piece)
    share = sum(piece.work for piece in pieces) / processes
    left = share
    for group in groups.values():
        stack: list[Piece] = []
        for piece in sorted(group, key=lambda piece: _key(scored_by(piece.config))):  # stable: else the sweep's order
            if left < piece.work / 2:  # this process has its share
                left += share
                if stack:
                    yield stack
                stack = []
            if stack and sum(each.bytes for each in stack) + piece.bytes > MOST_BYTES:
                yield stack
                stack = []
            stack.append(piece)
            left -= piece.work
        yield stack


def _pieces(spec: Spec) -> tuple[list[Piece], tuple[str, ...]]:
    """Each cell's config; cells that are the same once what turns nothing is dropped count once."""
    pieces: dict[str, Piece] = {}
    problems: dict[Problem, None] = {}
    notes: dict[str, None] = dict.fromkeys(spec.notes)
    every = spec.cells()
    dropped: dict[str, list[int]] = {}
    for number, cell in enumerate(every):
        try:
            resolved = resolve(cell.layers)
            refuse_a_missing_gpu(resolved)
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
            continue
        for note in resolved.notes:
            if DROPPED in note:
                dropped.setdefault(note, []).append(number)
            else:
                notes[note] = None
        piece = Piece(cell.label, cell.parameters, resolved.config)
        if piece.id in pieces:
            notes[f"the cell {cell.label} is the same experiment as {pieces[piece.id].label}, and is not run twice"] = (
                None
            )
        pieces.setdefault(piece.id, piece)
    if problems:
        raise ConfigError(list(problems))
    parameters = [cell.parameters for cell in every]
    told_dropped = [_told_where(note, parameters, where) for note, where in dropped.items()]
    return list(pieces.values()), (*told_dropped, *notes)


def _told_where(note: str, parameters: Sequence[Mapping[str, Any]], where: Sequence[int]) -> str:
    """A note of some cells, with what tells these from the others; of all cells it is as it is."""
    inside = set(where)
    if len(inside) == len(parameters):
        return note.replace(DROPPED, "turns nothing in any cell and was dropped")
    first = parameters[where[0]]
    telling = [
        f"{key} {told(value)}"
        for key, value in first.items()
        if all((key in each and each[key] == value) == (number in inside) for number, each in enumerate(parameters))
    ]
    cells = f"the cells with {telling[0]}" if telling else f"{len(inside)} of {len(parameters)} cells"
    return note.replace(DROPPED, f"turns nothing in {cells} and was dropped").replace(", but here ", ", but there ")


def _in_json(value: Any) -> Any:
    """A value as JSON of 64 bits holds it: a larger whole number, which only stands for a float, is one."""
    if isinstance(value, dict):
        return {key: _in_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_in_json(inner) for inner in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _key(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=WarmStart.model_dump)  # the one map with a type
