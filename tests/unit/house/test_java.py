"""The message to a user whose Java or Maven is missing or too old."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError
from streamsapp.local import jars, java


def program(folder: Path, name: str, script: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH holds nothing yet."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_tells_the_one_command_of_the_package_manager_when_java_is_missing(machine: Path) -> None:
    program(machine, "apt-get")

    with pytest.raises(
        StreamsError, match="there is none on PATH: sudo apt-get install -y openjdk-17-jdk-headless maven"
    ):
        java.find_java()


def test_tells_what_to_install_where_no_package_manager_is_known(machine: Path) -> None:
    with pytest.raises(StreamsError, match="install a JDK 17 or newer and Apache Maven"):
        java.find_maven()


@pytest.mark.parametrize(
    ("answer", "version"), [('java version "1.8.0_402"', 1), ('openjdk version "11.0.2" 2024-01-16', 11), ("", 0)]
)
def test_refuses_java_that_is_too_old_for_kafka(machine: Path, answer: str, version: int) -> None:
    program(machine, "java", f"echo '{answer}' >&2")

    with pytest.raises(StreamsError, match=f"needs Java 17 or newer, the one on PATH is {version}:"):
        java.find_java()


def test_java_home_wins_over_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "java", "echo 'openjdk version \"11\"' >&2")
    home = machine / "home"
    (home / "bin").mkdir(parents=True)
    program(home / "bin", "java", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert java.find_java() == home / "bin" / "java"


def test_a_failed_download_shows_what_maven_said_and_leaves_nothing_behind(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine, "mvn", "echo 'repository unreachable'; exit 1")
    monkeypatch.setenv("STREAMSAPP_CACHE", str(machine / "cache"))

    with pytest.raises(StreamsError, match=r"(?s)give Maven a mirror.*repository unreachable"):
        jars.kafka_jars()

    assert not jars.is_fetched()
    assert list(cache_dir().iterdir()) == []
