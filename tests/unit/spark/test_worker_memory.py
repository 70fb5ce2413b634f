"""Workers of an executor share its memory."""

from __future__ import annotations

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


def test_too_little_memory_is_told_with_the_settings_that_help(caplog: pytest.LogCaptureFixture) -> None:
    assert ExecutorMemory(8, GIB).share(2 * GIB) == MINIMUM_BYTES
    for told in ("leave 80 MiB for each of 8 Python workers", "need 128 MiB", "spark.executor.cores"):
        assert told in caplog.text
