"""Building the S3 server of the tests, where Go is missing, too old, or fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import versitygw
from streamsapp.errors import StreamsError


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing in the cache; the folder of programs is returned, and has none."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("STREAMSAPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(programs))
    return programs


def go_that(folder: Path, script: str) -> None:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_says_what_to_install_where_go_is_missing_or_too_old(empty_machine: Path) -> None:
    with pytest.raises(StreamsError, match=r"Go 1\.21 or newer is needed"):
        versitygw.executable()
    go_that(empty_machine, "echo go version go1.19.8 linux/amd64")
    with pytest.raises(StreamsError, match=r"Go 1\.21 or newer is needed"):
        versitygw.executable()


def test_quotes_go_where_it_fails_and_leaves_nothing(empty_machine: Path, tmp_path: Path) -> None:
    go_that(empty_machine, 'test "$1" = version && echo go version go1.26.1 x && exit; echo no such module >&2; exit 1')
    with pytest.raises(StreamsError, match=r"Go could not build github\.com/versity.*\n.*no such module"):
        versitygw.executable()
    assert list((tmp_path / "cache").iterdir()) == []


def test_builds_once_into_the_cache(empty_machine: Path, tmp_path: Path) -> None:
    go_that(empty_machine, 'test "$1" = version && echo go version go1.26.1 x && exit; echo made > "$GOBIN/versitygw"')
    assert not versitygw.is_built()

    built = versitygw.executable()
    (empty_machine / "go").unlink()

    assert versitygw.executable() == built == tmp_path / "cache" / f"versitygw-{versitygw.VERSION}"
    assert built.read_text() == "made\n"
