"""One answer of those of several instances."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp.metrics import Histogram, Sample, counter, gauge
from streamsapp.metrics.prometheus import Exporter
from streamsapp.supervisor.merge_responses import merge_metrics, merge_probes, merge_status


def document(state: str, generation: int | None, *tasks: str) -> dict[str, Any]:
    return {
        "applicationId": "app",
        "instance": "c",
        "state": state,
        "generation": generation,
        "tasks": [{"id": task} for task in tasks],
        "notes": [f"notes of generation {generation}"],
        "ready": state == "RUNNING",
        "peers": ["10.0.0.9:8080", f"10.0.0.{generation}:8080"],
        "outages": [{"name": "kafka"}] if state == "REBALANCING" else [],
    }


def test_the_status_of_a_pod_has_the_tasks_of_all_and_the_worst_state() -> None:
    documents = {"p-0": document("RUNNING", 4, "0_0", "0_2"), "p-1": document("REBALANCING", 3, "0_1")}
    joined = merge_status("app", "p", documents)
    assert [task["id"] for task in joined["tasks"]] == ["0_0", "0_2", "0_1"]
    assert {name: joined[name] for name in ("applicationId", "instance", "state", "generation")} == {
        "applicationId": "app",
        "instance": "p",
        "state": "REBALANCING",
        "generation": 3,
    }
    assert joined["notes"] == ["notes of generation 4", "notes of generation 3"]
    assert joined["peers"] == ["10.0.0.3:8080", "10.0.0.4:8080", "10.0.0.9:8080"]
    assert (joined["ready"], joined["outages"]) == (False, [{"name": "kafka"}])
    assert merge_status("app", "p", {"p-0": document("RUNNING", 4)})["ready"]
    assert not merge_status("app", "p", {"p-0": document("RUNNING", 4), "p-1": None})["ready"]


def test_the_requests_of_all_instances_to_the_object_store_are_added_up() -> None:
    first = {"requests": {"read": 3, "list": 1}, "throttled": 2, "throttledAt": "2026-01-01T00:00:00.000Z"}
    second = {"requests": {"read": 4}, "throttled": 0, "throttledAt": None}
    instances = (document("RUNNING", 4) | {"objectStore": told} for told in (first, second, None))
    joined = merge_status("app", "p", dict(zip(("p-0", "p-1", "p-2"), instances, strict=True)))
    assert joined["objectStore"] == {
        "requests": {"read": 7, "list": 1},
        "throttled": 2,
        "throttledAt": "2026-01-01T00:00:00.000Z",
    }
    assert merge_status("app", "p", {"p-0": document("RUNNING", 4)})["objectStore"] is None


def test_a_pod_tells_the_last_hand_overs_of_all_its_instances() -> None:
    told = [{"task": f"0_{it}", "at": f"2026-01-01T00:00:{it % 60:02}.000+00:00"} for it in range(60)]
    documents = {"p-0": document("RUNNING", 4) | {"handOvers": told[::2]}, "p-1": document("RUNNING", 4)}
    documents["p-1"]["handOvers"] = told[1::2] + told[:10]

    found = merge_status("app", "p", documents)["handOvers"]

    assert len(found) == 64
    assert found == sorted(found, key=lambda each: each["at"])
    assert found[-1] == told[-1]


def test_a_pod_has_an_old_secret_as_long_as_one_of_its_instances_has() -> None:
    old, new = (document("RUNNING", 4) | {"kafkaSecretChanged": changed} for changed in (True, False))
    assert merge_status("app", "p", {"p-0": new, "p-1": old})["kafkaSecretChanged"] is True
    assert merge_status("app", "p", {"p-0": new, "p-1": document("RUNNING", 4)})["kafkaSecretChanged"] is False


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (["RUNNING", "RUNNING"], "RUNNING"),
        (["RUNNING", "ERROR", "NOT_RUNNING"], "ERROR"),
        (["NOT_RUNNING", "REBALANCING"], "NOT_RUNNING"),
        (["PENDING_ERROR", "PENDING_SHUTDOWN"], "PENDING_ERROR"),
    ],
)
def test_worse_is_what_is_further_from_running(states: list[str], worst: str) -> None:
    documents: dict[str, dict[str, Any] | None] = {str(n): document(state, 1) for n, state in enumerate(states)}
    assert merge_status("app", "p", documents)["state"] == worst


def test_a_silent_instance_makes_a_pod_that_is_not_running_and_of_unknown_generation() -> None:
    joined = merge_status("app", "p", {"p-0": document("RUNNING", 4, "0_0"), "p-1": None})
    assert (joined["state"], joined["generation"]) == ("CREATED", None)
    assert joined["instances"][1] == {"instance": "p-1", "state": None, "generation": None, "dataPath": None}


def test_each_instance_of_a_pod_says_which_data_path_it_has() -> None:
    joined = merge_status("app", "p", {"p-0": document("RUNNING", 4) | {"dataPath": "one", "client": {"name": "it"}}})
    assert joined["instances"] == [{"instance": "p-0", "state": "RUNNING", "generation": 4, "dataPath": "one"}]
    assert (joined["client"], joined["dataPath"]) == ({"name": "it"}, "one")


def test_a_pod_is_ready_when_nobody_complains() -> None:
    assert merge_probes({"p-0": None, "p-1": None})[0]
    assert merge_probes({"p-0": None, "p-1": "state is REBALANCING"}) == (False, "p-1: state is REBALANCING")


def text(*samples: Sample) -> str:
    return Exporter(lambda: samples).render().decode()


def test_metrics_of_all_instances_are_one_exposition_with_a_label() -> None:
    histogram = Histogram()
    histogram.observe(0.2)
    measured = [counter("g", "process", 3, task_id="0_0"), gauge("g", "lag", 5), *histogram.samples("g", "commit")]
    joined = merge_metrics({"p-0": text(*measured), "p-1": text(*measured[:2])}).decode()
    lines = joined.splitlines()
    assert lines.count("# TYPE kafka_g_process_total counter") == 1
    assert 'kafka_g_process_total{instance="p-0",task_id="0_0"} 3.0' in lines
    assert 'kafka_g_process_total{instance="p-1",task_id="0_0"} 3.0' in lines
    assert 'kafka_g_lag{instance="p-1"} 5.0' in lines
    assert 'kafka_g_commit_seconds_count{instance="p-0"} 1.0' in lines
    assert all("instance=" in line for line in lines if not line.startswith("#"))
