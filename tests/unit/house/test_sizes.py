"""The check of sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sizes
from sizes import ATTRIBUTES, FILE, FUNCTION, LARGE_CLASSES, PARAMETERS, Size, sizes_of, sizes_of_c


def function(lines: int) -> str:
    return "class Room:\n    def clean(self):\n" + "        pass\n" * (lines - 1)


def of_unit(source: str, unit: str, where: str = "room.py") -> list[Size]:
    return [size for size in sizes_of(source, where) if size.unit == unit]


def made_of(number: int, name: str = "Room") -> str:
    names = ", ".join(f"p{each}: int" for each in range(number))
    return f"class {name}:\n    def __init__(self, {names}) -> None:\n        pass\n"


def remembering(number: int) -> str:
    lines = "".join(f"        self.a{each} = self.a{each} = 0\n" for each in range(number))
    return f"class Room:\n    def clean(self):\n{lines}"


def test_measures_the_file_and_every_function_in_it() -> None:
    assert [(size.number, size.where) for size in sizes_of(function(12), "room.py") if size.unit == "lines"] == [
        (13, "room.py"),
        (12, "room.py:2 clean"),
    ]


def test_a_function_is_too_large_above_the_limit_and_not_at_it() -> None:
    at_limit, above = (of_unit(function(lines), "lines")[1] for lines in (FUNCTION.most, FUNCTION.most + 1))

    assert (at_limit.too_large, above.too_large) == (False, True)


def test_a_file_is_too_large_above_the_limit_and_not_at_it() -> None:
    at_limit, above = (next(sizes_of("\n" * lines, "room.py")) for lines in (FILE.most, FILE.most + 1))

    assert (at_limit.too_large, above.too_large) == (False, True)


@pytest.mark.parametrize(
    ("write", "unit", "most"),
    [(made_of, "constructor parameters", PARAMETERS.most), (remembering, "attributes", ATTRIBUTES.most)],
)
def test_a_class_is_too_large_above_the_limit_and_not_at_it(write: Callable[[int], str], unit: str, most: int) -> None:
    at_limit, above = (of_unit(write(number), unit)[0] for number in (most, most + 1))

    assert (at_limit.number, above.number) == (most, most + 1)
    assert (at_limit.too_large, above.too_large) == (False, True)


def test_a_class_that_is_known_to_be_large_may_not_become_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LARGE_CLASSES, "Known", (9, 15))
    at_limit, above = (of_unit(made_of(number, "Known"), "constructor parameters")[0] for number in (9, 10))

    assert (at_limit.too_large, above.too_large) == (False, True)


def test_every_class_that_is_known_to_be_large_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    known = set(LARGE_CLASSES)
    monkeypatch.setattr(sizes, "LARGE_CLASSES", {})

    found = [
        size.where.split()[-1]
        for room in ("runtime", "operator", "spark")
        for path in (sizes.ROOT / room).rglob("*.py")
        for size in sizes_of(path.read_text("utf-8"), str(path.relative_to(sizes.ROOT)))
        if size.too_large
    ]

    assert known == set(found)


def test_classes_of_tests_are_not_counted() -> None:
    assert of_unit(made_of(20), "constructor parameters", "tests/unit/room.py") == []


def test_measures_functions_in_c_however_their_parameters_are_broken_and_no_structure() -> None:
    source = """typedef struct {
    int count;
} Room;

static inline int one(void) { return 1; }

/* Says (in words) what it does. */
static int clean(Room *room, int often,
                 int well) {
    for (;;) {
        room->count++;
    }
}
"""

    assert [(size.number, size.where) for size in sizes_of_c(source, "room.c")] == [
        (13, "room.c"),
        (6, "room.c:8 clean"),
    ]


def test_a_function_in_c_is_too_large_above_the_limit_and_not_at_it() -> None:
    def function_in_c(lines: int) -> str:
        return "int clean(void) {\n" + "    step();\n" * (lines - 2) + "}\n"

    at_limit, above = (
        list(sizes_of_c(function_in_c(lines), "room.c"))[1] for lines in (FUNCTION.most, FUNCTION.most + 1)
    )

    assert (at_limit.number, at_limit.too_large, above.too_large) == (FUNCTION.most, False, True)
