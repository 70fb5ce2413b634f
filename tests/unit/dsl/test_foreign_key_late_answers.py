"""Answers of a foreign-key join that come when the left row is another one; the broker's part is the test's."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.dsl.ktable import KTable
from streamsapp.serdes.api import Serde
from streamsapp.serdes.foreign_key_messages import (
    ForeignKeySubscription,
    Instruction,
    SubscriptionResponse,
    response_serde,
    subscription_serde,
)
from streamsapp.tasks.output import OutputRecord
from task_parts import raw, sent_by, task_of

TEXT = Serdes.string()
ASKED = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION"
ANSWERED = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE"
_calls = count()
#: Writes a value in other bytes each time, as what encrypts does.
RESTLESS: Serde[str] = Serde(
    lambda text: f"{text} {next(_calls)}".encode(), lambda data: data.decode().split()[0], name="restless"
)


def topology(rows: Serde[str], join: str) -> Topology:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table(
        "rows", Consumed(TEXT, rows), Materialized("left", TEXT, rows, store="memory")
    )
    right: KTable[str, str] = builder.table("others", Consumed(TEXT, TEXT))
    joined = getattr(left, join)(right, lambda row: None if row == "none" else row[0], lambda a, b: f"{a}/{b}")
    joined.to_stream().to("out", Produced(TEXT, TEXT))
    return builder.build()


def after_a_late_answer(
    row: str | None, answer: str | None, rows: Serde[str] = TEXT, join: str = "join", answered_at: int = 10
) -> list[OutputRecord]:
    """The records that an answer makes, which is that of another row."""
    built = topology(rows, join)
    number = next(part.id for part in built.sub_topologies() if any("rows" in each.topics for each in part.sources))
    task = task_of(built, subtopology=number)
    [answers] = [each.topic for each in task.plan.inputs if each.topic.startswith(ANSWERED)]
    value = None if row is None else rows.serialize(row)
    sent_by(task, raw(0, 20, topic="rows", value=b"before"), raw(1, 30, topic="rows", value=value))
    late = response_serde(TEXT).serialize(SubscriptionResponse(b"of another row's", answer, 0))
    return sent_by(task, raw(0, answered_at, topic=answers, value=late))


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
    """If it does is the network's doing, and state must not tell of it: an audit would find a difference."""
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
