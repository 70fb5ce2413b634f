"""Tasks that are looked at, and are not, from batch to batch send and keep the same as without a look."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest

from changelog import changelog_records
from streamsapp import (
    Consumed,
    EmitStrategy,
    Grouped,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.processor.handlers import Response
from streamsapp.record import Headers, RawRecord, TopicPartition
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock, TopologyTestDriver
from task_parts import config, raw, task_of
from whole_language import whole_language

TEXT = Serdes.string()
TOPICS = ("in", "other", "table", "users", "global", "versioned")
Emit = Literal["update", "commit"]


class Tap:
    """Looks at a task now and then."""

    def __init__(self, task: StreamTask, rng: random.Random) -> None:
        self._task, self._rng, self._now = task, rng, 0.0
        self._nodes = [node.name for node in task.plan.sub_topology.nodes]
        #: How often records and results went by the wiring with probes, and by the plain one.
        self.ways = {True: 0, False: 0}

    def maybe(self) -> None:
        if self._rng.random() < 0.3:
            self._now += self._rng.choice([0.1, 1])
            budget, tapped = self._rng.choice([1, 2, 7, 1000]), self._rng.choice([None, *self._nodes])
            self._task.probes.look(budget, tapped, processed=self._task.processed_records, now=self._now)
        self.ways[self._task._wired.in_use is not self._task._wired.plain] += 1


class Untapped(Tap):
    def maybe(self) -> None:
        """No probe looks."""


@pytest.mark.seeds(2)
def test_a_program_with_every_node_does_the_same_while_it_is_looked_at_now_and_then(seed: int) -> None:
    seen = []
    for kind in (Tap, Untapped):
        settings = StreamsConfig(
            application_id="app", bootstrap_servers="none:9092", default_key_serde=TEXT, default_value_serde=TEXT
        )
        with TopologyTestDriver(whole_language(), settings) as driver:
            tap = kind(driver._tasks[0], random.Random(-seed))
            seen.append(driven(driver, tap, random.Random(seed)))
            if kind is Tap:
                assert min(tap.ways.values()) > 5
    assert seen[0] == seen[1]


def driven(driver: TopologyTestDriver, tap: Tap, rng: random.Random) -> list[object]:
    topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in TOPICS}
    now = 0
    for _ in range(150):
        tap.maybe()
        now += rng.choice([0, 1, 100, 400, rng.choice([0, 3000])])
        value = rng.choice(["a", "b", "cc", "ddd", "cc", None])
        key = rng.choice(["k", "l", "m", "a", "b", "cc"])
        at = max(0, now - rng.choice([0, 0, 0, 300, 900, 5000]))
        topic = rng.choice([*TOPICS, "in", "in"])
        if topic in ("in", "other"):  # whose values the program's functions add up
            value = value or "e"
        topics[topic].pipe_input(key, value, at)
        if rng.randrange(10) == 0:
            driver.advance_wall_clock_time(rng.choice([1, 1000]))
    return [outputs(driver), kept(driver._tasks[0]), driver._tasks[0].context.record_errors.by_node]


def outputs(driver: TopologyTestDriver) -> dict[str, list[Record]]:
    names = sorted(driver.produced_topic_names)
    return {name: driver.create_output_topic(name, Serdes.bytes(), Serdes.bytes()).read_records() for name in names}


def kept(task: StreamTask) -> dict[str, list[str]]:
    """All that stores have which can be asked."""
    stores = task.stores.stores
    return {name: sorted(map(repr, store.all())) for name, store in stores.items() if hasattr(store, "all")}


# ---- results at commits ------------------------------------------------------------------------------------------


class Notes(Processor):
    """Keeps the last value in a store, and forwards it by both clocks."""

    def init(self, context: ProcessorContext) -> None:
        self._forward, self._last, self._count = context.forward, "", 0
        context.schedule(20, PunctuationType.STREAM_TIME, lambda now: self._tell("stream", now))
        context.schedule(5, PunctuationType.WALL_CLOCK_TIME, lambda now: self._tell("wall", now))

    def process(self, record: Record) -> None:
        self._count += 1
        self._last = f"{record.value}{self._count}"
        self._forward(record)

    def _tell(self, clock: str, now: int) -> None:
        self._forward(Record(clock, self._last, now))


SHORT = timedelta(milliseconds=40)


def in_memory(emit: Emit) -> Materialized[Any, Any]:
    return Materialized(store="memory", emit=emit)


def joined_text(key: str, value: str, before: str) -> str:
    if len(before) > 12:
        raise ValueError("too long")
    return before + value


PROGRAMS: dict[str, Callable[[KStream[Any, Any], Emit], object]] = {
    "count": lambda words, emit: words.group_by_key().count(in_memory(emit)).to_stream().to("out"),
    "count of changes": lambda words, emit: (
        words.group_by_key().count(in_memory(emit)).filter(lambda key, count: count % 2 == 0).to_stream().to("out")
    ),
    "count in two ways": lambda words, emit: two_ways(words.group_by_key().count(in_memory(emit)).to_stream()),
    "reduce": lambda words, emit: (
        words.group_by_key()
        .reduce(lambda a, b: None if b == "cc" else a + b[:1], in_memory(emit))
        .to_stream()
        .to("out")
    ),
    "aggregate": lambda words, emit: (
        words.group_by_key().aggregate(str, joined_text, in_memory(emit)).to_stream().to("out")
    ),
    "windows": lambda words, emit: windows(
        words.group_by_key().windowed_by(TimeWindows.of(SHORT)).count(in_memory(emit))
    ),
    "hopping": lambda words, emit: windows(
        words.group_by_key()
        .windowed_by(TimeWindows.of(SHORT, grace=30).advance_by(10))
        .reduce(lambda a, b: a + b, in_memory(emit))
    ),
    "sliding": lambda words, emit: windows(
        words.group_by_key().windowed_by(SlidingWindows.of(SHORT, grace=30)).count(in_memory(emit))
    ),
    "sessions": lambda words, emit: windows(
        words.group_by_key().windowed_by(SessionWindows.of(SHORT, grace=30)).count(in_memory(emit))
    ),
    "closed windows": lambda words, emit: windows(
        words.group_by_key()
        .windowed_by(TimeWindows.of(SHORT, grace=30))
        .emit_strategy(EmitStrategy.on_window_close())
        .count(in_memory(emit))
    ),
    "suppressed windows": lambda words, emit: windows(
        words.group_by_key()
        .windowed_by(TimeWindows.of(SHORT, grace=30))
        .count(in_memory(emit))
        .suppress(Suppressed.until_window_closes())
    ),
    "combined": lambda words, emit: words.group_by(lambda key, value: value, Grouped(combine=True)).count(),
    "a table of a table": lambda words, emit: (
        words.to_table(in_memory(emit)).map_values(str.upper, materialized=in_memory(emit)).to_stream().to("out")
    ),
    "own processor": lambda words, emit: (
        words.process(Notes).group_by_key().count(in_memory(emit)).to_stream().to("out")
    ),
}


def two_ways(counts: KStream[Any, Any]) -> None:
    counts.to("out")
    counts.map_values(str).to("more", Produced(None, TEXT))


def windows(table: Any) -> None:
    table.to_stream().map(lambda key, value: (str(key), str(value))).to("out", Produced(TEXT, TEXT))


def program(name: str, emit: Emit) -> Topology:
    builder = StreamsBuilder()
    PROGRAMS[name](builder.stream("in", Consumed(TEXT, TEXT)), emit)
    return builder.build()


@pytest.mark.seeds(2)
@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_state_and_changelogs_are_the_same_while_a_task_is_looked_at_now_and_then(
    name: str, emit: Emit, seed: int
) -> None:
    settings = config(processing_exception_handler=lambda context, error: Response.CONTINUE)
    seen = []
    for kind in (Tap, Untapped):
        clock = MockClock()
        task = task_of(program(name, emit), settings=settings, clock=clock)
        tap = kind(task, random.Random(-seed))
        seen.append(played(task, tap, clock, random.Random(seed)))
        if kind is Tap:
            assert min(tap.ways.values()) > 5
    assert seen[0] == seen[1]


def played(task: StreamTask, tap: Tap, clock: MockClock, rng: random.Random) -> list[object]:
    """Returns the records that a task sends, and its state, for random records, slices of held results and commits."""
    seen: list[object] = []
    now = offset = 0
    sizes = random.Random(0)  # of batches; there are more of them under a look
    for _ in range(80):
        batch: list[RawRecord] = []
        for _ in range(rng.randrange(12)):
            now += rng.choice([0, 0, 1, 7, rng.choice([0, 90])])
            at = max(0, now - rng.choice([0, 0, 0, 11, 60]))
            headers: Headers | None = [("h", b"%d" % offset)] if rng.randrange(20) == 0 else None
            key, value = rng.choice([b"k", b"l", b"m", None]), rng.choice([b"a", b"b", b"cc", None])
            batch.append(raw(offset, at, key=key, value=value, headers=headers))
            offset += 1
        if batch:
            task.add_records(TopicPartition("in", 0), batch)
        while task.buffered_records:
            tap.maybe()
            task.process(task.control, sizes.choice([1, 3, 100]))
        clock.advance(rng.randrange(4))
        tap.maybe()
        task.punctuate()
        for _ in range(rng.randrange(3)):
            tap.maybe()
            task.emit_held(1 + rng.randrange(3))
        if rng.randrange(4) == 0:
            tap.maybe()
            seen += commit(task)
        seen += [task.take_output(), kept(task), task.context.record_errors.dropped]
    return seen


def commit(task: StreamTask) -> Sequence[object]:
    task.emit_all_held()
    epoch = task.freeze()
    if epoch is None:
        return ()
    changes = [] if epoch.frozen is None else sorted(changelog_records(epoch.frozen), key=repr)
    if epoch.frozen is not None:
        for _ in task.stores.apply(epoch.frozen, dict.fromkeys(task.plan.changelogs, 1)):
            pass
    return changes, epoch.offsets
