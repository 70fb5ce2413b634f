"""The options of the data source, from the reader that is asked for and from a catalog's table. On the driver.

Spark keeps the options of ``CREATE TABLE ... USING streamsapp OPTIONS (...)``, and does not give them to a source in
Python that reads the table (4.3). It does keep the columns. So the comment of the first one says what the table reads,
which ``DESCRIBE TABLE`` shows, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from pyspark.sql.types import StructType

from streamsapp.errors import ConfigError

#: The options of reading.
MANIFEST, STORE, AS_OF, CHANGES = "manifest", "store", "asOf", "changes"
FIELDS, KEYS, BEHIND, PARTITIONS, STARTING = "schema", "keys", "behind", "partitions", "startingOffsets"
_ALL = (MANIFEST, STORE, AS_OF, CHANGES, FIELDS, KEYS, BEHIND, PARTITIONS, STARTING)
#: Options of other sources that would be passed over in silence, and the one that is meant.
_OTHERS = {"versionAsOf": AS_OF, "timestampAsOf": AS_OF, "readChangeFeed": "readStream", "startingVersion": STARTING}
#: Spark says so to a source when it makes a table of a catalog.
_OF_CATALOG = "provider"
_MARK = "streamsapp reads "

_decode = msgspec.json.Decoder(dict[str, str]).decode


def of_table(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Returns the options by the names above: the reader's own, or the options that a table in a catalog was made with.
    Raises ``ConfigError`` for an option beside the latter. One statement may name the table twice, and then Spark (4.3)
    reads both with the options of one of them, without a word."""
    found, stored = given(options), _stored(schema)
    if stored and found:
        raise ConfigError(
            f"option {next(iter(found))!r}: a table of a catalog is read with the options that it was made with, as "
            "Spark may give those of one mention of a table to all others in the same statement. Give this reading "
            "a name of its own: CREATE TEMPORARY VIEW ... USING streamsapp OPTIONS (manifest '...', store '...', "
            "asOf '...')"
        )
    return found or stored


def of_stream(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Returns the options of a stream. ``spark.readStream`` names one table, so its options may stand beside the
    options that a table in a catalog was made with."""
    return _stored(schema) | given(options)


def given(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a reader by the names above. Raises ``ConfigError`` for an option of another source's."""
    found = {name.lower(): value for name, value in options.items()}
    for name, ours in _OTHERS.items():
        if name.lower() in found:
            raise ConfigError(f"option {name!r}: is another source's; here it is {ours!r}")
    return {name: found[name.lower()] for name in _ALL if name.lower() in found}


def required(options: Mapping[str, str], name: str) -> str:
    """Returns the value of an option. Raises ``ConfigError`` if it is missing."""
    found = options.get(name)
    if not found:
        raise ConfigError(
            f'option {name!r} is missing: spark.read.format("streamsapp").option("{name}", ...), or CREATE TABLE ... '
            f"USING streamsapp OPTIONS ({name} '...'), without columns"
        )
    return found


def comment(options: Mapping[str, str]) -> str:
    """Returns the comment, as Spark's SQL writes it behind a column, that tells a table in a catalog what it reads;
    nothing where no table is made."""
    if _OF_CATALOG not in options:
        return ""
    kept = given(options)
    kept[MANIFEST] = str(Path(required(kept, MANIFEST)).resolve())
    text = _MARK + msgspec.json.encode(kept, order="sorted").decode()
    return " COMMENT '" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _stored(schema: StructType) -> dict[str, str]:
    said = schema.fields[0].metadata.get("comment", "") if schema.fields else ""
    if not isinstance(said, str) or not said.startswith(_MARK):
        return {}
    try:
        found = _decode(said.removeprefix(_MARK))
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"the comment of column {schema.fields[0].name} does not say what the table reads any "
            f"more ({error}): make it anew with CREATE OR REPLACE TABLE ... USING streamsapp OPTIONS (...)"
        ) from error
    return {name: value for name, value in found.items() if name in _ALL}
