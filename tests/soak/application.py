"""The application of the soak runs: hash chains per key on both sides of a repartition topic, totals per group, counts
per key and per window, and pairs of a join of two streams.

Its topology is built in each instance's process; the driver reads the same formats when it verifies, on its main
thread.

An input record is ``{"k": key, "s": number of the record among its key's, "n": a number}``. A chain's update adds what
the state was before (``b``: the highest ``s`` it had seen) and is now (``c``: records counted, ``h``: digest), so that
a lost, doubled or reordered record, or a state that was too old, shows in the very record. Every update carries who
wrote it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from streamsapp import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from streamsapp.record import Headers

PARTITIONS = 8
KEYS = 200
GROUPS = 40

FIRST, SECOND, TOTALS, COUNTS, WINDOWS = "first", "second", "totals", "counts", "windows"
#: Every store has a changelog, and a sink topic of its name with every update.
STORES = (FIRST, SECOND, TOTALS, COUNTS, WINDOWS)
#: The stores of numbers: they are kept in cells, without objects.
COUNTED = (COUNTS, WINDOWS)
#: Every record is in so many windows. No window ends before the run does.
WINDOW_MS, ADVANCE_MS, GRACE_MS = 4_000, 1_000, 3_600_000

#: The sink of the join's results. Some updates of the first chain are joined with all records of their key that are so
#: near.
PAIRS = "pairs"
PAIR_MS, PAIRED_EVERY = 2_000, 8

#: Headers of every output record.
WRITER, TASK = "writer", "task"

_TEXT = Serdes.string()
_JSON = Serdes.json()

Json: TypeAlias = dict[str, Any]

#: The name of one task's run on one instance is made of these: instance, its start, which of that process's tasks.
_runs = itertools.count(1)


class Topics(NamedTuple):
    """The names of one application's topics, and how many partitions each has."""

    application: str
    partitions: int = PARTITIONS

    @property
    def source(self) -> str:
        return f"{self.application}-input"

    def sink(self, store: str) -> str:
        return f"{self.application}-{store}"

    def changelog(self, store: str) -> str:
        return f"{self.application}-{store}-changelog"

    @property
    def sinks(self) -> list[str]:
        return [self.sink(name) for name in (*STORES, PAIRS)]

    @property
    def changelogs(self) -> list[str]:
        return [self.changelog(store) for store in STORES]

    @property
    def repartition(self) -> str:
        return f"{self.application}-groups-repartition"


def key_name(number: int) -> str:
    return f"key{number:03d}"


def group_of(key: str) -> str:
    """Several keys, of several partitions, make a group."""
    return f"group{int(key[3:]) % GROUPS:02d}"


def next_digest(before: str, sequence: int, number: int) -> str:
    """One link of a chain."""
    return hashlib.blake2b(f"{before}|{sequence}|{number}".encode(), digest_size=8).hexdigest()


def advance(state: Json | None, record: Json) -> tuple[Json, Json]:
    """Returns the state of a chain after a record, and the update that says so."""
    count, digest, highest = (state["c"], state["h"], state["s"]) if state else (0, "", -1)
    sequence, number = record["s"], record["n"]
    now = {"c": count + 1, "h": next_digest(digest, sequence, number), "s": max(highest, sequence)}
    update = {"k": record["k"], "s": sequence, "n": number, "b": highest, "c": now["c"], "h": now["h"]}
    return now, update


def add_to_totals(record: Json, totals: Json) -> Json:
    """Count, sum, least and greatest of a group's numbers."""
    number = record["n"]
    return {
        "cnt": totals["cnt"] + 1,
        "sum": totals["sum"] + number,
        "min": min(totals["min"], number) if totals["cnt"] else number,
        "max": max(totals["max"], number) if totals["cnt"] else number,
    }


NO_TOTALS: Json = {"cnt": 0, "sum": 0, "min": 0, "max": 0}


def window_name(key: str, start_ms: int) -> str:
    """The key of a window's count in the sink."""
    return f"{key}@{start_ms}"


def counted_as(store: str, record: Json) -> list[str]:
    """The counts to which a record of the input adds one; ``t`` is its time."""
    if store == COUNTS:
        return [record["k"]]
    newest = record["t"] // ADVANCE_MS * ADVANCE_MS
    return [window_name(record["k"], newest - back) for back in range(0, WINDOW_MS, ADVANCE_MS)]


def paired(records: Iterable[Json]) -> Iterator[tuple[int, int]]:
    """The pairs of numbers of the records of one key, in the order in which the join finds them."""
    updates: list[Json] = []
    before: list[Json] = []
    for record in records:
        if _is_paired(record):
            yield from ((record["s"], other["s"]) for other in _near(record, before))
            updates.append(record)
        yield from ((update["s"], record["s"]) for update in _near(record, updates))
        before.append(record)


def _is_paired(update: Json) -> bool:
    return bool(update["s"] % PAIRED_EVERY == 0)


def _near(record: Json, others: Iterable[Json]) -> list[Json]:
    """In the order of their times."""
    return sorted((it for it in others if abs(it["t"] - record["t"]) <= PAIR_MS), key=itemgetter("t"))


class Chain(Processor):
    """Keeps the chain of each key and forwards every link."""

    def __init__(self, store: str, start: str) -> None:
        self._store_name = store
        self._start = start

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._store = context.get_state_store(self._store_name)
        self._writer = f"{self._start}.{next(_runs)}"
        self._headers: Headers = [(WRITER, self._writer.encode()), (TASK, str(context.task_id).encode())]

    def process(self, record: Record) -> None:
        key = record.value["k"]
        state, update = advance(self._store.get(key), record.value)
        # The changelog's records have no headers of their own: the state names its writer.
        self._store.put(key, {**state, "w": self._writer})
        self._context.forward(Record(record.key, update, record.timestamp, self._headers))


def build(application: str, start: str, partitions: int = PARTITIONS) -> Topology:
    """The topology; ``start`` names one start of one instance, such as ``b.2``."""
    topics = Topics(application, partitions)
    builder = StreamsBuilder()
    for name in (FIRST, SECOND):
        supplier = Stores.persistent_key_value_store(name)
        builder.add_state_store(Stores.key_value_store_builder(supplier, _TEXT, _JSON))
    records = builder.stream(topics.source, Consumed(_TEXT, _JSON))
    first = records.process_values(lambda: Chain(FIRST, start), FIRST)
    first.to(topics.sink(FIRST), Produced(_TEXT, _JSON))
    grouped = first.select_key(lambda key, _: group_of(key)).repartition(
        Repartitioned("groups", _TEXT, _JSON, partitions=partitions)
    )
    second = grouped.process_values(lambda: Chain(SECOND, start), SECOND)
    second.to(topics.sink(SECOND), Produced(_TEXT, _JSON))
    totals = second.group_by_key(Grouped(_TEXT, _JSON)).aggregate(
        lambda: NO_TOTALS,
        lambda _, record, so_far: add_to_totals(record, so_far),
        Materialized(TOTALS, _TEXT, _JSON),
    )
    totals.to_stream().to(topics.sink(TOTALS), Produced(_TEXT, _JSON))
    counts = first.group_by_key(Grouped(_TEXT, _JSON)).count(Materialized(COUNTS, _TEXT))
    counts.to_stream().map_values(_counted).to(topics.sink(COUNTS), Produced(_TEXT, _JSON))
    times = TimeWindows.of(WINDOW_MS, GRACE_MS).advance_by(ADVANCE_MS)
    windows = records.group_by_key(Grouped(_TEXT, _JSON)).windowed_by(times).count(Materialized(WINDOWS, _TEXT))
    named = windows.to_stream().select_key(lambda windowed, _: window_name(windowed.key, windowed.start_ms))
    named.map_values(_counted).to(topics.sink(WINDOWS), Produced(_TEXT, _JSON))
    pairs = first.filter(lambda _, update: _is_paired(update)).join(
        records,
        lambda update, record: {"k": update["k"], "u": update["s"], "s": record["s"]},
        JoinWindows.of(PAIR_MS, GRACE_MS),
        StreamJoined(PAIRS, _TEXT, _JSON, _JSON, store_name=PAIRS),
    )
    pairs.to(topics.sink(PAIRS), Produced(_TEXT, _JSON))
    return builder.build()


def _counted(count: int) -> Json:
    return {"cnt": count}
