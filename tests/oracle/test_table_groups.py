"""Aggregations of aggregations while several records go into one commit, against Kafka Streams.

Kafka Streams' test driver commits after each record, so that it sends each update. streamsapp commits after several
here: combined, its last tables are the same, and asked for every update, so is each update.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from compare import Outcome, Program, outcome_difference, report, run_here
from generate_table_groups import TableGroupGenerator
from oracle import Oracle
from streamsapp.testing import TopologyTestDriver

EVENTS = 60


class _CommitsSeldom(TopologyTestDriver):
    """Commits after a number of records each, and after the last one."""

    records, _processed = 1, 0

    def _complete_work(self) -> None:
        self._process()
        self._processed += 1
        if self._processed % self.records == 0 or self._processed == EVENTS:
            self._commit_all()

    def _process(self) -> None:
        task = self._tasks[0]
        while task.buffered_records:
            for partition in task.queues:
                task.reached_end(partition)
            task.process(self._control, 1)

    def _commit_all(self) -> None:
        """Commits what is processed, and what goes on from there through internal topics."""
        task = self._tasks[0]
        self._commit(task)
        while task.buffered_records:
            self._process()
            self._commit(task)


def _run(program: Program, records: int, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    class Driver(_CommitsSeldom):
        pass

    Driver.records = records
    monkeypatch.setattr("compare.TopologyTestDriver", Driver)
    return run_here(program | {"combines": True})


def _tables(outcome: Outcome) -> dict[str, Any]:
    """The last rows of each store and of each output, without their times."""
    stores = {name: {key: row["value"] for key, row in rows} for name, rows in outcome["stores"].items()}
    outputs = {
        topic: {record["key"]: record["value"] for record in records}
        for topic, records in outcome["outputs"].items()
        if topic.startswith("out-")
    }
    rows = {topic: {key: row for key, row in last.items() if row is not None} for topic, last in outputs.items()}
    return stores | {topic: last for topic, last in rows.items() if last}


def _sent(outcome: Outcome, kind: str) -> list[Any]:
    return [(topic, each) for topic, records in outcome["outputs"].items() if topic.endswith(kind) for each in records]


@pytest.mark.seeds(30)
def test_the_last_tables_of_combined_changes_are_those_of_kafka_streams(
    seed: int, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = TableGroupGenerator(seed).generate(EVENTS, emit=None) | {"cache": True}
    theirs = oracle.ask(kind="run", **program)
    ours = _run(program, Random(seed).randint(2, EVENTS), monkeypatch)
    assert _tables(ours) == _tables(theirs)
    assert len(_sent(ours, "-repartition")) < len(_sent(theirs, "-repartition"))


@pytest.mark.seeds(20)
def test_every_update_is_that_of_kafka_streams_where_the_program_asks_for_every_update(
    seed: int, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = TableGroupGenerator(seed).generate(EVENTS, emit="update")
    theirs = oracle.ask(kind="run", **program)
    ours = _run(program, Random(seed).randint(2, EVENTS), monkeypatch)
    assert ours["stores"] == theirs["stores"]
    for topic, records in ours["outputs"].items():
        if not topic.endswith("-changelog"):
            assert records == theirs["outputs"][topic], topic


@pytest.mark.seeds(10)
def test_with_a_commit_after_each_record_every_update_is_that_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, TableGroupGenerator(seed).generate(EVENTS, emit=None), outcome_difference)
    assert difference is None, difference
