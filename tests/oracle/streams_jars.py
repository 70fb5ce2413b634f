"""The jars of Kafka Streams and its test driver, which come beside the broker's.

Used by the oracle, by tests that run programs in Java, and by the benchmarks. On the caller's thread.
"""

from __future__ import annotations

from pathlib import Path

from streamsapp.local.downloads import artifacts_of
from streamsapp.local.jars import KAFKA_VERSION, Jars

_NAME = f"kafka-streams-{KAFKA_VERSION}"
STREAMS = Jars(_NAME, artifacts_of(Path(__file__).with_name(f"{_NAME}.jars").read_text("ascii")))


def streams_jars() -> Path:
    """Returns the folder of the jars; fetched the first time it is asked for."""
    return STREAMS.folder()
