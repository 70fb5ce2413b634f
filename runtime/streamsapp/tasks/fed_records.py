"""Records that no broker sent, on their way to a task: as they are fetched, so that the loop in C takes them.

Called by the test driver, ``Session`` and Spark's workers, on any thread.
"""

from __future__ import annotations

from streamsapp import native
from streamsapp.record import Headers, InputRecord


def fed_record(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: int,
    headers: Headers | None,
) -> InputRecord:
    """Returns a record of what a serde may have given for bytes. Raises ``TypeError`` for a key or value that is
    nothing like them."""
    return native.Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=_exactly(key),
        value=_exactly(value),
        timestamp=timestamp,
        headers=headers,
    )


def _exactly(data: bytes | None) -> bytes | None:
    return data if data is None or type(data) is bytes else bytes(memoryview(data))
