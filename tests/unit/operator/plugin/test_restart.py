"""``restart``, from asking to the last line. A cluster of documents plays the operator's part."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from kubectl_parts import FakeCluster, Terminal, ago, app_document, healthy_status
from streamsapp_operator.plugin import restart
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import Document, OperatorSeen
from streamsapp_operator.plugin.style import Style

BLOCKER = {"pod": "wordcount-0", "task": "1_0", "store": "counts", "reason": "StandbyBehind: far", "lag": 5000}


def options(**other: object) -> argparse.Namespace:
    return argparse.Namespace(
        **{"name": "wordcount", "output": "text", "wait": True, "timeout": None, "pod": None, **other}
    )


def app(
    phase: str, updated: int = 0, blockers: tuple[Any, ...] = (), revision: str = "new", **rollout: Any
) -> Document:
    """While the restart is under way."""
    rollout = {"revision": revision, "phase": phase, "updated": updated, "total": 2, "startedAt": ago(5), **rollout}
    restart_of = {"safe": not blockers, "blockers": list(blockers)}
    return app_document(healthy_status(rollout=rollout, restart=restart_of))


BEFORE = app("Complete", 2, revision="old", observedSeconds=9.9)

LOOKS = [
    BEFORE,
    BEFORE,
    app("Checking"),
    app("Rolling", current="wordcount-1", predictedSeconds=3.1, stepStartedAt=ago(1)),
    app("Rolling", current="wordcount-1", predictedSeconds=3.1, stepStartedAt=ago(1), observedSeconds=0.4),
    app("Blocked", 1, (BLOCKER,), observedSeconds=0.4, blockedSince=ago(1)),
    app("Blocked", 1, ({**BLOCKER, "lag": 4000},), observedSeconds=0.4, blockedSince=ago(2)),
    app("Rolling", 1, current="wordcount-0", predictedSeconds=2.0, stepStartedAt=ago(1)),
    app("Complete", 2, predictedSeconds=2.0, observedSeconds=0.5),
]


def test_tells_each_step_once_and_ends_well() -> None:
    cluster = FakeCluster(list(LOOKS))
    terminal = Terminal(cluster, Style())
    assert restart.run(options(), terminal.session) == 0
    assert terminal.text.splitlines() == [
        "wordcount: restart asked for in namespace default",
        "  taken up: the new revision is new",
        "  a pod checks the new revision first; nothing else is touched",
        "  wordcount-1  is restarted; its tasks are predicted to run again after 3.1s",
        "  wordcount-1  is back after 3.0s; its tasks ran again after 400ms, predicted 3.1s   1 of 2",
        "  waits, as no pod may be taken away:",
        "  POD          TASK  STORE     LAG  REASON",
        "  wordcount-0  1_0   counts  5,000  StandbyBehind: far",
        "  wordcount-0  is restarted; its tasks are predicted to run again after 2.0s",
        "  wordcount-0  is back after 4.5s; its tasks ran again after 500ms, predicted 2.0s   2 of 2",
        "done: 2 of 2 pods restarted in 3.5s",
    ]


def test_asks_with_a_moment_that_is_new_each_time() -> None:
    cluster = FakeCluster(list(LOOKS))
    restart.run(options(wait=False), Terminal(cluster, Style()).session)
    assert cluster.annotated == [{"streamsapp.dev/restartedAt": "2026-03-01T12:00:00.000000Z"}]


def test_the_rollout_of_before_is_not_taken_for_the_new_one() -> None:
    terminal = Terminal(FakeCluster([BEFORE]), Style())
    with pytest.raises(PluginError, match="not done after 3 s, and goes on"):
        restart.run(options(timeout=3.0), terminal.session)
    assert "done" not in terminal.text


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        ("RolledBack", "rolled back to the last good revision: the image cannot be pulled"),
        ("TimedOut", "gave up"),
        ("Refused", "refused, nothing was touched: the image cannot be pulled"),
    ],
)
def test_a_bad_end_is_exit_code_1_and_says_why(phase: str, told: str) -> None:
    cluster = FakeCluster([BEFORE, app("Rolling"), app(phase, message="the image cannot be pulled")])
    terminal = Terminal(cluster, Style())
    assert restart.run(options(), terminal.session) == 1
    assert told in terminal.text.splitlines()[-1]


def test_on_a_terminal_one_line_tells_what_is_happening_now() -> None:
    terminal = Terminal(FakeCluster(list(LOOKS)), Style(), live=True)
    restart.run(options(), terminal.session)
    shown = terminal.text.split("\r\x1b[K")
    assert "  waiting for the operator to take it up" in shown
    assert "  0 of 2 · wordcount-1 away for 2.0s" in shown
    assert "  0 of 2 · wordcount-1 away for 2.5s · its tasks run" in shown
    assert "  1 of 2 · blocked for 4.5s" in shown


def test_nothing_is_overwritten_where_lines_stay() -> None:
    terminal = Terminal(FakeCluster(list(LOOKS)), Style())
    restart.run(options(), terminal.session)
    assert "\r" not in terminal.text


def test_json_is_the_rollout_as_it_ended_and_nothing_else() -> None:
    terminal = Terminal(FakeCluster(list(LOOKS)), Style())
    assert restart.run(options(output="json"), terminal.session) == 0
    assert json.loads(terminal.text)["phase"] == "Complete"


def test_says_on_stderr_when_no_operator_takes_it_up(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster([BEFORE] * 70 + LOOKS[2:])
    assert restart.run(options(), Terminal(cluster, Style()).session) == 0
    assert capsys.readouterr().err.count("no operator has taken it up") == 1


def test_says_at_once_when_no_operator_runs_that_would_do_it(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = OperatorSeen("ops", "streamsapp-operator", None, running=False)
    cluster = FakeCluster([BEFORE], seen_operators=[stopped])
    assert restart.run(options(wait=False), Terminal(cluster, Style()).session) == 0
    said = capsys.readouterr().err
    assert "streamsapp-operator in namespace ops has no ready pod" in said
    assert "It begins when one runs again" in said


def test_a_suspended_application_is_not_restarted() -> None:
    cluster = FakeCluster([app_document(healthy_status(), replicas=0)])
    with pytest.raises(PluginError, match="suspended"):
        restart.run(options(), Terminal(cluster, Style()).session)
    assert cluster.annotated == []


def test_a_bootstrap_that_fails_again_ends_it() -> None:
    def begins(phase: str, message: str | None) -> Document:
        rollout = {"revision": "new", "phase": "Bootstrapping", "startedAt": ago(5)}
        bootstrap = {"phase": phase, "message": message}
        return app_document(healthy_status(rollout=rollout, bootstrap=bootstrap))

    failed = begins("Failed", "exit 1: the store is away; no pod is started")
    before = {**failed, "status": {**failed["status"], "rollout": {"revision": "old", "phase": "Bootstrapping"}}}
    terminal = Terminal(FakeCluster([before, before, begins("Running", None), failed]), Style())
    assert restart.run(options(), terminal.session) == 1
    assert terminal.text.splitlines()[1:] == [
        "  taken up: the new revision is new",
        "  a Job makes state of history first; no pod is started before it is done",
        "the bootstrap failed: exit 1: the store is away; no pod is started",
    ]
