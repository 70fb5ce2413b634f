"""The last batch of a query, as Spark reports it. Asked by the driver's main thread."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def last_progress(query: StreamingQuery) -> dict[str, Any] | None:
    """Returns the document; ``None`` before the first batch. In one call to Java: ``lastProgress`` makes some two
    hundred."""
    told = query._jsq.lastProgress()
    return None if told is None else json.loads(told.json())
