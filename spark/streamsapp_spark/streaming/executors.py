"""The cores that executors have, and the cores still to come: by them batches are divided.

Executors register one after the other when a driver starts, come later, and are lost. Used on the driver's main thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark import SparkContext

from streamsapp.errors import UserInputError
from streamsapp_spark.session.executor_versions import refuse_other_executors
from streamsapp_spark.session.master import has_executors, local_cluster

log = logging.getLogger(__name__)

#: The seconds that executors have to register before the first batch. If Spark's settings do not say how many there
#: will be, no more is expected after so many seconds without a new one.
_PATIENCE, _QUIET = 30.0, 3.0
_LOOK = 0.1


class Executors:
    """The executors of a running context."""

    def __init__(self, spark: SparkContext, kept: int = 0) -> None:
        """Keeps so many cores for other work of the session, if there are more."""
        self._spark = spark
        self._kept = kept
        self._known = 1
        promised = expected_cores(str(spark.master), lambda name: spark.getConf().get(name))
        #: Cores that there will be; ``None`` where nothing says so.
        self.expected = None if promised is None else self._left(promised)

    def _left(self, cores: int) -> int:
        return max(min(cores, 1), cores - self._kept)

    @property
    def cores(self) -> int:
        """Tasks that can run at a time now; as many as before while Spark does not report it, as may happen when it
        ends."""
        context = self._spark._jsc.sc()
        try:
            found = self._left(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
        except Py4JError as error:
            log.debug("how many cores there are is not known: %s", error)
            return self._known
        self._known = found if self.expected is None else min(found, self.expected)
        return self._known

    def other_versions(self) -> UserInputError | None:
        """The refusal of an executor with other versions, which may have come after the others; none if all that answer
        have the driver's."""
        try:
            if has_executors(str(self._spark.master)):
                refuse_other_executors(self._spark)
        except UserInputError as error:
            return error
        return None

    def wait(self, given_up: Callable[[], bool]) -> int:
        """Return when all cores that are expected are there, or no more come; the number of cores to plan for. The
        order in which executors register changes nothing."""
        began = grown_at = time.monotonic()
        cores = self.cores
        while cores != self.expected and not given_up() and has_executors(str(self._spark.master)):
            now = time.monotonic()
            if now - began > _PATIENCE or (self.expected is None and now - grown_at > _QUIET):
                break
            time.sleep(_LOOK)
            before, cores = cores, self.cores
            grown_at = now if cores > before else grown_at
        if self.expected is not None and cores < self.expected:
            log.warning("%d of %d cores are there; lanes are moved to the others when they come", cores, self.expected)
        return max(1, cores, self.expected or 0)


def expected_cores(master: str, setting: Callable[[str], str | None]) -> int | None:
    """The tasks at a time that Spark's settings promise; ``None`` where they do not, as those of a standalone cluster
    without ``spark.cores.max``, which has whatever its workers have."""
    each, of_task = setting("spark.executor.cores"), int(setting("spark.task.cpus") or 1)
    if cluster := local_cluster(master):
        workers, cores = cluster
        return workers * _slots(cores, int(each or cores), of_task)
    if not has_executors(master) or setting("spark.dynamicAllocation.enabled") == "true":
        return None
    if master.startswith("spark://"):
        most = setting("spark.cores.max")
        return None if most is None else _slots(int(most), int(each or most), of_task)
    executors = setting("spark.executor.instances")
    return None if executors is None else int(executors) * (int(each or 1) // of_task)


def _slots(cores: int, of_executor: int, of_task: int) -> int:
    """Tasks at a time, where executors of some size are made of these cores."""
    return cores // of_executor * (of_executor // of_task)
