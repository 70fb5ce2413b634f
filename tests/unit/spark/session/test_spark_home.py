"""Java's Python processes import modules of Spark's that are compiled, and planners of a query import no runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from streamsapp_spark.session import spark_home

_GATEWAY = "PYSPARK_GATEWAY_PORT"
#: Prints the home that Java would have.
_MAKE = "import os\nfrom streamsapp_spark.session.spark_home import leave_out_archives\nleave_out_archives()\n"
_SHOW = "print(os.environ.get('SPARK_HOME'), *sorted(os.listdir(os.environ['SPARK_HOME'])))"

_ON_SPARK = """
from streamsapp_spark.session.session import session, start_java
with session(start_java("homes", "local[1]", [])) as spark:
    print(spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()[0])
"""


def ran(program: str, **environment: str) -> str:
    """Returns the output of a Python process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    made = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_the_home_has_spark_without_its_archives_and_goes_with_the_process() -> None:
    home, *parts = ran(_MAKE + _SHOW, PYSPARK_PYTHON=sys.executable, STREAMSAPP_CACHE="/dev/null").split()
    assert {"bin", "jars"} <= set(parts) <= {"bin", "conf", "jars"}
    assert not Path(home).exists()


def test_python_may_be_found_on_the_path() -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert ran(_MAKE + _SHOW, PATH=path, STREAMSAPP_CACHE="/dev/null").split()[0] != "None"


def test_what_a_killed_process_left_goes_with_the_next_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    end = "import sys\nprint(os.environ['SPARK_HOME'], flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", f"{_MAKE}{end}"]
    places = {"TMPDIR": str(tmp_path), "STREAMSAPP_CACHE": "/dev/null"}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **places}
    environment = {name: value for name, value in environment.items() if name not in ("SPARK_HOME", _GATEWAY)}

    def started(stack: ExitStack) -> tuple[subprocess.Popen[str], Path]:
        pipe = subprocess.PIPE
        process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True))
        stack.callback(process.kill)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    with ExitStack() as stack:
        killed, left = started(stack)
        _, stays = started(stack)
        killed.kill()
        killed.wait()
        assert left.exists()
        last, own = started(stack)
        assert (left.exists(), stays.exists(), own.exists()) == (False, True, True)
        last.communicate()
        assert sorted(tmp_path.iterdir()) == [stays.parent]


@pytest.mark.parametrize(
    "environment",
    [
        {"PYSPARK_PYTHON": "/usr/bin/another-python"},
        {"PYSPARK_PYTHON": sys.executable, _GATEWAY: "1"},
        {"PATH": "/nowhere"},
        {"PATH": "/usr/bin:/bin"},
    ],
)
def test_nothing_is_done_where_other_pythons_may_need_the_archives(environment: dict[str, str]) -> None:
    assert ran(f"{_MAKE}print(os.environ.get('SPARK_HOME'))", **environment) == "None"


def test_a_home_that_is_given_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark_home.leave_out_archives()
    assert os.environ["SPARK_HOME"] == str(tmp_path)


@pytest.mark.long
def test_a_worker_of_a_command_has_the_installed_pyspark() -> None:
    assert ran(_ON_SPARK) == pyspark.__file__


def test_the_source_of_a_query_is_planned_without_the_runtime() -> None:
    heavy = "confluent_kafka", "pyarrow", "streamsapp.config", "streamsapp.topology", "streamsapp.runtime"
    program = f"import sys, streamsapp_spark.streaming.source\nprint(*(set(sys.modules) & set({heavy!r})))"
    assert ran(program) == ""
