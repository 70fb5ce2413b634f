"""``kubectl streamsapp logs``: whose line is whose, and what is said of pods that have none."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, healthy_status
from streamsapp_operator.plugin import logs
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.style import Style

FIRST, SECOND = ['{"message":"a"}', "plain"], ["\x1b[31mred"]


def cluster_with(**written: list[str]) -> FakeCluster:
    pods = [{"metadata": {"name": f"wordcount-{number}"}} for number in range(2)]
    return FakeCluster(
        [app_document(healthy_status())],
        pod_documents=pods,
        written={name.replace("_", "-"): lines for name, lines in written.items()},
    )


def run(cluster: FakeCluster, **options: Any) -> list[str]:
    terminal = Terminal(cluster, Style())
    given = {"name": "wordcount", "output": "text", "pod": None, "tail": 100, "follow": False, "previous": False}
    assert logs.run(argparse.Namespace(**{**given, **options}), terminal.session) == 0
    return terminal.text.splitlines()


def test_every_line_has_its_pod_and_steers_no_terminal() -> None:
    cluster = cluster_with(wordcount_0=FIRST, wordcount_1=SECOND)
    assert run(cluster, tail=7) == ['wordcount-0  {"message":"a"}', "wordcount-0  plain", "wordcount-1   [31mred"]
    assert cluster.logs_asked == [("wordcount-0", 7, False, False), ("wordcount-1", 7, False, False)]


def test_lines_of_all_pods_are_followed_until_they_end() -> None:
    cluster = cluster_with(wordcount_0=FIRST, wordcount_1=SECOND)
    assert sorted(run(cluster, follow=True)) == sorted(run(cluster))


def test_json_has_what_the_runtime_wrote_as_it_wrote_it() -> None:
    lines = run(cluster_with(wordcount_0=FIRST, wordcount_1=SECOND), output="json", pod="wordcount-0")
    assert [json.loads(line) for line in lines] == [
        {"pod": "wordcount-0", "log": {"message": "a"}},
        {"pod": "wordcount-0", "log": "plain"},
    ]


@pytest.mark.parametrize("follow", [False, True])
def test_a_pod_without_log_is_told_beside_the_others(follow: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cluster_with(wordcount_1=["x"]), follow=follow) == ["wordcount-1  x"]
    assert capsys.readouterr().err == "wordcount-0: container is creating\n"


@pytest.mark.parametrize("follow", [False, True])
def test_no_log_at_all_is_a_failure(follow: bool) -> None:
    with pytest.raises(PluginError, match="wordcount-0: container is creating") as raised:
        run(cluster_with(), follow=follow)
    assert raised.value.code == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [({"pod": "wordcount-7"}, "--pod: wordcount has no pod 'wordcount-7'; there are: wordcount-0, wordcount-1"),
     ({"tail": -1}, "--tail: expected an integer ≥ 0, got -1")],
)  # fmt: skip
def test_wrong_input_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError) as raised:
        run(cluster_with(wordcount_0=FIRST), **options)
    assert (str(raised.value), raised.value.code) == (told, 2)
