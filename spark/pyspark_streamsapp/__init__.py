"""Found by Spark because of its name: makes ``spark.read.format("streamsapp")`` known without being registered.

Spark imports it in a process of its own in each session that has any source in Python, whether this one is read or not:
so it imports nothing of the runtime before it is.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Stands for the data source until Spark makes one."""

    @classmethod
    def name(cls) -> str:
        return "streamsapp"

    def __new__(cls, options: dict[str, str]) -> Any:
        from streamsapp_spark.datasource import StreamsAppDataSource  # late: only who reads or writes needs it

        return StreamsAppDataSource(options)
