"""Joins with tables, aggregations and their updates do in C what they do in Python, errors included."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import pytest

import operator_models
from changelog import changelog_records
from models import in_python
from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Topology,
)
from streamsapp.dsl.operators.forward_updates import Sent
from streamsapp.errors import StreamsError
from streamsapp.record import Headers
from streamsapp.serdes.api import Serde
from streamsapp.state.engine.entries import PlainFormat, storing
from streamsapp.tasks.stream_task import StreamTask
from task_parts import Recorder, config, raw, sent_by, task_of

TEXT, LONG, ANY = Serdes.string(), Serdes.long(), Serdes.json()
STORE = "kept"


@dataclass
class Best:
    name: str
    number: int


BEST = Serdes.json(Best)


def fussy(text: str) -> bytes:
    """Writes most texts."""
    if text.endswith("3!"):
        raise ValueError("three is too much")
    return text.encode()


def picky(value: Any) -> Any:
    """Fails for some values."""
    if value == "v7":
        raise ValueError(f"no {value}, please")
    return value


# ---- joins ----------------------------------------------------------------------------------------------------------

Join = Callable[[KStream[Any, Any], KTable[Any, Any]], KStream[Any, Any]]

JOINS: dict[str, Join] = {
    "inner": lambda stream, table: stream.join(table, lambda value, row: f"{picky(value)} {row}"),
    "left": lambda stream, table: stream.left_join(table, lambda value, row: f"{picky(value)} {row}"),
    "keyed": lambda stream, table: stream.join(table, lambda key, value, row: f"{key} {picky(value)} {row}"),
    "filtered": lambda stream, table: stream.join(table.filter(lambda key, row: row != "v1"), lambda value, row: row),
    "mapped": lambda stream, table: stream.left_join(table.map_values(picky), lambda value, row: f"{value} {row}"),
    "none": lambda stream, table: stream.join(table, lambda value, row: None if value == "v2" else row),
    "counted": lambda stream, table: stream.left_join(
        stream.group_by_key(Grouped(TEXT, TEXT)).count(Materialized(store="memory")),
        lambda value, count: f"{value} {count}",
        Joined(TEXT, TEXT, LONG),
    ),
}


def joined(join: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    table = builder.table("rows", Consumed(TEXT, TEXT), Materialized(STORE, TEXT, TEXT, store="memory"))
    JOINS[join](stream, table).to("out", Produced(TEXT, TEXT))
    return builder.build()


# ---- aggregations ---------------------------------------------------------------------------------------------------


def longest(best: str, value: str) -> str | None:
    return None if value == "v2" else best if picky(value) < best else f"{value}!"


def listed(key: str, value: str, seen: list[str]) -> list[str] | None:
    """Changes its aggregate in place, deletes it now and then, and fails after it has spoilt it."""
    seen.append(value)
    picky(value)
    return None if value == "v2" else seen if len(seen) < 5 else []


def best_of(key: str, value: str, best: Best) -> Best:
    number = int(picky(value)[1:])
    return Best(value, number) if number > best.number else best


def total(key: str, value: str, total: int) -> int | None:
    return None if value == "v2" else total + (1 << 62 if value == "v6" else 1)


def fold_reduce(serde: Serde[Any]) -> Callable[[KGroupedStream[Any, Any], Any], KTable[Any, Any]]:
    return lambda grouped, kept: grouped.reduce(longest, kept(serde))


def fold_into(
    serde: Serde[Any], initializer: Callable[[], Any], aggregator: Callable[..., Any]
) -> Callable[[KGroupedStream[Any, Any], Any], KTable[Any, Any]]:
    return lambda grouped, kept: grouped.aggregate(initializer, aggregator, kept(serde))


FOLDS = {
    "texts": fold_reduce(TEXT),
    "fussy": fold_reduce(Serdes.of(fussy, bytes.decode)),
    "lists": fold_into(ANY, list, listed),
    "instances": fold_into(BEST, lambda: Best("", 3), best_of),
    "totals": fold_into(LONG, lambda: 0, total),
    "no initial": fold_into(ANY, lambda: None, lambda key, value, seen: [value] if seen is None else [*seen, value]),
}
WAYS: dict[str, Callable[[KTable[Any, Any], Any], object]] = {
    "straight": lambda table, serde: table.to_stream().to("out", Produced(TEXT, serde)),
    "nowhere": lambda table, serde: None,
    "changed": lambda table, serde: table.to_stream().map_values(repr).to("out", Produced(TEXT, TEXT)),
    "old values": lambda table, serde: (
        table.filter(lambda key, value: value != "v1!").to_stream().to("out", Produced(TEXT, serde))
    ),
    "grouped": lambda table, serde: table.group_by(
        lambda key, value: (repr(value)[:1], repr(value)), Grouped(TEXT, TEXT)
    ).count(),
}
SERDES = {"texts": TEXT, "fussy": Serdes.of(str.encode, bytes.decode), "instances": BEST, "totals": LONG}


def aggregated(fold: str, way: str, emit: Literal["update", "commit"]) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    table = FOLDS[fold](grouped, lambda serde: Materialized(STORE, TEXT, serde, store="memory", emit=emit))
    WAYS[way](table, SERDES.get(fold, ANY))
    return builder.build()


# ---- both -----------------------------------------------------------------------------------------------------------


def task(topology: Topology, handler: str) -> StreamTask:
    return task_of(topology, settings=config(processing_exception_handler=handler))


def play(task: StreamTask, seed: int) -> list[object]:
    """Returns what a task sends and keeps for random records, some late, some with headers, some without a key or a
    value, and a commit now and then; up to an error that no handler takes."""
    rng = random.Random(seed)
    now, seen, inputs = 0, list[object](), list(task.queues)
    for offset in range(150):
        now += rng.choice([0, 0, 1, 7])
        some: Headers = [("h", b"%d" % offset)]
        headers: Headers | None = rng.choice([None, None, None, [], some])
        key = rng.choice([b"a", b"b", b"c%d" % rng.randrange(20), b"", None])
        value = rng.choice([b"v%d" % rng.randrange(9), b"v1", b"v%d" % rng.randrange(9), None])
        topic = rng.choice(inputs).topic
        try:
            seen.append(
                sent_by(
                    task,
                    raw(
                        offset, max(0, now - rng.choice([0, 0, 9])), topic=topic, key=key, value=value, headers=headers
                    ),
                )
            )
        except StreamsError as error:
            return [*seen, type(error), str(error), repr(error.__cause__)]
        if rng.randrange(20) == 0:
            seen += commit(task)
        seen.append([task.context.record_errors.dropped, task.context.stream_time])
    return seen + commit(task)


def commit(task: StreamTask) -> list[Any]:
    """Returns the results that are sent then, the records of the changelogs, and what the stores keep."""
    task.emit_all_held()
    epoch = task.freeze()
    if epoch is None or epoch.frozen is None:
        return [task.take_output()]
    changes = sorted(changelog_records(epoch.frozen), key=repr)
    for _ in task.stores.apply(epoch.frozen, dict.fromkeys(task.plan.changelogs, 1)):
        pass
    kept = [sorted(map(repr, store.all())) for store in task.stores.stores.values() if hasattr(store, "all")]
    return [task.take_output(), changes, kept]


@pytest.mark.seeds(4)
@pytest.mark.parametrize("handler", ["continue", "fail"])
@pytest.mark.parametrize("join", JOINS)
def test_random_records_are_joined_as_in_python(
    join: str, handler: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        in_python(patch)
        expected = play(task(joined(join), handler), seed)

    assert play(task(joined(join), handler), seed) == expected


@pytest.mark.seeds(2)
@pytest.mark.parametrize("handler", ["continue", "fail"])
@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fold", FOLDS)
def test_random_records_are_aggregated_as_in_python(
    fold: str, way: str, emit: Literal["update", "commit"], handler: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        in_python(patch)
        expected = play(task(aggregated(fold, way, emit), handler), seed)

    assert play(task(aggregated(fold, way, emit), handler), seed) == expected


# ---- the parts alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("keys", [0, 1, 2])
def test_a_joiner_gets_the_keys_that_it_takes(compiled: ModuleType, keys: int, left: bool) -> None:
    in_c, in_python = joined_by(compiled, keys, left), joined_by(operator_models, keys, left)

    assert in_c == in_python
    assert {len(given) for _, given, *_ in in_c[0]} == {2 + keys}


def joined_by(path: Any, keys: int, left: bool) -> tuple[list[Any], list[object]]:
    """Returns what a join hands on, and what it tells."""
    out, told = Recorder(), list[object]()
    push = path.JoinPush(
        rows={"r1": ("row", 4), "r2": (None, -1)}.__getitem__,
        as_of=False,
        selector=lambda key, value: value and {"v0": None, "v9": 1 / key}.get(value, f"r{value[1:]}"),
        joiner=lambda *given: given,
        keys=keys,
        left=left,
        forward=out,
        on_error=lambda error, *record: told.append((repr(error), record)),
        dropped=lambda: told.append("dropped"),
    )
    for key, value in ((1, "v1"), (2, "v2"), (3, "v0"), (4, None), (0, "v1"), (5, "v3"), (1, "v9")):
        push(key, value, 7, None)
    return out.pushed, told


def test_rows_as_of_a_time_are_asked_for_with_it(compiled: ModuleType) -> None:
    out = Recorder()
    push = compiled.JoinPush(
        rows=lambda key, timestamp: (f"{key} at {timestamp}", 0), as_of=True, selector=None,
        joiner=lambda value, row: row, keys=0, left=False, forward=out, on_error=print, dropped=print,
    )  # fmt: skip
    push("k", "v", 5, [])

    assert out.pushed == [("k", "k at 5", 5, [])]


def test_what_cannot_be_kept_is_refused_with_the_reason() -> None:
    to_stored = storing("kept", LONG, PlainFormat(LONG))

    assert to_stored("k", (1 << 63) - 1) == (1 << 63) - 1
    assert to_stored("k", -(1 << 63), 5) == -(1 << 63)
    with pytest.raises(ValueError, match="'kept' cannot keep a value of type int for key 'k'") as raised:
        to_stored("k", 1 << 63)
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="of type object for key"):
        to_stored("k", object())
    with pytest.raises(TypeError, match="takes a key, a value"):
        to_stored("k")  # type: ignore[call-arg]


def test_what_refuses_nothing_is_an_error_itself(compiled: ModuleType) -> None:
    to_stored = compiled.ToStored(stored=len, stored_again=max, refused=lambda *given: None)

    with pytest.raises(SystemError, match="refused is to raise"):
        to_stored("k", 5)


@pytest.mark.parametrize("sends", Sent)
def test_an_update_is_sent_as_a_change_or_as_its_new_value(compiled: ModuleType, sends: Sent) -> None:
    told = []
    paths: list[Any] = [compiled, operator_models]
    for path in paths:
        out = Recorder()
        path.ForwardUpdate(forward=out, sends=sends)("k", b"k", "new", "old", 5, None)
        told.append(out.pushed)

    assert told[0] == told[1]
    assert len(told[0]) == (sends is not Sent.NOTHING)


def test_held_updates_are_in_the_order_of_the_last_ones(compiled: ModuleType) -> None:
    told = list[list[Any]]()
    paths: list[Any] = [compiled, operator_models]
    for path in paths:
        entries: dict[Any, Any] = {}
        records = iter(range(9))
        hold = path.HoldUpdate(entries=entries, record=lambda records=records: next(records))
        for key, new, old in (("a", 1, None), ("b", 2, 1), ("a", None, 5), ("c", 3, 4), ("b", 4, 9)):
            hold(key, key.encode(), new, old, new, None)
        told.append([list(entries.items()), hold.holds("a", b"a"), hold.holds("a", b"d")])

    assert told[0] == told[1]
    assert [key for key, _ in told[0][0]] == [b"a", b"c", b"b"]
    with pytest.raises(TypeError, match="unhashable"):
        hold("k", [], 1, 2, 3, None)


class Leaving:
    """Counts how many of its kind are gone."""

    gone = 0

    def __call__(self, *given: Any) -> None: ...

    def __del__(self) -> None:
        Leaving.gone += 1


@pytest.mark.parametrize(
    "make",
    [
        lambda path, own: path.StoredRows(key_bytes=own, read=own, from_stored=own),
        lambda path, own: path.ComputedRows(rows=own, compute=own),
        lambda path, own: path.ToStored(stored=own, stored_again=own, refused=own),
        lambda path, own: path.ForwardUpdate(forward=own, sends=Sent.NEW_VALUE),
        lambda path, own: path.HoldUpdate(entries={1: own}, record=own),
        lambda path, own: path.FoldPush(
            initializer=own,
            fold=own,
            deleting=own,
            key_bytes=own,
            read=own,
            write=own,
            to_stored=own,
            from_stored=own,
            raw=own,
            rereads=True,
            old_is_known=own,
            true_old=True,
            at_commit=True,
            topic="out",
            emit=own,
            update=own,
            on_error=own,
            dropped=own,
        ),
        lambda path, own: path.JoinPush(
            rows=own, selector=own, joiner=own, keys=0, left=True, forward=own, on_error=own, dropped=own
        ),
    ],
)
def test_what_is_part_of_a_circle_is_let_go(make: Callable[..., Any], compiled: ModuleType) -> None:
    before = Leaving.gone
    own: Any = Leaving()
    own.part = make(compiled, own)
    del own
    gc.collect()

    assert Leaving.gone == before + 1
