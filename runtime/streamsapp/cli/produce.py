"""``streamsapp produce``: writes records that are lines of JSON. Runs on the main thread; single records are written
on threads of the HTTP server, too, for the console's form.

The command reports as written the records that the broker has acknowledged. The first wrong line ends the command:
records written before it are reported, and nothing after it is written.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streamsapp.cli.arguments import new_command
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.output import add_output
from streamsapp.cli.record_lines import LineRecord, read_record
from streamsapp.cli.target import Target, add_cluster_options, add_serde_options, partitions_of, target_of
from streamsapp.cli.topic_serdes import TopicRecords
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.processor.partitions import chosen_partitions, takes_headers

log = logging.getLogger(__name__)

#: A record that the broker does not take for so long is given up.
_DELIVERY_SECONDS = 30.0
#: Handed to the client and not yet acknowledged.
_QUEUED_KIB = 32 << 10
#: Longer lines are no records that a broker would take.
_LONGEST_LINE = 64 << 20
#: Of lines that were not written, so many are named.
_NAMED = 5


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "produce",
        "write records to a topic, from lines of JSON",
        'Each line is a record: {"key": ..., "value": ...}, and perhaps "timestamp" (milliseconds or ISO 8601),\n'
        '"headers" ([["name", "text"], ...]) and "partition". Keys go where Java clients put them (murmur2), or\n'
        "where the application's partitioner does. The lines that `streamsapp consume` prints can be written again.",
        '  echo \'{"key": "jane", "value": "hello"}\' | streamsapp produce visits -f app.yaml\n'
        "  streamsapp produce orders records.jsonl --bootstrap-servers kafka:9092 --value-serde json",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("input", nargs="?", type=Path, metavar="FILE", help="a file of lines; default: standard input")
    add_cluster_options(parser)
    add_serde_options(parser)
    add_output(parser)
    parser.set_defaults(run=produce)


def produce(options: argparse.Namespace) -> int:
    target = target_of(options)
    records = target.records(options.topic, options)
    _refuse_internal(target, options.topic)
    with closing(KafkaCluster(target.config)) as cluster:
        partitions = partitions_of(options.topic, cluster.partitions())
    writer = RecordWriter(target.config, options.topic, partitions, records)
    with _opened(options.input) as lines, writer.telling(as_json=options.output == "json"):
        for number, line in _numbered(lines):
            writer.write(number, line)
    return 0


def _refuse_internal(target: Target, topic: str) -> None:
    application_id = target.config.application_id
    if target.topology is not None and topic in topics_of(target.topology, application_id).internal:
        raise UserInputError(
            f"{topic}: is a topic of {application_id}'s own, and what is written there changes its state; write to a "
            "topic that it reads"
        )


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO]:
    if path is None:
        return nullcontext(sys.stdin.buffer)
    try:
        return path.open("rb")
    except OSError as error:
        raise UserInputError(f"{path}: cannot be read: {error.strerror}") from error


def _numbered(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, empty ones left out."""
    number = 0
    while line := _next_line(lines, number + 1):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise UserInputError(
                f"line {number}: is longer than {_LONGEST_LINE >> 20} MiB; no broker takes such a record"
            )
        if stripped := line.strip():
            yield number, stripped


def _next_line(lines: BinaryIO, number: int) -> bytes:
    try:
        return lines.readline(_LONGEST_LINE)
    except (OSError, ValueError) as error:  # a folder, a disk that fails, or an input that was closed
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserInputError(f"line {number}: cannot be read: {reason}; correct the input, and go on there") from error


class RecordWriter:
    """Writes to one topic and counts what the broker acknowledges."""

    def __init__(self, config: StreamsConfig, topic: str, partitions: int, records: TopicRecords) -> None:
        self._topic, self._partitions, self._records = topic, partitions, records
        _, properties = client_properties.chosen(client_properties.producer(config, delivery_timeout=_DELIVERY_SECONDS))
        # A user who types lines wants to see them arrive, and which ones did.
        properties |= {"delivery.report.only.error": False, "linger.ms": 5, "queue.buffering.max.kbytes": _QUEUED_KIB}
        try:
            self._producer = Producer(properties, logger=log)
        except KafkaException as error:
            raise client_properties.client_error(error) or StreamsError(str(error)) from error
        self._written: Counter[int] = Counter()
        self._failed: dict[int, str] = {}

    def write(self, number: int, line: bytes) -> None:
        """Hand a line's record to the client. A line that is wrong raises ``UserInputError``."""
        try:
            record = read_record(line, self._records.key, self._records.value)
            partition = self._partition(record)
        except ValueError as error:
            raise UserInputError(f"line {number}: {error}") from error
        report = partial(self._report, number)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value_bytes,
                    key=record.key_bytes,
                    partition=-1 if partition is None else partition,
                    timestamp=record.timestamp or 0,
                    headers=list(record.headers),
                    on_delivery=report,
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            except KafkaException as error:
                raise UserInputError(f"line {number}: {error.args[0].str()}") from error
            except (TypeError, ValueError, OverflowError) as error:  # of a header, say, that no client can write
                raise UserInputError(f"line {number}: cannot be written: {error}") from error
            break
        self._producer.poll(0)
        if self._failed:
            raise StreamsError("")

    def write_one(self, line: bytes) -> str:
        """Writes a line's record and returns where it is; raises ``StreamsError`` if the broker does not have it."""
        self.write(1, line)
        self._end()
        if not self._written:
            raise StreamsError(self._summary())
        return self._summary()

    @contextmanager
    def telling(self, *, as_json: bool) -> Iterator[None]:
        """Reports how much was written, whatever ends the lines."""
        try:
            yield
        except (UserInputError, StreamsError) as error:
            self._end()
            said = f"{error}; " if str(error) else ""
            raise type(error)(f"{said}{self._summary()}") from error
        except BaseException:  # a signal, or a fault of ours: records handed over are not lost
            self._end()
            print(self._summary(), file=sys.stderr)
            raise
        self._end()
        if self._failed or len(self._producer):
            raise StreamsError(self._summary())
        print(json.dumps(self._as_data()) if as_json else self._summary())

    def _end(self) -> None:
        self._producer.flush(_DELIVERY_SECONDS + 5)

    def _partition(self, record: LineRecord) -> int | None:
        """The one the line names, else the application's partitioner; ``None`` leaves it to the client's."""
        if record.partition is not None:
            if record.partition >= self._partitions:
                raise ValueError(f"partition: {record.partition} is none of {self._topic}'s {self._partitions}, from 0")
            return record.partition
        if self._records.partitioner is None:
            return None
        try:
            chosen = self._chosen(self._records.partitioner, record)
        except Exception as error:  # it is the user's
            raise ValueError(
                f"partition: the application's partitioner raised {type(error).__name__}: {error}; correct it, or name "
                "the partition in the line"
            ) from error
        if chosen is None:
            return None
        try:
            (partition,) = chosen_partitions(self._topic, chosen)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"partition: the application's partitioner chose {chosen!r:.200}; name one partition in the line"
            ) from error
        if not 0 <= partition < self._partitions:
            raise ValueError(f"partition: the application's partitioner chose {partition} of {self._partitions}")
        return partition

    def _chosen(self, partitioner: Callable[..., Any], record: LineRecord) -> Any:
        with_headers = takes_headers("the application's partitioner", partitioner)
        given = (record.headers, self._partitions) if with_headers else (self._partitions,)
        return partitioner(self._topic, record.key, record.value, *given)

    def _report(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._written[message.partition() or 0] += 1
        else:
            self._failed[number] = error.str()

    def _summary(self) -> str:
        count = self._written.total()
        told = f"{self._topic}: {count} record{'' if count == 1 else 's'} written"
        if self._written:
            places = ", ".join(f"partition {each}: {self._written[each]}" for each in sorted(self._written))
            told += f" ({places})"
        unknown = len(self._producer)
        if unknown:
            told += f"; of {unknown} more it is not known"
        for number in sorted(self._failed)[:_NAMED]:
            told += f"; line {number} was not written: {self._failed[number]}"
        more = len(self._failed) - _NAMED
        return f"{told}; nor were {more} more lines" if more > 0 else told

    def _as_data(self) -> dict[str, object]:
        partitions = {str(each): self._written[each] for each in sorted(self._written)}
        return {"topic": self._topic, "written": self._written.total(), "partitions": partitions}
