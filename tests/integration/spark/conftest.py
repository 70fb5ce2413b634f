"""One Java process for the Spark sessions of all tests: starting one takes longer than most of what is tested.

Commands run in processes of their own all the same. Spark's Python side goes to the Java process that the environment
names, and stops its session when it ends; the next command makes another one there.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from instances import eventually
from streamsapp_spark.session.settings import JAVA_OPTIONS

_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture(scope="session", autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever starts a Spark session from here on finds the Java process."""
    directory = tmp_path_factory.mktemp("java")
    address = directory / "address"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
    # Nothing runs for so long that compiling it well pays.
    options = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"
    command = [str(_SUBMIT), "--conf", f"spark.driver.extraJavaOptions={options}", "pyspark-shell"]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        eventually(address.exists, "Java's address", 240.0)
        # A port, and a text after its length.
        port, length = struct.unpack_from(">ii", content := address.read_bytes())
        patch.setenv("PYSPARK_GATEWAY_PORT", str(port))
        patch.setenv("PYSPARK_GATEWAY_SECRET", content[8 : 8 + length].decode())
        yield
        # It ends with its standard input, which the block closes.
        assert process.poll() is None, (directory / "log").read_text()
