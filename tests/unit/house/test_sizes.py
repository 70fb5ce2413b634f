"""The check of sizes."""

from __future__ import annotations

from sizes import FILE, FUNCTION, sizes_of


def function(lines: int) -> str:
    return "class Room:\n    def clean(self):\n" + "        pass\n" * (lines - 1)


def test_measures_the_file_and_every_function_in_it() -> None:
    assert [(size.lines, size.where) for size in sizes_of(function(12), "room.py")] == [
        (13, "room.py"),
        (12, "room.py:2 clean"),
    ]


def test_a_function_is_too_large_above_the_limit_and_not_at_it() -> None:
    at_limit, above = (list(sizes_of(function(lines), "room.py"))[1] for lines in (FUNCTION.most, FUNCTION.most + 1))

    assert (at_limit.too_large, above.too_large) == (False, True)


def test_a_file_is_too_large_above_the_limit_and_not_at_it() -> None:
    at_limit, above = (next(sizes_of("\n" * lines, "room.py")) for lines in (FILE.most, FILE.most + 1))

    assert (at_limit.too_large, above.too_large) == (False, True)
