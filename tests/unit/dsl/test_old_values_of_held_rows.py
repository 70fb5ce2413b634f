"""Old values that an aggregation reads for a row whose change is held: only the first one in a commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import Consumed, Grouped, KGroupedStream, KTable, Materialized, Serdes, StreamsBuilder
from streamsapp.serdes.api import Serde
from streamsapp.serdes.change import change_serde
from streamsapp.tasks.stream_task import StreamTask
from task_parts import feed, raw, task_of

TEXT = Serdes.string()


class _Counted:
    """A serde of ``{"n": number}`` that notes what it reads."""

    def __init__(self) -> None:
        self.read: list[bytes] = []
        self.serde: Serde[dict[str, int]] = Serdes.of(lambda row: b"%d" % row["n"], self._read)

    def _read(self, data: bytes) -> dict[str, int]:
        self.read.append(data)
        return {"n": int(data)}


def _sum_in_place(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    total["n"] += value["n"]
    return total


def _reduced(grouped: KGroupedStream[str, Any], kept: Materialized[str, Any]) -> KTable[str, Any]:
    return grouped.reduce(_sum_in_place, kept)


def _aggregated(grouped: KGroupedStream[str, Any], kept: Materialized[str, Any]) -> KTable[str, Any]:
    return grouped.aggregate(lambda: {"n": 0}, lambda key, value, total: _sum_in_place(total, value), kept)


@pytest.mark.parametrize("aggregate", [_reduced, _aggregated])
def test_a_held_row_reads_its_old_value_once_and_is_subtracted_as_it_was_before_the_commit(
    aggregate: Callable[[Any, Any], KTable[str, Any]],
) -> None:
    counted, changes = _Counted(), change_serde(Serdes.json())
    task = _task(counted.serde, aggregate, None)
    _process(task, 1, 2)
    assert [changes.deserialize(each) for each in _at_commit(task)] == [(3, None)]
    counted.read.clear()
    _process(task, 4, 8, 16)
    assert [changes.deserialize(each) for each in _at_commit(task)] == [(31, 3)]
    # Each update reads its aggregate. The first one reads it once more, as the reducer has changed it.
    assert counted.read == [b"3", b"3", b"7", b"15"]


@pytest.mark.parametrize("aggregate", [_reduced, _aggregated])
def test_every_old_value_is_read_where_every_change_is_sent(
    aggregate: Callable[[Any, Any], KTable[str, Any]],
) -> None:
    counted, changes = _Counted(), change_serde(Serdes.json())
    task = _task(counted.serde, aggregate, "update")
    _process(task, 1)
    task.take_output()
    _process(task, 2, 4)
    assert [changes.deserialize(record[1]) for record in task.take_output() if record[1]] == [(3, 1), (7, 3)]
    assert counted.read == [b"1", b"1", b"3", b"3"]


def _task(serde: Serde[Any], aggregate: Callable[[Any, Any], KTable[str, Any]], emit: Any) -> StreamTask:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, Serdes.json())).group_by_key(Grouped(TEXT, Serdes.json()))
    rows = aggregate(grouped, Materialized("rows", TEXT, serde, store="memory", emit=emit))
    rows.group_by(lambda key, row: ("all", row["n"]), Grouped(TEXT, Serdes.json())).count()
    return task_of(builder.build())


def _process(task: StreamTask, *values: int) -> None:
    feed(task, [raw(at, key=b"k", value=b'{"n": %d}' % value) for at, value in enumerate(values)])
    task.process(task.control, 10)


def _at_commit(task: StreamTask) -> list[bytes]:
    task.emit_all_held()
    return [record[1] for record in task.take_output() if record[1] is not None]
