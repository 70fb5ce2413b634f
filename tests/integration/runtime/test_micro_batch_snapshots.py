"""State that batches have committed comes to be in snapshots, also where a process was killed between the two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from batched_words import Application, grouped, with_snapshots
from instances import Instances
from streamsapp.runtime.micro_batches.model import LaneOrder


@pytest.fixture
def app(instances: Instances) -> Iterator[Application]:
    made = Application(instances)
    yield made
    made.close()


def test_a_run_that_finds_nothing_to_read_publishes_what_an_earlier_one_committed_and_left_without_snapshots(
    app: Application,
) -> None:
    process = with_snapshots(app)
    batches = app.batches()
    assert batches.caught_up
    behind = {str(lag.task.id): lag.stores["counts"] for lag in batches.behind()}
    assert behind.keys() == {"1_0", "1_1"}, "the other ones have no state"
    assert all(at == 0 < end for at, end in behind.values())
    for each in range(2):
        (order,) = batches.planner.last([lag.task.id for lag in batches.behind()])
        if not each:  # this one is killed, too, before it has written one
            with pytest.raises(KeyboardInterrupt):
                app.process().run(order, alive=interrupted)
            continue
        report = app.process().run(order)
        assert {str(task_id) for task_id in report.published} == {"1_0", "1_1"}
        assert sum(task.records for task in report.tasks) == 0
    assert app.batches().behind() == [], "not for this driver only"
    assert process.run(LaneOrder(0, (), gives_up=True)).published == frozenset(), "others have its tasks"
    app.check()


def test_a_snapshot_that_stands_behind_its_group_is_told_with_both_offsets(app: Application) -> None:
    app.topology = lambda: grouped(app)  # type: ignore[method-assign]
    process = with_snapshots(app)
    process.run(LaneOrder(0, (), gives_up=True))
    assert app.batches().behind() == []
    app.produce(60)
    app.catch_up(app.process())
    lags = app.batches().behind()
    assert [str(lag.task.id) for lag in lags] == ["0_0", "0_1"]
    for lag in lags:
        [(partition, (at, group))] = lag.inputs.items()
        assert 0 < at < group
        assert f"snapshot {lag.task.snapshot.number} of " in str(lag) if lag.task.snapshot else False
        assert f" stands at offset {at} of {partition}, and the group at {group}; at offset " in str(lag)


def interrupted() -> None:
    raise KeyboardInterrupt
