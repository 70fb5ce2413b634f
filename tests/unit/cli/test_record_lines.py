"""Lines of JSON as records, and back."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import Serdes, Windowed
from streamsapp.cli.record_lines import read_record, shown_record
from streamsapp.record import RawRecord
from streamsapp.serdes.api import AnySerde

TEXT = Serdes.string()


def read(line: str, key: AnySerde = TEXT, value: AnySerde = TEXT) -> Any:
    return read_record(line.encode(), key, value)


def test_a_line_gives_key_value_time_headers_and_partition() -> None:
    line = (
        '{"key": "jane", "value": 3, "timestamp": 5, "partition": 2, '
        '"headers": [["a", "x"], ["a", null], ["b", {"base64": "/w=="}]]}'
    )
    record = read(line, value=Serdes.long())
    assert (record.key_bytes, record.value_bytes) == (b"jane", b"\0\0\0\0\0\0\0\3")
    assert (record.timestamp, record.partition) == (5, 2)
    assert record.headers == [("a", b"x"), ("a", None), ("b", b"\xff")]


def test_what_is_left_out_is_null_or_the_clients_choice() -> None:
    record = read('{"value": null}')
    assert record == (None, None, None, None, None, [], None)


def test_a_time_may_be_written_as_people_write_it() -> None:
    assert read('{"value": null, "timestamp": "2026-01-31T00:00:00Z"}').timestamp == 1_769_817_600_000
    assert read('{"value": null, "timestamp": "2026-01-31T01:00:00+01:00"}').timestamp == 1_769_817_600_000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("hello", 'expected a record such as {"key": "a", "value": "b"}'),
        ("[1]", "got [1]"),
        ('{"key": "a"}', "value: is missing; null writes a record that deletes"),
        ('{"value": 1}', "value: 1 cannot be written as string: got int, the serde is string"),
        ('{"value": "a", "kee": 1}', "kee: no field of a record; they are key, value"),
        ('{"value": "a", "timestamp": -1}', "timestamp: expected milliseconds"),
        ('{"value": "a", "timestamp": 0}', "timestamp: expected milliseconds since the epoch, from 1 on"),
        ('{"value": "a", "timestamp": true}', "timestamp: expected milliseconds"),
        ('{"value": "a", "timestamp": "soon"}', "timestamp: 'soon' is not an ISO 8601 time"),
        ('{"value": "a", "timestamp": "1900-01-01"}', "timestamp: expected milliseconds"),
        ('{"value": "a", "partition": "1"}', "partition: expected a number from 0, got '1'"),
        ('{"value": "a", "headers": {}}', "headers: expected a list of pairs"),
        ('{"value": "a", "headers": [["a", "x"], ["b", 1]]}', "headers[1]: expected"),
        ('{"value": "a", "headers": [["b", {"base64": "?"}]]}', "headers[0]: "),
        ('{"valueBase64": "?"}', 'valueBase64: "?" cannot be written as string'),
        ('{"valueBase64": 1}', "valueBase64: 1 cannot be written as string: expected base64, got int"),
    ],
)
def test_what_is_wrong_is_told_with_its_field(line: str, told: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - its text is compared
        read(line)
    assert told in str(raised.value)


KINDS: list[tuple[AnySerde, Any, Any]] = [
    (Serdes.string(), "ä", "ä"),
    (Serdes.bytes(), b"\xff\x00", "/wA="),
    (Serdes.long(), -3, -3),
    (Serdes.double(), 2.5, 2.5),
    (Serdes.boolean(), True, True),
    (Serdes.uuid(), uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (Serdes.json(), {"a": [1, None]}, {"a": [1, None]}),
    (Serdes.list_(Serdes.bytes()), [b"a", None], ["YQ==", None]),
    (Serdes.time_windowed(Serdes.bytes(), 10), Windowed(b"a", 5, 15), {"key": "YQ==", "start": 5, "end": 15}),
    (Serdes.session_windowed(Serdes.string()), Windowed("a", 5, 9), {"key": "a", "start": 5, "end": 9}),
]


@pytest.mark.parametrize(("serde", "value", "plain"), KINDS, ids=[kind[0].name for kind in KINDS])
def test_values_of_every_serde_are_shown_and_read_again(serde: AnySerde, value: Any, plain: Any) -> None:
    data = serde.serialize(value)
    line = shown_record(RawRecord("t", 1, 7, data, data, 5), serde, serde)
    assert json.loads(line)["key"] == json.loads(line)["value"] == plain
    record = read(line.decode(), serde, serde)
    assert (record.key, record.value) == (value, value)
    assert (record.key_bytes, record.value_bytes) == (data, data)


def test_bytes_that_the_serde_does_not_read_are_shown_with_the_reason() -> None:
    line = json.loads(shown_record(RawRecord("t", 0, 7, b"\xff", b"hello", 5), TEXT, Serdes.long()))
    assert "key" not in line
    assert "value" not in line
    assert (line["keyBase64"], line["valueBase64"]) == ("/w==", "aGVsbG8=")
    assert line["keyError"].startswith("string: 'utf-8' codec can't decode")
    assert line["valueError"] == "long: long takes 8 bytes, got 5"


def test_values_that_json_cannot_say_are_shown_as_bytes_with_the_reason() -> None:
    serde: AnySerde = Serdes.of(str.encode, lambda data: {1, 2}, name="mine")
    line = json.loads(shown_record(RawRecord("t", 0, 7, None, b"x", 5), TEXT, serde))
    assert line["valueBase64"] == "eA=="
    assert "set" in line["valueError"]


@given(st.binary(), st.binary() | st.none(), st.lists(st.tuples(st.text(max_size=3), st.binary() | st.none())))
def test_whatever_is_shown_is_written_again_byte_by_byte(
    key: bytes, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = shown_record(RawRecord("t", 3, 7, key, value, 5, headers), TEXT, Serdes.long())
    record = read_record(line, TEXT, Serdes.long())
    assert (record.key_bytes, record.value_bytes, record.headers) == (key, value, headers)
    assert (record.timestamp, record.partition) == (5, 3)


@pytest.mark.parametrize(
    ("serde", "data", "told"),
    [
        (Serdes.double(), Serdes.double().serialize(float("nan")), "double: JSON has no nan"),
        (Serdes.double(), Serdes.double().serialize(float("-inf")), "double: JSON has no -inf"),
        (Serdes.json(), b"null", "json: it is null, and null writes a record that deletes"),
        (
            Serdes.list_(Serdes.double()),
            Serdes.list_(Serdes.double()).serialize([1.0, float("inf")]),
            "JSON has no inf",
        ),
    ],
)
def test_what_json_has_as_null_is_shown_as_bytes_and_written_again(serde: AnySerde, data: bytes, told: str) -> None:
    line = shown_record(RawRecord("t", 0, 7, data, data, 5), serde, serde)
    assert told in json.loads(line)["valueError"]
    assert told in json.loads(line)["keyError"]
    record = read(line.decode(), serde, serde)
    assert (record.key_bytes, record.value_bytes) == (data, data)
