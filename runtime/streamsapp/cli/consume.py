"""``streamsapp consume``: prints the records of a topic as lines of JSON, in no group. Runs on the main thread."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing

from streamsapp.cli.arguments import new_command
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.record_lines import milliseconds, shown_record
from streamsapp.cli.reset_plan import InputOffsets
from streamsapp.cli.target import Target, add_cluster_options, add_serde_options, partitions_of, target_of
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import InputRecord, TopicPartition

_AT_ONCE = 500
_POLL_SECONDS = 0.5
#: Fetched ahead: the reader is a person or a pipe, beside the machine's main work.
_FETCHED_KIB = 16 << 10
_NUMBER = re.compile(r"-?\d{1,18}")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "consume",
        "print the records of a topic as lines of JSON",
        "It ends where the topic ended when it began, unless --follow. It joins no group and commits nothing;\n"
        "records of transactions that were not committed are left out. Bytes that the serde does not read are printed\n"
        "as base64, with the reason.",
        "  streamsapp consume totals -f app.yaml\n"
        "  streamsapp consume totals -f app.yaml --from latest\n"
        "  streamsapp consume visits --bootstrap-servers kafka:9092 --from=-10 | jq .value",
    )
    parser.add_argument("topic", metavar="TOPIC")
    add_cluster_options(parser)
    add_serde_options(parser)
    parser.add_argument(
        "--from",
        dest="start",
        default="beginning",
        metavar="WHERE",
        help="beginning (default), latest (follows), an offset, --from=-N for the last N of each partition, or a time "
        "in ISO 8601",
    )
    parser.add_argument("--partition", type=int, metavar="N", help="read this partition only")
    parser.add_argument("--max", type=int, metavar="N", help="end after so many records")
    parser.add_argument("--follow", action="store_true", help="go on with new records until Ctrl-C")
    parser.set_defaults(run=consume)


def consume(options: argparse.Namespace) -> int:
    if options.max is not None and options.max < 1:
        raise UserInputError(f"--max: expected an integer ≥ 1, got {options.max}")
    at_time = _time(options.start)
    target = target_of(options)
    records = target.records(options.topic, options)
    follow = options.follow or options.start == "latest"
    left = options.max
    try:
        for record in _records(target, options, at_time, follow=follow):
            sys.stdout.buffer.write(shown_record(record, records.key, records.value) + b"\n")
            if follow:
                sys.stdout.buffer.flush()
            if left is not None and (left := left - 1) == 0:
                break
    except KeyboardInterrupt:
        if not follow:  # otherwise nothing else ends it
            raise
    return 0


def _records(
    target: Target, options: argparse.Namespace, at_time: int | None, *, follow: bool
) -> Iterator[InputRecord]:
    with closing(KafkaCluster(target.config)) as cluster:
        count = partitions_of(options.topic, cluster.partitions())
        if options.partition is not None and not 0 <= options.partition < count:
            raise UserInputError(f"--partition: {options.partition} is none of {options.topic}'s {count}, from 0")
        all_bounds = cluster.bounds({options.topic: count}, {}, at_time)
    bounds = {each: bound for each, bound in all_bounds.items() if options.partition in (None, each.partition)}
    starts = {partition: _start(options.start, bound, at_time) for partition, bound in bounds.items()}
    ends = None if follow else {each: bound.latest for each, bound in bounds.items()}
    yield from records_between(target.config, starts, ends)


def records_between(
    config: StreamsConfig, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None
) -> Iterator[InputRecord]:
    """Returns the committed records from ``starts`` up to ``ends``; without those, until the caller has enough."""
    properties = client_properties.restore_consumer(config)
    properties |= {"isolation.level": "read_committed", "queued.max.messages.kbytes": _FETCHED_KIB}
    with closing(PartitionConsumer(properties)) as consumer:
        yield from _read(consumer, starts, ends)


def _read(
    consumer: PartitionConsumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None
) -> Iterator[InputRecord]:
    """Records from ``starts`` up to ``ends``; without these, until a user ends it."""
    open_ = {each: at for each, at in starts.items() if ends is None or at < ends[each]}
    consumer.assign(open_)
    while open_:
        fetched = consumer.poll(_AT_ONCE, _POLL_SECONDS)
        for partition in fetched.out_of_range:
            raise StreamsError(f"{partition}: the records at {open_.get(partition)} were deleted meanwhile; try again")
        for partition, batch in fetched.records:
            for record in batch:
                if ends is None or record.offset() < ends[partition]:
                    yield record
                if ends is not None and record.offset() >= ends[partition] - 1:
                    open_.pop(partition, None)
        if ends is not None:
            for partition in fetched.ends:  # markers of transactions have offsets, and no record ever comes of them
                open_.pop(partition, None)


def _time(start: str) -> int | None:
    """The time that ``--from`` names, if it names one."""
    if start in ("beginning", "latest") or _NUMBER.fullmatch(start):
        return None
    try:
        return milliseconds(start)
    except ValueError:
        raise UserInputError(
            "--from: expected beginning, latest, an offset such as 120 or -10, or a time such as "
            f"2026-01-31T00:00:00Z, got {start!r}"
        ) from None


def _start(start: str, bound: InputOffsets, at_time: int | None) -> int:
    """An offset that the partition has, or its end."""
    if at_time is not None:
        return bound.latest if bound.at_time is None else bound.at_time
    if start == "beginning":
        return bound.earliest
    if start == "latest":
        return bound.latest
    number = int(start)
    wanted = bound.latest + number if start.startswith("-") else number
    return min(max(wanted, bound.earliest), bound.latest)
