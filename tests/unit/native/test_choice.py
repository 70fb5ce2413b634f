"""How the compiled part is loaded, and what is said where it cannot be."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamsapp import native
from streamsapp.cache_folder import CACHE_VARIABLE
from streamsapp.native import build

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def refusal() -> str:
    """Returns why it cannot be loaded."""
    with pytest.raises(ImportError) as refused:
        native._loaded()
    return str(refused.value).removeprefix("the compiled part of streamsapp cannot be had here: ")


def test_who_makes_no_client_compiles_nothing(cache: Path) -> None:
    program = "import streamsapp, sys; from streamsapp.cli.main import main; sys.exit(main(['--help']))"
    subprocess.run([sys.executable, "-c", program], env=os.environ, check=True, stdout=subprocess.DEVNULL)

    assert not cache.exists()


@pytest.mark.long
def test_many_that_start_at_once_compile_without_hurting_each_other(cache: Path, compiled: ModuleType) -> None:
    program = (
        "import sys; from streamsapp import native; from streamsapp.native import build; "
        "build.COMPILER_TIMEOUT = 600.0; "  # they share what the machine has left
        "sys.exit(native.Why(native.Outbox(9, 9).bytes).name)"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(4)]

    assert [process.communicate()[1] for process in started] == ["TAKEN\n"] * 4
    assert len(list((cache / "native").iterdir())) == 1


def test_without_a_compiler_it_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert refusal() == "there is no C compiler (cc)"


def a_compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = folder / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'cc: out of memory' >&2; exit 1", "the compiler failed: cc: out of memory"),
        ("printf '\\377 is no text' >&2; exit 1", "the compiler failed: \ufffd is no text"),
        ("kill -9 $$", "the compiler failed: with -9"),
    ],
)
def test_a_compiler_that_fails_is_quoted(
    script: str, reason: str, cache: Path, compiled: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_compiler(tmp_path, script, monkeypatch)

    assert refusal() == reason
    assert list((cache / "native").iterdir()) == []


def test_a_compiler_that_hangs_is_not_waited_for_and_leaves_no_process(
    cache: Path, compiled: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY | os.O_CLOEXEC)  # the shell may be ended before it is one
    a_compiler(tmp_path, f"sleep 1000 >{fifo} & wait", monkeypatch)
    monkeypatch.setattr(build, "COMPILER_TIMEOUT", 1.0)

    assert refusal() == "the compiler took more than 1 s"
    os.close(writer)
    assert select.select([reader], [], [], 60)[0], "its child lives"  # readable: all who write are gone
    os.close(reader)


def test_a_compiler_that_says_nothing_and_makes_nothing_is_named(
    cache: Path, compiled: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_compiler(tmp_path, "exit 0", monkeypatch)

    assert refusal().startswith("it cannot be compiled: [Errno 2] No such file")


def test_a_folder_that_cannot_be_made_is_named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))

    assert refusal().startswith("it cannot be compiled: [Errno 20] Not a directory")


def test_a_user_without_a_home_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)

    assert refusal() == "it cannot be compiled: Could not determine home directory."


def test_a_folder_that_librdkafka_takes_for_two_is_named(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "one;two"))

    assert "one;two/native, whose name has a semicolon" in refusal()
    assert not (tmp_path / "one;two").exists()


def test_with_another_release_of_the_client_it_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TRIED_WITH", "2.0.0")

    assert "and it was tried with 2.0.0" in refusal()
    assert not cache.exists()


def test_it_was_tried_with_the_client_that_the_project_depends_on() -> None:
    assert f'"confluent-kafka=={build.TRIED_WITH}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_nothing_is_loaded_from_a_folder_that_others_write_to(cache: Path) -> None:
    folder = cache / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    assert refusal().startswith(f"others may write to {folder}; make it yours alone")


def test_a_file_that_is_no_library_is_named(cache: Path, compiled: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_key", lambda: "damaged")
    (cache / "native").mkdir(parents=True)
    (cache / "native" / "records-damaged.so").write_text("no library")

    assert "records-damaged.so" in refusal()
