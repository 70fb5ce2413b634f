"""An instance in a process of its own, for tests that kill it: ``killable.py <program> <settings> <arguments>``.

Ends with 0 when it is asked to close, with 1 when the instance failed.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from deadly_steps import die_at
from replayed_trips import per_line
from slow_service import ask, connections
from streamsapp import (
    Consumed,
    CountWindows,
    Grouped,
    Joined,
    JoinWindows,
    KeyValueStore,
    Late,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Scheduling,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntime,
    Suppressed,
    TimeWindows,
    Topology,
    ValueTimestampHeaders,
)
from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.config import RemoteStateConfig
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable
from streamsapp.remote import partial_files
from streamsapp.serdes.windowed import time_windowed

_TEXT = Serdes.string()


def count_per_key(source: str, sink: str, emit: str = "update", store: str = "rocksdb") -> Topology:
    """The number of records of each key, every update of it to ``sink``."""
    builder = StreamsBuilder()
    stream: KStream[bytes, bytes] = builder.stream(source)
    counts = stream.group_by_key().count(Materialized("counts", emit=emit, store=store))  # type: ignore[call-overload]
    counts.to_stream().to(sink, Produced(value_serde=Serdes.long()))
    return builder.build()


def count_until(source: str, sink: str, step: str) -> Topology:
    """``count_per_key``, by a process that dies at a step of a hand-over."""
    die_at(step)
    return count_per_key(source, sink)


def count_in_small_pieces(source: str, sink: str) -> Topology:
    """Counts per key, and opens a snapshot of a small state before all of it is here."""
    partial_files._WORTH_LEAVING, partial_files._MOST = 8192, 4096
    return count_per_key(source, sink)


#: Those of ``count_windows``.
COUNTED_WINDOWS = TimeWindows.of(4_000, grace=60_000).advance_by(2_000)


def count_windows(source: str, sink: str, emit: str = "update") -> Topology:
    """The number of records of each key and window, every update of it to ``sink``."""
    builder = StreamsBuilder()
    stream: KStream[bytes, bytes] = builder.stream(source)
    counts = stream.group_by_key().windowed_by(COUNTED_WINDOWS).count(Materialized("counts", emit=emit))  # type: ignore[call-overload]
    counts.to_stream().to(sink, Produced(time_windowed(Serdes.bytes(), COUNTED_WINDOWS.size_ms), Serdes.long()))
    return builder.build()


def word_count(source: str, sink: str, combine: bool = False) -> Topology:
    """The number of times each word occurs in the lines of ``source``, through a repartition topic."""
    builder = StreamsBuilder()
    lines: KStream[bytes, str] = builder.stream(source, Consumed(value_serde=_TEXT))
    words = lines.flat_map_values(str.split)
    grouped = words.group_by(
        lambda _, word: word, Grouped(key_serde=_TEXT, value_serde=_TEXT, name="words", combine=combine)
    )
    counts = grouped.count(Materialized("counts"))
    counts.to_stream().to(sink, Produced(key_serde=_TEXT, value_serde=Serdes.long()))
    return builder.build()


def window_finals(source: str, sink: str) -> Topology:
    """The number of records of each key and second, sent once the second is over, under ``key@start``."""
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed(_TEXT, _TEXT))
    counts = stream.group_by_key().windowed_by(TimeWindows.of(1000)).count(Materialized("counts"))
    finals = counts.suppress(Suppressed.until_window_closes().with_name("finals"))
    named = finals.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.start_ms}")
    named.to(sink, Produced(_TEXT, Serdes.long()))
    return builder.build()


def idle_windows(source: str, sink: str, idle_after_ms: int, repartitioned: bool = False) -> Topology:
    """The number of records of each key and second, as ``window_finals``, also where the source is silent; behind a
    repartition topic by value if ``repartitioned``."""
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed("seconds", _TEXT, _TEXT, idle_after=idle_after_ms))
    if repartitioned:
        stream = stream.select_key(lambda _, value: value)
    grouped = stream.group_by_key(Grouped("by-value", _TEXT, _TEXT))
    counts = grouped.windowed_by(TimeWindows.of(1000)).count(Materialized("counts"))
    finals = counts.suppress(Suppressed.until_window_closes().with_name("finals"))
    named = finals.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.start_ms}")
    named.to(sink, Produced(_TEXT, Serdes.long()))
    return builder.build()


def outer_join(left: str, right: str, sink: str) -> Topology:
    """The records of both topics by key, as ``left/right``; a record without another one in a minute as ``left/-``."""
    builder = StreamsBuilder()
    lefts: KStream[str, str] = builder.stream(left, Consumed(_TEXT, _TEXT))
    rights: KStream[str, str] = builder.stream(right, Consumed(_TEXT, _TEXT))
    joined = lefts.outer_join(rights, lambda a, b: f"{a or '-'}/{b or '-'}", JoinWindows.of(60_000))
    joined.to(sink, Produced(_TEXT, _TEXT))
    return builder.build()


def joins(left: str, right: str, joined: str, orders: str, customers: str, named: str) -> Topology:
    """``outer_join``, and orders (``customer:what``) with the name of their customer, as ``order/name``."""
    builder = StreamsBuilder()
    lefts: KStream[str, str] = builder.stream(left, Consumed(_TEXT, _TEXT))
    rights: KStream[str, str] = builder.stream(right, Consumed(_TEXT, _TEXT))
    pairs = lefts.outer_join(rights, lambda a, b: f"{a or '-'}/{b or '-'}", JoinWindows.of(60_000))
    pairs.to(joined, Produced(_TEXT, _TEXT))
    rows: KTable[str, str] = builder.table(orders, Consumed(_TEXT, _TEXT))
    names: KTable[str, str] = builder.table(customers, Consumed(_TEXT, _TEXT))
    table = rows.left_join(
        names,
        lambda order: order.split(":")[0],
        lambda order, name: f"{order}/{name or '-'}",
        materialized=Materialized("named", _TEXT, _TEXT),
    )
    table.to_stream().to(named, Produced(_TEXT, _TEXT))
    return builder.build()


def count_while_alive(source: str, sink: str, ttl: int, store: str = "rocksdb") -> Topology:
    """The number of records of each key since it was last without any for so many milliseconds, to ``sink``."""
    builder = StreamsBuilder()
    stream: KStream[bytes, bytes] = builder.stream(source)
    counts = stream.group_by_key().count(Materialized("counts", store=store, ttl=ttl))  # type: ignore[call-overload]
    counts.to_stream().to(sink, Produced(value_serde=Serdes.long()))
    return builder.build()


class _Keep(Processor):
    """As in ``Headed.java``."""

    def init(self, context: ProcessorContext) -> None:
        self._rows = context.get_state_store("rows", KeyValueStore[str, ValueTimestampHeaders])

    def process(self, record: Record[str, str | None]) -> None:
        row = None if record.value is None else ValueTimestampHeaders(record.value, record.timestamp, record.headers)
        self._rows.put(record.key, row)


class _Answer(Processor):
    """As in ``Headed.java``."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._rows = context.get_state_store("rows", KeyValueStore[str, ValueTimestampHeaders])

    def process(self, record: Record[str, str]) -> None:
        row, text = self._rows.get(record.key), "none"
        if row is not None:
            named = [f"{name}={'null' if value is None else value.decode()}" for name, value in row.headers]
            text = " ".join([f"{row.value}@{row.timestamp}", *named])
        self._context.forward(record.with_value(f"{record.value}: {text}"))


def headed_rows(rows: str, questions: str, answers: str) -> Topology:
    """Keeps rows with the headers of their records, counts questions per hour, and answers each with its row."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_timestamped_key_value_store_with_headers("rows")
    builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(supplier, _TEXT, _TEXT))
    builder.stream(rows, Consumed(_TEXT, _TEXT)).process(_Keep, "rows", named="keep")
    asked = builder.stream(questions, Consumed(_TEXT, _TEXT))
    hours = asked.group_by_key(Grouped(_TEXT, _TEXT)).windowed_by(TimeWindows.of(3_600_000))
    hours.count(Materialized("counts"))
    asked.process(_Answer, "rows", named="answer").to(answers, Produced(_TEXT, _TEXT))
    return builder.build()


def ask_service(source: str, sink: str, port: int, order: str, timeout_ms: int = 30_000) -> Topology:
    """The answers of a slow service to each record."""
    builder = StreamsBuilder()
    asked = builder.stream(source, Consumed(_TEXT, _TEXT))
    answers = asked.map_async(ask, 100, order, timeout_ms, 3, using=connections(port))  # type: ignore[arg-type]
    answers.to(sink, Produced(_TEXT, _TEXT))
    return builder.build()


def two_queries(fast: str, fast_out: str, bulk: str, bulk_out: str, value: Callable[[str], str]) -> Topology:
    """Two queries of one application: texts in capitals, and what ``value`` makes of texts, counted per key."""
    builder = StreamsBuilder()
    builder.stream(fast, Consumed(_TEXT, _TEXT)).map_values(str.upper).to(fast_out, Produced(_TEXT, _TEXT))
    values = builder.stream(bulk, Consumed(_TEXT, _TEXT)).map_values(value)
    counts = values.group_by_key(Grouped(key_serde=_TEXT, value_serde=_TEXT)).count(Materialized("counts"))
    counts.to_stream().to(bulk_out, Produced(_TEXT, Serdes.long()))
    return builder.build()


def two_queries_of_which_one_fails(fast: str, fast_out: str, bulk: str, bulk_out: str, broken: str) -> Topology:
    """``two_queries``, the second one of which fails for the text ``bad`` while the file ``broken`` exists."""

    def value(text: str) -> str:
        if text == "bad" and Path(broken).exists():
            raise ValueError("this record cannot be processed")
        return text

    return two_queries(fast, fast_out, bulk, bulk_out, value)


#: Those of ``sift``: every pair of records of a key is sent, and the late ones of each ten seconds.
SIFTED_WINDOWS = TimeWindows.of(10_000, grace=5_000)


def sift(source: str, unique: str, pairs: str, late: str, priced: str) -> Topology:
    """The first record of each value to ``unique``; to ``pairs`` every two records of a key; to ``late`` records whose
    ten seconds are over; to ``priced`` each record with the even second before it, after half a second."""
    builder = StreamsBuilder()
    records = builder.stream(source, Consumed(_TEXT, _TEXT))
    records.deduplicate(lambda value: value, within=3_600_000, named="unique").to(unique, Produced(_TEXT, _TEXT))
    grouped = records.group_by_key()
    two = grouped.windowed_by(CountWindows.of(2)).reduce(lambda one, other: f"{one}+{other}", Materialized("two"))
    two.select_key(lambda window, _: window.key).to(pairs, Produced(_TEXT, _TEXT))
    grouped.windowed_by(SIFTED_WINDOWS, late=Late(late)).count(Materialized("counts"))
    even = records.filter(lambda _, value: int(value) % 2 == 0)
    options = Joined("priced", _TEXT, _TEXT, _TEXT, grace=500)
    records.join_as_of(even, lambda one, other: f"{one}@{other}", 10_000, options).to(priced, Produced(_TEXT, _TEXT))
    return builder.build()


_PROGRAMS: dict[str, Callable[..., Topology]] = {
    "ask_service": ask_service,
    "count_per_key": count_per_key,
    "count_while_alive": count_while_alive,
    "count_in_small_pieces": count_in_small_pieces,
    "count_until": count_until,
    "count_windows": count_windows,
    "headed_rows": headed_rows,
    "idle_windows": idle_windows,
    "joins": joins,
    "outer_join": outer_join,
    "per_line": per_line,
    "sift": sift,
    "two_queries_of_which_one_fails": two_queries_of_which_one_fails,
    "window_finals": window_finals,
    "word_count": word_count,
}


def main(program: str, settings: str, arguments: str) -> int:
    """Run until a signal or a failure."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
    config = json.loads(settings)
    topology = _PROGRAMS[program](**json.loads(arguments))
    config["state_dir"] = Path(config["state_dir"])
    config["scheduling"] = [Scheduling(**each) for each in config["scheduling"]]
    if (remote := config.get("remote_state")) is not None:
        credentials = remote["credentials_dir"]
        remote["credentials_dir"] = None if credentials is None else Path(credentials)
        config["remote_state"] = RemoteStateConfig(**remote)
    instance = StreamsRuntime(topology, StreamsConfig(**config))
    with closing_on_signals(lambda: instance.close(30)):
        instance.start()
        return 0 if instance.wait() is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
