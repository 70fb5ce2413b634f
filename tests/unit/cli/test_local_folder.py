"""The folder of ``streamsapp local``: whose it is, and what is in it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp.cli.local_folder import LocalFolder
from streamsapp.errors import UserInputError


def folder_of(project: Path, application_id: str = "app", given: Path | None = None) -> LocalFolder:
    project.mkdir(exist_ok=True)
    return LocalFolder(project / "app.yaml", application_id, given)


#: Stands for a broker that was asked to end a moment ago.
WRITES_AT_ITS_END = "import pathlib, sys, time; time.sleep(0.5); (pathlib.Path(sys.argv[1]) / 'last').write_text('')"


def test_it_is_beside_the_manifest_whatever_the_working_directory_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    assert LocalFolder(Path("app.yaml"), "app").path == folder_of(tmp_path / "one").path
    assert folder_of(tmp_path / "one").path != folder_of(tmp_path / "two").path
    assert folder_of(tmp_path / "one").path != folder_of(tmp_path / "one", "other").path


def test_one_process_uses_it_at_a_time(tmp_path: Path) -> None:
    with folder_of(tmp_path).in_use():
        with pytest.raises(UserInputError, match=rf"in use by another `streamsapp local` \(process {os.getpid()}\)"):
            folder_of(tmp_path).in_use().__enter__()
        with folder_of(tmp_path, "other").in_use():
            pass
    with folder_of(tmp_path).in_use():
        pass


def test_only_what_local_made_is_forgotten(tmp_path: Path) -> None:
    used = folder_of(tmp_path)
    with used.in_use():
        port = used.broker_port(None)
        for kept in (used.kafka, used.state, used.snapshots):
            (kept / "deep").mkdir(parents=True)
        used.forget()
        assert not any(kept.exists() for kept in (used.kafka, used.state, used.snapshots))
        assert used.broker_port(None) == port


def test_it_is_forgotten_when_the_broker_of_a_command_that_was_killed_has_ended(tmp_path: Path) -> None:
    used = folder_of(tmp_path)
    used.kafka.mkdir(parents=True)
    with (used.kafka / "broker.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker = subprocess.Popen([sys.executable, "-c", WRITES_AT_ITS_END, str(used.kafka)], pass_fds=(lock.fileno(),))
    used.forget()
    assert broker.wait(60) == 0, "its folder was there until its end"
    assert not used.kafka.exists()


def test_a_folder_that_is_used_for_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine" / "state").mkdir(parents=True)
    with pytest.raises(UserInputError, match=r"--data-dir: .*mine is not empty and was not made by `streamsapp local`"):
        folder_of(tmp_path, given=tmp_path / "mine").in_use().__enter__()
    assert (tmp_path / "mine" / "state").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserInputError, match=r"--data-dir: .*file/data cannot be used: .*; name another folder"):
        folder_of(tmp_path, given=tmp_path / "file" / "data").in_use().__enter__()


def test_the_port_stays_whoever_else_listens_there_and_follows_what_is_wanted(tmp_path: Path) -> None:
    used = folder_of(tmp_path)
    with used.in_use():
        first = used.broker_port(None)
        with socket.create_server(("127.0.0.1", first)):  # although connections of before may still end there
            assert used.broker_port(None) == first
            assert folder_of(tmp_path).broker_port(None) == first
        assert used.broker_port(12_345) == used.broker_port(None) == 12_345
        (used.path / "port").write_text("what is this")
        assert used.broker_port(None) == first


def test_another_folder_has_another_port_where_the_first_is_taken(tmp_path: Path) -> None:
    used = folder_of(tmp_path)
    with used.in_use():
        first = used.broker_port(None)
        (used.path / "port").unlink()
        with socket.create_server(("127.0.0.1", first)):
            assert used.broker_port(None) != first
