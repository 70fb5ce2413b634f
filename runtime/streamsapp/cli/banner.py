"""The text that ``streamsapp local`` shows when it has started, with commands to copy. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamsapp.cli.topology_topics import TopologyTopics

#: Topics for which a command is shown.
_SHOWN = 5


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
    #: A line that ``produce`` takes for each topic that it reads, in the order in which they are best written.
    samples: Mapping[str, str]

    def text(self) -> str:
        """Returns a text that says where everything is, and how to write a record and read the results."""
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
        if self.samples:
            lines.append("to write a record:" if len(self.samples) == 1 else "to write records, in this order:")
        for topic, line in list(self.samples.items())[:_SHOWN]:
            command = shlex.join(["streamsapp", "produce", topic, *self.application])
            lines.append(f"  echo {shlex.quote(line)} | {command}")
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


def _listed(topics: Iterable[str], otherwise: str) -> str:
    return ", ".join(sorted(topics)) or f"({otherwise})"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"  {label:<8} {text}" for label, text in rows]
