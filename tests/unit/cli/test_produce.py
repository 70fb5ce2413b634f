"""Lines that are wrong, or cannot be read, end the command with what was written before them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import Serdes
from streamsapp.cli import produce as command
from streamsapp.cli.produce import RecordWriter
from streamsapp.cli.topic_serdes import TopicRecords
from streamsapp.config import StreamsConfig
from streamsapp.errors import UserInputError
from streamsapp.record import Headers

LINE = b'{"key": "a", "value": "b"}'


class Acknowledged:
    @staticmethod
    def partition() -> int:
        return 0


class FakeProducer:
    """Acknowledges when it is flushed."""

    def __init__(self, properties: object, logger: object) -> None:
        self._reports: list[Callable[[None, Acknowledged], None]] = []

    def produce(self, topic: str, *, headers: list[tuple[str, bytes]], on_delivery: Any, **record: Any) -> None:
        if any("\0" in name for name, _ in headers):
            raise ValueError("embedded null character")
        self._reports.append(on_delivery)

    def poll(self, seconds: float) -> None:
        pass

    def flush(self, seconds: float) -> None:
        while self._reports:
            self._reports.pop()(None, Acknowledged())

    def __len__(self) -> int:
        return len(self._reports)


@pytest.fixture(autouse=True)
def _producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Producer", FakeProducer)


def writer(partitioner: Any = None) -> RecordWriter:
    config = StreamsConfig(application_id="a", bootstrap_servers="none:9092")
    return RecordWriter(config, "t", 4, TopicRecords(Serdes.string(), Serdes.string(), partitioner))


def told(writer: RecordWriter, lines: io.BufferedIOBase) -> str:
    with pytest.raises(UserInputError) as raised:
        write(writer, lines)
    return str(raised.value)


def write(writer: RecordWriter, lines: io.BufferedIOBase) -> None:
    with writer.telling(as_json=False):
        for number, line in command._numbered(lines):  # type: ignore[arg-type]
            writer.write(number, line)


def test_a_partitioner_that_raises_is_a_fault_of_its_line() -> None:
    def partitioner(topic: str, key: str, value: str, partitions: int) -> int:
        return {"a": 1}[key]

    text = told(writer(partitioner), io.BytesIO(LINE + b'\n{"key": "z", "value": "b"}\n'))
    assert text.startswith("line 2: partition: the application's partitioner raised KeyError: 'z'; correct it")
    assert text.endswith("t: 1 record written (partition 0: 1)")


def test_a_partitioner_of_five_arguments_is_given_the_headers_of_a_line() -> None:
    def partitioner(topic: str, key: str, value: str, headers: Headers, partitions: int) -> int:
        raise ValueError(f"{topic} {key} {value} {headers} {partitions}")

    text = told(writer(partitioner), io.BytesIO(b'{"key": "a", "value": "b", "headers": [["to", "1"]]}\n'))
    assert "raised ValueError: t a b [('to', b'1')] 4; correct it" in text


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"value": ' + "[" * 300 + "]" * 300 + "}", "line 2: value: [[[[[[[...]]]]]]] cannot be written as string"),
        ('{"value": "a", "timestamp": ' + "[" * 900 + "]" * 900 + "}", "line 2: timestamp: expected milliseconds"),
        ('{"value": "a", "headers": [["\\u0000", "a"]]}', "line 2: cannot be written: embedded null character"),
    ],
)
def test_a_line_that_no_client_could_write_is_told_with_its_number(line: str, fault: str) -> None:
    text = told(writer(), io.BytesIO(LINE + b"\n" + line.encode() + b"\n"))
    assert text.startswith(fault)
    assert len(text) < 400
    assert text.endswith("t: 1 record written (partition 0: 1)")


def test_an_input_that_fails_is_told_with_its_line() -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            if line := super().readline(size):
                return line
            raise IsADirectoryError(21, "Is a directory")

    text = told(writer(), Failing(LINE + b"\n"))
    assert text.startswith("line 2: cannot be read: Is a directory; correct the input, and go on there; t: 1 record")


def test_what_was_handed_over_is_written_whatever_ends_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            if line := super().readline(size):
                return line
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(writer(), Failing(LINE + b"\n"))
    assert capsys.readouterr().err == "t: 1 record written (partition 0: 1)\n"
