"""Which data path runs, and what is said about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsapp import native
from streamsapp.cache_folder import CACHE_VARIABLE
from streamsapp.cli.main import main
from streamsapp.errors import ConfigError
from streamsapp.native import build

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty one; the native data path is asked for."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(native.VARIABLE, "1")
    native._chosen.cache_clear()
    yield tmp_path / "cache"
    native._chosen.cache_clear()


@pytest.mark.parametrize("value", [None, "", "0"])
def test_unless_it_is_asked_for_nothing_is_compiled(
    value: str | None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(native.VARIABLE)
    else:
        monkeypatch.setenv(native.VARIABLE, value)

    assert (native.data_path(), native.described()) == (None, "Python (STREAMSAPP_NATIVE is not 1)")
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


def test_it_is_compiled_once_and_the_version_says_that_it_runs(
    cache: Path, compiled: native.DataPath, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert native.data_path() is not None
    [library] = (cache / "native").iterdir()
    monkeypatch.setenv("PATH", "")
    native._chosen.cache_clear()

    with pytest.raises(SystemExit):
        main(["--version"])

    assert "data path: native" in capsys.readouterr().out
    assert list((cache / "native").iterdir()) == [library]


def test_without_a_compiler_python_does_it_and_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert (native.data_path(), native.described()) == (None, "Python (native: there is no C compiler (cc))")


def test_a_compiler_that_fails_is_quoted(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'cc: out of memory' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert native.described() == "Python (native: the compiler failed: cc: out of memory)"
    assert list((cache / "native").iterdir()) == []


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
