from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, healthy_status
from streamsapp_operator.plugin import holds, restart
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.style import Style

PAUSED = {"revision": "77aa01c3", "phase": "Paused", "updated": 1, "total": 3}


def cluster_with(rollout: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> FakeCluster:
    document = app_document(healthy_status(rollout=rollout))
    document["metadata"]["annotations"] = dict(annotations or {})
    pods = [{"metadata": {"name": f"wordcount-{number}", "uid": f"u{number}"}} for number in range(3)]
    return FakeCluster([document], pod_documents=pods)


def run(command: Any, cluster: FakeCluster, **options: Any) -> str:
    terminal = Terminal(cluster, Style())
    given = {"name": "wordcount", "output": "text", "wait": False, "timeout": None, **options}
    assert command(argparse.Namespace(**given), terminal.session) == 0
    return terminal.text


def test_pause_holds_and_approve_lets_this_revision_go_on() -> None:
    cluster = cluster_with(PAUSED)
    assert "paused" in run(holds.pause, cluster)
    assert "77aa01c3 is approved" in run(holds.approve, cluster)
    assert cluster.annotated == [
        {"streamsapp.dev/paused": "true"},
        {"streamsapp.dev/paused": None, "streamsapp.dev/approved": "77aa01c3"},
    ]


def test_approve_ends_a_pause_without_approving_what_is_not_rolled_out() -> None:
    cluster = cluster_with({**PAUSED, "phase": "Complete"}, {"streamsapp.dev/paused": "true"})
    run(holds.approve, cluster)
    assert cluster.annotated == [{"streamsapp.dev/paused": None}]


def test_there_must_be_something_to_approve() -> None:
    cluster = cluster_with({**PAUSED, "phase": "Complete"})
    with pytest.raises(PluginError, match="nothing to approve"):
        run(holds.approve, cluster)
    assert cluster.annotated == []


def test_one_pod_is_restarted_by_its_uid() -> None:
    cluster = cluster_with(PAUSED)
    assert "wordcount-1 is restarted" in run(restart.run, cluster, pod="wordcount-1")
    assert cluster.annotated == [{"streamsapp.dev/restartPod": "u1"}]


def test_a_pod_that_there_is_not_is_a_fault_that_names_those_there_are() -> None:
    with pytest.raises(PluginError, match="wordcount-0, wordcount-1, wordcount-2") as refused:
        run(restart.run, cluster_with(PAUSED), pod="wordcount-7")
    assert refused.value.code == 2
