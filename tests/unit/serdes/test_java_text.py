"""Text, UUIDs and printed values as Java has them. The expected values come from OpenJDK 17's own classes."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import Consumed, Grouped, Materialized, Printed, Serdes, StreamsBuilder, Windowed
from streamsapp.dsl.java_values import java_double, java_value
from streamsapp.errors import TopologyError
from streamsapp.testing import TopologyTestDriver

BYTES, JAVA = Serdes.bytes(), Serdes.string(errors="replace")
BAD = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9", f"caf{BAD}"),
        (b"\xff\xfe", BAD * 2),
        (b"\xc0\x80", BAD * 2),
        (b"\xe2\x82", BAD),
        (b"\xe2\x82A", f"{BAD}A"),
        (b"\xf0\x9f\x99", BAD),
        (b"\xf0\x80\x80\x80", BAD * 4),
        (b"\xed\xa0\x80", BAD),
        (b"\xed\xa0", BAD),
        (b"\xed\xa0A", f"{BAD}A"),
        (b"\xed\xa0\xbd\xed\xb8\x80", BAD * 2),
        (b"\xf5\x80", BAD * 2),
        ("é🙂".encode(), "é🙂"),
    ],
)
def test_malformed_text_is_read_as_java_reads_it(data: bytes, text: str) -> None:
    assert JAVA.deserialize(data) == text
    if BAD in text:
        with pytest.raises(ValueError, match="utf-8"):
            Serdes.string().deserialize(data)


@pytest.mark.parametrize(
    ("text", "data"),
    [("a\ud800b", b"a?b"), ("\ud83d\ude42", "🙂".encode()), ("\ude42\ud83d", b"??"), ("é", b"\xc3\xa9")],
)
def test_lone_surrogates_are_written_as_java_writes_them(text: str, data: bytes) -> None:
    assert JAVA.serialize(text) == data
    if b"?" in data:
        with pytest.raises(ValueError, match="surrogates"):
            Serdes.string().serialize(text)


@given(st.binary())
def test_what_was_read_with_replacements_is_written_and_read_again(data: bytes) -> None:
    text = JAVA.deserialize(data)
    assert JAVA.deserialize(JAVA.serialize(text)) == text
    assert JAVA.checked is not None
    assert JAVA.checked(text) == text


def test_keys_that_java_reads_alike_are_counted_together() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(JAVA, JAVA)).group_by_key(Grouped(JAVA, JAVA)).count(Materialized("counts", JAVA))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", BYTES, BYTES).pipe_key_values([(b"\xff", b""), (b"\xfe", b"")])
        assert driver.get_key_value_store("counts").get(BAD) == 2


def test_another_way_to_treat_errors_is_refused() -> None:
    with pytest.raises(TopologyError, match="errors is 'strict' or 'replace', not 'ignore'"):
        Serdes.string(errors="ignore")  # type: ignore[arg-type]


TAKEN = {
    "123e4567-e89b-12d3-a456-426614174000": "123e4567-e89b-12d3-a456-426614174000",
    "123E4567-E89B-12D3-A456-426614174000": "123e4567-e89b-12d3-a456-426614174000",
    "1-2-3-4-5": "00000001-0002-0003-0004-000000000005",
    "+1-2-3-4-+5": "00000001-0002-0003-0004-000000000005",
    "123456789-1-1-1-1": "23456789-0001-0001-0001-000000000001",
    "7fffffffffffffff-1-1-1-1": "ffffffff-0001-0001-0001-000000000001",
    "\uff11-2-3-4-\uff21": "00000001-0002-0003-0004-00000000000a",
}
REFUSED = [
    "", "-", "----", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-", "x-2-3-4-5", " 1-2-3-4-5", "1_0-2-3-4-5", "0x1-2-3-4-5",
    "123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}", "++1-2-3-4-5", "\U0001d7cf-2-3-4-5",
    "urn:uuid:123e4567-e89b-12d3-a456-426614174000", "ffffffffffffffff-1-1-1-1",
    "1-2-3-4-0000000000000000000000000000005",
]  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_uuids_that_java_takes_are_taken(text: str) -> None:
    assert Serdes.uuid().deserialize(text.encode()) == uuid.UUID(TAKEN[text]) == Serdes.uuid().from_plain(text)


@pytest.mark.parametrize("text", REFUSED)
def test_uuids_that_java_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID"):
        Serdes.uuid().deserialize(text.encode())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"), (-0.0, "-0.0"), (100.0, "100.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"),
        (0.0009, "9.0E-4"), (1e21, "1.0E21"), (123456789.25, "1.2345678925E8"), (float("nan"), "NaN"),
        (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (5e-324, "4.9E-324"), (1e-5, "1.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (0.1 + 0.2, "0.30000000000000004"),
    ],
)  # fmt: skip
def test_doubles_are_printed_as_java_prints_them(number: float, text: str) -> None:
    assert java_double(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_digit_is_printed(number: float) -> None:
    assert float(java_double(number)) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (5, "5"), ("a", "a"), ([1.0, None, [True]], "[1.0, null, [true]]"),
        ({"a": 1e10}, "{a=1.0E10}"), (Windowed(1e7, 0, 5), "[1.0E7@0/5]"), (b"a", "b'a'"),
    ],
)  # fmt: skip
def test_values_are_printed_as_java_prints_them(value: Any, text: str) -> None:
    assert java_value(value) == text


def test_print_writes_javas_numbers(tmp_path: Path) -> None:
    path = tmp_path / "printed"
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.double(), Serdes.boolean())).print(Printed("numbers", path=str(path)))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.double(), Serdes.boolean()).pipe_input(1e10, value=False)
    assert path.read_text("utf-8") == "[numbers]: 1.0E10, false\n"
