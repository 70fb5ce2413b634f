"""Changes of rows that are grouped anew: those of a row travel as one with each commit, unless the user says not to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bound_operators import Context, bound, drain
from streamsapp import (
    Consumed,
    Grouped,
    JoinWindows,
    KTable,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.dsl.operators import table_groups
from streamsapp.dsl.operators.held import UPDATE_BYTES
from streamsapp.dsl.operators.table_groups import RegroupTable
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.operator import nowhere
from streamsapp.tasks.stream_task import StreamTask
from task_parts import feed, raw, task_of

TEXT, LONG = Serdes.string(), Serdes.long()


def _by_first(key: str, row: str) -> tuple[str, str] | None:
    return (row[0], row) if row else None


def _combining() -> RegroupTable:
    return RegroupTable(_by_first, combines=True)


def _sent(operator: RegroupTable, *changes: tuple[Any, Any, Any]) -> list[tuple[Any, Any, int]]:
    """Returns the records that go on at the commit after these changes ``(key, new, old)``, at times 1, 2, ..."""
    context, push = bound(operator)
    for at, (key, new, old) in enumerate(changes, start=1):
        push(key, (new, old), at)
    assert context.take() == []
    drain(operator, context)
    return context.take()


def test_the_changes_of_a_row_travel_as_one_from_the_first_old_value_to_the_last_new_one() -> None:
    changes = [("k", "a2", "a1"), ("k", "a3", "a2"), ("m", "a7", None), ("k", "a4", "a3")]
    assert _sent(_combining(), *changes) == [("a", ("a7", None), 3), ("a", ("a4", "a1"), 4)]


def test_a_row_that_moved_leaves_the_group_that_it_was_in_first_and_enters_the_one_that_it_is_in_last() -> None:
    changes = [("k", "b1", "a1"), ("k", "c1", "b1")]
    assert _sent(_combining(), *changes) == [("a", (None, "a1"), 2), ("c", ("c1", None), 2)]


@pytest.mark.parametrize(
    "changes",
    [
        [("k", "a1", None), ("k", None, "a1")],
        [("k", "a1", None), ("k", "", "a1")],
        [("k", "", None), ("k", None, "")],
    ],
    ids=["came and went", "came and belongs to no group", "never belonged to one"],
)
def test_a_row_that_is_in_no_group_before_and_after_is_not_sent(changes: list[tuple[Any, Any, Any]]) -> None:
    assert _sent(_combining(), *changes) == []


def test_a_row_that_came_back_to_what_it_was_is_sent_as_caches_of_kafka_streams_do() -> None:
    assert _sent(_combining(), ("k", "b1", "a1"), ("k", "a1", "b1")) == [("a", ("a1", "a1"), 2)]


def test_changes_begin_anew_after_a_commit() -> None:
    operator = _combining()
    context, push = bound(operator)
    push("k", ("a2", "a1"), 1)
    drain(operator, context)
    push("k", ("a3", "a2"), 2)
    drain(operator, context)
    assert context.take() == [("a", ("a2", "a1"), 1), ("a", ("a3", "a2"), 2)]
    assert operator.emit_held(context, 10) == 0


@dataclass
class _Place:
    """A key without a hash."""

    town: str


@pytest.mark.parametrize(
    "keys",
    [(1, True), (1, 1.0), (0.0, -0.0), ("1", b"1"), ({"n": 1}, {"n": True}), ([0.0], [-0.0]), (("a", 1), ("a", True))],
    ids=repr,
)
def test_keys_that_may_differ_in_their_bytes_are_those_of_two_rows(keys: tuple[Any, Any]) -> None:
    sent = _sent(_combining(), (keys[0], "a1", None), (keys[1], "a2", None), (keys[0], "a3", "a1"))
    assert sent == [("a", ("a2", None), 2), ("a", ("a3", None), 3)]


@pytest.mark.parametrize("key", [{"town": ["x", 1]}, ("a", 2.5), None], ids=repr)
def test_keys_of_other_classes_are_combined_or_refused(key: Any) -> None:
    operator = _combining()
    context, push = bound(operator)
    push(key, ("a1", None), 1)
    push(key, ("a2", "a1"), 2)
    drain(operator, context)
    assert context.take() == ([] if key is None else [("a", ("a2", None), 2)])
    assert len(context.errors) == (2 if key is None else 0)


def test_changes_of_keys_that_cannot_be_compared_travel_in_their_order() -> None:
    sent = _sent(_combining(), (_Place("x"), "a1", None), (_Place("x"), "b1", "a1"))
    assert sent == [("a", ("a1", None), 1), ("a", (None, "a1"), 2), ("b", ("b1", None), 2)]


def test_rows_that_have_not_changed_for_longest_are_sent_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_groups, "MAX_ROWS", 4)
    operator = _combining()
    context, push = bound(operator)
    for at, key in enumerate("abcda", start=1):
        push(key, (f"x{at}", None), at)
    assert context.take() == []
    assert operator.held_bytes == 4 * UPDATE_BYTES
    context.record = raw(7)
    push("e", ("x6", None), 6)
    assert context.take() == [("x", ("x2", None), 2), ("x", ("x3", None), 3)]
    assert context.record is not None
    assert operator.held_bytes == 3 * UPDATE_BYTES
    drain(operator, context)
    assert context.take() == [("x", ("x4", None), 4), ("x", ("x5", None), 5), ("x", ("x6", None), 6)]


def test_what_a_commit_has_begun_to_send_goes_before_rows_that_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_groups, "MAX_ROWS", 2)
    operator = _combining()
    context, push = bound(operator)
    push("a", ("x1", None), 1)
    push("b", ("x2", None), 2)
    assert operator.emit_held(context, 1) == 1
    for at, key in enumerate("bcd", start=3):
        push(key, (f"x{at}", "x2" if key == "b" else None), at)
    assert context.take() == [("x", ("x1", None), 1), ("x", ("x2", None), 2), ("x", ("x3", "x2"), 3)]


def test_a_selector_that_raises_names_the_record_that_it_raised_for_and_leaves_the_others() -> None:
    operator = RegroupTable(lambda key, row: (row[0], row), combines=True)
    context, push = bound(operator)
    push("k", ("a1", None), 1)
    push("k", (7, "a1"), 2)
    assert len(context.errors) == 1
    push("k", ("a3", 7), 3)
    drain(operator, context)
    assert context.take() == [("a", ("a3", None), 3)]


def test_every_change_travels_when_the_user_says_so() -> None:
    operator = RegroupTable(_by_first, combines=False)
    context, push = bound(operator)
    push("k", ("a2", "a1"), 1)
    push("k", ("b1", "a2"), 2)
    assert context.take() == [("a", ("a2", "a1"), 1), ("a", (None, "a2"), 2), ("b", ("b1", None), 2)]
    assert operator.emit_held(context, 10) == 0


# ---- in programs -------------------------------------------------------------------------------------------------

_READ = Consumed(TEXT, TEXT)


def _kept(name: str, emit: Any = None) -> Materialized[Any, Any]:
    return Materialized(name, TEXT, TEXT, store="memory", emit=emit)


def _rows(emit: Any = None, *, named: bool = True) -> tuple[StreamsBuilder, KTable[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.table("in", _READ, _kept("rows", emit))


def _grouped(table: KTable[Any, str], builder: StreamsBuilder) -> Topology:
    groups = table.group_by(lambda key, row: (row[:1], row), Grouped(TEXT, TEXT))
    groups.count(Materialized("groups", TEXT, LONG, store="memory"))
    return builder.build()


def _processed(task: StreamTask) -> dict[str, int]:
    """Sends two updates of one row and one of another, and returns how many records each topic has before and at the
    commit that follows."""
    values = [("k", "a1"), ("k", "a2"), ("m", "a3"), ("k", "b4")]
    feed(task, [raw(at, key=key.encode(), value=value.encode()) for at, (key, value) in enumerate(values)])
    task.process(task.control, 100)
    before = _to_groups(task.take_output())
    task.emit_all_held()
    return {"before": before, "at the commit": _to_groups(task.take_output())}


def _to_groups(output: list[OutputRecord]) -> int:
    return sum(record[0].endswith("-repartition") for record in output)


_COMBINED = {"before": 0, "at the commit": 2}
_EACH = {"before": 5, "at the commit": 0}


@pytest.mark.parametrize(
    ("emit", "expected"),
    [(None, _COMBINED), ("update", _EACH), ("commit", _COMBINED)],
    ids=["default", "each", "commit"],
)
def test_a_program_combines_unless_the_table_says_update(emit: Any, expected: dict[str, int]) -> None:
    builder, rows = _rows(emit)
    assert _processed(task_of(_grouped(rows, builder))) == expected


@pytest.mark.parametrize("emit", [None, "update"])
def test_a_table_that_is_derived_from_another_one_goes_by_that(emit: Any) -> None:
    builder, rows = _rows(emit)
    derived = rows.filter(lambda key, row: True).map_values(str)
    assert _processed(task_of(_grouped(derived, builder))) == (_COMBINED if emit is None else _EACH)


def test_a_derived_table_may_say_update_itself() -> None:
    builder, rows = _rows()
    derived = rows.filter(
        lambda key, row: True, materialized=Materialized(key_serde=TEXT, value_serde=TEXT, emit="update")
    )
    assert _processed(task_of(_grouped(derived, builder))) == _EACH


@pytest.mark.parametrize(
    ("left", "right", "joined", "emit"),
    [
        (None, None, None, None),
        ("commit", None, None, None),
        ("update", None, None, "update"),
        (None, "update", None, "update"),
        ("update", "update", "commit", "commit"),
        (None, None, "update", "update"),
    ],
)
def test_a_join_says_what_it_or_one_of_its_tables_does(left: Any, right: Any, joined: Any, emit: Any) -> None:
    builder, rows = _rows(left)
    others = builder.table("others", _READ, _kept("others", right))
    materialized = None if joined is None else _kept("joined", joined)
    assert rows.join(others, lambda one, other: one, materialized=materialized)._table.emit == emit


def _windowed_below(groups: KTable[str, int]) -> None:
    grouped = groups.to_stream().group_by_key(Grouped(TEXT, LONG))
    grouped.windowed_by(TimeWindows.of(10)).count(Materialized("w", TEXT, LONG, store="memory"))


def _joined_below(groups: KTable[str, int]) -> None:
    stream = groups.to_stream()
    stream.join(stream.map_values(abs), max, JoinWindows.of(10), StreamJoined(TEXT, LONG, LONG, store="memory"))


@pytest.mark.parametrize("below", [_windowed_below, _joined_below])
def test_changes_are_not_held_above_what_drops_late_records(below: Callable[[KTable[str, int]], None]) -> None:
    builder, rows = _rows()
    groups = rows.group_by(lambda key, row: (row[:1], row), Grouped(TEXT, TEXT))
    below(groups.count(Materialized("groups", TEXT, LONG, store="memory")))
    assert _processed(task_of(builder.build())) == _EACH


def test_windows_cogroups_and_suppressed_tables_say_what_their_aggregations_do() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", _READ).group_by_key(Grouped(TEXT, TEXT))
    windowed = grouped.windowed_by(TimeWindows.of(10)).count(Materialized("w", TEXT, LONG, emit="update"))
    assert windowed._table.emit == "update"
    limit = Suppressed.until_time_limit(5, Suppressed.BufferConfig.unbounded())
    assert windowed.suppress(limit)._table.emit == "update"
    cogrouped = grouped.cogroup(lambda key, value, total: total + 1).aggregate(
        lambda: 0, Materialized("c", TEXT, LONG, emit="update")
    )
    assert cogrouped._table.emit == "update"


def test_users_see_each_update_of_the_table_itself_though_its_groups_are_combined() -> None:
    builder, rows = _rows()
    rows.to_stream().to("out", Produced(TEXT, TEXT))
    task = task_of(_grouped(rows, builder))
    feed(task, [raw(at, key=b"k", value=b"a%d" % at) for at in range(3)])
    task.process(task.control, 100)
    assert [(record[0], record[1]) for record in task.take_output()] == [("out", b"a0"), ("out", b"a1"), ("out", b"a2")]
    task.emit_all_held()
    (change,) = task.take_output()
    assert change[0].endswith("-repartition")


def test_a_selector_that_raises_fails_the_task_with_the_record_that_it_raised_for() -> None:
    builder, rows = _rows()
    rows.group_by(lambda key, row: (row[5], row), Grouped(TEXT, TEXT)).count()
    task = task_of(builder.build())
    feed(task, [raw(41, key=b"k", value=b"short")])
    with pytest.raises(Exception, match=r"IndexError at node .*record in-0@41"):
        task.process(task.control, 1)


def test_a_change_that_is_sent_as_there_are_too_many_is_not_said_to_be_of_the_record_in_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_groups, "MAX_ROWS", 2)
    builder, rows = _rows()
    rows.group_by(lambda key, row: (key, cast(str, len(row))), Grouped(TEXT, TEXT)).count()
    task = task_of(builder.build())
    feed(task, [raw(at, key=b"%d" % at, value=b"a") for at in range(3)])
    with pytest.raises(Exception, match=r"cannot serialise .*in a result held for the commit"):
        task.process(task.control, 3)


def test_held_changes_ask_for_an_early_commit_as_writes_of_stores_do() -> None:
    builder, rows = _rows()
    task = task_of(_grouped(rows, builder))
    written = task.unwritten_bytes
    feed(task, [raw(at, key=b"%d" % at, value=b"a") for at in range(50)])
    task.process(task.control, 100)
    assert task.unwritten_bytes - written >= 50 * UPDATE_BYTES


def test_nothing_is_made_for_groups_that_are_never_aggregated() -> None:
    context, operator = _Childless(), _combining()
    push = operator.bind(context)
    push("k", ("a1", None), 1, None)
    assert operator.emit_held(context, 10) == 0


class _Childless(Context):
    """The context of a node that has no other below it."""

    @property
    def forward(self) -> Any:
        return nowhere
