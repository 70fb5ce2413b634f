"""Serdes: bytes equal to the bytes of Kafka's Java classes (``java_vectors.json``), and errors that help."""

from __future__ import annotations

import json
import math
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp.errors import TopologyError
from streamsapp.record import TopicIdentity
from streamsapp.serdes.adapt import as_deserializer, as_serializer
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.serdes.change import change_serde
from streamsapp.serdes.murmur2 import murmur2, partition_for
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.engine.entries import PlainFormat, storing

VECTORS = json.loads((Path(__file__).parent / "java_vectors.json").read_text())
NO_SERDE = {"murmur2", "offset_metadata"}


@dataclass(frozen=True)
class Case:
    serde: AnySerde
    value_of: Callable[[Any], Any] = lambda value: value


CASES = {
    "string": Case(Serdes.string()),
    "short": Case(Serdes.short()),
    "integer": Case(Serdes.integer()),
    "long": Case(Serdes.long()),
    "float": Case(Serdes.float()),
    "double": Case(Serdes.double()),
    "boolean": Case(Serdes.boolean()),
    "uuid": Case(Serdes.uuid(), uuid.UUID),
    "list_string": Case(Serdes.list_(Serdes.string())),
    "list_boolean": Case(Serdes.list_(Serdes.boolean())),
    "list_long": Case(Serdes.list_(Serdes.long())),
    "list_integer": Case(Serdes.list_(Serdes.integer())),
    "list_list_string": Case(Serdes.list_(Serdes.list_(Serdes.string()))),
    "time_windowed": Case(Serdes.time_windowed(Serdes.string(), 500), lambda row: Windowed(*row)),
    "session_windowed": Case(Serdes.session_windowed(Serdes.string()), lambda row: Windowed(*row)),
    "change": Case(change_serde(Serdes.string()), tuple),
}


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["case"] not in NO_SERDE], ids=str)
def test_writes_and_reads_the_bytes_of_the_java_serdes(vector: dict[str, Any]) -> None:
    case = CASES[vector["case"]]
    value = case.value_of(vector["input"])

    assert case.serde.serialize(value).hex() == vector["java"]
    read = case.serde.deserialize(bytes.fromhex(vector["java"]))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["case"] == "murmur2"], ids=str)
def test_murmur2_equals_java(vector: dict[str, Any]) -> None:
    assert murmur2(vector["input"].encode()) == int(vector["java"])


def test_the_partition_of_a_key_is_its_hash_without_sign_modulo_partitions() -> None:
    assert murmur2(b"21") == -973932308
    assert [partition_for(b"21", n) for n in (1, 3, 10)] == [0, 1173551340 % 3, 0]


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["case"] == "offset_metadata"], ids=str)
def test_offset_metadata_equals_java(vector: dict[str, Any]) -> None:
    metadata = OffsetMetadata(*vector["input"])
    assert metadata.encode() == vector["java"]
    assert OffsetMetadata.decode(vector["java"]) == metadata


@pytest.mark.parametrize("kept", [{}, {"ü": -1, "b": 7}], ids=["no entries", "entries"])
def test_the_topic_of_an_offset_comes_after_all_that_java_reads(kept: dict[str, int]) -> None:
    metadata = OffsetMetadata(5, kept, TopicIdentity("ovENmxWJQ2qPly/cKkEDqw", "a cluster"))

    assert OffsetMetadata.decode(metadata.encode()) == metadata
    java = b64decode(OffsetMetadata(5, kept).encode()) + (b"" if kept else bytes(4))
    ours = b64decode(metadata.encode())
    assert ours.startswith(java)
    for end in range(len(java), len(ours) - len("a cluster")):
        assert OffsetMetadata.decode(b64encode(ours[:end]).decode()) == OffsetMetadata(5, kept)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, OffsetMetadata()),
        ("", OffsetMetadata()),
        ("not base64!", OffsetMetadata()),
        ("AgAA", OffsetMetadata()),
        ("CQAAAAAAAAAF", OffsetMetadata()),
        ("AQAAAAAAAAAF", OffsetMetadata(5)),
        ("AgAAAAAAAAAF/////w==", OffsetMetadata(5)),
        ("AgAAAAAAAAAFAAAAAQ==", OffsetMetadata(5)),
        ("AgAAAAAAAAAFf////////w==", OffsetMetadata(5)),
        ("AgAAAAAAAAAFf/////////Q=", OffsetMetadata(5)),
    ],
)
def test_offset_metadata_of_older_versions_or_other_programs_gives_what_is_known(
    text: str | None, expected: OffsetMetadata
) -> None:
    assert OffsetMetadata.decode(text) == expected


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)))
def test_lists_of_fixed_size_values_survive(values: list[int | None]) -> None:
    serde = Serdes.list_(Serdes.long())
    assert serde.deserialize(serde.serialize(values)) == values


@given(st.binary() | st.none(), st.binary() | st.none())
def test_changes_survive(new: bytes | None, old: bytes | None) -> None:
    serde = change_serde(Serdes.bytes())
    if new is None and old is None:
        with pytest.raises(ValueError, match="both are None"):
            serde.serialize((new, old))
    else:
        assert serde.deserialize(serde.serialize((new, old))) == (new, old)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"old\x01\x03", (None, "old")),
        (b"old\x00\x03", (None, "old")),
        (b"new\x01\x04", ("new", None)),
        (b"\x06newol\x00\x05", ("new", "ol")),
    ],
)
def test_reads_changes_with_the_latest_flag(data: bytes, expected: tuple[str | None, str | None]) -> None:
    assert change_serde(Serdes.string()).deserialize(data) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "got nothing"),
        (b"x\x06", "got 78 06"),
        (b"\x04", "got 04"),
        (b"x\x02\x04", "has 00 or 01 before it, got 02"),
        (b"\x20new\x02", "16 bytes, only 3 follow"),
        (b"\x01new\x02", "-1 bytes"),
        (b"\xff\xff\xff\xff\xff\x01\x02", "at most 5 bytes"),
    ],
)
def test_a_damaged_change_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change_serde(Serdes.string()).deserialize(data)


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (Serdes.bytes(), "x", r"got str, the serde is bytes; declare one that fits, e\.g\. Serdes\.string\(\)"),
        (Serdes.bytes(), True, r"got bool, the serde is bytes; declare one that fits, e\.g\. Serdes\.boolean\(\)"),
        (Serdes.bytes(), {"a": 1}, r"got dict, the serde is bytes; declare one that fits, e\.g\. Serdes\.json\(\)"),
        (
            Serdes.bytes(),
            object(),
            r"got object, the serde is bytes; declare one that fits, e\.g\. Serdes\.of\(serialize, deserialize\)",
        ),
        (Serdes.string(), 5, "'int'"),
        (Serdes.long(), "5", "got str, the serde is long"),
        (Serdes.integer(), 1 << 31, "2147483648 does not fit integer"),
        (Serdes.integer(), 1.5, "1.5 does not fit integer"),
        (Serdes.float(), 1e300, "does not fit float"),
        (Serdes.boolean(), 1, "got int, the serde is boolean"),
        (Serdes.uuid(), "x", "got str, the serde is uuid"),
        (Serdes.json(), object(), "object"),
        (Serdes.void(), 1, "only None can be written"),
        (Serdes.list_(Serdes.long()), "abc", "got str, the serde is list_"),
        (Serdes.session_windowed(Serdes.string()), ("k", 1, 2), r"got tuple, expected Windowed"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(serde: AnySerde, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        serde.serialize(value)


@pytest.mark.parametrize(
    ("serde", "data", "message"),
    [
        (Serdes.long(), b"1234", "long takes 8 bytes, got 4"),
        (Serdes.short(), b"", "short takes 2 bytes, got 0"),
        (Serdes.boolean(), b"\x02", "00 or 01, got 1 bytes: 02"),
        (Serdes.uuid(), b"x", "UUID"),
        (Serdes.string(), b"\xff", "0xff"),
        (Serdes.json(), b"{", "truncated"),
        (Serdes.void(), b"", "only null can be read"),
        (Serdes.list_(Serdes.string()), b"", "cut off"),
        (Serdes.list_(Serdes.string()), b"\x02", "starts with 00 or 01, got 02"),
        (Serdes.list_(Serdes.string()), b"\x00" * 9, "fixed size"),
        (Serdes.list_(Serdes.string()), b"\x01\xff\xff\xff\xff", "cannot hold -1 values"),
        (Serdes.list_(Serdes.string()), b"\x01\x00\x00\x00\x01\x00\x00\x00\x05ab", "5 bytes expected at byte 9 of 11"),
        (Serdes.list_(Serdes.string()), b"\x01\x00\x00\x00\x01\xff\xff\xff\xf0", "cut off: -16 bytes"),
        (Serdes.time_windowed(Serdes.string(), 1), b"1234567", "got 7 bytes in all"),
        (Serdes.session_windowed(Serdes.string()), b"123456789", "got 9 bytes in all"),
    ],
)
def test_damaged_bytes_are_refused_with_what_was_expected(serde: AnySerde, data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        serde.deserialize(data)


def test_json_keeps_what_json_can_express() -> None:
    value = {"a": [1, 2.5, None, True, "é"]}
    assert Serdes.json().serialize(value) == '{"a":[1,2.5,null,true,"é"]}'.encode()
    assert Serdes.json().deserialize(Serdes.json().serialize(value)) == value


def test_nan_and_infinity_survive() -> None:
    double = Serdes.double()
    assert math.isnan(double.deserialize(double.serialize(math.nan)))
    assert double.deserialize(double.serialize(-math.inf)) == -math.inf


def test_values_that_can_be_changed_in_place_are_not_called_immutable() -> None:
    assert Serdes.long().immutable
    assert Serdes.time_windowed(Serdes.string(), 1).immutable
    assert not Serdes.json().immutable
    assert not Serdes.list_(Serdes.long()).immutable
    assert not Serdes.session_windowed(Serdes.json()).immutable
    assert not change_serde(Serdes.json()).immutable
    assert not Serdes.of(str.encode, bytes.decode).immutable


def test_the_size_of_a_time_window_is_a_duration_of_at_least_a_millisecond() -> None:
    serde = Serdes.time_windowed(Serdes.string(), timedelta(seconds=2))
    assert serde.deserialize(serde.serialize(Windowed("k", 10, 99))) == Windowed("k", 10, 2010)
    with pytest.raises(ValueError, match="at least 1 ms, got 0"):
        Serdes.time_windowed(Serdes.string(), 0)


def test_a_windowed_key_prints_as_kafka_streams_prints_it() -> None:
    assert str(Windowed("k", 1, 2)) == "[k@1/2]"


class _PerTopic(Serde[str]):
    """Writes the topic in front, like serdes that register schemas by topic."""

    def bind(self, topic: str, is_key: bool) -> Serde[str]:
        return Serde(lambda value: f"{topic}:{value}".encode(), bytes.decode, name="bound")


@pytest.mark.parametrize(
    ("wrap", "value"),
    [
        (Serdes.list_, ["v"]),
        (change_serde, ("v", None)),
        (Serdes.session_windowed, Windowed("v", 1, 2)),
        (lambda inner: Serdes.time_windowed(inner, 5), Windowed("v", 1, 6)),
    ],
)
def test_binding_a_serde_to_a_topic_binds_the_one_inside(wrap: Callable[[AnySerde], AnySerde], value: Any) -> None:
    unbound = wrap(_PerTopic(str.encode, bytes.decode))
    assert b"topic:v" in unbound.bind("topic", True).serialize(value)
    plain = wrap(Serdes.string())
    assert plain.bind("topic", True) is plain


def test_a_plain_function_stands_for_a_serde_in_its_own_direction() -> None:
    reader = as_deserializer(bytes.decode, "value_deserializer")
    writer = as_serializer(str.encode, "value_serializer")
    assert reader is not None
    assert writer is not None
    assert reader.deserialize(b"x") == "x"
    assert writer.serialize("x") == b"x"
    with pytest.raises(TypeError, match="only a deserializer was given"):
        reader.serialize("x")
    with pytest.raises(TypeError, match="only a serializer was given"):
        writer.deserialize(b"x")


def test_something_that_is_no_serde_is_refused_with_the_field() -> None:
    assert as_serializer(Serdes.long(), "f") is Serdes.long()
    assert as_deserializer(None, "f") is None
    with pytest.raises(TopologyError, match="value_serializer of sink k must be a serde or a function of a value"):
        as_serializer("string", "value_serializer of sink k")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="key_deserializer must be a serde or a function of bytes, got int"):
        as_deserializer(1, "key_deserializer")  # type: ignore[arg-type]


class _Count(int):
    pass


@pytest.mark.parametrize(
    ("serde", "value", "kept"),
    [
        (Serdes.float(), 0.1, 0.10000000149011612),
        (Serdes.float(), 3, 3.0),
        (Serdes.double(), 3, 3.0),
        (Serdes.double(), True, 1.0),
        (Serdes.long(), True, 1),
        (Serdes.integer(), _Count(3), 3),
        (Serdes.short(), 3, 3),
    ],
)
def test_state_keeps_a_number_as_it_would_read_it_back(serde: AnySerde, value: Any, kept: Any) -> None:
    stored = storing("s", serde, PlainFormat(serde))("k", value)
    assert (stored, type(stored)) == (kept, type(kept))
    assert serde.deserialize(serde.serialize(stored)) == stored


def test_a_double_is_kept_without_a_copy_and_what_does_not_fit_is_refused() -> None:
    value = 0.1 + 0.2
    assert storing("s", Serdes.double(), PlainFormat(Serdes.double()))("k", value) is value
    for serde, wrong in ((Serdes.float(), 1e300), (Serdes.long(), 1.0), (Serdes.double(), "1")):
        with pytest.raises(ValueError, match="cannot keep"):
            storing("s", serde, PlainFormat(serde))("k", wrong)
