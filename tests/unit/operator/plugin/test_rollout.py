"""``rollout status``, ``history`` and ``undo``. A cluster of documents plays the operator's part."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, ago, app_document, healthy_status
from streamsapp_operator.plugin import rollout
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import Document
from streamsapp_operator.plugin.style import Style

HISTORY = [
    {"revision": "new", "phase": "Complete", "startedAt": ago(120), "endedAt": ago(90),
     "steps": [{"pod": "wordcount-0", "observedSeconds": 0.5}, {"pod": "wordcount-1", "observedSeconds": 0.2}]},
    {"revision": "bad", "phase": "RolledBack", "startedAt": ago(900), "endedAt": ago(700), "failure": "it crashed"},
    {"revision": "old", "phase": "Complete", "startedAt": ago(9000), "endedAt": ago(8000)},
    {"revision": "older", "phase": "Complete", "startedAt": ago(90000), "endedAt": ago(80000)},
]  # fmt: skip


def app(
    phase: str = "Complete", revision: str = "new", good: str = "new", generation: int = 4, **other: Any
) -> Document:
    now = {"revision": revision, "phase": phase, "updated": 2, "total": 2, "startedAt": ago(120), **other}
    document = app_document(healthy_status(rollout=now, history=HISTORY, lastGoodRevision=good))
    document["metadata"]["generation"] = generation
    return document


def run(action: str, *apps: Document, code: int = 0, **given: Any) -> tuple[str, FakeCluster]:
    cluster = FakeCluster(list(apps))
    terminal = Terminal(cluster, Style())
    options = {"name": "wordcount", "output": "text", "timeout": None, "no_watch": False, "to_revision": None, **given}
    assert rollout.run(argparse.Namespace(action=action, **options), terminal.session) == code
    return terminal.text, cluster


@pytest.mark.parametrize(("phase", "code"), [("Complete", 0), ("RolledBack", 1), ("TimedOut", 1), ("Refused", 1)])
def test_status_of_a_rollout_that_has_ended_ends_with_its_code(phase: str, code: int) -> None:
    text, _ = run("status", app(phase), code=code)
    assert "new" in text
    assert run("status", app(phase), code=code, no_watch=True)[0].startswith(f"wordcount: {phase}")


def test_status_waits_for_the_operator_to_see_the_spec_and_follows_to_the_end() -> None:
    behind = app(generation=5)
    behind["status"]["observedGeneration"] = 4
    rolling = app("Rolling", "third", generation=4, updated=1, current="wordcount-1", stepStartedAt=ago(1))
    text, _ = run("status", behind, behind, rolling, rolling, app("Complete", "third"))
    assert "taken up: the new revision is third" in text
    assert text.splitlines()[-1].startswith("done: 2 of 2 pods")


def test_status_without_an_operator_ends_after_the_timeout() -> None:
    behind = app(generation=5)
    with pytest.raises(PluginError, match="no operator has seen"):
        run("status", behind, timeout=3.0)


def test_history_tells_how_each_ended_and_which_can_come_back() -> None:
    lines = run("history", app())[0].splitlines()
    assert [line.split()[0] for line in lines] == ["REVISION", "new", "bad", "old", "older"]
    assert "500ms" in lines[1]
    assert "it crashed" in lines[2]
    assert [line.split()[0] for line in lines if " yes" in line] == ["old"]
    assert len(json.loads(run("history", app(), output="json")[0])) == 4


def test_undo_leads_to_the_good_revision_before_and_leaves_the_spec() -> None:
    text, cluster = run("undo", app())
    assert "revision old is rolled out" in text
    assert cluster.annotated == [{"streamsapp.dev/undone": "4/old"}]


def test_undo_of_a_rollout_that_is_under_way_leads_to_the_last_good_revision() -> None:
    assert run("undo", app("Rolling", "third"))[1].annotated == [{"streamsapp.dev/undone": "4/new"}]


def test_a_revision_that_is_gone_is_named_with_those_that_are_kept() -> None:
    with pytest.raises(PluginError, match="no revision 'older' to go back to; kept is old"):
        run("undo", app(), to_revision="older")
    assert run("undo", app(), to_revision="old")[1].annotated == [{"streamsapp.dev/undone": "4/old"}]


def test_there_must_be_a_good_revision_before() -> None:
    document = app()
    document["status"]["history"] = HISTORY[:1]
    with pytest.raises(PluginError, match="no good revision before"):
        run("undo", document)
