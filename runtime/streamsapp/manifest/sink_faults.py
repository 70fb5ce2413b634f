"""Faults of sinks in a manifest or a Python program. Pure; a fault names the field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from streamsapp.manifest.jdbc_faults import jdbc_faults
from streamsapp.manifest.model import SinkSpec
from streamsapp.topology.builder import Topology
from streamsapp.topology.written_topics import written_topics

#: An absolute path, or an address.
_PLACE = re.compile(r"/|[a-z][a-z0-9+.-]*:/")
#: Formats of sinks whose tables have names, and the form of these.
_NAMED_TABLES = {
    "iceberg": (re.compile(r"\w+(\.\w+)+", re.ASCII), "catalog.database.table, with a catalog of spec.spark.conf"),
    "jdbc": (re.compile(r"([A-Za-z_]\w{0,62}\.){0,2}[A-Za-z_]\w{0,62}", re.ASCII), "table or schema.table"),
}
_OWN_OPTIONS = frozenset({"path", "txnAppId", "txnVersion", "checkpointLocation"})


def sink_faults(sinks: Sequence[SinkSpec], name: str) -> Iterator[str]:
    """Yields the faults of these sinks; ``name`` is the field that has them."""
    for number, sink in enumerate(sinks):
        field = f"{name}[{number}]"
        if any(other.name == sink.name for other in sinks[:number]):
            yield f"{field}.name: another sink is called {sink.name}, too; rename one of them"
        if not _PLACE.match(sink.path):
            yield (
                f"{field}.path: expected a folder such as s3a://bucket/folder or /folder, which all executors reach, "
                f"got {sink.path!r:.100}"
            )
        for other in sinks[:number]:
            if _folder(sink.path) == _folder(other.path):
                yield f"{field}.path: sink {other.name} has the same folder; give each sink its own"
            elif _folder(sink.path).startswith(_folder(other.path)):
                yield f"{field}.path: lies in the folder of sink {other.name}; give each sink its own"
            elif _folder(other.path).startswith(_folder(sink.path)):
                yield f"{field}.path: has the folder of sink {other.name} in it; give each sink its own"
        yield from _table_faults(sink, sinks[:number], f"{field}.table")
        for option in sink.options.keys() & _OWN_OPTIONS:
            yield f"{field}.options.{option}: is set by the sink itself, as it makes rows exact; remove it"
        yield from jdbc_faults(sink, field)


def _table_faults(sink: SinkSpec, before: Sequence[SinkSpec], field: str) -> Iterator[str]:
    if sink.format not in _NAMED_TABLES:
        if sink.table is not None:
            yield f"{field}: is for {' and '.join(_NAMED_TABLES)} alone; remove it, as {sink.format} has a folder, path"
    elif sink.table is None:
        yield f"{field}: is required, as a table of {sink.format} has a name; path is the folder of its checkpoint"
    elif not _NAMED_TABLES[sink.format][0].fullmatch(sink.table):
        yield f"{field}: expected {_NAMED_TABLES[sink.format][1]}, got {sink.table!r:.100}"
    for other in before:
        if sink.table is not None and _place_of_table(sink) == _place_of_table(other):
            yield f"{field}: sink {other.name} has the same table; give each sink its own"


def _place_of_table(sink: SinkSpec) -> tuple[object, ...]:
    return sink.format, sink.table, sink.options.get("url")


def _folder(path: str) -> str:
    return path.rstrip("/") + "/"


def unwritten_faults(sinks: Sequence[SinkSpec], name: str, topology: Topology) -> Iterator[str]:
    """Yields a fault for each topic that the topology does not write under a name of its own."""
    written = written_topics(topology) if sinks else {}
    for number, sink in enumerate(sinks):
        if sink.topic not in written:
            names = ", ".join(sorted(written)) or "none under a name of its own"
            yield f"{name}[{number}].topic: the topology writes no topic {sink.topic!r}; it writes: {names}"
