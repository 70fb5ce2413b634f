"""The first hour of a user who has a cluster and a broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import urllib3

from cluster_app import KubectlError
from cluster_world import WORDCOUNT, Running
from streamsapp_operator.plugin.main import main as plugin


def test_helm_install_and_one_apply_are_all_it_takes_to_count_words(wordcount: Running) -> None:
    where = f"--namespace={wordcount.app.namespace}"
    ready = ("wait", "--for=condition=Ready", f"streamsapp/{WORDCOUNT}", where, "--timeout=240s")
    wordcount.world.kubectl(*ready, timeout=300)

    wordcount.load.check()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicsa": 3}, 'unknown field "spec.replicsa"'),
        ({"kafka": {}}, "spec.kafka.bootstrapServers: Required value: is required to run; set it"),
        ({"applicationId": "other"}, "is immutable"),
        ({"topology": {"entrypoint": "wordcount"}}, "expected module:attribute, got 'wordcount'"),
        ({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}, "is more than maxReplicas"),
    ],
)
def test_kubectl_apply_refuses_a_mistake_in_words_that_lead_to_the_fix(
    wordcount: Running, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(KubectlError) as refused:
        wordcount.app.apply(wordcount.world.manifest(WORDCOUNT, **spec))

    assert words in str(refused.value)


def test_code_that_raises_is_quoted_and_what_runs_goes_on(wordcount: Running) -> None:
    before = wordcount.app.uids()
    manifest = wordcount.world.manifest(WORDCOUNT)
    files = manifest["spec"]["code"]["files"]
    files["wordcount.py"] = files["wordcount.py"].replace("return builder", "1 / 0\n    return builder")

    wordcount.app.apply(manifest)

    error = "ZeroDivisionError: division by zero"
    told = wordcount.app.wait(lambda: _degraded(wordcount, error), "a condition that tells of the error")
    assert "wordcount.py:" in told["message"], "the user's own line is named"
    assert wordcount.app.uids() == before
    wordcount.load.wait_for_counts()
    wordcount.app.wait(lambda: wordcount.observer.told("CheckFailed"), "an event")


@pytest.mark.long
def test_the_last_pod_that_the_spec_asks_for_makes_the_application_ready_again_after_a_mistake_is_mended(
    wordcount: Running,
) -> None:
    before = wordcount.app.uids()
    wordcount.app.apply(wordcount.world.manifest(WORDCOUNT, topology={"entrypoint": "wordcount:no_such_name"}))
    error = "no attribute 'no_such_name'"
    told = wordcount.app.wait(lambda: _degraded(wordcount, error), "a condition that tells of the error")
    assert "topology" in told["message"], "what the module does have is named"

    wordcount.app.apply(wordcount.world.manifest(WORDCOUNT))
    wordcount.app.wait_settled()

    assert wordcount.app.uids() == before
    assert wordcount.app.condition("Degraded")["status"] == "False"


def _degraded(running: Running, error: str) -> dict[str, Any] | None:
    condition = running.app.condition("Degraded")
    return condition if condition.get("status") == "True" and error in condition["message"] else None


def test_logs_of_all_pods_are_read_by_one_command(wordcount: Running, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-n", wordcount.app.namespace, "--kubeconfig", wordcount.world.kubectl.environment["KUBECONFIG"]]
    assert plugin(["logs", WORDCOUNT, "--tail", "5", "-o", "json", *options]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["pod"] for line in lines} == {f"{WORDCOUNT}-{number}" for number in range(len(wordcount.app.uids()))}
    assert all("message" in line["log"] for line in lines), "what the runtime writes is JSON"


@pytest.mark.long
def test_records_go_in_and_come_out_by_the_plugin_and_its_pods_are_gone_afterwards(
    wordcount: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    word, lines = f"word{os.getpid()}", tmp_path / "lines.jsonl"
    options = ["-n", wordcount.app.namespace, "--kubeconfig", wordcount.world.kubectl.environment["KUBECONFIG"]]
    lines.write_text("".join(json.dumps({"value": f"{word} {filler}"}) + "\n" for filler in ("a", "b", "c")))

    assert plugin(["produce", WORDCOUNT, "lines", str(lines), "-o", "json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == 3

    def counted() -> bool:
        code, out = plugin(["consume", WORDCOUNT, "counts", "--from=-10000", *options]), capsys.readouterr().out
        if code:
            return False  # its pod took too long to start
        found = map(json.loads, out.splitlines())
        return max((each["value"] for each in found if each["key"] == word), default=0) == 3

    wordcount.app.wait(counted, "the counts")
    lines.write_text('{"value": 5}\n')
    assert plugin(["produce", WORDCOUNT, "lines", str(lines), *options]) == 2
    assert "line 1: value" in capsys.readouterr().err
    assert plugin(["reset", WORDCOUNT, "--yes", *options]) == 2
    assert "is not stopped" in capsys.readouterr().err
    wordcount.app.wait(lambda: not _command_pods(wordcount), "no pod of a command")


@pytest.mark.long
def test_the_page_of_a_pod_is_served_at_an_address_of_this_machine(wordcount: Running) -> None:
    kubectl = wordcount.world.kubectl
    command = [sys.executable, "-m", "streamsapp_operator.plugin.main", "console", WORDCOUNT, "-o", "json"]
    with subprocess.Popen(
        [*command, "-n", wordcount.app.namespace], env=kubectl.environment, stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        told = takewhile(lambda line: line not in ("", "}\n"), iter(serving.stdout.readline, None))
        page, _, token = json.loads("".join(told) + "}")["url"].partition("#token=")
        assert b"<title>" in urllib3.request("GET", page).data
        figures = urllib3.request("GET", f"{page}figures", headers={"Authorization": f"Bearer {token}"})
        (instance, *_) = figures.json()["instances"]
        assert instance["applicationId"] == WORDCOUNT
        assert urllib3.request("GET", f"{page}figures").status == 401
        serving.send_signal(signal.SIGINT)
    assert serving.returncode == 0


def _command_pods(running: Running) -> list[Any]:
    selector = f"--selector=streamsapp.dev/command={WORDCOUNT}"
    found: list[Any] = running.world.kubectl.json("get", "pods", f"--namespace={running.app.namespace}", selector)[
        "items"
    ]
    return found
