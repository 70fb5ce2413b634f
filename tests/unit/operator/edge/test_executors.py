"""A driver reports its executors, and its query."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from observed_builders import NOW, active, pod, report
from streamsapp_operator.model.observed_state import PodReport, PodSeen, QueryReport
from streamsapp_operator.observe.executors import word_of_driver
from streamsapp_operator.observe.status_document import read_status

DRIVER = pod(
    0,
    active("0_0", worker="app-0:/var/lib/streamsapp/app/worker-0"),
    active("0_1", worker="app-1:/var/lib/streamsapp/app/worker-0"),
    active("0_2", worker="app-10:/var/lib/streamsapp/app/worker-0"),
    active("0_3"),
)


def executor(name: str, uid: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid}}


def with_executors(*uids: str, state: str = "RUNNING") -> PodSeen:
    """The driver, when pods with these uids took part in its last batch."""
    assert DRIVER.report is not None
    return replace(DRIVER, report=replace(DRIVER.report, executors=uids, state=state))


def test_an_executor_has_the_tasks_that_its_driver_says_and_nothing_that_a_standby_would_have_to_follow() -> None:
    told = word_of_driver(with_executors("uid-1"), executor("app-1", "uid-1"))

    assert isinstance(told, PodReport)
    assert [(task.id, task.stores) for task in told.tasks] == [("0_1", ())]
    assert (told.state, told.fetched_at, told.generation) == ("RUNNING", NOW, 0)


def test_an_executor_is_back_when_a_batch_has_ended_in_which_it_took_part_and_not_the_pod_before_it() -> None:
    driver = with_executors("uid-1")
    before, after = (word_of_driver(driver, executor("app-1", uid)) for uid in ("uid-1", "uid-2"))
    assert isinstance(before, PodReport)
    assert isinstance(after, PodReport)
    assert (before.state, after.state) == ("RUNNING", "JOINING")


def test_the_executors_of_a_driver_that_does_not_run_are_told_its_state() -> None:
    driver = with_executors("uid-1", state="REBALANCING")
    told = word_of_driver(driver, executor("app-1", "uid-2"))
    assert isinstance(told, PodReport)
    assert told.state == "REBALANCING"


def test_of_an_executor_whose_driver_says_nothing_nothing_is_known() -> None:
    assert word_of_driver(None, executor("app-0", "uid-0")) == "its query has no driver"
    silent = replace(DRIVER, report=None, unreachable="timed out")
    told = word_of_driver(silent, executor("app-0", "uid-0"))
    assert told == "the driver of its query could not be asked: timed out"


def test_the_executors_of_a_driver_whose_image_is_too_old_to_tell_of_them_have_its_state() -> None:
    told = read_status(document(batches=4), "app", NOW, 0.0)
    assert isinstance(told, PodReport)
    seen = word_of_driver(replace(DRIVER, report=told), executor("app-1", "uid-1"))
    assert isinstance(seen, PodReport)
    assert seen.state == "RUNNING"


def document(**more: object) -> bytes:
    made = {"applicationId": "app", "state": "RUNNING", "generation": None, "tasks": [], **more}
    return json.dumps(made).encode()


def test_a_driver_tells_of_its_query() -> None:
    progress = {"batchId": 3, "processedRowsPerSecond": 12.5, "durationMs": {"triggerExecution": 400, "addBatch": 1}}
    told = read_status(document(batches=4, progress=progress, executors=["uid-1"]), "app", NOW, 0.0)

    assert isinstance(told, PodReport)
    assert told.executors == ("uid-1",)
    assert told.query == QueryReport(state="RUNNING", batches=4, batch_seconds=0.4, records_per_second=12.5)


def test_before_the_first_batch_and_of_an_instance_there_is_less_to_tell() -> None:
    early = read_status(document(batches=0, progress=None), "app", NOW, 0.0)
    assert isinstance(early, PodReport)
    assert early.query == QueryReport(state="RUNNING", batches=0)
    instance = read_status(document(), "app", NOW, 0.0)
    assert isinstance(instance, PodReport)
    assert instance.query is None
    assert report().query is None


def test_a_driver_that_tells_nonsense_is_not_believed() -> None:
    wrong = {"processedRowsPerSecond": -1.0}
    assert isinstance(read_status(document(batches=1, progress=wrong), "app", NOW, 0.0), str)
