"""Values of a store that are read again are copies of one that is kept: a change of one is in no other one."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from streamsapp import Serdes
from streamsapp.native import KeptValues, ShapedWriter
from streamsapp.serdes.api import Serde
from streamsapp.serdes.shapes import PLAIN, can_be_copied, shape_of
from streamsapp.structs import described


@dataclass
class Part:
    number: int
    text: str | None = None


@dataclass
class Whole:
    ratio: float
    parts: list[Part] = field(default_factory=list)
    anything: Any = None


@dataclass(slots=True)
class Slotted:
    number: int
    parts: list[list[int]]


@dataclass(frozen=True)
class Frozen:
    number: int
    names: list[str]


class Structure(msgspec.Struct):
    number: int
    text: str


class StructureOfParts(msgspec.Struct):
    parts: list[int]


@dataclass
class MadeOtherwise:
    number: int

    def __new__(cls, *given: Any) -> MadeOtherwise:
        return super().__new__(cls)


def _in_plain(value: Any) -> None:
    value["parts"][0]["deep"].append(5)


def _in_whole(value: Whole) -> None:
    value.parts[0].text = "changed"


def _in_anything(value: Whole) -> None:
    value.anything["list"][0] = "changed"


def _in_slotted(value: Slotted) -> None:
    value.parts[0].append(5)


def _in_frozen(value: Frozen) -> None:
    value.names.append("changed")


def _in_structure(value: Structure) -> None:
    value.text = "changed"


def _in_list(value: list[Part]) -> None:
    value.pop()


WHOLE = Whole(0.5, [Part(1, "a"), Part(2)], {"list": [1, {}]})
CHANGES: list[tuple[Serde[Any], Any, Callable[[Any], None]]] = [
    (Serdes.json(), {"parts": [{"deep": [1, {"a": None}]}], "b": 2**70}, _in_plain),
    (Serdes.json(Whole), WHOLE, _in_whole),
    (Serdes.json(Whole), WHOLE, _in_anything),
    (Serdes.msgpack(Whole), WHOLE, _in_whole),
    (Serdes.json(Slotted), Slotted(1, [[1], []]), _in_slotted),
    (Serdes.json(Frozen), Frozen(1, ["a"]), _in_frozen),
    (Serdes.json(Structure), Structure(1, "a"), _in_structure),
    (Serdes.json(list[Part]), [Part(1), Part(2)], _in_list),
]


def kept(serde: Serde[Any], room: int = 1 << 20) -> KeptValues:
    writer = serde.serialize
    assert isinstance(writer, ShapedWriter)
    assert writer.read is serde.deserialize
    assert can_be_copied(writer.shape)
    return KeptValues(writer=writer, room=room)


@pytest.mark.parametrize(("serde", "value", "change"), CHANGES)
def test_a_change_of_a_value_changes_no_other_one(serde: Serde[Any], value: Any, change: Callable[[Any], None]) -> None:
    values = kept(serde)
    stored = values.stored(value)
    for _ in range(4):  # read, read and kept, copied, copied
        read = values(stored)
        assert read == value
        assert type(read) is type(value)
        change(read)
        assert read != value
    assert values.held == len(stored)
    assert values(stored) is not values(stored)


@pytest.mark.parametrize(("serde", "value", "change"), CHANGES)
def test_an_unchanged_value_has_the_bytes_that_are_there(
    serde: Serde[Any], value: Any, change: Callable[[Any], None]
) -> None:
    values = kept(serde)
    stored = values.stored(value)
    for _ in range(4):
        read = values(stored)
        assert values.stored_again(read, stored) is stored
        change(read)
        again = values.stored_again(read, stored)
        assert again == serde.serialize(read) != stored


def test_an_unchanged_value_is_not_written() -> None:
    written: list[Any] = []

    def write(value: Any) -> bytes:
        written.append(value)
        return msgspec.json.encode(value)

    values = KeptValues(
        writer=ShapedWriter(write=write, shape=PLAIN, otherwise=write, read=msgspec.json.decode), room=1000
    )
    stored = values.stored({"a": [1]})
    for _ in range(3):
        read = values(stored)
    written.clear()
    assert values.stored_again(read, stored) is stored
    assert not written
    read["a"][0] = 1.0  # equal to Python, and other bytes
    assert values.stored_again(read, stored) == b'{"a":[1.0]}'
    assert values.stored_again({"b": 1}, stored) == b'{"b":1}'


@dataclass
class Counted:
    """Values whose readings are counted."""

    read: int = 0

    def values(self) -> KeptValues:
        def read(data: bytes) -> Any:
            self.read += 1
            return msgspec.json.decode(data)

        write = msgspec.json.encode
        return KeptValues(writer=ShapedWriter(write=write, shape=PLAIN, otherwise=write, read=read), room=1000)


def test_values_that_are_written_are_kept_where_there_are_more_reads_than_writes() -> None:
    readings = Counted()
    values = readings.values()
    stored = values.stored({"a": [0]})
    for number in range(1, 5):  # as an aggregation does: the first value is read from its bytes
        read = values(stored)
        assert read == {"a": [number - 1]}
        read["a"][0] = number
        stored = values.stored_again(read, stored)
        read["a"][0] = "changed later"
    assert (readings.read, values.held) == (1, len(stored))

    for number in range(9):  # as a table does that is written only
        stored = values.stored({"b": number})
    held = values.held
    assert values(stored) == {"b": 8}
    assert (readings.read, values.held) == (2, held)


def test_a_dictionary_in_another_order_has_other_bytes() -> None:
    values = kept(Serdes.json())
    stored = values.stored({"a": 1, "b": 2})
    for _ in range(3):
        read = values(stored)
    read["a"] = read.pop("a")
    assert values.stored_again(read, stored) == b'{"b":2,"a":1}'


def test_no_more_is_kept_than_there_is_room_for() -> None:
    values = kept(Serdes.json(), room=100)
    all_stored = [values.stored(["x" * 30, number]) for number in range(10, 20)]
    for _ in range(3):
        assert [values(stored)[1] for stored in all_stored] == list(range(10, 20))
    assert 0 < values.held <= 100


def test_what_is_read_once_is_not_kept_and_what_takes_its_place_frees_it() -> None:
    values = kept(Serdes.json(), room=1 << 30)
    for number in range(5_000):
        stored = values.stored([number])
        assert values(stored) == [number]
        assert values.held <= 1024 * 6
        assert values(stored) == values(stored) == [number]
    assert values.held > 0


def test_none_is_none_and_a_part_of_bytes_is_read() -> None:
    values = kept(Serdes.json())
    assert values(None) is None
    for wrong in (b"{", b""):
        with pytest.raises(msgspec.DecodeError):
            values(wrong)


def test_what_the_shape_does_not_say_is_read_each_time() -> None:
    def read(data: bytes) -> Any:
        return (data,)

    values = KeptValues(writer=ShapedWriter(write=bytes, shape=PLAIN, otherwise=bytes, read=read), room=1000)
    stored = values.stored([1])
    assert [values(stored) for _ in range(4)] == [(b"\x01",)] * 4
    assert values.held == 0


def test_a_writer_that_gives_no_bytes_is_named() -> None:
    text: Any = str
    values = KeptValues(writer=ShapedWriter(write=text, shape=PLAIN, otherwise=text, read=bytes), room=1000)
    with pytest.raises(TypeError, match="its serializer gave str, not bytes"):
        values.stored(5)
    for given in ((5,), (5, "text")):
        with pytest.raises(TypeError, match="stored_again takes a value, and the bytes that are stored"):
            values.stored_again(*given)
    with pytest.raises(TypeError, match="KeptValues takes what is stored"):
        values()  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [StructureOfParts, MadeOtherwise])
def test_classes_that_copies_might_be_others_of_are_read_each_time(kind: type) -> None:
    assert not can_be_copied(shape_of(described(kind)))
    assert not can_be_copied((shape_of(described(kind)),))


def test_it_goes_with_what_it_keeps() -> None:
    class Local:
        number: int

    Kind = dataclass(Local)  # noqa: N806 - a class
    Kind.values = kept(Serdes.json(Kind))  # type: ignore[attr-defined]
    stored = Kind.values.stored(msgspec.convert({"number": 1}, Kind))  # type: ignore[attr-defined]
    for _ in range(3):
        assert Kind.values(stored).number == 1  # type: ignore[attr-defined]
    gc.collect()
    assert Kind.values.held == len(stored)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
def test_reads_and_changes_in_any_order_are_those_of_reading_the_bytes(seed: int) -> None:
    chance = random.Random(seed)
    serde = Serdes.json(Whole)
    values = kept(serde, room=chance.choice((0, 500, 100_000)))
    rows = [values.stored(Whole(chance.random(), [Part(number)], {"n": [number]})) for number in range(30)]
    for _ in range(3_000):
        row = chance.randrange(len(rows))
        read, wanted = values(rows[row]), serde.deserialize(rows[row])
        assert read == wanted
        for _ in range(chance.choice((0, 0, 1))):
            change = chance.randrange(4)
            for value in (read, wanted):
                if change == 0:
                    value.ratio = 7.5
                elif change == 1:
                    value.parts.append(Part(9, "new"))
                elif change == 2:
                    value.anything["n"] = []
                else:
                    value.parts[0].number = value.parts[0].number
        again = values.stored_again(read, rows[row])
        assert again == serde.serialize(wanted)
        if chance.random() < 0.3:
            rows[row] = again
