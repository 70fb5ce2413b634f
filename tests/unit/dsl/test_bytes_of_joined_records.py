"""Joins of streams keep the bytes that a repartition topic right above has, instead of writing the value once more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from streamsapp import Consumed, JoinWindows, KStream, Produced, Serdes, StreamJoined, StreamsBuilder
from streamsapp.outgoing import OutputRecord
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.tasks.stream_task import StreamTask
from task_parts import feed, raw, task_of

TEXT = Serdes.string()


@dataclass
class _Writer:
    """A serde of JSON that counts what it writes; with ``of_topic`` it writes the topic's name, too."""

    of_topic: bool = False
    written: list[Any] = field(default_factory=list)

    def serde(self) -> AnySerde:
        return _OfTopic(self._write, json.loads, writer=self) if self.of_topic else Serde(self._write, json.loads)

    def _write(self, value: Any) -> bytes:
        self.written.append(value)
        return json.dumps(value).encode()


@dataclass(frozen=True)
class _OfTopic(Serde[Any]):
    writer: _Writer = field(kw_only=True)

    def bind(self, topic: str, is_key: bool) -> Serde[Any]:
        return Serde(self.serialize, self.deserialize)


def _joined(writer: _Writer, *, rekeyed: bool) -> StreamTask:
    """Returns the task that joins, of a stream that was given other keys or not."""
    builder, serde = StreamsBuilder(), writer.serde()
    left: KStream[str, Any] = builder.stream("left", Consumed(TEXT, serde))
    if rekeyed:
        left = left.select_key(lambda key, value: value["key"])
    right = builder.stream("right", Consumed(TEXT, TEXT))
    windows = JoinWindows.of(10)
    options = StreamJoined(TEXT, serde, TEXT, store="memory")
    left.join(right, lambda one, other: f"{one['n']}{other}", windows, options).to("out", Produced(TEXT, TEXT))
    topology = builder.build()
    joins = next(part for part in topology.sub_topologies() if "right" in [t for s in part.sources for t in s.topics])
    return task_of(topology, subtopology=joins.id)


def _results(task: StreamTask) -> list[OutputRecord]:
    topics = [queue.topic for queue in task.queues]
    left = next(topic for topic in topics if topic != "right")
    feed(task, [raw(0, 5, topic=left, value=b'{"key": "k",   "n": 1}'), raw(0, 6, topic="right", value=b"r")])
    while task.buffered_records:
        for partition in task.queues:
            task.reached_end(partition)
        task.process(task.control, 10)
    return [record for record in task.take_output() if record[0] == "out"]


@pytest.mark.parametrize(
    ("rekeyed", "of_topic", "written"),
    [(True, False, 0), (False, False, 1), (True, True, 1)],
    ids=["repartitioned", "read from the user's topic", "a serde of each topic"],
)
def test_values_of_a_repartition_topic_are_not_written_again_unless_their_bytes_are_of_a_topic(
    rekeyed: bool, of_topic: bool, written: int
) -> None:
    writer = _Writer(of_topic)
    results = _results(_joined(writer, rekeyed=rekeyed))
    assert [record[1] for record in results] == [b"1r"]
    assert len(writer.written) == written


def test_the_changelog_has_the_bytes_of_the_repartition_topic() -> None:
    task = _joined(_Writer(), rekeyed=True)
    _results(task)
    epoch = task.freeze()
    assert epoch is not None
    assert epoch.frozen is not None
    values = [
        record[1]
        for store, changes in epoch.frozen.changelogs()
        for records in changes.records(*task.plan.changelogs[store], len(changes))
        for record in records
    ]
    assert b'{"key": "k",   "n": 1}' in values
