"""``snapshot now``: each ready pod takes one, and the command names the pods that did not."""

from __future__ import annotations

import argparse
import json

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, healthy_status, pod_document
from streamsapp_operator.plugin import snapshot
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.style import Style

REMOTE = {"remoteState": {"url": "s3://states/wordcount"}}


def run(cluster: FakeCluster, code: int = 0, output: str = "text") -> str:
    terminal = Terminal(cluster, Style())
    options = argparse.Namespace(name="wordcount", action="now", output=output, timeout=30.0)
    assert snapshot.run(options, terminal.session) == code
    return terminal.text


def test_every_pod_takes_one() -> None:
    pods = [pod_document(0), pod_document(1)]
    taken = {"wordcount-0": None, "wordcount-1": None}
    cluster = FakeCluster([app_document(healthy_status(), **REMOTE)], pod_documents=pods, snapshots=taken)
    lines = run(cluster).splitlines()
    assert lines == [f"wordcount-{number}: a snapshot of every task was taken" for number in range(2)]


def test_a_pod_that_did_not_is_named_and_so_is_one_that_is_not_ready() -> None:
    pods = [pod_document(0), pod_document(1, conditions=[])]
    cluster = FakeCluster(
        [app_document(healthy_status(), **REMOTE)], pod_documents=pods, snapshots={"wordcount-0": "the bucket is gone"}
    )
    assert run(cluster, code=1).splitlines() == ["wordcount-0: the bucket is gone", "wordcount-1: it is not ready"]
    assert [each["taken"] for each in json.loads(run(cluster, code=1, output="json"))] == [False, False]


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (FakeCluster([app_document(healthy_status())]), "no remote state"),
        (FakeCluster([app_document(healthy_status(), **REMOTE)]), "no pod that is ready"),
        (FakeCluster([app_document(healthy_status(engine="spark"), **REMOTE)]), "runs on Spark"),
    ],
)
def test_where_there_is_none_to_take_it_says_so(cluster: FakeCluster, told: str) -> None:
    with pytest.raises(PluginError, match=told):
        run(cluster)
