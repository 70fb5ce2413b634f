"""Runs one workload with ``engine: spark`` until the last record is committed.

Started by ``run.py``. The driver is a process of its own, as users start it; progress is read from its status. The
first mark comes when the first batch begins: the start of Spark is not in the clock, that of Python workers is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.spark_driver import Driver
from benchmarks.systems.job import Job, mark, mark_closed

#: Spark's Java takes 1.4 GB of it, and two workers divide the rest.
_MEMORY = "4Gi"
_CODE = """
from benchmarks.systems.job import Job
from benchmarks.systems.streamsapp_app import topology as of

def topology():
    return of(Job(**{job}))
"""


def main() -> None:
    job = Job.from_command_line()
    trigger = "1s" if job.variant.startswith("1s-") else "continuous batches"
    spec = {"engine": "spark", "spark": {"trigger": trigger}, "resources": {"limits": {"memory": _MEMORY}}}
    folder = Path(job.stateDir) / job.applicationId
    with Driver(folder, job.bootstrapServers, _CODE.format(job=vars(job)), spec) as driver:
        driver.until(lambda: driver.status().get("batches"))
        mark("FIRST")
        half = job.records // 2
        mark("HALF", driver.until(lambda: at_least(half, processed(job, driver.status()))))
        driver.until(lambda: processed(job, driver.status()) >= job.records)
        mark("LAST", job.records)
    mark_closed(job.records)


def at_least(least: int, count: int) -> int:
    """The count; zero until it is large enough."""
    return count if count >= least else 0


def processed(job: Job, status: dict[str, Any]) -> int:
    """Committed records, of the counted ones: in W2 they are words, and come to the second sub-topology. Zero while the
    driver does not answer."""
    counting = "1_" if job.workload == "w2" else "0_"
    return sum(each["processedRecords"] for each in status.get("tasks", ()) if each["id"].startswith(counting))


if __name__ == "__main__":
    main()
