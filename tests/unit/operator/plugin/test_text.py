from __future__ import annotations

import io

import pytest

from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.table import Column, TableCell, render
from streamsapp_operator.plugin.text import age, clean, count, fill, seconds, size, width, wrap


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AsciiFile(io.StringIO):
    encoding = "ascii"


def test_wide_letters_take_two_columns_and_put_on_accents_none() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert fill("日本", 6, right=True) == "  日本"


def test_a_table_lines_up_under_wide_letters() -> None:
    lines = list(render([Column("STORE"), Column("LAG", right=True)], [["日本", "1"], ["counts", "1,200"]], Style()))
    assert lines == ["  STORE     LAG", "  日本        1", "  counts  1,200"]
    assert len({width(line) for line in lines}) == 1


def test_a_column_without_any_text_is_left_out() -> None:
    assert list(render([Column("A"), Column("B"), Column("C")], [["1", "", "3"]], Style())) == ["  A  C", "  1  3"]


def test_a_table_without_rows_has_no_titles() -> None:
    assert list(render([Column("A")], [], Style())) == []


def test_the_last_column_is_broken_between_words_where_the_terminal_ends() -> None:
    lines = list(render([Column("A"), Column("REASON")], [["x", "one two three four five six"]], Style(width=31)))
    assert lines == ["  A  REASON", "  x  one two three four five", "     six"]
    assert max(map(width, lines)) <= 31


def test_colours_do_not_shift_columns() -> None:
    rows: list[list[TableCell | str]] = [[TableCell("bad", Tone.BAD), "x"], ["ok", "y"]]
    plain = list(render([Column("A"), Column("B")], rows, Style()))
    coloured = list(render([Column("A"), Column("B")], rows, Style(colour=True)))
    assert [line.replace("\x1b[31m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert "\x1b[31mbad" in coloured[1]


def test_a_word_longer_than_the_line_is_broken_anywhere() -> None:
    assert wrap("ab sha256:0123456789 c", 8) == ["ab", "sha256:0", "123456789"[:8], "9 c"]


def test_no_line_of_a_wrapped_text_is_too_long() -> None:
    text = "日本語の文字 and some_quite_long_identifier-with-parts, then more"
    assert all(width(line) <= 11 for line in wrap(text, 11))


def test_what_steers_terminals_becomes_blanks() -> None:
    assert clean("a\x1b[31m\n\tb\u202e") == "a [31m  b "


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "?"), (0, "0s"), (59.9, "59s"), (60, "1m00s"), (3_700, "1h01m"), (90_061, "1d01h"), (-3, "0s")],
)
def test_ages_have_their_two_largest_units(amount: float | None, text: str) -> None:
    assert age(amount) == text


def test_figures_that_are_not_known_are_no_figures() -> None:
    assert (count(None), seconds(None), size(None)) == ("?", "?", "?")
    assert (count(48_210), seconds(2.84), size(3 << 20)) == ("48,210", "2.8s", "3.0 MiB")


def test_colours_are_for_terminals_only() -> None:
    assert Style.of(Terminal(), {"TERM": "xterm"}).colour
    assert not Style.of(io.StringIO(), {"TERM": "xterm"}).colour


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_refused(environment: dict[str, str]) -> None:
    assert not Style.of(Terminal(), environment).colour


def test_signs_are_ascii_where_nothing_else_can_be_written() -> None:
    style = Style.of(AsciiFile(), {})
    assert not style.unicode
    assert "".join([style.dot, style.between, *map(style.sign, Tone)]).isascii()
