"""The views are compared with files: ``golden/<name>.txt``. A wanted change is made by writing them anew."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as msgspec_replace

from kubectl_parts import (
    FakeCluster,
    Terminal,
    active,
    ago,
    app_document,
    blocked_rollout,
    healthy_status,
    pod_document,
    report,
    standby,
    three_pods,
)
from streamsapp_operator.plugin import snapshots, status
from streamsapp_operator.plugin.documents import PodAnswer
from streamsapp_operator.plugin.session import OperatorSeen
from streamsapp_operator.plugin.style import Style

GOLDEN = Path(__file__).parent / "golden"


def options(**other: object) -> argparse.Namespace:
    return argparse.Namespace(**{"name": "wordcount", "output": "text", "watch": False, **other})


def status_of(cluster: FakeCluster, style: Style | None = None) -> str:
    terminal = Terminal(cluster, style or Style())
    assert status.run(options(), terminal.session) == 0
    return terminal.text


def suspended() -> FakeCluster:
    return FakeCluster([app_document(healthy_status(phase="Suspended", tasks={}, conditions=[]), replicas=0)])


def on_spark() -> FakeCluster:
    """Two executors, for which their driver speaks."""
    switch = {
        "revision": "9f31c2ab", "fromEngine": "threads", "toEngine": "spark", "startedAt": ago(7_300),
        "predictedSeconds": 40.0, "observedSeconds": 31.5,
    }  # fmt: skip
    query = {"state": "RUNNING", "batches": 4210, "batchSeconds": 0.41, "recordsPerSecond": 5120.4}
    status = healthy_status(engine="spark", query=query, switch=switch, replicas=2, readyReplicas=2)
    documents = [pod_document(0), pod_document(1), pod_document(0)]
    documents[2]["metadata"]["name"] = "wordcount-driver-0"
    for document, role in zip(documents, ("executor", "executor", "driver"), strict=True):
        document["metadata"]["labels"]["streamsapp.dev/role"] = role
    answers = {"wordcount-driver-0": report(active("0_0"), active("0_1"))}
    silent = PodAnswer(fault="")
    return FakeCluster(
        [app_document(status, replicas=2)],
        pod_documents=documents,
        answers={"wordcount-0": silent, "wordcount-1": silent, **answers},
    )


def by_schedule() -> FakeCluster:
    runs = {"lastRun": ago(300), "result": "Succeeded", "inputLag": 12, "nextRun": "2026-03-01T12:30:00Z"}
    shown = healthy_status(engine="spark", phase="Scheduled", replicas=0, readyReplicas=0, schedule=runs)
    return FakeCluster([app_document(shown, replicas=1)])


@pytest.mark.parametrize(
    ("name", "cluster", "style"),
    [
        ("spark", on_spark(), Style(width=120)),
        ("schedule", by_schedule(), Style(width=120)),
        ("healthy", three_pods(), Style(width=120)),
        ("blocked", blocked_rollout(), Style(width=120)),
        ("blocked_narrow_ascii", blocked_rollout(), Style(width=72, unicode=False)),
        ("blocked_colours", blocked_rollout(), Style(width=120, colour=True)),
        ("suspended", suspended(), Style()),
    ],
)
def test_status_reads_as_in_its_file(name: str, cluster: FakeCluster, style: Style) -> None:
    assert status_of(cluster, style) == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_snapshots_read_as_in_their_file() -> None:
    terminal = Terminal(three_pods(), Style())
    assert snapshots.run(options(), terminal.session) == 0
    assert terminal.text == (GOLDEN / "snapshots.txt").read_text("utf-8")


def test_ascii_is_enough_where_the_terminal_has_no_more() -> None:
    assert status_of(blocked_rollout(), Style(unicode=False)).isascii()


def test_without_a_terminal_no_line_is_broken() -> None:
    reason = "1,000 are allowed"
    line = next(
        line for line in status_of(blocked_rollout()).splitlines() if line.strip().startswith("wordcount-0  1_0")
    )
    assert line.endswith(reason)


def test_an_unknown_lag_is_never_shown_as_a_number() -> None:
    cluster = FakeCluster(
        [app_document(healthy_status(inputLag=None, standbyLag=None))],
        pod_documents=[pod_document(0)],
        answers={"wordcount-0": report(standby("0_0", counts=None))},
    )
    text = status_of(cluster)
    assert "? records of input · ? of the worst standby" in text
    assert [line.split() for line in text.splitlines() if "0_0" in line] == [
        ["0_0", "nobody", "counts", "wordcount-0", "updating", "?", "1s"]
    ]


def test_the_clients_that_move_records_are_named() -> None:
    told = ("client streamsapp over SASL_SSL", "client librdkafka over SASL_SSL")
    answers = {"wordcount-0": report(standby("0_0", counts=0))}
    text = status_of(FakeCluster([app_document(healthy_status(dataPaths=told))], "default", [pod_document(0)], answers))
    assert "clients  client streamsapp over SASL_SSL · client librdkafka over SASL_SSL" in text


def test_a_task_that_may_be_on_a_silent_pod_is_not_said_to_be_nowhere() -> None:
    answers = {"wordcount-0": report(standby("0_0", counts=0)), "wordcount-1": PodAnswer(fault="does not answer")}
    cluster = FakeCluster([app_document(healthy_status())], "default", [pod_document(0), pod_document(1)], answers)
    text = status_of(cluster)
    assert "nobody" not in text
    assert "does not answer" in text


def test_escape_sequences_of_others_do_not_reach_the_terminal() -> None:
    evil = healthy_status(phase="Run\x1b[2Jning")
    evil["conditions"][0]["message"] = "cleared\x1b]0;title\x07 \u202etxet"
    answers = {"wordcount-0": report(standby("0_0\x1b[31m", counts=0))}
    text = status_of(FakeCluster([app_document(evil)], "default", [pod_document(0)], answers))
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


@pytest.mark.parametrize(
    ("operators", "told"),
    [
        (None, "is it default?"),
        ([], "helm install streamsapp charts/streamsapp -n default"),
        ([OperatorSeen("ops", "streamsapp-operator", ("ops", "team"))], "watches ops, team, not default"),
        ([OperatorSeen("ops", "streamsapp-operator", None)], "kubectl logs -n ops deployment/streamsapp-operator"),
    ],
)
def test_says_why_nobody_looks_after_an_application(operators: list[OperatorSeen] | None, told: str) -> None:
    text = status_of(FakeCluster([app_document()], seen_operators=operators))
    assert "not attended to" in text
    assert told in text


STOPPED = OperatorSeen("ops", "streamsapp-operator", None, running=False)


@pytest.mark.parametrize(
    ("operators", "told"),
    [
        ([], "there is no Deployment of one that watches this namespace"),
        ([STOPPED], "Deployment streamsapp-operator in namespace ops has no ready pod"),
        ([STOPPED, OperatorSeen("ops", "other", ("team",))], "streamsapp-operator in namespace ops has no ready pod"),
    ],
)
def test_says_that_a_status_is_old_when_no_operator_runs(operators: list[OperatorSeen], told: str) -> None:
    text = status_of(FakeCluster([app_document(healthy_status())], seen_operators=operators))
    assert "No operator runs (" in text
    assert told in text
    assert "the status is as it was left" in text


def test_says_nothing_of_operators_where_one_runs_or_cannot_be_seen() -> None:
    running = OperatorSeen("ops", "streamsapp-operator", ("default",))
    for operators in ([STOPPED, running], None):
        text = status_of(FakeCluster([app_document(healthy_status())], seen_operators=operators))
        assert "operator" not in text


def test_says_that_a_change_was_not_taken_notice_of_where_operators_cannot_be_seen() -> None:
    changed = app_document(healthy_status())
    changed["metadata"]["generation"] = 5
    assert "No operator has seen the last change yet" in status_of(FakeCluster([changed]))


def test_does_not_complain_about_the_operator_of_an_application_that_was_just_made() -> None:
    fresh = app_document()
    fresh["metadata"]["creationTimestamp"] = ago(2)
    assert "No operator" not in status_of(FakeCluster([fresh]))


def test_json_has_the_application_and_what_each_pod_said() -> None:
    terminal = Terminal(blocked_rollout(), Style())
    status.run(options(output="json"), terminal.session)
    document = json.loads(terminal.text)
    assert document["app"]["status"]["phase"] == "Blocked"
    assert [(pod["name"], pod["fault"]) for pod in document["pods"]] == [
        ("wordcount-0", None),
        ("wordcount-1", None),
        ("wordcount-2", "does not answer: the connection was closed"),
        ("wordcount-3", None),
    ]
    assert document["pods"][1]["status"]["tasks"][1]["stores"][0]["lag"] == 48_210


def test_json_of_snapshots_has_null_for_what_is_not_known() -> None:
    cluster = three_pods()
    cluster.answers = {**cluster.answers, "wordcount-2": PodAnswer(fault="")}
    terminal = Terminal(cluster, Style())
    snapshots.run(options(output="json"), terminal.session)
    assert json.loads(terminal.text) == [
        {
            "task": "1_0",
            "store": "counts",
            "pod": "wordcount-0",
            "epoch": 3,
            "offset": 900,
            "lag": 300,
            "ageSeconds": 34.0,
            "bytes": None,
            "predictedRestoreSeconds": 2.25,
        }
    ]


def test_says_that_there_is_no_remote_state_instead_of_an_empty_table() -> None:
    terminal = Terminal(blocked_rollout(), Style())
    assert snapshots.run(options(), terminal.session) == 0
    assert "spec.remoteState" in terminal.text


@pytest.mark.parametrize(
    ("bootstrap", "line"),
    [
        (
            {"phase": "Running", "message": "it is tried again after exit 137", "startedAt": ago(90)},
            "  history  Running · for 1m30s · it is tried again after exit 137",
        ),
        ({"phase": "Failed", "message": "exit 2: why", "startedAt": ago(90)}, "  history  Failed · exit 2: why"),
        ({"phase": "Ignored", "message": "it has run already"}, "  history  Ignored · it has run already"),
    ],
)
def test_a_bootstrap_is_told_while_it_matters(bootstrap: dict[str, object], line: str) -> None:
    told = status_of(FakeCluster([app_document(healthy_status(bootstrap=bootstrap))]))
    assert line in told.splitlines()


def test_a_bootstrap_that_is_done_is_not_told() -> None:
    bootstrap = {"phase": "Done", "startedAt": ago(90), "finishedAt": ago(9)}
    assert "history" not in status_of(FakeCluster([app_document(healthy_status(bootstrap=bootstrap))]))


@pytest.mark.parametrize(
    ("restarts", "remedy"),
    [(False, "restart them: kubectl streamsapp restart wordcount"), (True, "they restart one by")],
)
def test_pods_that_have_read_an_old_secret_are_mentioned_with_the_remedy(restarts: bool, remedy: str) -> None:
    accepted = {"revision": "a", "replicas": 1, "restartOnChange": restarts}
    answer = report(active("0_0"))
    assert answer.report is not None
    old = msgspec_replace(answer.report, kafka_secret_changed=True)
    cluster = FakeCluster(
        [app_document(healthy_status(workingMemory={"accepted": accepted}))],
        pod_documents=[pod_document(0)],
        answers={"wordcount-0": replace(answer, report=old)},
    )
    told = status_of(cluster)
    assert "the Secret of spec.kafka.secretRef has changed" in told
    assert remedy in told
