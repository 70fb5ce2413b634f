"""The faults that are reported of a master or a Java that Spark could not work with."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import cast

import pytest
from pyspark import SparkConf

from streamsapp.errors import ManifestError, StreamsError
from streamsapp_spark.session.java_process import cause_in, check_java
from streamsapp_spark.session.master import bracketed_master, check_master, has_executors, is_local
from streamsapp_spark.session.session import start_java


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[3]", "local[3,2]", "local-cluster[2,1,1024]", "local-cluster[2, 1, 1]"]
)
def test_masters_on_this_machine_are_known(master: str) -> None:
    assert is_local(master)
    assert has_executors(master) == ("cluster" in master)
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "lokal", "local[0]", "local[x]", "http://host:1", "spark://", "spark://a b:c", "spark://host:7077/x"]
)
def test_an_address_that_spark_does_not_know_is_refused(master: str) -> None:
    with pytest.raises(ManifestError, match=r"--master: expected local\[\*\], local\[N\], spark://host:port, "):
        check_master(master)


def test_one_of_several_masters_has_to_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            dead = closed.getsockname()[1]
        check_master(f"spark://127.0.0.1:{dead},127.0.0.1:{there.getsockname()[1]}")
        check_master(f"k8s://https://127.0.0.1:{there.getsockname()[1]}")
        with pytest.raises(StreamsError, match=rf"nothing answers at 127\.0\.0\.1:{dead} \("):
            check_master(f"spark://127.0.0.1:{dead}")
    with pytest.raises(StreamsError, match=r"nothing answers at 127\.0\.0\.1:99999 "):
        check_master("spark://127.0.0.1:99999")


@pytest.mark.parametrize(
    ("given", "known_as"),
    [
        ("spark://fd00::7:7077", "spark://[fd00::7]:7077"),
        ("spark://[fd00::7]:7077", "spark://[fd00::7]:7077"),
        ("spark://10.0.0.7:7077,fd00::7:7077", "spark://10.0.0.7:7077,[fd00::7]:7077"),
        ("spark://name:7077", "spark://name:7077"),
        ("k8s://https://[fd00::7]:443", "k8s://https://[fd00::7]:443"),
        ("local[2]", "local[2]"),
    ],
)
def test_an_ipv6_address_of_a_standalone_master_gets_its_brackets(given: str, known_as: str) -> None:
    assert bracketed_master(given) == known_as


def test_the_driver_s_own_ipv6_address_gets_its_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsapp_spark.session.session.JavaProcess", lambda conf, archive: conf)
    given = ["spark.driver.host=fd00::7", "spark.driver.bindAddress=::"]
    conf = cast(SparkConf, start_java("addresses", "local[1]", given))
    assert conf.get("spark.driver.host") == "[fd00::7]"
    assert conf.get("spark.driver.bindAddress") == "[::]"


@pytest.fixture(autouse=True)
def no_java_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests with Spark share a Java process; with it there, no session would look for another Java."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def java(folder: Path, version: str) -> None:
    """A program that says that it is a certain Java: there is one on a machine, and it is new enough."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("version", "known_as"), [("11.0.2", "11"), ("1.8.0_292", "8")])
def test_a_java_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, known_as: str
) -> None:
    java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ManifestError, match=rf"{tmp_path}/bin/java is Java {known_as}: set JAVA_HOME to a newer one"):
        check_java()


def test_a_java_that_is_new_enough_is_taken_and_one_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(ManifestError, match=rf"JAVA_HOME, {tmp_path}/none, has no bin/java"):
        check_java()


def test_the_line_that_says_why_is_found_in_what_java_wrote() -> None:
    assert cause_in("WARN x\nException in thread main: Error: no\n\tat y") == "Exception in thread main: Error: no"
    job = ": org.apache.spark.SparkException: Job aborted: PythonException: Traceback (most recent call last):\n"
    worker = (
        "  File \"worker.py\", line 8, in main\nModuleNotFoundError: No module named 'x'\n\n\tat org.apache.spark.X\n"
    )
    assert cause_in(job + worker) == "ModuleNotFoundError: No module named 'x'"
    wrapped = "Traceback (most recent call last):\nx.PythonException: An exception was thrown from the Python worker:\n"
    assert cause_in(wrapped + worker) == "ModuleNotFoundError: No module named 'x'"
    assert cause_in("WARNING: one\ntwo\nthree\n") == "WARNING: one; two"
