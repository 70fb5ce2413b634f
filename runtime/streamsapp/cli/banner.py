"""The text that ``streamsapp local`` shows when it has started, with commands to copy. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamsapp.cli.topic_serdes import TopicRecords
from streamsapp.cli.topology_topics import TopologyTopics

#: Values to begin with, by the names of serdes.
_KEYS = {"string": "jane", "bytes": "amFuZQ=="}
_VALUES = {"string": "hello", "bytes": "aGVsbG8=", "json": {"hello": "world"}, "boolean": True}
_NUMBERS = ("short", "integer", "long", "float", "double")


@dataclass(frozen=True)
class Banner:
    """The places of everything of an application that runs here."""

    name: str
    servers: str
    topics: TopologyTopics
    stores: Sequence[str]
    #: Of the HTTP port.
    url: str
    folder: Path
    #: The options that name the application to other commands.
    application: Sequence[str]
    #: Those of the first topic that it reads.
    records: TopicRecords | None

    def text(self) -> str:
        """Returns what tells a person where everything is, and how to write a record and read the results."""
        rows = [
            ("broker", self.servers),
            ("reads", _listed(self.topics.sources, "topics that match a pattern")),
            ("writes", _listed(self.topics.sinks, "no fixed topic")),
            ("console", f"{self.url}/console/"),
            ("status", f"{self.url}/status"),
            ("metrics", f"{self.url}/metrics"),
            *[("state", f"{self.url}/state/{store}/KEY") for store in self.stores],
            ("folder", f"{self.folder} (--fresh forgets it)"),
        ]
        lines = [f"{self.name}: Ctrl-C stops it, the next `streamsapp local` goes on from there", *_table(rows)]
        line = None if self.records is None else sample(self.records)
        if self.topics.sources and line is not None:
            command = shlex.join(["streamsapp", "produce", min(self.topics.sources), *self.application])
            lines += ["to write a record:", f"  echo {shlex.quote(line)} | {command}"]
        if self.topics.sinks:
            command = shlex.join(["streamsapp", "consume", min(self.topics.sinks), *self.application])
            lines += ["to read the results:", f"  {command}"]
        return "\n".join(lines)

    def as_data(self) -> dict[str, object]:
        """Returns the same for programs."""
        return {
            "applicationId": self.name,
            "bootstrapServers": self.servers,
            "reads": sorted(self.topics.sources),
            "writes": sorted(self.topics.sinks),
            "stores": list(self.stores),
            "url": self.url,
            "folder": str(self.folder),
        }


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
