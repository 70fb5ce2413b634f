"""The text that ``streamsapp local`` shows when it has started, with commands to copy. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamsapp.cli.topic_serdes import TopicRecords
from streamsapp.cli.topology_topics import TopologyTopics

#: Values to begin with, by the names of serdes.
_KEYS = {"string": "jane", "bytes": "amFuZQ=="}
_VALUES = {"string": "hello", "bytes": "aGVsbG8=", "json": {"hello": "world"}, "boolean": True}
_NUMBERS = ("short", "integer", "long", "float", "double")


def banner(
    name: str,
    *,
    servers: str,
    topics: TopologyTopics,
    stores: Sequence[str],
    url: str,
    folder: Path,
    application: Sequence[str],
    records: TopicRecords | None,
) -> str:
    """Returns the text that tells where everything is, and how to write a record and read the results.

    ``application`` are the options that name it to other commands; ``records`` are those of the first topic it reads.
    """
    rows = [
        ("broker", servers),
        ("reads", _listed(topics.sources, "topics that match a pattern")),
        ("writes", _listed(topics.sinks, "no fixed topic")),
        ("console", f"{url}/console/"),
        ("status", f"{url}/status"),
        ("metrics", f"{url}/metrics"),
        *[("state", f"{url}/state/{store}/KEY") for store in stores],
        ("folder", f"{folder} (--fresh forgets it)"),
    ]
    lines = [f"{name}: Ctrl-C stops it, the next `streamsapp local` goes on from there", *_table(rows)]
    line = None if records is None else sample(records)
    if topics.sources and line is not None:
        command = shlex.join(["streamsapp", "produce", min(topics.sources), *application])
        lines += ["to write a record:", f"  echo {shlex.quote(line)} | {command}"]
    if topics.sinks:
        command = shlex.join(["streamsapp", "consume", min(topics.sinks), *application])
        lines += ["to read the results:", f"  {command}"]
    return "\n".join(lines)


def sample(records: TopicRecords) -> str | None:
    """A line that ``produce`` takes; ``None`` for serdes of which nobody knows what they take."""
    values = _VALUES | dict.fromkeys(_NUMBERS, 1)
    keys = values | _KEYS
    if records.value.name not in values:
        return None
    key = {"key": keys[records.key.name]} if records.key.name in keys else {}
    return json.dumps({**key, "value": values[records.value.name]})


def _listed(topics: Iterable[str], otherwise: str) -> str:
    return ", ".join(sorted(topics)) or f"({otherwise})"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"  {label:<8} {text}" for label, text in rows]
