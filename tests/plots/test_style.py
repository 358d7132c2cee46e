"""Pictures are written whole or not at all, overwrite only their own kind, and take names as they are."""

from itertools import pairwise
from pathlib import Path

import pytest
from plots.shown import assert_readable

from pgrl_cli.config import ConfigError
from pgrl_cli.plots.style import (
    LINES,
    caption,
    headline,
    height_of_caption,
    height_of_headline,
    new_figure,
    refuse_strangers,
    save,
    width_of,
    wrapped,
)

LONG = "a name of many words and_one_word_that_is_wider_than_any_column_of_any_paper_that_was_ever_printed_at_all"


def grey(colour: str) -> float:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_no_two_lines_share_a_colour_or_a_dash_and_a_marker() -> None:
    assert len({line["color"] for line in LINES}) == len({line["marker"] for line in LINES}) == len(LINES)
    assert all(line["linestyle"] != after["linestyle"] for line, after in pairwise(LINES))


def test_lines_that_look_alike_in_grey_differ_in_their_dash() -> None:
    for index, line in enumerate(LINES):
        for other in LINES[index + 1 :]:
            near = abs(grey(line["color"]) - grey(other["color"])) < 0.05
            assert not near or line["linestyle"] != other["linestyle"]


def test_a_text_is_broken_into_lines_that_fit_and_loses_nothing() -> None:
    lines = wrapped(LONG, 2.0)
    assert len(lines) > 2
    assert all(width_of(line) <= 2.0 for line in lines)
    assert "".join(lines).replace(" ", "") == LONG.replace(" ", "")
    assert wrapped("one\ntwo", 2.0) == ["one", "two"]
    assert wrapped("learning_rate=0.015,clip_epsilon=0.5", 1.5) == ["learning_rate=0.015,", "clip_epsilon=0.5"]


def test_title_and_caption_fit_however_long_they_are() -> None:
    figure = new_figure(height_of_headline(LONG) + height_of_caption(LONG * 3))
    headline(figure, LONG)
    caption(figure, LONG * 3)
    assert_readable(figure)


def test_what_cannot_be_read_is_seen_by_these_tests() -> None:
    for x, y, size in ((0.1, 0.5, 6), (0.9, 0.5, 9), (0.1, 0.98, 9)):
        figure = new_figure(1.0)
        figure.text(x, y, "half a dozen words of text", fontsize=size)
        with pytest.raises(AssertionError):
            assert_readable(figure)
    figure = new_figure(1.0)
    figure.text(0.1, 0.5, "one over")
    figure.text(0.1, 0.52, "the other")
    with pytest.raises(AssertionError):
        assert_readable(figure)


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_suffix_says_the_format_and_a_rerun_writes_the_same_bytes(
    tmp_path: Path, suffix: str, begins: bytes
) -> None:
    path = tmp_path / f"picture{suffix}"
    written = []
    for _ in range(2):
        refuse_strangers(path)
        figure = new_figure(1.0)
        headline(figure, "a title")
        save(figure, path)
        written.append(path.read_bytes())
    assert written[0].startswith(begins)
    assert written[0] == written[1]


def test_what_was_not_drawn_here_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(b"mine")
    with pytest.raises(ConfigError, match="was not drawn by pgrl plot"):
        refuse_strangers(tmp_path / "mine.png")


def test_another_suffix_and_a_folder_that_is_not_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the suffix is one of .png, .svg, .pdf"):
        refuse_strangers(tmp_path / "picture.jpeg")
    with pytest.raises(ConfigError, match="there is no folder"):
        refuse_strangers(tmp_path / "nowhere" / "picture.png")


def test_a_name_with_letters_that_the_font_lacks_is_drawn_all_the_same(tmp_path: Path) -> None:
    figure = new_figure(1.0)
    headline(figure, "日本語 $x_1$")
    save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()
