"""The things that workers get from the driver before they ask it for anything. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.session.executor_versions import Versions, versions
from streamsapp_spark.streaming.channel import DriverAddress
from streamsapp_spark.streaming.memory import ExecutorMemory

#: The figures of a report, in their order.
FIGURES = ("records", "outputs", "state_rows", "state_bytes", "lag", "batch_size", "commit_ms", "report")


@dataclass(frozen=True)
class EngineJob:
    """The same for all workers of a driver."""

    application_id: str
    program: ShippedProgram
    #: Partitions of every topic there is, as JSON.
    partitions: bytes
    driver: DriverAddress
    memory: ExecutorMemory
    #: The driver's.
    versions: Versions

    @classmethod
    def of(
        cls,
        application_id: str,
        program: ShippedProgram,
        partitions: Mapping[str, int],
        driver: DriverAddress,
        memory: ExecutorMemory,
    ) -> EngineJob:
        return cls(application_id, program, msgspec.json.encode(dict(partitions)), driver, memory, versions())
