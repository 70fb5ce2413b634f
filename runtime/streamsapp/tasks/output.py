"""The output of a task: its sinks append to one list, which the record collector takes over between slices.

Appended to and taken on the processing thread that holds the task.
"""

from __future__ import annotations

from typing import TypeAlias

from streamsapp.record import Headers

#: ``(topic, value, key, partition, None, None, timestamp_ms, headers)``: the positional arguments of the producer's
#: ``produce``, so that sending is one starred call per record. Partition -1 leaves the choice to the producer, which
#: hashes the key's bytes as Kafka's Java producer does.
OutputRecord: TypeAlias = tuple[str, bytes | None, bytes | None, int, None, None, int, Headers | None]
