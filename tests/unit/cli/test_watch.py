"""``local --watch``: the files that are watched, what fits what was there, and the process that is started again."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import eventually
from streamsapp.cli import watch
from streamsapp.cli.source_files import SourceFiles
from streamsapp.cli.watch import WatchedApplication, look_at
from streamsapp.supervisor.instance_process import InstanceProcess
from streamsapp.topology.application_shape import ApplicationShape, SubTopologyShape, differences, misfits

COUNTS = {"counts": "timestamped_key_value"}
MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: watched}
spec:
  topology: {entrypoint: "watched_topology:topology"}
"""
TOPOLOGY = """
from streamsapp import Materialized, StreamsBuilder
print("is loaded")
topology = StreamsBuilder()
topology.stream("words").group_by_key().count(Materialized("counts"))
"""


def shape(
    stores: dict[str, str], reads: tuple[str, ...] = ("words",), name: str = "app", broker: str | None = None
) -> ApplicationShape:
    return ApplicationShape(name, broker, {"0": SubTopologyShape(reads, stores)})


@pytest.mark.parametrize("kind", ["timestamped_window-60000", "session-60000", "versioned-60000"])
def test_a_store_of_another_type_does_not_fit(kind: str) -> None:
    (fault,) = misfits(shape(COUNTS), shape({"counts": kind}), "begin --fresh")
    assert fault.startswith(f"store counts was of type timestamped_key_value and is of type {kind}, ")
    assert "another name" in fault
    assert "--fresh" in fault


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("timestamped_key_value", "key_value"),
        ("timestamped_window-60000", "timestamped_window-90000"),
        ("session-60000", "session_by_time-60000"),
    ],
)
def test_a_store_whose_changelog_stays_alike_fits(old: str, new: str) -> None:
    assert list(misfits(shape({"s": old}), shape({"s": new}), "anew")) == []


def test_another_application_or_broker_does_not_fit() -> None:
    assert [fault.split(":")[0] for fault in misfits(shape({}), shape({}, name="b", broker="k:9092"), "anew")] == [
        "the application id was app and is b",
        "spec.kafka.bootstrapServers was None and is k",
    ]


def test_what_becomes_of_state_is_told() -> None:
    old, new = shape({**COUNTS, "old": "key_value"}), shape({**COUNTS, "new": "key_value"}, ("lines",))
    assert list(misfits(old, new, "anew")) == []
    assert list(differences(old, new)) == [
        "state is kept: counts",
        "store new is new: it knows nothing of the records that were read before",
        "store old is no longer used; its changelog stays, and a store of this name goes on from it",
        "store counts is filled from lines, and keeps what it has from words",
    ]


def test_saved_files_are_told_once_and_when_they_are_at_rest(tmp_path: Path) -> None:
    manifest = tmp_path / "app.yaml"
    strange = [tmp_path / name for name in (".streamsapp", "env", "__pycache__", "node_modules")]
    for folder in [*strange, tmp_path / "parts"]:
        folder.mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    manifest.touch()
    files = SourceFiles(manifest)
    assert files.saved() == []

    for folder in [*strange, tmp_path / "parts"]:
        (folder / "steps.py").write_text("x = 1")
    (tmp_path / "notes.txt").write_text("no code")
    assert files.saved() == [], "they may be written still"
    assert files.saved() == ["parts/steps.py"]
    assert files.saved() == []

    (tmp_path / "parts" / "steps.py").unlink()
    os.utime(manifest, ns=(1, 1))
    assert files.saved() == []
    assert files.saved() == ["app.yaml", "parts/steps.py"]


#: An instance that reports which program it is, and leaves with its supervisor's signal or line.
INSTANCE = """
import pathlib, socket, sys
line = socket.socket(fileno=int(sys.argv[-1]))
with pathlib.Path({runs!r}).open("a") as runs:
    runs.write(pathlib.Path({code!r}).read_text())
line.sendall(b"1\\n")
line.recv(1)
"""


class Running:
    """A watched application of small processes."""

    def __init__(self, folder: Path) -> None:
        self.code, self.runs = folder / "user_code.py", folder / "runs"
        (folder / "app.yaml").touch()
        self.code.write_text("one ")
        self.saved: ApplicationShape | None = shape(COUNTS)
        program = INSTANCE.format(runs=str(self.runs), code=str(self.code))
        self.watched = WatchedApplication(
            [sys.executable, "-S", "-c", program], SourceFiles(folder / "app.yaml"), self._look, shape(COUNTS), 30
        )
        self.looks = 0
        self._thread = threading.Thread(target=self.watched.run)
        self._thread.start()
        self.has_run("one ")

    def _look(self, stopped: threading.Event) -> ApplicationShape | None:
        self.looks += 1
        return self.saved

    def save(self, text: str, found: ApplicationShape | None) -> None:
        self.saved = found
        whole = self.code.with_suffix(".new")
        whole.write_text(text)
        whole.replace(self.code)  # at once: a file that is half written is an edit of its own

    def has_run(self, text: str) -> None:
        eventually(lambda: self.runs.exists() and self.runs.read_text() == text, text, 60)

    def end(self) -> None:
        self.watched.stopped.set()
        self._thread.join(60)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(watch, "PERIOD", 0.02)
    started = Running(tmp_path)
    yield started
    started.end()


def test_it_starts_again_with_what_was_saved(running: Running) -> None:
    running.save("two ", shape(COUNTS))
    running.has_run("one two ")


def test_what_is_wrong_or_does_not_fit_leaves_it_alone(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.save("broken, ", None)
    eventually(lambda: running.looks == 1, "a look at the broken edit", 60)
    running.save("unfit: ", shape({"counts": "session-60000"}))
    eventually(lambda: caplog.text.count("goes on as it was") == 2, "both refused", 60)
    assert "another name" in caplog.text
    running.save("two ", shape(COUNTS))
    running.has_run("one two ")


def test_what_does_not_fit_is_not_started_when_the_application_ends_by_itself(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.save("unfit: ", shape({"counts": "session-60000"}))
    eventually(lambda: "goes on as it was" in caplog.text, "the refusal", 60)
    members = (each for each in threading.enumerate() if isinstance(each, InstanceProcess))
    member = next(each for each in members if each.instance == "the application" and each.is_alive())
    member.kill()
    eventually(lambda: not member.is_alive(), "that nobody starts it again", 60)
    assert running.runs.read_text() == "one "
    running.save("two ", shape(COUNTS))
    running.has_run("one two ")


def test_a_look_at_code_that_does_not_come_to_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = tmp_path / "app.yaml"
    manifest.write_text(MANIFEST)
    (tmp_path / "watched_topology.py").write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.setattr(watch, "LOADING", 0.2)
    assert look_at(manifest, threading.Event()) is None
    assert "app.yaml: its code was not loaded within 0.2 s" in caplog.text


def test_a_look_tells_what_is_saved_or_that_it_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    manifest, code = tmp_path / "app.yaml", tmp_path / "watched_topology.py"
    manifest.write_text(MANIFEST)
    code.write_text(TOPOLOGY)
    assert look_at(manifest, threading.Event()) == shape(COUNTS, name="watched")

    code.write_text("topology = (\n")
    assert look_at(manifest, threading.Event()) is None
    assert "'(' was never closed (watched_topology.py, line 1)" in capfd.readouterr().err


def test_a_folder_that_may_not_be_looked_into_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    stat = os.stat

    def refuses(path: str | Path, **how: bool) -> os.stat_result:  # root may look everywhere: no mode stops it
        if Path(path).parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refuses)
    assert SourceFiles(tmp_path / "app.yaml").saved() == []
