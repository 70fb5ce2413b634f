"""Executors that have another release of the library than the driver are refused, with both versions."""

from __future__ import annotations

import shutil
import socket
import sys
from importlib import metadata
from pathlib import Path

import pytest

import streamsapp_spark
from instances import Instances
from spark_apps import finished
from spark_counting import Counted

pytestmark = pytest.mark.timeout(1100)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A Python with a release that does not have the module yet which the driver has workers started from."""
    packages, python = tmp_path / "packages", tmp_path / "python"
    release = packages / "streamsapp-0.0.1.dist-info"
    release.mkdir(parents=True)
    (release / "METADATA").write_text("Metadata-Version: 2.1\nName: streamsapp\nVersion: 0.0.1\n")
    ours = packages / "streamsapp_spark"
    shutil.copytree(Path(streamsapp_spark.__file__).parent, ours, ignore=shutil.ignore_patterns("daemon.py", "*.pyc"))
    python.write_text(f'#!/bin/sh\nPYTHONPATH={packages}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_executors_of_an_older_release_are_refused_with_their_version(
    instances: Instances, older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(older))
    counted = Counted(instances, "older", "continuous batches")
    counted.produce(10)
    state = str(counted.app.folder / "spark")
    options = ("--master", "local-cluster[1,1,1024]", "--http-port", "0", "--state-dir", state)
    code, _, errors = finished(counted.app.command("run", *options))
    assert code == 2, errors[-6000:]
    told = errors.rstrip().splitlines()[-1]
    version = metadata.version("streamsapp")
    assert f"the executor on {socket.gethostname()} has streamsapp 0.0.1 instead of {version}: start exec" in told
    assert "Traceback" not in errors
    assert not any(counted.ends()), "something was written"
