"""An application that is configured in Python: history from DataFrames, then a query, in the session of its program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_program
from kafka_cluster import Kafka
from spark_apps import finished

pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]


def test_dataframes_are_history_a_query_goes_on_from_there_and_what_cannot_travel_is_refused(
    kafka: Kafka, tmp_path: Path
) -> None:
    names = kafka.unique("in-python"), kafka.create_topic("words", 2), kafka.create_topic("counts", 2)
    command = [sys.executable, spark_program.__file__, kafka.bootstrap_servers, str(tmp_path), *names]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    code, _, errors = finished(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment), 600.0
    )
    assert code == 0, errors[-6000:]
