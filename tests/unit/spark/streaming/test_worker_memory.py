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


def context(master: str, settings: dict[str, str], registered: int) -> Any:
    """A context of Spark's with so many executors."""
    spark: Any = MagicMock(master=master, defaultParallelism=8)
    spark._jvm.org.apache.spark.network.util.JavaUtils = JavaUtils()
    spark.getConf.return_value.get = settings.get
    spark._jsc.sc.return_value.getExecutorMemoryStatus.return_value.size.return_value = registered + 1
    return spark


@pytest.mark.parametrize("text", ["2g", "2048"])
def test_the_heap_of_an_executor_is_read_as_spark_reads_it(text: str) -> None:
    spark = context("spark://host:7077", {"spark.executor.memory": text, "spark.executor.cores": "4"}, 2)
    assert ExecutorMemory.of(spark) == ExecutorMemory(workers=4, heap=2 * GIB)


@pytest.mark.parametrize(
    ("master", "settings", "executors", "workers"),
    [
        ("local-cluster[3,1,1024]", {}, 3, 1),
        ("local-cluster[2, 4, 4096]", {"spark.executor.cores": "2"}, 4, 2),
    ],
)
@pytest.mark.parametrize("registered", [1, 3])
def test_executors_of_a_local_cluster_divide_the_memory_of_their_machine(
    master: str, settings: dict[str, str], executors: int, workers: int, registered: int
) -> None:
    memory = ExecutorMemory.of(context(master, settings, registered))
    java = GIB + 384 * MIB
    assert memory.workers == workers
    assert executors * (java + workers * memory.share(12 * GIB)) == pytest.approx(12 * GIB, abs=executors * workers)


def test_too_little_memory_is_told_with_the_settings_that_help(caplog: pytest.LogCaptureFixture) -> None:
    assert ExecutorMemory(8, GIB).share(2 * GIB) == MINIMUM_BYTES
    for told in ("leave 80 MiB for each of 8 Python workers", "need 128 MiB", "spark.executor.cores"):
        assert told in caplog.text
