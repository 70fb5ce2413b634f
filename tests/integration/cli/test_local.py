"""``streamsapp local``: broker, topics, instance and HTTP port from one command, and down again however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from instances import TIMEOUT, eventually, processes_that_name

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: local-test}
spec:
  topology: {entrypoint: "local_test:topology"}
  code:
    files:
      local_test.py: |
        from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder
        text = Serdes.string()
        topology = StreamsBuilder()
        words = topology.stream("words", Consumed(text, text))
        words.group_by_key().count(Materialized("counts")).to_stream().to("totals", Produced(text, Serdes.long()))
"""

Start = Callable[..., "Local"]


class Local:
    """The command at work in a project's folder."""

    def __init__(self, project: Path, *options: str, **popen: Any) -> None:
        project.mkdir(exist_ok=True)
        (project / "app.yaml").write_text(MANIFEST)
        self.project = project
        self._told, self._log = project / "told", project / "log"
        command = [sys.executable, "-m", "streamsapp.cli.main", "local", "-f", "app.yaml", "--http-port", "0", *options]
        with self._told.open("w") as told, self._log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=project, stdout=told, stderr=log, **popen)

    def runs(self) -> Local:
        """Returns when it has said where everything is, and all its instances run."""
        eventually(lambda: self.process.poll() is not None or "to RUNNING" in self.log(), "RUNNING", 120)
        assert self.process.poll() is None, self.log()
        return self

    def told(self, pattern: str) -> str:
        """From the banner."""
        found = re.search(pattern, self._told.read_text())
        assert found, self._told.read_text()
        return found[1]

    def log(self) -> str:
        return self._log.read_text()

    def write(self) -> None:
        """A record, by the command that the banner has for it."""
        assert self._shell("write a record") == "words: 1 record written (partition 2: 1)\n"

    def totals(self, count: int) -> list[int]:
        """So many results, by the command that the banner has for reading them, once they are there."""
        lines = self._shell("read the results", f"--follow --max {count}").splitlines()
        assert {json.loads(line)["key"] for line in lines} == {"jane"}
        return [json.loads(line)["value"] for line in lines]

    def _shell(self, what: str, options: str = "") -> str:
        command = self.told(rf"to {what}:\n  (.*)\n")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        answer = subprocess.run(  # noqa: S602 - as a user types it
            f"{command} {options}",
            shell=True,
            cwd=self.project,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def ends(self, number: signal.Signals) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)

    def ask(self, path: str, **request: Any) -> Any:
        address = self.told(r"status +(http://127\.0\.0\.1:\d+)/status")
        with urllib.request.urlopen(f"{address}{path}", timeout=60, **request) as answer:  # noqa: S310 - http, as matched
            return json.load(answer)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command in a project's folder; ends after the test what still runs."""
    started: list[Local] = []

    def begin(*options: str, project: str = "project", **popen: Any) -> Local:
        started.append(Local(tmp_path / project, *options, **popen))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(TIMEOUT)


def data_of(local: Local) -> Path:
    return local.project / ".streamsapp" / "local-test"


def snapshots_below(folder: Path) -> set[str]:
    """The tasks that the object store knows."""
    return {manifest.parent.parent.name for manifest in folder.glob("*/*/manifests/*.json")}


def test_local_brings_all_it_needs_and_leaves_on_a_signal(start: Start) -> None:
    local = start("--partitions", "3").runs()
    broker = local.told(r"broker +(\S+)")
    topics = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=TIMEOUT).topics
    assert {name: len(topics[name].partitions) for name in ("words", "totals")} == {"words": 3, "totals": 3}
    assert local.ask("/status")["state"] == "RUNNING"
    assert local.ask("/snapshot", data=b"") == {"taken": True}
    assert snapshots_below(data_of(local) / "snapshots") == {"0_0", "0_1", "0_2"}
    assert local.ends(signal.SIGTERM) == 0


@pytest.mark.long
def test_several_replicas_are_seen_through_one_port(start: Start) -> None:
    local = start("--replicas", "2").runs()
    eventually(lambda: local.log().count("to RUNNING") == 2, "both running", 120)
    assert [each["instance"] for each in local.ask("/status")["instances"]] == ["local-test-0", "local-test-1"]
    assert local.ask("/snapshot", data=b"") == {"taken": True}
    assert snapshots_below(data_of(local) / "snapshots") == {"0_0", "0_1", "0_2", "0_3"}
    assert local.ends(signal.SIGTERM) == 0


def test_what_the_banner_says_works_and_outlives_a_kill_which_no_broker_does_until_it_is_to_be_forgotten(
    start: Start, tmp_path: Path
) -> None:
    first = start().runs()
    assert first.told(r"folder +(\S+)") == str(data_of(first))
    first.write()
    assert first.totals(1) == [1]
    assert first.ends(signal.SIGKILL) == -signal.SIGKILL

    again = start().runs()  # at once: it waits for the broker of the one before
    assert again.told(r"broker +(\S+)") == first.told(r"broker +(\S+)"), "the port is the same one every time"
    again.write()
    assert again.totals(2) == [1, 2]
    assert again.ends(signal.SIGINT) == 0
    assert processes_that_name(tmp_path) == []

    fresh = start("--fresh").runs()
    fresh.write()
    assert fresh.totals(1) == [1]


@pytest.mark.long
def test_a_second_one_is_refused_and_the_first_goes_on(start: Start, tmp_path: Path) -> None:
    first = start().runs()
    manifest = str(tmp_path / "project" / "app.yaml")
    command = [sys.executable, "-m", "streamsapp.cli.main", "local", "-f", manifest, "--http-port", "0"]
    second = subprocess.run([*command, "--fresh"], capture_output=True, text=True, check=False)

    assert (second.returncode, second.stdout) == (2, "")
    assert f"is in use by another `streamsapp local` (process {first.process.pid}): stop that one" in second.stderr
    first.write()
    assert first.totals(1) == [1]


@pytest.mark.long
def test_a_saved_edit_runs_with_the_state_there_was_and_a_broken_one_is_told(start: Start) -> None:
    local = start("--watch").runs()
    local.write()
    assert local.totals(1) == [1]

    manifest = local.project / "app.yaml"
    manifest.write_text(MANIFEST.replace("words.group_by_key()", "words.group_by_key("))
    eventually(lambda: "goes on as it was" in local.log().partition("SyntaxError")[2], "what is wrong", 120)
    assert local.ask("/status")["state"] == "RUNNING"

    manifest.write_text(MANIFEST.replace(".to_stream()", ".to_stream().map_values(lambda count: count * 100)"))
    eventually(lambda: local.log().count("to RUNNING") == 2, "the edited application", 120)
    assert "state is kept: counts" in local.log()
    local.write()
    assert local.totals(2) == [1, 200]
    assert local.ends(signal.SIGTERM) == 0


@pytest.mark.long
def test_projects_of_one_name_share_nothing(start: Start, tmp_path: Path) -> None:
    first, other = start(project="one").runs(), start(project="two").runs()
    assert first.told(r"broker +(\S+)") != other.told(r"broker +(\S+)")
    first.write()
    assert first.totals(1) == [1]
    assert other.ask("/state/counts?from=&to=")["entries"] == []
    assert (tmp_path / "one" / ".streamsapp" / ".gitignore").read_text() == "*\n"


def test_a_terminal_that_is_closed_ends_everything_in_good_order(start: Start, tmp_path: Path) -> None:
    ours, theirs = os.openpty()

    def in_a_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    local = start(stdin=theirs, preexec_fn=in_a_terminal, pass_fds=(theirs,))
    os.close(theirs)
    local.runs()
    os.close(ours)

    assert local.process.wait(TIMEOUT) == 0
    assert "SIGHUP: committing and closing" in local.log()
    assert processes_that_name(tmp_path) == []


@pytest.mark.long
def test_a_command_that_is_killed_as_the_broker_starts_leaves_no_process(start: Start, tmp_path: Path) -> None:
    local = start()
    eventually(lambda: any(b"kafka.Kafka" in line for line in processes_that_name(tmp_path)), "a broker")
    assert local.ends(signal.SIGHUP) == -signal.SIGHUP
    eventually(lambda: processes_that_name(tmp_path) == [], "the end of the broker")
