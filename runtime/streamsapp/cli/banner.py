"""The text that ``streamsapp local`` shows when it has started, with commands to copy. Pure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamsapp.cli.topics import TopologyTopics

_WRITE = (
    "from confluent_kafka import Producer; p = Producer({{'bootstrap.servers': {servers!r}}}); "
    "p.produce({topic!r}, key='jane', value='hello'); p.flush()"
)
#: Ends when nothing has come for so many seconds.
_READ = (
    "from confluent_kafka import Consumer; c = Consumer({{'bootstrap.servers': {servers!r}, 'group.id': 'looking', "
    "'auto.offset.reset': 'earliest', 'enable.auto.commit': False}}); c.subscribe([{topic!r}]); "
    "[print(m.key(), m.value()) for m in iter(lambda: c.poll(10), None)]; c.close()"
)


def banner(name: str, *, servers: str, topics: TopologyTopics, stores: Sequence[str], url: str, folder: Path) -> str:
    """Returns the text that tells where everything is, and how to write a record and read the results."""
    rows = [
        ("broker", servers),
        ("reads", _listed(topics.sources, "topics that match a pattern")),
        ("writes", _listed(topics.sinks, "no fixed topic")),
        ("status", f"{url}/status"),
        ("metrics", f"{url}/metrics"),
        *[("state", f"{url}/state/{store}/KEY") for store in stores],
        ("folder", f"{folder} (--fresh forgets it)"),
    ]
    lines = [f"{name}: Ctrl-C stops it, the next `streamsapp local` goes on from there", *_table(rows)]
    for what, program, of in (("write a record", _WRITE, topics.sources), ("read the results", _READ, topics.sinks)):
        if of:
            code = program.format(servers=servers, topic=min(of))
            lines += [f"to {what}:", f"  {shlex.quote(sys.executable)} -c {_quoted(code)}"]
    return "\n".join(lines)


def _listed(topics: Iterable[str], otherwise: str) -> str:
    return ", ".join(sorted(topics)) or f"({otherwise})"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"  {label:<8} {text}" for label, text in rows]


def _quoted(code: str) -> str:
    """Quotes a text for a shell. The code has single quotes only, and names of topics have no other."""
    return f'"{code}"'
