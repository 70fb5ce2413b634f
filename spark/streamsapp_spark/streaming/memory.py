"""Divides the memory of an executor among the Python workers that it runs.

An instance has one figure, the limit of its control group or ``spec.resources.limits.memory``, from which all its
buffers and caches follow. An executor is a pod or a machine with such a figure, less what Java takes, and each of its
cores has a worker; those of ``local-cluster`` are on one machine and have its figure together. The driver reads Spark's
settings, on its main thread; workers divide: only they know their limit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark import SparkContext

from streamsapp.config.memory import MIB, MINIMUM_BYTES
from streamsapp_spark.session.master import has_executors, local_cluster

log = logging.getLogger(__name__)

#: Spark's own estimate of what Java takes beside its heap (``spark.executor.memoryOverhead``).
_OVERHEAD, _LEAST_OVERHEAD = 0.1, 384 * MIB


@dataclass(frozen=True)
class ExecutorMemory:
    """An executor, as far as memory is concerned."""

    #: Python workers that run at a time.
    workers: int
    #: Bytes of Java's heap.
    heap: int
    #: Executors that divide one figure among them.
    together: int = 1

    @classmethod
    def of(cls, spark: SparkContext) -> ExecutorMemory:
        """The executors of a running context; in local mode the driver is the only one."""
        master = str(spark.master)
        local = not has_executors(master)
        setting = "spark.driver.memory" if local else "spark.executor.memory"
        java = spark._jvm.org.apache.spark.network.util.JavaUtils  # type: ignore[union-attr]
        # A number without a unit is in MiB, as Spark itself has it.
        heap = MIB * java.byteStringAsMb(spark.getConf().get(setting, "1g"))
        cores = spark.getConf().get("spark.executor.cores") if not local else None
        if cluster := local_cluster(master):
            machines, cores_of_each = cluster
            workers = int(cores or cores_of_each)
            return cls(workers, heap, machines * (cores_of_each // workers))
        # The driver is in the answer; there is one executor at least once a session works.
        executors = 1 if local else max(1, spark._jsc.sc().getExecutorMemoryStatus().size() - 1)
        return cls(int(cores) if cores else -(-spark.defaultParallelism // executors), heap)

    def share(self, total: int) -> int:
        """The bytes of one worker, where the executor, or all that are together, has ``total``."""
        total //= self.together
        left = total - self.heap - max(_LEAST_OVERHEAD, int(self.heap * _OVERHEAD))
        share = left // self.workers
        if share < MINIMUM_BYTES:
            log.warning(
                "%d MiB of memory, of which Java takes %d MiB, leave %d MiB for each of %d Python workers, which need "
                "%d MiB: raise the memory limit of executors, or lower spark.executor.cores or spark.executor.memory",
                total // MIB, (total - left) // MIB, max(0, share) // MIB, self.workers, MINIMUM_BYTES // MIB,
            )  # fmt: skip
        return max(share, MINIMUM_BYTES)
