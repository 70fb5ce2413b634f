"""A task that fails, or whose state holds offsets of repartition topics, does not touch the reports of others."""

from __future__ import annotations

import json

import pytest

from streamsapp import Consumed, Grouped, Serdes, StreamsBuilder, StreamsConfig, TaskId
from streamsapp.runtime.application_layout import lay_out
from streamsapp_spark.audit.plan import AuditPlan
from streamsapp_spark.audit.report import AuditReport
from streamsapp_spark.audit.task import Audited, Failed, Finding, OffsetsUsed
from streamsapp_spark.replay.stages import Stages

TEXT = Serdes.string()
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")


@pytest.fixture
def stages() -> Stages:
    """0 → 1 → 2, and 3 for itself, with two tasks each."""
    builder = StreamsBuilder()
    serdes = Grouped(key_serde=TEXT, value_serde=TEXT)
    first = builder.stream("in", Consumed(TEXT, TEXT)).group_by(lambda key, value: value, serdes)
    first.reduce(max).to_stream().group_by(lambda key, value: key, serdes).count()
    builder.table("table", Consumed(TEXT, TEXT))
    layout, _ = lay_out(builder.build(), CONFIG, {"in": 2, "table": 2}, str)
    return Stages(layout)


@pytest.fixture
def plan(stages: Stages) -> AuditPlan:
    tasks = {task_id for stage in stages.in_order for group in stages.groups(stage) for task_id in group}
    return AuditPlan(stages=stages.in_order, tasks=tasks, snapshots={str(each): 1 for each in tasks if each[0]})


def summary(report: AuditReport, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], dict[str, object]]:
    """The tasks of the differences that were printed, and the summary."""
    report.conclude("app")
    *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
    return [each["task"] for each in findings], last


def differs(report: AuditReport, task: str, keys: int = 5) -> None:
    report.take(Finding(task, "store", "'k'", "1", "2", {}, 7))
    report.take(Audited(task, "store", keys, 1))


def test_what_reads_from_a_task_that_failed_is_not_compared_and_all_else_is(
    stages: Stages, plan: AuditPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    report = AuditReport(plan, stages, as_json=True)
    report.take(Failed("1_0", "task 1_0: the code raised"))
    differs(report, "1_1")
    assert report.failed_above((2,)) == [TaskId(1, 0)]
    report.skip((2,))
    assert report.failed_above((3,)) == []
    report.take(Audited("3_0", "store", 4, 0))
    findings, told = summary(report, capsys)
    assert findings == ["1_1"]
    assert (told["tasks"], told["keys"], told["differences"]) == (2, 9, 1)
    assert told["faults"] == [
        "task 1_0: the code raised",
        "task 2_0: it reads what task 1_0 writes",
        "task 2_1: it reads what task 1_0 writes",
    ]
    assert not report.is_good


def test_differences_of_state_that_may_hold_offsets_are_not_judged(
    stages: Stages, plan: AuditPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    report = AuditReport(plan, stages, as_json=True)
    report.take(OffsetsUsed("1_0", ["app-x-repartition"]))
    for task in ("1_0", "1_1", "2_0"):  # it asked, it did not, and it reads what the first one writes
        differs(report, task)
    report.take(Audited("2_1", "store", 3, 0))
    findings, told = summary(report, capsys)
    assert findings == ["1_1"]
    assert (told["keys"], told["differences"]) == (18, 1)
    faults = told["faults"]
    assert isinstance(faults, list)
    assert [fault.split(";")[0] for fault in faults] == [
        f"task {task}, store store: 1 of 5 keys, which differ" for task in ("1_0", "2_0")
    ]
    assert all("app-x-repartition" in fault for fault in faults)


def test_it_is_good_only_if_everything_was_compared(stages: Stages, plan: AuditPlan) -> None:
    report = AuditReport(plan, stages, as_json=False)
    report.take(Audited("3_0", "store", 4, 0))
    assert report.is_good
    plan.faults.append("task 3_1 has no snapshot")
    assert not report.is_good
