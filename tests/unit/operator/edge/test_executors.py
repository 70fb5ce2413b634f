"""A driver tells of its executors, and of its query."""

from __future__ import annotations

import json
from dataclasses import replace

from observed_builders import NOW, active, pod, report
from streamsapp_operator.model.observed_state import PodReport, QueryReport
from streamsapp_operator.observe.executors import word_of_driver
from streamsapp_operator.observe.status_document import read_status

DRIVER = pod(
    0,
    active("0_0", worker="app-0:/var/lib/streamsapp/app/worker-0"),
    active("0_1", worker="app-1:/var/lib/streamsapp/app/worker-0"),
    active("0_2", worker="app-10:/var/lib/streamsapp/app/worker-0"),
    active("0_3"),
)


def test_an_executor_has_the_tasks_that_its_driver_says_and_nothing_that_a_standby_would_have_to_follow() -> None:
    told = word_of_driver(DRIVER, "app-1")

    assert isinstance(told, PodReport)
    assert [(task.id, task.stores) for task in told.tasks] == [("0_1", ())]
    assert (told.state, told.fetched_at, told.generation) == ("RUNNING", NOW, 0)


def test_of_an_executor_whose_driver_says_nothing_nothing_is_known() -> None:
    assert word_of_driver(None, "app-0") == "its query has no driver"
    silent = replace(DRIVER, report=None, unreachable="timed out")
    assert word_of_driver(silent, "app-0") == "the driver of its query could not be asked: timed out"


def document(**more: object) -> bytes:
    made = {"applicationId": "app", "state": "RUNNING", "generation": None, "tasks": [], **more}
    return json.dumps(made).encode()


def test_a_driver_tells_of_its_query() -> None:
    progress = {"batchId": 3, "processedRowsPerSecond": 12.5, "durationMs": {"triggerExecution": 400, "addBatch": 1}}
    told = read_status(document(batches=4, progress=progress), "app", NOW, 0.0)

    assert isinstance(told, PodReport)
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
