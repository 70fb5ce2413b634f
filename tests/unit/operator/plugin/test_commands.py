from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, healthy_status, three_pods
from streamsapp_operator.plugin import scale, status, topology
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.main import main, make_parser
from streamsapp_operator.plugin.style import Style


def run_scale(cluster: FakeCluster, replicas: int, output: str = "text") -> str:
    terminal = Terminal(cluster, Style())
    options = argparse.Namespace(name="wordcount", replicas=replicas, output=output)
    assert scale.run(options, terminal.session) == 0
    return terminal.text


@pytest.mark.parametrize(
    ("replicas", "told"),
    [
        (4, "from 3 to 4 replicas"),
        (6, "only 4 of them will have work"),
        (2, "one pod at a time, each when that is safe"),
        (0, "final snapshots"),
    ],
)
def test_scale_says_what_is_going_to_happen(replicas: int, told: str) -> None:
    cluster = three_pods()
    assert told in run_scale(cluster, replicas)
    assert cluster.scaled == [replicas]


def test_scale_to_what_there_is_changes_nothing() -> None:
    cluster = three_pods()
    assert "already" in run_scale(cluster, 3)
    assert cluster.scaled == []


def test_an_application_that_scales_itself_is_not_scaled_by_hand() -> None:
    cluster = FakeCluster([app_document(healthy_status(), autoscaling={"maxReplicas": 8})])
    with pytest.raises(PluginError, match="minReplicas and maxReplicas") as refused:
        run_scale(cluster, 5)
    assert refused.value.code == 2
    assert cluster.scaled == []


def test_scale_as_json() -> None:
    assert json.loads(run_scale(three_pods(), 4, "json")) == {
        "name": "wordcount",
        "namespace": "default",
        "from": 3,
        "replicas": 4,
    }


def run_topology(cluster: FakeCluster, output: str = "text", form: str = "text") -> str:
    terminal = Terminal(cluster, Style())
    assert topology.run(argparse.Namespace(name="wordcount", output=output, format=form), terminal.session) == 0
    return terminal.text


@pytest.mark.parametrize(
    ("output", "form", "asked"), [("text", "text", "text"), ("text", "mermaid", "mermaid"), ("json", "text", "json")]
)
def test_topology_is_shown_in_the_form_that_is_asked_for(output: str, form: str, asked: str) -> None:
    cluster = three_pods()
    cluster.topologies = {asked: "Topologies:\n   Sub-topology: 0\n\n"}
    assert run_topology(cluster, output, form) == "Topologies:\n   Sub-topology: 0\n"


def test_topology_of_a_program_does_not_steer_the_terminal() -> None:
    cluster = three_pods()
    cluster.topologies = {"text": "a\x1b[2Jb\tc\n"}
    assert run_topology(cluster) == "a [2Jb\tc\n"


def test_topology_without_pods_leads_to_the_command_that_needs_none() -> None:
    with pytest.raises(PluginError, match="streamsapp describe"):
        run_topology(FakeCluster([app_document()]))


def test_watch_shows_it_again_on_an_empty_terminal() -> None:
    class Ended(Exception):
        pass

    class TwoLooks(FakeCluster):
        reconciles = 0

        def reports(self, name: str, pods: Sequence[Mapping[str, object]]) -> dict[str, object]:  # type: ignore[override]
            self.reconciles += 1
            if self.reconciles == 3:
                raise Ended
            return {}

    terminal = Terminal(TwoLooks([app_document(healthy_status())]), Style(), live=True)
    with pytest.raises(Ended):
        status.run(argparse.Namespace(name="wordcount", output="text", watch=True), terminal.session)
    assert terminal.text.count("\x1b[H\x1b[2J") == 2
    assert terminal.time.passed == 4.0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["status"],
        ["scale", "wordcount", "-1"],
        ["scale", "wordcount", "many"],
        ["restart", "wordcount", "--timeout=0"],
    ],
)
def test_wrong_arguments_are_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(arguments)
    assert ended.value.code == 2
    assert "usage: kubectl streamsapp" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_exit_code_2_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "wordcount", "--kubeconfig", "nowhere/config"]) == 2
    told = capsys.readouterr().err
    assert "nowhere/config" in told
    assert "KUBECONFIG" in told
    assert "Traceback" not in told


def test_every_command_has_the_options_of_kubectl_that_choose_a_cluster() -> None:
    for command in ("status", "restart", "topology", "snapshots"):
        options = make_parser().parse_args([command, "wordcount", "-n", "team", "--context", "test", "-o", "json"])
        assert (options.namespace, options.context, options.output) == ("team", "test", "json")
