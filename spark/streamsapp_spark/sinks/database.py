"""A database that a driver of JDBC reaches: statements of the sink's own, and tables that Spark writes.

Used on the driver, by the thread that uses the table. Spark's own code makes the connections, also those of its
writer: it finds drivers of ``spark.jars``, which Java's ``DriverManager`` does not, and knows each database's types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from streamsapp.errors import StreamsError
from streamsapp_spark.session.java_process import cause_in, reason

#: Kinds of SQLSTATE: a connection that fails or ends, too few resources, and a server that starts or ends.
_PASSING = ("08", "53", "57")
#: Seconds that a statement waits which needs a lock, and has little to do by itself.
LOCK_SECONDS = 60


class DatabaseError(StreamsError):
    """An error of a database; ``state`` is its SQLSTATE, empty where it is not known."""

    def __init__(self, message: str, state: str = "") -> None:
        super().__init__(message)
        self.state = state

    @property
    def may_pass(self) -> bool:
        """Says whether trying again later may help."""
        return self.state.startswith(_PASSING)


class DatabaseConnection:
    """A connection; each statement is a transaction of its own, except in a block of :meth:`transaction`."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def execute(self, statement: str, *values: str | int, seconds: int = 0) -> int:
        """Returns how many rows it changed. It is given up after so many ``seconds``, unless they are 0."""
        with _told(), self._prepared(statement, values) as prepared:
            prepared.setQueryTimeout(seconds)
            return int(prepared.executeUpdate())

    def first(self, query: str, *values: str | int) -> tuple[str | None, ...] | None:
        """Returns the first row as texts, if there is one."""
        with _told(), self._prepared(query, values) as prepared:
            prepared.setMaxRows(1)
            found = prepared.executeQuery()
            count = found.getMetaData().getColumnCount()
            return tuple(found.getString(at + 1) for at in range(count)) if found.next() else None

    def has_table(self, name: str) -> bool:
        """Returns whether there is one that can be read. Raises ``DatabaseError`` if that is not known."""
        try:
            self.first(f"SELECT 1 FROM {name} WHERE 1 = 0")  # noqa: S608 - a name that was checked
        except DatabaseError as error:
            if error.may_pass:
                raise
            return False
        return True

    def drop(self, name: str) -> None:
        """Removes a table if there is one."""
        if self.has_table(name):
            self.execute(f"DROP TABLE {name}", seconds=LOCK_SECONDS)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Statements of the block are one transaction; an error in it takes all of them back."""
        self._java.setAutoCommit(False)
        try:
            yield
            with _told():
                self._java.commit()
        except BaseException:
            with suppress(Exception):  # the connection may be what failed
                self._java.rollback()
            raise
        self._java.setAutoCommit(True)

    @contextmanager
    def _prepared(self, statement: str, values: tuple[str | int, ...]) -> Iterator[Any]:
        prepared = self._java.prepareStatement(statement)
        try:
            for at, value in enumerate(values):
                prepared.setString(at + 1, value) if isinstance(value, str) else prepared.setLong(at + 1, value)
            yield prepared
        finally:
            prepared.close()


class Database:
    """A database, as options of Spark's have it: ``url``, ``driver`` and the rest."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        java: Any = spark._jvm
        self._options = dict(options)
        self._jdbc, self._as_scala = java.org.apache.spark.sql.execution.datasources.jdbc, java.PythonUtils.toScalaMap
        self._dialect = java.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])

    def quoted(self, column: str) -> str:
        """Returns a column's name as the database, and Spark's writer, write it."""
        return str(self._dialect.quoteIdentifier(column))

    @contextmanager
    def connection(self, login: Mapping[str, str]) -> Iterator[DatabaseConnection]:
        with _told():
            options = self._jdbc.JdbcOptionsInWrite(self._as_scala({**self._options, **login, "dbtable": "none"}))
            java = self._dialect.createConnectionFactory(options).apply(-1)
        try:
            yield DatabaseConnection(java)
        finally:
            java.close()

    def write(self, rows: DataFrame, table: str, login: Mapping[str, str], *, may_exist: bool = False) -> None:
        """Makes the ``table`` and adds rows to it, in a transaction of each task. ``createTableOptions`` are of tables
        that stay, which are the ones that may exist."""
        options = {name: of for name, of in self._options.items() if may_exist or name.lower() != "createtableoptions"}
        writer = rows.write.format("jdbc").options(**options, **login, dbtable=table)
        with _told():
            writer.mode("append" if may_exist else "errorifexists").save()


def driver_of(spark: SparkSession, url: str) -> str | None:
    """Returns the class of the driver for an address, of those in Spark's jars; ``None`` if there is none."""
    java: Any = spark._jvm
    kind, loader = java.java.lang.Class.forName("java.sql.Driver"), java.org.apache.spark.util.Utils
    drivers = java.java.util.ServiceLoader.load(kind, loader.getContextOrSparkClassLoader()).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(url):
            return str(driver.getClass().getName())
    return None


@contextmanager
def _told() -> Iterator[None]:
    """Raises ``DatabaseError`` for errors of Java. Without its cause: that would be shown in the place of this."""
    try:
        yield
    except Exception as error:
        raise _as_told(error) from None


def _as_told(error: Exception) -> DatabaseError:
    java, last, of_database = getattr(error, "java_exception", None), None, None
    while java is not None:
        if (state := _state(java)) is not None:
            of_database = DatabaseError(" ".join(str(java.getMessage()).split()), state)
        java, last = java.getCause(), java
    if of_database is not None:
        return of_database
    return DatabaseError(reason(error) if last is None else cause_in(str(last.toString())))


def _state(java: Any) -> str | None:
    """Returns the SQLSTATE of an error that a database's driver raised; ``None`` for another one."""
    try:
        return str(java.getSQLState() or "")
    except Py4JError:
        return None
