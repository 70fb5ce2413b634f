"""Workers of an executor share its memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from streamsapp.config.memory import MIB, MINIMUM_BYTES
from streamsapp_spark.streaming.memory import ExecutorMemory

GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("heap", "workers", "total", "share"),
    [(GIB, 2, 4 * GIB, (3 * GIB - 384 * MIB) // 2), (8 * GIB, 4, 16 * GIB, (8 * GIB - int(0.8 * GIB)) // 4)],
)
def test_what_java_leaves_is_divided_among_the_workers(heap: int, workers: int, total: int, share: int) -> None:
    assert ExecutorMemory(workers, heap).share(total) == pytest.approx(share, abs=1)


class JavaUtils:
    """As the class of Spark's: a number without a unit is in the unit that is asked for."""

    def byteStringAsBytes(self, text: str) -> int:  # noqa: N802 - Java's name
        return int(text[:-1]) * GIB if text.endswith("g") else int(text)

    def byteStringAsMb(self, text: str) -> int:  # noqa: N802 - Java's name
        return int(text[:-1]) * 1024 if text.endswith("g") else int(text)


@pytest.mark.parametrize("text", ["2g", "2048"])
def test_the_heap_of_an_executor_is_read_as_spark_reads_it(text: str) -> None:
    settings = {"spark.executor.memory": text, "spark.executor.cores": "4"}
    spark: Any = MagicMock(master="spark://host:7077", defaultParallelism=8)
    spark._jvm.org.apache.spark.network.util.JavaUtils = JavaUtils()
    spark.getConf.return_value.get = settings.get
    spark._jsc.sc.return_value.getExecutorMemoryStatus.return_value.size.return_value = 3

    assert ExecutorMemory.of(spark) == ExecutorMemory(workers=4, heap=2 * GIB)


def test_too_little_memory_is_told_with_the_settings_that_help(caplog: pytest.LogCaptureFixture) -> None:
    assert ExecutorMemory(8, GIB).share(2 * GIB) == MINIMUM_BYTES
    for told in ("leave 80 MiB for each of 8 Python workers", "need 128 MiB", "spark.executor.cores"):
        assert told in caplog.text
