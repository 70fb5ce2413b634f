"""The source that Spark finds by the name of its package stands for the real one, and costs next to nothing."""

from __future__ import annotations

import pickle
import subprocess
import sys

from pyspark.cloudpickle import dumps
from pyspark.sql.datasource import DataSource

from pyspark_streamsapp import DefaultSource
from streamsapp_spark.datasource import StreamsAppDataSource


def test_spark_makes_the_real_source_of_the_one_it_finds() -> None:
    sent = dumps(DefaultSource)  # type: ignore[no-untyped-call]
    found = pickle.loads(sent)  # noqa: S301 - as Spark sends it
    assert issubclass(found, DataSource)
    made = found(options={"store": "counts"})
    assert type(made) is StreamsAppDataSource
    assert (found.name(), made.options) == (StreamsAppDataSource.name(), {"store": "counts"})


def test_a_process_that_looks_for_sources_imports_nothing_of_the_runtime() -> None:
    told = "import sys, pyspark_streamsapp; print([each for each in sys.modules if each.startswith('streamsapp')])"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=240)
    assert found.stdout.strip() == "[]"


def test_the_process_that_workers_are_forked_from_has_no_thread_but_those_of_sparks_own() -> None:
    """Spark 4.0's own has one of numpy's, the others have one thread alone."""
    assert threads_of("streamsapp_spark.streaming.daemon") == threads_of("pyspark.daemon")


def threads_of(module: str) -> int:
    """How many a process has that has imported it."""
    told = f"import os, {module}; print(len(os.listdir('/proc/self/task')))"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=240)
    return int(found.stdout)
