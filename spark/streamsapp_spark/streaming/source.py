"""The streaming source of the query: as Spark sees it, a batch is offsets of topics and a row per record.

Spark makes the reader in processes of its own on the driver's machine, and in workers. It decides nothing: the engine
does, in the driver's process. Spark's checkpoint has the offsets that were planned; it is thrown away when the driver
ends, as the group's committed offsets are what counts.

Only workers need the runtime, and half a second of CPU to import it. Elsewhere the job is bytes, and nothing of it is
imported.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from streamsapp_spark.streaming.channel import DriverAddress, ask

if TYPE_CHECKING:
    import pyarrow as pa

    from streamsapp_spark.streaming.job import EngineJob

#: As Spark knows the source.
NAME = "streamsapp-engine"


def source_of(job: EngineJob) -> type[DataSource]:
    """A source for one driver. Its class carries the job, as options are shown to all users."""

    class Bound(EngineSource):
        DRIVER = job.driver
        JOB = pickle.dumps(job)

    return Bound


class EngineSource(DataSource):
    """Made by Spark, of no options."""

    DRIVER: DriverAddress
    JOB: bytes

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType | str:
        return "report array<bigint>"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return EngineReader(self.DRIVER, self.JOB)


class EngineReader(DataSourceStreamReader):
    """Asks the driver."""

    def __init__(self, driver: DriverAddress, job: bytes) -> None:
        self._address = driver
        self._job = job

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first batch: tasks begin at the offsets that the group has committed."""
        return {"batch": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Another one than before if there is something to do. Spark from 4.2 on hands a limit to a source that takes
        one; the driver has its own."""
        offset: dict[str, Any] = ask(_driver(self._address), "latest")
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The batch begins; one partition per core."""
        return [InputPartition(number) for number in range(ask(_driver(self._address), "begin", end["batch"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a worker."""
        from streamsapp_spark.streaming.worker import pull  # late: only workers need it

        return pull(_loaded(self._job), partition.value)


@lru_cache(maxsize=1)
def _driver(address: DriverAddress) -> Connection:
    return address.connect()


@lru_cache(maxsize=1)
def _loaded(job: bytes) -> EngineJob:
    loaded: EngineJob = pickle.loads(job)  # noqa: S301 - the driver wrote it
    return loaded
