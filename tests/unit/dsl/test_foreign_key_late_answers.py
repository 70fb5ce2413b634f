"""Answers of a foreign-key join that come when the left row is another one; the broker's part is the test's."""

from __future__ import annotations

from itertools import count

import pytest

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.dsl.ktable import KTable
from streamsapp.serdes.api import Serde
from streamsapp.serdes.foreign_key_messages import (
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
    row: str | None, answer: str | None, rows: Serde[str] = TEXT, join: str = "join"
) -> list[OutputRecord]:
    """The records that an answer makes, which is that of another row."""
    built = topology(rows, join)
    number = next(part.id for part in built.sub_topologies() if any("rows" in each.topics for each in part.sources))
    task = task_of(built, subtopology=number)
    [answers] = [each.topic for each in task.plan.inputs if each.topic.startswith(ANSWERED)]
    value = None if row is None else rows.serialize(row)
    sent_by(task, raw(0, 20, topic="rows", value=b"before"), raw(1, 30, topic="rows", value=value))
    late = response_serde(TEXT).serialize(SubscriptionResponse(b"of another row's", answer, 0))
    return sent_by(task, raw(0, 10, topic=answers, value=late))


def test_a_row_asks_once_more_after_an_answer_that_ended_the_result_of_an_earlier_one() -> None:
    [(topic, value, key, _, _, _, timestamp, _)] = after_a_late_answer("a1", None)

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
