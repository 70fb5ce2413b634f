"""``kubectl streamsapp produce``, ``consume`` and ``reset``: the program in each pod, and that no pod is left."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, pod_document
from manifests import app
from streamsapp.cli.main import make_parser
from streamsapp_operator.children import Owner, RenderSettings, revision_of
from streamsapp_operator.children.stateful_set import stateful_set
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.main import make_parser as make_plugin_parser
from streamsapp_operator.plugin.style import Style

REVISION = revision_of(app(), RenderSettings("runtime:1", "operators"), {})
TEMPLATE = stateful_set(Owner("wordcount", "default", "u-1"), REVISION, 3)["spec"]["template"]
MANIFEST = "/etc/streamsapp/app/streamsapp.yaml"
RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": [{"name": "runtime", "state": {"running": {}}}]}


def waiting_for(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"metadata": {}, "spec": {}, "status": {"containerStatuses": [{"name": "runtime", "state": state}]}}


@pytest.fixture
def cluster() -> FakeCluster:
    starts = [None, waiting_for("ContainerCreating"), {"metadata": {}, "status": RUNNING}]
    return FakeCluster([app_document(replicas=0)], template=TEMPLATE, starts=starts[1:])


def run(cluster: FakeCluster, *arguments: str) -> int:
    options = make_plugin_parser().parse_args(arguments)
    code: int = options.run(options, Terminal(cluster, Style()).session)
    return code


def names(cluster: FakeCluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.created]


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "wordcount", "lines", os.devnull, "--value-serde", "json", "-o", "json"),
        ("consume", "wordcount", "counts", "--from=-10", "--partition", "2", "--max", "5", "--follow"),
        ("consume", "wordcount", "-n", "prod", "--", "-odd"),
        ("reset", "wordcount", "--yes", "--to-datetime", "2026-01-31T00:00:00Z", "--internal-topics", "a,b"),
        ("reset", "wordcount", "--yes", "--shift-by=-5"),
    ],
)
def test_a_command_runs_in_a_pod_with_the_options_that_it_was_given(
    cluster: FakeCluster, arguments: tuple[str, ...]
) -> None:
    assert run(cluster, *arguments) == 0

    (words,) = cluster.executed
    assert words[0] == "streamsapp"
    understood = make_parser().parse_args(words[1:])
    assert (words[5], str(understood.file)) == (arguments[0], MANIFEST)
    plugin = vars(make_plugin_parser().parse_args(arguments))
    renamed = {"from": "start"}
    common = {"name", "namespace", "context", "kubeconfig", "run", "output", "yes", "input"}
    for key, value in plugin.items():
        if key not in common and value is not None and key != "to_datetime":
            assert str(getattr(understood, renamed.get(key, key))) == str(value), key
    assert cluster.deleted == names(cluster)


def test_lines_go_to_the_program_in_the_pod(cluster: FakeCluster, tmp_path: Path) -> None:
    lines = tmp_path / "records.jsonl"
    lines.write_bytes(b'{"key":"a","value":"b"}\n')
    assert run(cluster, "produce", "wordcount", "lines", str(lines)) == 0
    assert cluster.given == lines.read_bytes()


def test_the_exit_code_is_that_of_the_program(cluster: FakeCluster) -> None:
    cluster.program = lambda: 2
    assert run(cluster, "consume", "wordcount", "counts") == 2
    assert cluster.deleted == names(cluster)


def interrupted() -> int:
    raise KeyboardInterrupt


def ended() -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("the signal interrupts")


@pytest.mark.parametrize("program", [interrupted, ended])
def test_the_pod_is_deleted_however_the_command_is_ended(cluster: FakeCluster, program: Callable[[], int]) -> None:
    cluster.program = program
    with pytest.raises(KeyboardInterrupt):
        run(cluster, "consume", "wordcount", "counts")
    assert run(cluster, "consume", "wordcount", "counts", "--follow") == 0 if program is interrupted else True
    assert cluster.deleted == names(cluster)


def hung_up() -> int:
    os.kill(os.getpid(), signal.SIGHUP)
    return 0


def test_a_terminal_that_is_closed_does_not_end_what_nohup_runs(cluster: FakeCluster) -> None:
    cluster.program = hung_up
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(cluster, "consume", "wordcount", "counts") == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert cluster.deleted == names(cluster)


@pytest.mark.parametrize(
    ("found", "warned", "told"),
    [
        (waiting_for("ImagePullBackOff", "no such image"), [], "ImagePullBackOff: no such image"),
        (waiting_for("ContainerCreating"), ["secret login not found"], "secret login not found"),
        ({"metadata": {}, "status": {"conditions": [{"type": "PodScheduled", "status": "False",
          "reason": "Unschedulable", "message": "0/1 nodes: too little memory"}]}}, [],
         "Unschedulable: 0/1 nodes: too little memory"),
        ({"metadata": {}, "status": {"phase": "Failed", "message": "evicted"}}, [], "evicted"),
        (None, [], "it was deleted"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_start_is_told_with_the_reason_and_deleted(
    cluster: FakeCluster, found: dict[str, Any] | None, warned: list[str], told: str
) -> None:
    cluster.starts, cluster.warned = [found], warned
    with pytest.raises(PluginError, match=told):
        run(cluster, "consume", "wordcount", "counts")
    assert cluster.deleted == names(cluster)
    assert cluster.executed == []


@pytest.mark.parametrize(
    ("pods", "replicas", "told"),
    [(1, 0, r"its pods are there \(wordcount-0\); scale it to 0 first"), (0, 3, "it is to have 3 pods")],
)
def test_what_runs_is_not_reset(cluster: FakeCluster, pods: int, replicas: int, told: str) -> None:
    cluster.apps = [app_document(replicas=replicas)]
    cluster.pod_documents = [pod_document(number) for number in range(pods)]
    with pytest.raises(PluginError, match=told) as raised:
        run(cluster, "reset", "wordcount", "--yes")
    assert (raised.value.code, cluster.created) == (2, [])


def test_a_run_that_is_under_way_is_not_reset_and_one_that_has_ended_is_no_hindrance(cluster: FakeCluster) -> None:
    cluster.apps = [app_document({"schedule": {"result": "Running"}}, replicas=0)]
    with pytest.raises(PluginError, match="a scheduled run of it is under way, which `kubectl delete job") as raised:
        run(cluster, "reset", "wordcount", "--yes")
    assert (raised.value.code, cluster.created) == (2, [])
    cluster.apps = [app_document({"schedule": {"result": "Succeeded"}}, replicas=0)]
    assert run(cluster, "reset", "wordcount", "--yes") == 0


class Person(io.StringIO):
    """A user at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "runs"), [("y\n", 0, 2), ("\n", 1, 1), ("", 1, 1)])
def test_a_reset_shows_the_plan_and_asks(
    cluster: FakeCluster, answer: str, code: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Person(answer))
    assert run(cluster, "reset", "wordcount") == code
    assert ["--dry-run" in words for words in cluster.executed] == [True, False][:runs]


def test_a_reset_that_can_ask_nobody_needs_to_be_told_yes(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(PluginError, match="pass --yes"):
        run(cluster, "reset", "wordcount")
    assert cluster.created == []
    assert run(cluster, "reset", "wordcount", "--dry-run") == 0


def test_a_plan_that_failed_is_not_carried_out(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    cluster.program = lambda: 2
    assert run(cluster, "reset", "wordcount") == 2
    assert len(cluster.executed) == 1


def test_a_file_that_cannot_be_read_is_told_before_any_pod_is_made(cluster: FakeCluster, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="cannot be read") as raised:
        run(cluster, "produce", "wordcount", "lines", str(tmp_path / "none"))
    assert (raised.value.code, cluster.created) == (2, [])
