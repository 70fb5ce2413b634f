"""Fills the topics that the cases of a workload read, and works out what must come of each.

Called by ``run.py`` before the first run of a workload.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from benchmarks.cases import Case
from benchmarks.topics import PARTITIONS, PREFIX, Topics
from benchmarks.workloads import Message, Outcome, Reckoning, Workload, first_messages, half_of

_LEAST_MESSAGES = 1_000


@dataclass(frozen=True)
class Input:
    """A filled topic: its number of records as the rates count them, and the result they must lead to.

    ``right`` is the second topic, empty without. ``tail``: so many of the messages are to be written once snapshots
    were taken.
    """

    topic: str
    records: int
    expected: Outcome
    tail: int = 0
    right: str = ""


def restoring(workload: Workload) -> str:
    """The application of a workload that restores: all systems read the same changelog, which is named after it."""
    return f"{PREFIX}{workload.name}"


def fill(topics: Topics, cases: Iterable[Case], scale: float) -> dict[Case, list[Input]]:
    """One input topic for each instance of each case; cases of the same kind share theirs."""
    made: dict[str, list[Input]] = {}
    chosen: dict[Case, list[Input]] = {}
    for case in cases:
        kind = "halves" if case.instances == 2 else "sample" if case.sampled else "whole"
        if kind not in made:
            made[kind] = _fill_kind(topics, case.workload, kind, scale)
        chosen[case] = made[kind]
    return chosen


def _fill_kind(topics: Topics, workload: Workload, kind: str, scale: float) -> list[Input]:
    whole = max(_LEAST_MESSAGES, round(workload.records * scale))
    sample = max(_LEAST_MESSAGES, round(workload.sample * scale))
    topic = f"{PREFIX}{workload.name}-{kind}"
    if workload.two_topics:
        return [_fill_two(topics, workload, topic, sample if kind == "sample" else whole, scale)]
    if kind == "sample":
        return [_fill_topic(topics, workload, topic, first_messages(workload, sample))]
    if kind == "whole":
        if not workload.changelog:
            return [_fill_topic(topics, workload, topic, first_messages(workload, whole))]
        tail = round(workload.tail * min(1, scale))
        topic = f"{restoring(workload)}-store-changelog"
        filled = _fill_topic(topics, workload, topic, first_messages(workload, whole - tail))
        return [Input(topic, whole, filled.expected._replace(items=whole), tail)]
    return [
        _fill_topic(
            topics,
            workload,
            f"{topic}-{half}",
            half_of(first_messages(workload, whole // 2), half),
            PARTITIONS // 2,
        )
        for half in (0, 1)
    ]


def _fill_two(topics: Topics, workload: Workload, topic: str, records: int, scale: float) -> Input:
    """The second topic has the other stream, or the table; a sample of the stream meets the whole table."""
    right = f"{topic}-right"
    topics.create(right, PARTITIONS)
    rows = round(workload.table_records * scale)
    table = islice(workload.table(), rows) if workload.table is not None else iter(())
    filled = _fill_topic(topics, workload, topic, chain(table, first_messages(workload, records)), right=right)
    return replace(filled, records=filled.records - rows, right=right)


def _fill_topic(
    topics: Topics,
    workload: Workload,
    topic: str,
    messages: Iterator[Message],
    partitions: int = PARTITIONS,
    right: str = "",
) -> Input:
    topics.create(topic, partitions)
    reckoning = workload.expected()
    written = topics.fill(topic, _reckoned(messages, reckoning), right)
    expected = reckoning.outcome()
    print(f"  {topic}: {written:,} messages, {expected.items:,} results due", file=sys.stderr)
    return Input(topic, written * workload.units_per_message, expected)


def _reckoned(messages: Iterator[Message], reckoning: Reckoning) -> Iterator[Message]:
    for message in messages:
        reckoning.add(message)
        yield message
