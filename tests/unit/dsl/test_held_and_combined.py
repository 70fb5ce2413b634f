"""Operators that hold results back for the commit, alone."""

from __future__ import annotations

from decimal import Decimal
from operator import add
from typing import Any

import pytest

from bound_operators import bound, drain
from streamsapp.dsl.operators.aggregate import Aggregate, Count, StoredTableOperator
from streamsapp.dsl.operators.combine import MAX_NUMBERS, MAX_PARTIALS, NULL_VALUE, PARTIAL_BYTES, Combine, Merge
from streamsapp.dsl.operators.tables import StoredTableSource
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes


def counting(send_old_values: bool) -> StoredTableOperator:
    return Count("counts", emit_at_commit=True, send_old_values=send_old_values)


@pytest.mark.parametrize("send_old_values", [False, True])
def test_updates_held_for_the_commit_come_once_per_key_in_the_order_of_their_last(send_old_values: bool) -> None:
    operator = counting(send_old_values)
    context, push = bound(operator)
    for key, timestamp in (("a", 5), ("c", 4), ("b", 1), ("a", 3), ("a", 4)):
        push(key, "v", timestamp)
    assert context.take() == []
    drain(operator, context)
    assert context.take() == [("c", (1, None), 4), ("b", (1, None), 1), ("a", (3, None), 5)]
    assert operator.emit_held(context, 10) == 0


def test_old_values_of_held_updates_are_those_before_the_first_of_them() -> None:
    operator = counting(send_old_values=True)
    context, push = bound(operator)
    push("a", "v", 1)
    drain(operator, context)
    push("a", "v", 2)
    push("a", "v", 3)
    drain(operator, context)
    assert context.take() == [("a", (1, None), 1), ("a", (3, 1), 3)]


def test_slices_of_held_updates_lose_nothing_that_arrives_in_between() -> None:
    operator = counting(send_old_values=True)
    context, push = bound(operator)
    for key in "abc":
        push(key, "v", 1)
    assert operator.emit_held(context, 2) == 1
    push("a", "v", 2)
    assert operator.emit_held(context, 2) == 1
    assert operator.emit_held(context, 2) == 0
    assert context.take() == [("a", (1, None), 1), ("b", (1, None), 1), ("c", (1, None), 1), ("a", (2, 1), 2)]


def test_a_row_that_comes_and_goes_between_two_commits_is_never_sent() -> None:
    operator = StoredTableSource("rows", emit_at_commit=True, send_old_values=False)
    context, push = bound(operator)
    push("a", "x", 1)
    push("a", None, 2)
    push("b", "y", 3)
    drain(operator, context)
    push("b", None, 4)
    drain(operator, context)
    assert context.take() == [("b", ("y", None), 3), ("b", (None, None), 4)]


def test_an_operator_that_emits_every_update_holds_nothing() -> None:
    operator = Count("counts", emit_at_commit=False, send_old_values=True)
    context, push = bound(operator)
    push("a", "v", 1)
    push("a", "v", 2)
    assert context.take() == [("a", (1, 0), 1), ("a", (2, 1), 2)]
    assert operator.emit_held(context, 10) == 0


def test_an_aggregator_that_raises_leaves_the_store_as_it_was() -> None:
    def aggregator(key: str, value: str, total: int) -> int:
        return total + len(value)

    operator = Aggregate(lambda: 0, aggregator, "totals", emit_at_commit=False, send_old_values=False)
    context, push = bound(operator)
    push("a", "xx", 1)
    push("a", 3, 2)
    assert context.errors == ["object of type 'int' has no len()"]
    assert context.kept.entries == {b"a": (2, 1)}


def test_partial_counts_wait_for_the_commit_and_carry_the_latest_time() -> None:
    operator = Combine(Merge(None), "topic", Serdes.string(), None)
    context, push = bound(operator)
    for key, timestamp in (("a", 5), ("b", 1), ("a", 3)):
        push(key, "v", timestamp)
    assert context.take() == []
    assert operator.emit_held(context, 1) == 1
    assert operator.emit_held(context, 1) == 0
    assert context.take() == [("b", 1, 1), ("a", 2, 5)]


@pytest.mark.parametrize(
    ("merge", "values", "most"),
    [
        (Merge(None), None, MAX_NUMBERS),
        (Merge(add), Serdes.double(), MAX_NUMBERS),
        (Merge(add), Serdes.json(), MAX_PARTIALS),
        (Merge(add), None, MAX_PARTIALS),
    ],
    ids=["counts", "sums of numbers", "values of any size", "values of the configured serde"],
)
def test_partial_aggregates_are_sent_when_there_are_too_many(merge: Merge, values: AnySerde | None, most: int) -> None:
    operator = Combine(merge, "topic", Serdes.long(), values)
    context, push = bound(operator)
    for key in range(most - 1):
        push(key, 1, key)
    assert context.take() == []
    assert operator.held_bytes == (most - 1) * PARTIAL_BYTES
    push(most, 1, most)
    assert len(context.take()) == most
    assert operator.held_bytes == 0
    push(0, 1, 1)
    drain(operator, context)
    assert context.take() == [(0, 1, 1)]


def test_combining_ignores_records_that_belong_to_no_group() -> None:
    operator = Combine(Merge(None), "topic", Serdes.string(), None)
    context, push = bound(operator)
    push(None, "v", 1)
    push("a", None, 1)
    assert operator.emit_held(context, 10) == 0
    assert context.drops == [NULL_VALUE]


def test_keys_that_can_change_in_place_are_combined_by_their_bytes() -> None:
    operator = Combine(Merge(lambda one, two: one + two), "topic", Serdes.json(), None)
    context, push = bound(operator)
    for key, value in (({"k": 1}, "x"), (True, "t"), (1, "one"), ({"k": 1}, "y")):
        push(key, value, 1)
    drain(operator, context)
    assert context.take() == [(True, "t", 1), (1, "one", 1), ({"k": 1}, "xy", 1)]


@pytest.mark.parametrize(
    ("serde", "keys"),
    [
        (Serdes.double(), (0.0, -0.0)),
        (Serdes.of(lambda it: str(it).encode(), lambda it: Decimal(it.decode()), immutable=True),
         (Decimal("1.0"), Decimal("1.00"))),
        (Serdes.json(), (1, True)),
    ],
    ids=["double", "decimal", "json"],
)  # fmt: skip
def test_keys_that_are_equal_and_have_other_bytes_are_other_groups(serde: AnySerde, keys: tuple[Any, Any]) -> None:
    operator = Combine(Merge(None), "topic", serde, None)
    context, push = bound(operator)
    for key in (*keys, *keys):
        push(key, "v", 1)
    drain(operator, context)
    assert [(repr(key), count) for key, count, _ in context.take()] == [(repr(key), 2) for key in keys]


def test_a_reducer_that_raises_loses_only_the_record_it_raised_for() -> None:
    operator = Combine(Merge(lambda one, two: one + two), "topic", Serdes.string(), None)
    context, push = bound(operator)
    push("a", "x", 1)
    push("a", 2, 2)
    push("a", "y", 3)
    drain(operator, context)
    assert context.take() == [("a", "xy", 3)]
    assert len(context.errors) == 1


def test_a_reducer_that_deletes_has_what_it_had_before_sent_first() -> None:
    """The table alone knows if there is anything to delete."""
    operator = Combine(Merge(lambda one, two: one + two or None), "topic", Serdes.string(), Serdes.long())
    context, push = bound(operator)
    for value, timestamp in ((2, 9), (1, 5), (-3, 7), (4, 6)):
        push("a", value, timestamp)
    drain(operator, context)
    assert context.take() == [("a", 3, 9), ("a", 1, 7)]
    assert context.errors == []


def test_what_a_reducer_had_before_it_deletes_does_not_overtake_an_earlier_partial_of_the_key() -> None:
    operator = Combine(Merge(lambda one, two: one + two or None), "topic", Serdes.string(), Serdes.long())
    context, push = bound(operator)
    push("b", 7, 1)
    push("a", 5, 2)
    assert operator.emit_held(context, 1) == 1
    push("a", 3, 3)
    push("a", -3, 4)
    drain(operator, context)
    assert context.take() == [("b", 7, 1), ("a", 5, 2), ("a", 3, 3), ("a", -3, 4)]


def _summed_unless_none(total: Any, value: Any) -> Any:
    return _summed(total, value) if total["n"] + value["n"] else None


@pytest.mark.parametrize("values", [(1, -1), (1, 2, -3)], ids=["a record's own value", "a partial"])
def test_a_reducer_that_deletes_values_that_can_change_never_loses_them_silently(values: tuple[int, ...]) -> None:
    operator = Combine(Merge(_summed_unless_none), "topic", Serdes.string(), Serdes.json())
    context, push = bound(operator)
    for value in values:
        push("a", {"n": value}, 1)
    drain(operator, context)
    if len(values) == 2:
        assert context.take() == [("a", {"n": 1}, 1), ("a", {"n": -1}, 1)]
    assert ["may have changed its first argument" in error for error in context.errors] == [True] * (len(values) - 2)


def _summed(total: Any, value: Any) -> Any:
    total["n"] += value["n"]
    return total


@pytest.mark.parametrize("serde", [Serdes.json(), None], ids=["json", "values of the configured serde"])
def test_a_reducer_that_changes_its_partial_in_place_does_not_change_what_others_read(serde: AnySerde | None) -> None:
    operator, other = (Combine(Merge(_summed), "topic", Serdes.string(), serde) for _ in range(2))
    (context, push), (others, push_other) = bound(operator), bound(other)
    records = [{"n": 1}, {"n": 2}, {"n": 4}]
    for record in records:
        push("a", record, 1)
        push_other("a", record, 1)
    drain(operator, context)
    drain(other, others)
    assert context.take() == others.take() == [("a", {"n": 7}, 1)]
    assert records == [{"n": 1}, {"n": 2}, {"n": 4}]


def test_a_value_that_comes_alone_is_combined_without_a_copy() -> None:
    operator = Combine(Merge(_summed), "topic", Serdes.string(), Serdes.json())
    context, push = bound(operator)
    alone = {"n": 1}
    push("a", alone, 1)
    drain(operator, context)
    assert context.take()[0][1] is alone
