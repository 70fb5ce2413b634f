"""The number of the last batch of each table of a database, in a table beside it.

Used on the driver, by the thread that uses the table. A row has the query that writes the table, the batch that it has
added last, and the staging table of the try that may add the next one. The number changes in the transaction that adds
rows, and only for that try: a driver that was replaced and hangs has another staging table, and adds nothing.
"""

from __future__ import annotations

from uuid import uuid4

from streamsapp.errors import StreamsError
from streamsapp_spark.sinks.database import LOCK_SECONDS, DatabaseConnection, DatabaseError

_NAME = "streamsapp_sinks"
#: Types that every database has.
_COLUMNS = (
    "sink_table VARCHAR(200) NOT NULL PRIMARY KEY, query_id VARCHAR(40) NOT NULL, batch DECIMAL(19) NOT NULL, "
    "staging VARCHAR(200) NOT NULL"
)
_REPLACED = "another driver adds rows to {0} now; this one has added nothing of batch {1}"
_REMEDY = "bring back the one that fits the other, or give the sink a new path and a new table"


class BatchNumbers:
    """The row of one table."""

    def __init__(self, table: str) -> None:
        schema = "".join(table.rpartition(".")[:2])
        self._table, self._schema, self._name = table, schema, f"{schema}{_NAME}"

    def staging(self) -> str:
        """Returns a new name of a table."""
        return f"{self._schema}streamsapp_{uuid4().hex[:16]}"

    def create(self, connection: DatabaseConnection) -> None:
        """Makes the table of all rows if there is none."""
        if not connection.has_table(self._name):
            try:
                connection.execute(f"CREATE TABLE {self._name} ({_COLUMNS})")
            except DatabaseError:
                if not connection.has_table(self._name):  # another sink makes it just now
                    raise

    def begin(self, connection: DatabaseConnection, query: str, batch: int, staging: str) -> bool:
        """Gives the next batch to this try; returns False if it was added already. Raises ``StreamsError`` for a table
        that lacks batches before it, or has others."""
        found = connection.first(
            f"SELECT query_id, batch, staging FROM {self._name} WHERE sink_table = ?",  # noqa: S608 - checked
            self._table,
        )
        known, last, old = found or ("", "-1", "")
        if known != query:
            self._begin_anew(connection, query, batch, staging, str(known))
        elif int(str(last)) == batch:
            return False
        elif int(str(last)) == batch - 1:
            self._take(connection, "staging = ?", staging, query, batch, str(old))
        else:
            raise StreamsError(
                f"{self._table} has batches up to {last}, and this is batch {batch}: the table or the checkpoint was "
                f"brought back from another time; {_REMEDY}"
            )
        if old:
            connection.drop(old)  # of a driver that was killed
        return True

    def _begin_anew(self, connection: DatabaseConnection, query: str, batch: int, staging: str, known: str) -> None:
        if batch != 0:
            elsewhere = f"which has added batches up to {batch - 1} elsewhere"
            raise StreamsError(f"{self._table} has no batch of this sink, {elsewhere}; {_REMEDY}")
        if connection.first(f"SELECT 1 FROM {self._table}") is not None:  # noqa: S608 - a name that was checked
            raise StreamsError(f"{self._table} has rows, and this sink has added none of them; {_REMEDY}")
        with connection.transaction():
            delete = f"DELETE FROM {self._name} WHERE sink_table = ? AND query_id = ?"  # noqa: S608 - checked
            self._change(connection, delete, self._table, known)
            insert = f"INSERT INTO {self._name} (sink_table, query_id, batch, staging) VALUES (?, ?, -1, ?)"  # noqa: S608
            self._change(connection, insert, self._table, query, staging)

    def end(self, connection: DatabaseConnection, query: str, batch: int, staging: str) -> None:
        """Writes the number down, in a transaction of the caller's, and keeps others out until that ends. Raises
        ``StreamsError`` if another try may add the batch."""
        self._take(connection, "batch = ?", batch, query, batch, staging)

    def _take(
        self, connection: DatabaseConnection, change: str, value: str | int, query: str, batch: int, staging: str
    ) -> None:
        """Changes the row, if the batch is the next one, and of the try with that staging table."""
        row = "sink_table = ? AND query_id = ? AND batch = ? AND staging = ?"
        update = f"UPDATE {self._name} SET {change} WHERE {row}"  # noqa: S608 - a name that was checked
        if self._change(connection, update, value, self._table, query, batch - 1, staging) != 1:
            raise StreamsError(_REPLACED.format(self._table, batch))

    def _change(self, connection: DatabaseConnection, statement: str, *values: str | int) -> int:
        try:
            return connection.execute(statement, *values, seconds=LOCK_SECONDS)
        except DatabaseError as error:
            raise StreamsError(
                f"the row of {self._table} in {self._name} cannot be written: {error}; if a driver from before hangs "
                "in a transaction, end its session in the database"
            ) from None
