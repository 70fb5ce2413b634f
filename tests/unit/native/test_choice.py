"""Which data path runs, and what is said about it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import data_paths
from streamsapp import native
from streamsapp.cache_folder import CACHE_VARIABLE
from streamsapp.cli.main import main
from streamsapp.errors import ConfigError
from streamsapp.native import build

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty one, whichever data path the tests run with."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(native.VARIABLE, raising=False)
    native._choose.cache_clear()
    yield tmp_path / "cache"
    native._choose.cache_clear()


def test_python_does_it_where_it_is_told_to_and_nothing_is_compiled(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.VARIABLE, "0")

    assert (native.data_path(), native.described()) == (None, "Python (STREAMSAPP_NATIVE is 0)")
    assert not cache.exists()


def test_who_makes_no_client_compiles_nothing(cache: Path) -> None:
    program = "import streamsapp, sys; from streamsapp.cli.main import main; sys.exit(main(['--help']))"
    subprocess.run([sys.executable, "-c", program], env=os.environ, check=True, stdout=subprocess.DEVNULL)

    assert not cache.exists()


def test_a_wrong_value_is_wrong_input(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(native.VARIABLE, "yes")

    with pytest.raises(ConfigError, match="STREAMSAPP_NATIVE: 'yes' is neither 1"):
        native.data_path()
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 2
    assert "STREAMSAPP_NATIVE: 'yes' is neither 1" in capsys.readouterr().err


@pytest.mark.parametrize("value", [None, "", "1"])
def test_it_is_compiled_once_and_the_version_says_that_it_runs(
    value: str | None,
    cache: Path,
    compiled: native.DataPath,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (cache / "native").mkdir(parents=True)
    shutil.copy(compiled.__file__, cache / "native")
    if value is not None:
        monkeypatch.setenv(native.VARIABLE, value)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(SystemExit):
        main(["--version"])

    assert "data path: native" in capsys.readouterr().out
    assert native.data_path() is not None


@pytest.mark.long
def test_many_that_start_at_once_compile_without_hurting_each_other(cache: Path, compiled: native.DataPath) -> None:
    program = (
        "import sys; from streamsapp import native; from streamsapp.native import build; "
        "build.COMPILER_TIMEOUT = 600.0; sys.exit(native.described())"  # they share what the machine has left
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(4)]

    assert [process.communicate()[1] for process in started] == ["native\n"] * 4
    assert len(list((cache / "native").iterdir())) == 1


def test_without_a_compiler_python_does_it_and_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert (native.data_path(), native.described()) == (None, "Python (native: there is no C compiler (cc))")


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
    script: str, reason: str, cache: Path, compiled: native.DataPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_compiler(tmp_path, script, monkeypatch)

    assert (native.data_path(), native.described()) == (None, f"Python (native: {reason})")
    assert list((cache / "native").iterdir()) == []


@pytest.mark.parametrize(
    ("compiler", "outcome"),
    [("exit 1", build.UnavailableError), (None, pytest.skip.Exception)],
    ids=["it fails", "there is none"],
)
def test_tests_of_the_native_data_path_fail_with_the_compiler_and_are_skipped_only_without_one(
    compiler: str | None,
    outcome: type[BaseException],
    cache: Path,
    compiled: native.DataPath,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if compiler is None:
        monkeypatch.setenv("PATH", "")
    else:
        a_compiler(tmp_path, compiler, monkeypatch)

    with pytest.raises((build.UnavailableError, pytest.skip.Exception)) as ended:
        data_paths.compiled.__wrapped__()
    assert ended.type is outcome


def test_a_compiler_that_hangs_is_not_waited_for_and_leaves_no_process(
    cache: Path, compiled: native.DataPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY | os.O_CLOEXEC)  # the shell may be ended before it is one
    a_compiler(tmp_path, f"sleep 1000 >{fifo} & wait", monkeypatch)
    monkeypatch.setattr(build, "COMPILER_TIMEOUT", 1.0)

    assert native.described() == "Python (native: the compiler took more than 1 s)"
    os.close(writer)
    assert select.select([reader], [], [], 60)[0], "its child lives"  # readable: all who write are gone
    os.close(reader)


def test_a_compiler_that_says_nothing_and_makes_nothing_is_not_the_end(
    cache: Path, compiled: native.DataPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_compiler(tmp_path, "exit 0", monkeypatch)

    assert native.described().startswith("Python (native: it cannot be compiled: [Errno 2] No such file")


def test_a_folder_that_cannot_be_made_is_not_the_end(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))

    assert native.described().startswith("Python (native: it cannot be compiled: [Errno 20] Not a directory")


def test_a_user_without_a_home_is_not_the_end(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)

    assert native.described() == "Python (native: it cannot be compiled: Could not determine home directory.)"


def test_a_folder_that_librdkafka_takes_for_two_is_not_the_end(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "one;two"))

    assert "one;two/native, whose name has a semicolon" in native.described()
    assert not (tmp_path / "one;two").exists()


def test_with_another_release_of_the_client_python_does_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TRIED_WITH", "2.0.0")

    assert "and it was tried with 2.0.0" in native.described()
    assert not cache.exists()


def test_it_was_tried_with_the_client_that_the_project_depends_on() -> None:
    assert f'"confluent-kafka=={build.TRIED_WITH}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_nothing_is_loaded_from_a_folder_that_others_write_to(cache: Path) -> None:
    folder = cache / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)

    assert native.described().startswith(f"Python (native: others may write to {folder}; make it yours alone")
    assert native.data_path() is None


def test_a_file_that_is_no_library_is_not_the_end(
    cache: Path, compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_key", lambda: "damaged")
    (cache / "native").mkdir(parents=True)
    (cache / "native" / "records-damaged.so").write_text("no library")

    assert native.data_path() is None
    assert "records-damaged.so" in native.described()
