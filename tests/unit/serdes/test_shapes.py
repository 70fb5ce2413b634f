"""Values that have the shape of their type are written without being read back; all others as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pytest

from streamsapp import Serdes
from streamsapp.native import fits
from streamsapp.serdes.api import is_ours
from streamsapp.serdes.read_back import written_as_shaped, written_to_last
from streamsapp.serdes.shapes import PLAIN, NoShapeError, shape_of
from streamsapp.structs import decoder, described
from streamsapp.tasks.sink_bytes import giving_bytes


@dataclass
class Part:
    number: int
    text: str | None = None


@dataclass
class Whole:
    ratio: float
    sure: bool
    parts: list[Part] = field(default_factory=list)
    anything: Any = None


@dataclass
class SpecialPart(Part):
    """A subclass, which does not come back as one."""


class Struct(msgspec.Struct):
    number: int
    part: Part


@dataclass
class Tree:
    children: list[Tree]


@dataclass
class Made:
    number: int

    def __post_init__(self) -> None:
        self.number += 1


@dataclass
class Constrained:
    number: Annotated[int, msgspec.Meta(gt=0)]


@dataclass
class Derived:
    number: int
    twice: int = field(init=False, default=0)


class Text(str):
    """Comes back as a plain string."""

    __slots__ = ()


def without_number() -> Part:
    part = Part(1)
    del part.number
    return part


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


FITTING: list[tuple[type, Any]] = [
    (Part, Part(1)),
    (Part, Part(-(2**70), "ü\0")),
    (Whole, Whole(1.5, True, [Part(1, "a"), Part(2)], {"a": [1, 2.5, None, True, "x"]})),
    (Whole, Whole(-0.0, False)),
    (Struct, Struct(1, Part(2, "b"))),
    (Derived, Derived(1)),
]
OTHERS: list[tuple[type, Any]] = [
    (Part, Part(True)),
    (Part, Part(1.0)),  # type: ignore[arg-type]
    (Part, Part(1, Text("a"))),
    (Part, Part(1, b"a")),  # type: ignore[arg-type]
    (Part, SpecialPart(1)),
    (Part, without_number()),
    (Part, {"number": 1}),
    (Part, None),
    (Whole, Whole(1, True)),
    (Whole, Whole(math.nan, True)),
    (Whole, Whole(math.inf, True)),
    (Whole, Whole(1.5, 1)),  # type: ignore[arg-type]
    (Whole, Whole(1.5, True, (Part(1),))),  # type: ignore[arg-type]
    (Whole, Whole(1.5, True, [SpecialPart(1)])),
    (Whole, Whole(1.5, True, [Part(True)])),
    (Whole, Whole(1.5, True, [], math.nan)),
    (Whole, Whole(1.5, True, [], {1: 2})),
    (Whole, Whole(1.5, True, [], {Text("a"): 2})),
    (Whole, Whole(1.5, True, [], (1, 2))),
    (Whole, Whole(1.5, True, [], [Part(1)])),
    (Struct, Struct(1, SpecialPart(1))),
]
WITHOUT_SHAPE: list[tuple[type, Any]] = [
    (Tree, Tree([Tree([])])),
    (Made, Made(1)),
    (Constrained, Constrained(0)),
    (Constrained, Constrained(1)),
]


@pytest.mark.parametrize(("kind", "value"), FITTING)
def test_a_value_of_the_shape_is_written_at_once_and_comes_back(kind: type, value: Any) -> None:
    def unasked(value: Any) -> bytes:
        pytest.fail(f"{value} was read back")

    read: Callable[[bytes], Any] = decoder(kind, "json")
    written = written_as_shaped(msgspec.json.encode, shape_of(described(kind)), unasked, read)(value)

    assert decoder(kind, "json")(written) == value
    assert Serdes.json(kind).serialize(value) == written


@pytest.mark.parametrize(("kind", "value"), OTHERS)
def test_any_other_value_does_not_fit(kind: type, value: Any) -> None:
    assert fits(value, shape_of(described(kind))) is False


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize(("kind", "value"), FITTING + OTHERS + WITHOUT_SHAPE)
def test_what_is_refused_is_what_would_not_come_back(kind: type, value: Any, form: str) -> None:
    serde: Any = Serdes.json(kind) if form == "json" else Serdes.msgpack(kind)
    codec: Any = msgspec.json if form == "json" else msgspec.msgpack
    careful = written_to_last(serde.name, codec.encode, decoder(kind, form))  # type: ignore[arg-type]

    assert outcome(serde.serialize, value) == outcome(careful, value) or type(value) is not kind


@pytest.mark.parametrize("kind", [kind for kind, _ in WITHOUT_SHAPE])
def test_a_type_that_asks_for_more_than_types_has_no_shape(kind: type) -> None:
    with pytest.raises(NoShapeError):
        shape_of(described(kind))


def test_untyped_json_fits_if_it_is_nothing_else() -> None:
    assert fits({"a": [1, 2.5, None, True, "x", {}], "b": 2**70}, PLAIN)
    for other in ((1,), {1: 2}, {Text("a"): 1}, [math.nan], [-math.inf], b"a", {"a": {"b": object()}}, Part(1)):
        assert not fits(other, PLAIN)


def test_a_value_too_deep_to_look_at_does_not_fit() -> None:
    assert fits(nested(100), PLAIN)
    assert not fits(nested(1_000_000), PLAIN)


def test_what_is_no_shape_fits_nothing() -> None:
    for shape in (1, "int", (), (1, 2), (Part, "ab", (int, str)), (Part, ("number",), ()), (Part, (1,), (int,)), [int]):
        assert fits(Part(1), shape) is False


def test_an_attribute_that_raises_does_not_fit_unless_the_program_is_to_end() -> None:
    class Raising:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        @property
        def number(self) -> int:
            raise self.error

    shape = (Raising, ("number",), (int,))

    assert fits(Raising(ValueError()), shape) is False
    with pytest.raises(KeyboardInterrupt):
        fits(Raising(KeyboardInterrupt()), shape)
    with pytest.raises(TypeError, match="fits: takes a value and a shape, not 1 arguments"):
        fits(1)  # type: ignore[call-arg]


def outcome(write: Callable[[Any], bytes], value: Any) -> bytes | str:
    """The bytes, or the kind of error."""
    try:
        return write(value)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        return str(error)


@pytest.mark.parametrize("serde", [Serdes.json(), Serdes.json(Part), Serdes.msgpack(Part), Serdes.bytes()])
def test_sinks_know_serializers_in_c_as_ours_and_do_not_check_what_they_give(serde: Any) -> None:
    assert is_ours(serde.serialize)
    assert giving_bytes(serde) is serde.serialize
