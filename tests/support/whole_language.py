"""A program with a node of every kind.

Called by the tests of tasks that are looked at.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from streamsapp import (
    Consumed,
    CountWindows,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    KTable,
    Late,
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
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.dsl.operators.tables import ValueTransformer

TEXT = Serdes.string()


class Hands(Processor):
    """A processor of the user's that hands on, and remembers how it does."""

    def init(self, context: ProcessorContext) -> None:
        self.hand = context.forward
        context.schedule(1000, PunctuationType.STREAM_TIME, lambda now: self.hand(Record("now", str(now), now)))

    def process(self, record: Record) -> None:
        self.hand(record)


def whole_language() -> Topology:
    """A node of every kind that has one below it."""
    second = timedelta(seconds=1)
    builder = StreamsBuilder()
    words, others = builder.stream("in", Consumed(TEXT, TEXT)), builder.stream("other", Consumed(TEXT, TEXT))
    table, users = builder.table("table", Consumed(TEXT, TEXT)), builder.table("users", Consumed(TEXT, TEXT))
    everywhere = builder.global_table("global", Consumed(TEXT, TEXT))
    flat = words.flat_map(lambda key, value: [(key, value)]).flat_map_values(lambda value: [value])
    flat.merge(others).select_key(lambda key, value: value).map(lambda key, value: (key, value)).to("a")
    words.process(Hands).process_values(Hands).filter_not(lambda key, value: False).to("b")
    windows = JoinWindows.of(second)
    words.join(others, lambda one, other: one + other, windows).to("c")
    words.outer_join(others, lambda one, other: f"{one}{other}", windows).to("d")
    words.left_join(table, lambda one, other: one).join(everywhere, lambda key, value: key, lambda a, b: a).to("e")
    joined = table.join(users, lambda one, other: one + other).outer_join(users, lambda one, other: f"{one}{other}")
    joined.filter(lambda key, value: True).map_values(str.upper).to_stream().to("f")
    table.join(users, lambda value: value, lambda one, other: one + other).to_stream().to("g")
    grouped = words.group_by_key()
    grouped.reduce(lambda one, other: other).to_stream().to("h")
    grouped.aggregate(lambda: "", lambda key, value, before: before + value).to_stream().to("i")
    for number, windowed in enumerate(
        (
            grouped.windowed_by(TimeWindows.of(second)).count(),
            grouped.windowed_by(SlidingWindows.of(second)).count(),
            grouped.windowed_by(SessionWindows.of(second)).count(),
        )
    ):
        final = windowed.suppress(Suppressed.until_window_closes()).to_stream()
        final.map(lambda key, value: ("", "")).to(f"j-{number}")
    table.group_by(lambda key, value: (value, key)).reduce(lambda a, b: b, lambda a, b: a).to_stream().to("k")
    table.left_join(users, lambda value: value, lambda one, other: f"{one}{other}").to_stream().to("l")
    table.transform_values(Lengths).to_stream().to("m", Produced(TEXT, Serdes.long()))
    closing = EmitStrategy.on_window_close()
    for number, windowed in enumerate(
        (
            grouped.windowed_by(TimeWindows.of(second)).emit_strategy(closing).count(),
            grouped.windowed_by(SlidingWindows.of(second)).emit_strategy(closing).count(),
            grouped.windowed_by(SessionWindows.of(second)).emit_strategy(closing).count(),
        )
    ):
        windowed.to_stream().map(lambda key, value: (key.key, str(value))).to(f"n-{number}")
    hopping = grouped.windowed_by(TimeWindows.of(second).advance_by(second / 2)).reduce(lambda one, other: one + other)
    hopping.to_stream().map(lambda key, value: (key.key, value)).to("o")
    limited = Suppressed.until_time_limit(second, Suppressed.BufferConfig.max_records(5))
    table.suppress(limited).to_stream().to("p")
    summed = words.group_by(lambda key, value: value, Grouped(combine=True))
    summed.reduce(max).to_stream().to("q")
    words.left_join(versioned(builder), lambda one, other: f"{one}{other}", Joined(grace=second)).to("r")
    words.join(words, lambda one, other: one + other, windows=JoinWindows.of(second)).to("s")
    words.to(lambda key, value, context: f"t-{value[:1]}")
    words.deduplicate(lambda value: value, within=second, same_key=True).to("u")
    words.left_join_as_of(others, lambda one, other: f"{one}{other}", second, Joined(grace=second)).to("v")
    pairs = grouped.windowed_by(CountWindows.of(2)).reduce(lambda one, other: one + other)
    pairs.select_key(lambda window, _: window.key).to("w")
    grouped.windowed_by(TimeWindows.of(1), late=Late("x")).count()
    return builder.build()


class Lengths(ValueTransformer):
    """Turns texts into their lengths, and counts its calls."""

    def init(self, context: ProcessorContext) -> None:
        self._calls = 0

    def transform(self, key: Any, value: Any) -> Any:
        self._calls += 1
        return None if value is None else len(value) + self._calls % 2

    def close(self) -> None: ...


def versioned(builder: StreamsBuilder) -> KTable[str, str]:
    kept: Materialized[str, str] = Materialized("versions", versioned=timedelta(minutes=1))
    return builder.table("versioned", Consumed(TEXT, TEXT), kept)
