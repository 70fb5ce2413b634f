"""A program of much of the language at once, and its input: windows, joins, ``suppress``, a global table, punctuation,
a record that fails, and results per commit.

Called by tests that run it in batches, and without any broker. The text of this module is the code of an application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamsapp import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()

#: The inputs, by the names that the program has for it.
INPUTS = ("events", "marks", "names")
#: Topics whose results all count, and topics where only the last result of each key counts: there the number of results
#: depends on commits, and a task that moves schedules its punctuations anew.
RESULTS, LAST_RESULTS = ("closed", "joined", "greeted", "failed"), ("counted", "ticks")


class Ticking(Processor):
    """Sends once per second of stream time how many records it has had."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.seen = context.get_state_store("seen")
        context.schedule(1_000, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record) -> None:
        self.seen.put("all", (self.seen.get("all") or 0) + 1)

    def tick(self, timestamp: int) -> None:
        self.context.forward(Record(key="all", value=str(self.seen.get("all")), timestamp=timestamp))


def language(topics: dict[str, str]) -> Topology:
    """``topics`` are the real names."""
    builder = StreamsBuilder()
    texts = Produced(key_serde=TEXT, value_serde=TEXT)
    names = builder.global_table(topics["names"], Consumed(TEXT, TEXT), Materialized("names", TEXT, TEXT))
    events = builder.stream(topics["events"], Consumed(TEXT, TEXT)).map_values(_sound)
    marks = builder.stream(topics["marks"], Consumed(TEXT, TEXT))

    windows = TimeWindows.of(1_000, grace=300)
    counted = events.group_by_key(Grouped(key_serde=TEXT, value_serde=TEXT)).windowed_by(windows).count()
    closed = counted.suppress(Suppressed.until_window_closes(Suppressed.BufferConfig.unbounded())).to_stream()
    closed.map(lambda at, count: (str(at), str(count))).to(topics["closed"], texts)

    near = JoinWindows.of(200, grace=100)
    both = StreamJoined(key_serde=TEXT, value_serde=TEXT, other_value_serde=TEXT)
    events.join(marks, lambda event, mark: f"{event}+{mark}", near, both).to(topics["joined"], texts)
    greeted = events.join(names, lambda key, _: key, lambda event, name: f"{name}: {event}")
    greeted.to(topics["greeted"], texts)

    by_value = events.group_by(lambda _, event: event[-1], Grouped(key_serde=TEXT, value_serde=TEXT))
    per_commit = by_value.count(Materialized("per-commit", TEXT, LONG, emit="commit")).to_stream()
    per_commit.map_values(str).to(topics["counted"], texts)

    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), TEXT, LONG))
    events.process(Ticking, "seen").to(topics["ticks"], texts)
    return builder.build()


def _sound(event: str) -> str:
    if event == "poison":
        raise ValueError("it is poisonous")
    return event


def records(count: int) -> Iterator[tuple[str, str, str, int]]:
    """Topic, key, value and time of ``count`` events and of what belongs to them, in the order of their times."""
    for name in ("a", "b", "c"):
        yield "names", name, name.upper(), 0
    for number in range(count):
        key, at = "abcd"[number % 4], 1_000 + 37 * number
        yield "events", key, "poison" if number % 50 == 7 else f"event{number}", at
        if number % 3 == 0:
            yield "marks", key, f"mark{number}", at + 11
    yield "events", "a", "end", 1_000_000


def expected(topics: dict[str, str], config: StreamsConfig, count: int) -> dict[str, list[Any]]:
    """The results of ``count`` events without a broker, as ``results`` shows them."""
    with TopologyTestDriver(language(topics), config) as driver:
        inputs = {name: driver.create_input_topic(topics[name], TEXT, TEXT) for name in INPUTS}
        for name, key, value, at in records(count):
            inputs[name].pipe_input(key, value, timestamp_ms=at)
        return results(lambda name: driver.create_output_topic(topics[name], TEXT, TEXT).read_key_values())


def results(read: Callable[[str], Iterable[tuple[Any, Any]]]) -> dict[str, list[Any]]:
    """The results of each topic, sorted, where ``read`` returns keys and values in their order."""
    found = {name: sorted(read(name)) for name in RESULTS}
    return found | {name: sorted(dict(read(name)).items()) for name in LAST_RESULTS}
