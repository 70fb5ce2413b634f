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
from streamsapp_spark.session.class_archive import link_parts
from streamsapp_spark.session.settings import JAVA_OPTIONS


@pytest.fixture(scope="session", autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Every Spark session that starts from here on finds the Java process; its log has the words of workers."""
    directory = tmp_path_factory.mktemp("java")
    address, log_file, home = directory / "address", directory / "log", directory / "home"
    # As commands have it: from the archives of Spark's own home Python compiles every module anew in every process.
    home.mkdir()
    link_parts(home, Path(pyspark.__file__).parent)
    own = {"SPARK_HOME": str(home), "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **own}
    # Nothing runs for so long that compiling it well pays.
    options = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"
    submit = str(home / "bin" / "spark-submit")
    command = [submit, "--conf", f"spark.driver.extraJavaOptions={options}", "pyspark-shell"]
    with (
        log_file.open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        eventually(address.exists, "Java's address", 240.0)
        # A port, and a text after its length.
        port, length = struct.unpack_from(">ii", content := address.read_bytes())
        patch.setenv("PYSPARK_GATEWAY_PORT", str(port))
        patch.setenv("PYSPARK_GATEWAY_SECRET", content[8 : 8 + length].decode())
        yield log_file
        # It ends with its standard input, which the block closes.
        assert process.poll() is None, log_file.read_text()
