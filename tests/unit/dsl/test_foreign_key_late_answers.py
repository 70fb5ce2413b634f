"""Answers of a foreign-key join that come when the left row is another one; the broker's part is the test's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.dsl.ktable import KTable
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord
from streamsapp.serdes.api import Serde
from streamsapp.serdes.foreign_key_messages import (
    ForeignKeySubscription,
    Instruction,
    SubscriptionResponse,
    response_serde,
    subscription_serde,
)
from streamsapp.serdes.murmur3 import murmur3_128
from streamsapp.tasks.stream_task import StreamTask
from task_parts import raw, sent_by, task_of

TEXT = Serdes.string()
ASKED = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION"
ANSWERED = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE"
_calls = count()
#: Writes a value in other bytes each time, as what encrypts does.
RESTLESS: Serde[str] = Serde(
    lambda text: f"{text} {next(_calls)}".encode(), lambda data: data.decode().split()[0], name="restless"
)


def topology(rows: Serde[str], join: str, emit: Literal["update", "commit"] = "update") -> Topology:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table(
        "rows", Consumed(TEXT, rows), Materialized("left", TEXT, rows, store="memory", emit=emit)
    )
    right: KTable[str, str] = builder.table("others", Consumed(TEXT, TEXT))
    joined = getattr(left, join)(right, lambda row: None if row == "none" else row[0], lambda a, b: f"{a}/{b}")
    joined.to_stream().to("out", Produced(TEXT, TEXT))
    return builder.build()


def after_a_late_answer(
    row: str | None, answer: str | None, rows: Serde[str] = TEXT, join: str = "join", answered_at: int = 10
) -> list[OutputRecord]:
    """The records that an answer makes, which is that of another row."""
    task = task_of_rows(topology(rows, join))
    value = None if row is None else rows.serialize(row)
    sent_by(task, raw(0, 20, topic="rows", value=b"before"), raw(1, 30, topic="rows", value=value))
    return sent_by(task, answer_of(task, b"of another row's", answer, at=answered_at))


def task_of_rows(built: Topology) -> StreamTask:
    number = next(part.id for part in built.sub_topologies() if any("rows" in each.topics for each in part.sources))
    return task_of(built, subtopology=number)


def answer_of(task: StreamTask, row_hash: bytes | None, answer: str | None, offset: int = 0, at: int = 10) -> RawRecord:
    [answers] = [each.topic for each in task.plan.inputs if each.topic.startswith(ANSWERED)]
    value = response_serde(TEXT).serialize(SubscriptionResponse(row_hash, answer, 0))
    return raw(offset, at, topic=answers, value=value)


class HeldRows:
    """One left row whose changes are sent at commits, and the subscriptions that it has after them."""

    def __init__(self, join: str = "join") -> None:
        self.task = task_of_rows(topology(TEXT, join, emit="commit"))
        self.subscribed: set[bytes | None] = set()
        self._offsets = count()

    def change(self, *rows: str | None) -> None:
        for row in rows:
            value = None if row is None else row.encode()
            self._see(sent_by(self.task, raw(next(self._offsets), 20, topic="rows", value=value)))

    def late(self, row: str | None, answer: str | None) -> None:
        row_hash = None if row is None else murmur3_128(row.encode())
        self._see(sent_by(self.task, answer_of(self.task, row_hash, answer, next(self._offsets))))

    def commit(self) -> list[tuple[Instruction | None, bytes | None]]:
        """The instructions of the subscriptions that a commit sends, and ``None`` for a result that it ends."""
        self.task.emit_all_held()
        return self._see(self.task.take_output())

    def _see(self, sent: Sequence[OutputRecord]) -> list[tuple[Instruction | None, bytes | None]]:
        seen: list[tuple[Instruction | None, bytes | None]] = []
        for topic, value, key, *_ in sent:
            if not topic.startswith(ASKED):
                assert value is None
                seen.append((None, key))
                continue
            assert value is not None
            instruction = subscription_serde(TEXT).deserialize(value).instruction
            if instruction <= Instruction.DELETE_AND_PROPAGATE:
                self.subscribed.discard(key)
            elif key is not None:
                self.subscribed.add(key)
            seen.append((instruction, key))
        return seen


@pytest.mark.parametrize("answered_at", [10, 40])
def test_a_row_asks_once_more_at_its_own_time_after_an_answer_that_ended_the_result_of_an_earlier_one(
    answered_at: int,
) -> None:
    [(topic, value, key, _, _, _, timestamp, _)] = after_a_late_answer("a1", None, answered_at=answered_at)

    assert topic.startswith(ASKED)
    assert (key, timestamp) == (b"a", 30)
    assert value is not None
    asked = subscription_serde(TEXT).deserialize(value)
    assert (asked.instruction, asked.primary_key) == (Instruction.PROPAGATE_NULL_IF_NO_FK, "k")


@pytest.mark.parametrize("row", [None, "none"])
def test_a_row_without_a_foreign_key_and_one_that_is_gone_have_no_result(row: str | None) -> None:
    assert [each[:3] for each in after_a_late_answer(row, None)] == [("out", None, b"k")]


def test_an_answer_with_a_partner_for_an_earlier_row_is_left_out() -> None:
    assert after_a_late_answer("a1", "A") == []


def test_a_left_join_hears_of_a_missing_partner_in_any_case() -> None:
    assert after_a_late_answer("a1", None, join="left_join") == []


def test_rows_that_have_other_bytes_each_time_do_not_ask_for_ever() -> None:
    assert after_a_late_answer("a1", None, rows=RESTLESS) == []


def test_a_subscription_stays_as_it_is_when_its_row_asks_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network decides whether it does, and state must not show it: an audit would find a difference."""
    monkeypatch.chdir(tmp_path)  # subscriptions are on disk
    built = topology(TEXT, "join")
    number = next(part.id for part in built.sub_topologies() if any("others" in each.topics for each in part.sources))
    task = task_of(built, subtopology=number)
    [questions] = [each.topic for each in task.plan.inputs if each.topic.startswith(ASKED)]

    def subscribed(offset: int, of: bytes, instruction: Instruction, at: int) -> list[tuple[bytes, int]]:
        asked = subscription_serde(TEXT).serialize(ForeignKeySubscription(of, instruction, "k", 0))
        sent_by(task, raw(offset, at, topic=questions, key=b"a", value=asked))
        [store] = [each for name, each in task.stores.stores.items() if "SUBSCRIPTION" in name]
        return [entry for _, entry in store.layers.scan(b"", None, reverse=False)]

    one, other = b"1" * 16, b"2" * 16
    first = subscribed(0, one, Instruction.PROPAGATE_ONLY_IF_FK, 20)
    assert subscribed(1, one, Instruction.PROPAGATE_NULL_IF_NO_FK, 20) == first
    later = subscribed(2, other, Instruction.PROPAGATE_NULL_IF_NO_FK, 30)
    assert later != first
    again = subscribed(3, other, Instruction.PROPAGATE_ONLY_IF_FK, 40)
    assert [at for _, at in again] == [40], "a row that came again, as it is, is no question that was asked before"
    task.stores.close()


@pytest.mark.parametrize("last", ["c1", "none", None])
def test_a_row_that_is_held_for_the_commit_leaves_no_subscription_behind_that_nobody_ends(last: str | None) -> None:
    """It asked after the late answer, as "b1", and the subscriptions never heard of "b1" again."""
    rows = HeldRows()
    rows.change("a1")
    rows.commit()
    rows.change("b1")
    rows.late("a1", None)
    rows.change(last)
    rows.commit()

    assert rows.subscribed == ({b"c"} if last == "c1" else set())


def test_a_row_that_is_new_and_gone_within_a_commit_leaves_no_subscription_behind() -> None:
    rows = HeldRows()
    rows.change("b1")
    rows.late("a1", None)
    rows.change(None)

    assert rows.commit() == [(None, b"k")]
    assert rows.subscribed == set()


def test_a_row_that_is_what_it_was_at_the_commit_hears_that_its_partner_went_meanwhile() -> None:
    rows = HeldRows()
    rows.change("a1")
    rows.commit()
    rows.change("b1")
    rows.late("a1", None)
    rows.change("a1")
    rows.late("b1", "B")  # as if it had asked before the commit

    assert (Instruction.PROPAGATE_NULL_IF_NO_FK, b"a") in rows.commit()


@pytest.mark.parametrize("join", ["join", "left_join"])
def test_a_deleted_row_that_came_and_went_within_a_commit_keeps_no_result(join: str) -> None:
    """The answer to its deletion finds the row that is held, and that row is never sent."""
    rows = HeldRows(join)
    rows.change("a1")
    rows.commit()
    rows.change(None)
    rows.commit()
    rows.change("b1")
    rows.late(None, None)
    rows.change(None)

    assert rows.commit() == [(None, b"k")]


def test_a_row_of_a_left_join_that_is_there_at_the_commit_asks_once() -> None:
    rows = HeldRows("left_join")
    rows.change("b1")
    rows.late(None, None)

    assert rows.commit() == [(Instruction.PROPAGATE_NULL_IF_NO_FK, b"b")]


def test_a_row_asks_no_more_at_the_next_commit() -> None:
    rows = HeldRows()
    rows.change("a1")
    rows.late("b1", None)
    rows.commit()

    assert rows.commit() == []
