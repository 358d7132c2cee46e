"""Pictures as they are when they are saved: their figures, and whether everything written in them can be read."""

from itertools import combinations
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from pgrl_cli.groups import Group, distinct, grouped
from pgrl_cli.results import gathered

SMALLEST = 8.5
"""Points, at the width of 4.8 inches."""


def groups_in(folder: Path, metric: str = "mean_reward", by: tuple[str, ...] = ()) -> list[Group]:
    return grouped(distinct(gathered([folder], metric)[0])[0], by)


def texts(figure: Figure) -> list[Text]:
    """What is written in a figure, and shown."""
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    box = figure.bbox
    ticks = {label for panel in figure.axes for axis in (panel.xaxis, panel.yaxis) for label in _beyond(axis)}
    return [text for text in shown if text not in ticks and box.overlaps(text.get_window_extent())]


def _beyond(axis) -> list[Text]:
    """Tick labels outside the axis's range or switched off: matplotlib keeps them, but does not draw them."""
    low, high = sorted(axis.get_view_interval())
    drawn = [tick for tick in axis.get_major_ticks() if low - 1e-9 <= tick.get_loc() <= high + 1e-9]
    labels = {label for tick in drawn for label in (tick.label1, tick.label2) if label.get_visible()}
    every = [label for tick in axis.get_major_ticks() for label in (tick.label1, tick.label2)]
    return [label for label in every if label not in labels]


def assert_readable(figure: Figure) -> None:
    """Everything written is inside the picture, large enough, and over nothing else that is written."""
    figure.canvas.draw()
    written = texts(figure)
    assert written
    boxes = {text: text.get_window_extent() for text in written}
    for text, box in boxes.items():
        assert text.get_fontsize() >= SMALLEST, text.get_text()
        assert not text.get_parse_math() or "$" not in text.get_text()
        assert box.x0 >= 0 and box.y0 >= 0, text.get_text()  # noqa: PT018 - one box
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text.get_text()  # noqa: PT018
    for one, other in combinations(written, 2):
        overlap = boxes[one].padded(-1.5).overlaps(boxes[other].padded(-1.5))
        assert not overlap, (one.get_text(), other.get_text())


def caption_of(figure: Figure) -> str:
    """What stands below a picture, in one line."""
    (caption,) = (text for text in figure.texts if text.get_gid() == "caption")
    return " ".join(caption.get_text().split())
