"""``GlobalKTable``: a table whose rows are all on every instance.

User code gets it from ``StreamsBuilder.global_table`` while it builds a program, on its own thread.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from streamsapp.dsl.table_store import TableStore
from streamsapp.java_names.lookup import JavaNames

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(JavaNames, Generic[K, V]):
    """A topic as a table that is complete on every instance, whatever the topic's partitions (KIP-99).

    Any processor reads it by the name of its store: ``context.get_state_store(table.queryable_store_name)``.
    """

    def __init__(self, store: TableStore) -> None:
        self._store = store

    @property
    def queryable_store_name(self) -> str:
        """The name of the table's store: the one that ``Materialized`` gave, or a generated one."""
        return self._store.name
