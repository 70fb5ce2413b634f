"""Our serdes write the bytes of Kafka's Java serdes and read them back; keys hash to the same partitions."""

from __future__ import annotations

import base64
import uuid
from random import Random
from typing import Any

import pytest

from options import serde
from oracle import Oracle
from streamsapp import Windowed
from streamsapp.serdes.change import change_serde
from streamsapp.serdes.murmur2 import murmur2, partition_for

_LONGS = [0, 1, -1, 255, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
_TEXTS = ["", "a", "äöü", "日本語", "🙂", "a\x00b", "x" * 1000]
_DOUBLES = [0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, float("inf"), float("-inf")]
_UUIDS = ["00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426614174000"]

#: serde -> values as JSON, as the oracle reads them.
VECTORS: dict[str, list[Any]] = {
    "string": _TEXTS,
    "long": _LONGS,
    "integer": [0, 1, -1, 2**31 - 1, -(2**31)],
    "short": [0, 1, -1, 2**15 - 1, -(2**15)],
    "double": [str(value) for value in _DOUBLES],
    "float": ["0.0", "-0.0", "1.5", "-2.25", "3.4028234663852886E38", "inf"],
    "boolean": [True, False],
    "uuid": _UUIDS,
    "bytes": [{"b64": ""}, {"b64": "AAECAw=="}],
    "list(string)": [[], ["ab", None], ["", "ä", None, None]],
    "list(long)": [[], [1, 2], [None, 5, None, -1], [None]],
    "list(integer)": [[7], [None, 7]],
    "list(double)": [["1.5", None]],
    "list(uuid)": [[_UUIDS[1], None]],
    "list(list(string))": [[["a"], [], None]],
    "time_windowed(string,100)": [{"key": "k", "start": 1000, "end": 1100}, {"key": "", "start": 0, "end": 100}],
    "time_windowed(long,5)": [{"key": -1, "start": 2**40, "end": 2**40 + 5}],
    "session_windowed(string)": [{"key": "k", "start": 1000, "end": 2000}, {"key": "é", "start": 0, "end": 0}],
}

_CHANGES: list[list[str | None]] = [["new", "ol"], ["new", None], [None, "old"], ["", ""], ["x" * 200, "y" * 70]]
_JAVA_NAMES = {"inf": "Infinity", "-inf": "-Infinity"}


def from_json(name: str, value: Any) -> Any:
    """The Python value of a vector."""
    kind, _, inside = name.removesuffix(")").partition("(")
    if value is None:
        return None
    if kind == "list":
        return [from_json(inside, item) for item in value]
    if kind in ("time_windowed", "session_windowed"):
        return Windowed(from_json(inside.partition(",")[0], value["key"]), value["start"], value["end"])
    if kind in ("double", "float"):
        return float(value)
    if kind == "uuid":
        return uuid.UUID(value)
    return base64.b64decode(value["b64"]) if kind == "bytes" else value


def for_java(value: Any) -> Any:
    """Java has other names for infinity."""
    return _JAVA_NAMES.get(value, value) if isinstance(value, str) else value


def java_bytes(oracle: Oracle, name: str, values: list[Any]) -> list[bytes]:
    answer = oracle.ask(kind="serialize", serde=name, values=[for_java(value) for value in values])
    assert "error" not in answer, answer
    return [base64.b64decode(data) for data in answer["bytes"]]


@pytest.mark.parametrize("name", VECTORS)
def test_serde_bytes_match_java(name: str, oracle: Oracle) -> None:
    expected = java_bytes(oracle, name, VECTORS[name])
    assert [serde(name).serialize(from_json(name, value)) for value in VECTORS[name]] == expected


@pytest.mark.parametrize("name", VECTORS)
def test_reads_what_java_writes(name: str, oracle: Oracle) -> None:
    values = [from_json(name, value) for value in VECTORS[name]]
    assert [serde(name).deserialize(data) for data in java_bytes(oracle, name, VECTORS[name])] == values


def test_changes_of_a_table_travel_in_the_bytes_of_java(oracle: Oracle) -> None:
    changes = change_serde(serde("string"))
    expected = java_bytes(oracle, "changed(string)", _CHANGES)
    assert [changes.serialize((new, old)) for new, old in _CHANGES] == expected
    assert [changes.deserialize(data) for data in expected] == [(new, old) for new, old in _CHANGES]


@pytest.mark.parametrize("partitions", [1, 3, 12, 100])
def test_keys_go_to_the_partition_that_java_chooses(partitions: int, oracle: Oracle) -> None:
    random = Random(partitions)
    keys = [random.randbytes(random.randint(0, 40)) for _ in range(200)]
    answer = oracle.ask(kind="murmur2", keys=[base64.b64encode(key).decode() for key in keys], partitions=partitions)
    assert [murmur2(key) for key in keys] == answer["hashes"]
    assert [partition_for(key, partitions) for key in keys] == answer["partitions"]
