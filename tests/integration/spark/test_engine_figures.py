"""State that Spark shows of a query is that of its stores, also when it shrinks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances import Instances, eventually, produce
from spark_apps import App, finished
from spark_counting import status_of
from streamsapp.local.broker import free_port

pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    builder.table("{rows}", Consumed(TEXT, TEXT), Materialized("table", TEXT, TEXT))
    return builder.build()
"""


def test_rows_of_state_that_tasks_deleted_in_one_batch_are_gone_with_it(instances: Instances) -> None:
    kafka = instances.kafka
    rows = kafka.create_topic("rows", PARTITIONS)
    spark = {"trigger": "3s", "conf": {"spark.ui.enabled": "false"}}
    app = App(
        instances, kafka.unique("shrinks"), PROGRAM.replace("{rows}", rows), spec={"engine": "spark", "spark": spark}
    )
    port = free_port()
    driver = app.command(
        "run", "--master", "local[2]", "--http-port", str(port), "--state-dir", str(app.folder / "spark")
    )

    def put(keys: range, value: bytes | None) -> None:
        produce(kafka, rows, [(b"k%d" % number, value, 1_000) for number in keys])

    def shown() -> int | None:
        """Rows of state after the last batch."""
        observed = (status_of(port).get("progress") or {}).get("observedMetrics")
        return None if observed is None else observed["state_rows"]

    def until(holds: Callable[[], bool], what: str) -> None:
        eventually(lambda: holds() or driver.poll() is not None, what, 600.0)
        assert driver.poll() is None, finished(driver)[2][-6000:]

    try:
        until(lambda: status_of(port).get("state") == "RUNNING", "the driver")
        put(range(100), b"row")
        until(lambda: shown() == 100, "rows of state")
        put(range(90), None)
        # Both partitions have some, and both are in one batch, most likely.
        until(lambda: shown() == 10, "fewer rows of state")
        driver.terminate()
        code, _, errors = finished(driver)
        assert code == 0, errors[-6000:]
    finally:
        driver.kill()
        driver.communicate()
