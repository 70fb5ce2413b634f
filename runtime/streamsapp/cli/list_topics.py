"""``streamsapp topics``: the topics of an application, as the cluster has them. Runs on the main thread."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass

from streamsapp.cli.arguments import new_command
from streamsapp.cli.consume import records_between
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.output import add_output, print_json
from streamsapp.cli.reset_plan import InputOffsets
from streamsapp.cli.target import Target, add_cluster_options, target_of
from streamsapp.cli.topic_serdes import records_of
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import TopicPartition
from streamsapp.topology.builder import Topology

#: Topics with more offsets are not read to be counted. Records that are deleted meanwhile are counted again, so often.
_COUNTED, _ATTEMPTS = 50_000, 3


@dataclass(frozen=True)
class TopicRow:
    """A topic; unknown facts are ``None``."""

    topic: str
    #: ``reads``, ``writes``, ``owns``, ``dead letters``.
    roles: Sequence[str]
    #: ``None``: there is no such topic.
    partitions: int | None = None
    #: The records that it has; of a large topic the number of its offsets, which need not all hold one.
    records: int | None = None
    #: In a topic that is read: how many records the application has not committed yet.
    lag: int | None = None
    #: Says whether both were counted.
    exact: bool = True
    key: str | None = None
    value: str | None = None


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "topics",
        "show the topics of an application",
        "It shows the topics that the application reads, writes and owns, with the serdes of keys and values.\n"
        "RECORDS counts what can be read, LAG what of it is not committed yet. A topic with more than 50,000 offsets\n"
        "is not read for that: its offsets are shown with ≤, as markers and compacted records have some, too.",
        "  streamsapp topics -f app.yaml\n  streamsapp topics -f app.yaml -o json | jq '.[] | select(.lag > 0)'",
    )
    add_cluster_options(parser, manifest_required=True)
    add_output(parser)
    parser.set_defaults(run=list_topics)


def list_topics(options: argparse.Namespace) -> int:
    target = target_of(options)
    assert target.topology is not None  # a manifest is required
    rows = rows_of(target, target.topology)
    if options.output == "json":
        print_json([asdict(row) for row in rows])
    else:
        print("\n".join(table(rows)))
    return 0


def rows_of(target: Target, topology: Topology) -> list[TopicRow]:
    """The topics by role and name."""
    config = target.config
    with closing(KafkaCluster(config)) as cluster:
        existing = cluster.partitions()
        roles = roles_of(topology, config, existing)
        there = {topic: existing[topic] for topic in roles if topic in existing}
        read = topics_read(topology, config, existing) & there.keys()
        committed = _committed(config, {topic: there[topic] for topic in read})
        counts: dict[TopicPartition, _Count] = {}
        for _ in range(_ATTEMPTS):
            bounds = cluster.bounds(there, committed, None)
            with suppress(StreamsError):  # the application deletes what it has read of its own topics
                counts = _counts(config, bounds)
                break
    return [_row(each, roles[each], there, bounds, counts, each in read, topology, config) for each in roles]


class _Count:
    """The records of a partition, and its uncommitted records."""

    def __init__(self) -> None:
        self.records = self.behind = 0


def _counts(config: StreamsConfig, bounds: Mapping[TopicPartition, InputOffsets]) -> dict[TopicPartition, _Count]:
    """Reads the topics that are small, as their records cannot be distinguished from markers otherwise."""
    offsets: Counter[str] = Counter()
    for partition, bound in bounds.items():
        offsets[partition.topic] += bound.latest - bound.earliest
    small = {each: bound for each, bound in bounds.items() if offsets[each.topic] <= _COUNTED}
    counts = {each: _Count() for each in small}
    starts = {each: bound.earliest for each, bound in small.items()}
    for record in records_between(config, starts, {each: bound.latest for each, bound in small.items()}):
        partition = TopicPartition(record.topic(), record.partition())
        counts[partition].records += 1
        counts[partition].behind += record.offset() >= _first_to_read(small[partition])
    return counts


def _first_to_read(bound: InputOffsets) -> int:
    return bound.earliest if bound.committed is None else bound.committed


def _committed(config: StreamsConfig, topics: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The group's offsets, asked for by a consumer that joins no group: an admin client's answer takes the process down
    while the broker loads the group (librdkafka 2.16.1)."""
    partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    with closing(PartitionConsumer(client_properties.main_consumer(config))) as consumer:
        return {partition: offset for partition, (offset, _) in consumer.committed(partitions).items()}


def roles_of(topology: Topology, config: StreamsConfig, existing: Mapping[str, int]) -> dict[str, list[str]]:
    """Every topic of the application with what it is to it."""
    topics = topics_of(topology, config.application_id, existing)
    letters = {config.dead_letter_queue_topic} if config.dead_letter_queue_topic else set()
    roles: dict[str, list[str]] = {}
    for role, names in (
        ("reads", topics.sources),
        ("writes", topics.sinks),
        ("dead letters", letters),
        ("owns", topics.internal),
    ):
        for name in sorted(names):
            roles.setdefault(name, []).append(role)
    return roles


def topics_read(topology: Topology, config: StreamsConfig, existing: Mapping[str, int]) -> set[str]:
    """The topics for which the application commits offsets."""
    topics = topics_of(topology, config.application_id, existing)
    repartition = {f"{config.application_id}-{each.name}" for sub in topology.sub_topologies(existing)
                   for each in sub.repartition_sources}  # fmt: skip
    return {*topics.sources, *repartition} - {store.topic for store in topology.global_stores()}


def _row(
    topic: str,
    roles: Sequence[str],
    partitions: Mapping[str, int],
    bounds: Mapping[TopicPartition, InputOffsets],
    counts: Mapping[TopicPartition, _Count],
    is_read: bool,
    topology: Topology,
    config: StreamsConfig,
) -> TopicRow:
    records = records_of(topology, config, topic)
    key, value = (None, None) if records is None else (records.key.name, records.value.name)
    if topic not in partitions:
        return TopicRow(topic, roles, key=key, value=value)
    own = {each: bound for each, bound in bounds.items() if each.topic == topic}
    exact = all(each in counts for each in own)
    if exact:
        total, behind = (sum(getattr(counts[each], name) for each in own) for name in ("records", "behind"))
    else:
        total = sum(bound.latest - bound.earliest for bound in own.values())
        behind = sum(bound.latest - _first_to_read(bound) for bound in own.values())
    return TopicRow(topic, roles, partitions[topic], total, max(0, behind) if is_read else None, exact, key, value)


def table(rows: Sequence[TopicRow]) -> list[str]:
    """Columns of text."""
    cells = [("TOPIC", "ROLE", "PARTITIONS", "RECORDS", "LAG", "KEY", "VALUE")]
    cells += [
        (
            row.topic,
            ", ".join(row.roles),
            "missing" if row.partitions is None else str(row.partitions),
            _number(row.records, row.exact),
            _number(row.lag, row.exact),
            row.key or "",
            row.value or "",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    numbers = range(2, 5)
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _number(value: int | None, exact: bool) -> str:
    return "" if value is None else f"{'' if exact or not value else '≤ '}{value:,}"
