"""A record of each topic to begin with: as ``samples.jsonl`` beside the manifest has it, else made of the serdes.

For ``local``, on the main thread, and its console's form. A line of the file is one that ``produce`` takes, with its
``topic``; the lines have the order in which topics are best written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamsapp.cli.record_lines import read_record
from streamsapp.cli.topic_serdes import TopicRecords, records_of
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig
from streamsapp.serdes.json_text import read_json
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

FILE = "samples.jsonl"
_MOST_BYTES = 1 << 20
#: Values to begin with, by the names of serdes.
_KEYS = {"string": "jane", "bytes": "amFuZQ=="}
_VALUES = {"string": "hello", "bytes": "aGVsbG8=", "json": {"hello": "world"}, "boolean": True}
_NUMBERS = ("short", "integer", "long", "float", "double")


def samples_of(topology: Topology, config: StreamsConfig, folder: Path) -> dict[str, str]:
    """Returns a line that ``produce`` takes for each topic that is read, as far as it is known what to write."""
    sources = sorted(topics_of(topology, config.application_id).sources)
    records = {topic: found for topic in sources if (found := records_of(topology, config, topic)) is not None}
    written = _written(folder / FILE, records)
    made = {topic: line for topic, found in records.items() if topic not in written and (line := sample(found))}
    return written | made


def sample(records: TopicRecords) -> str | None:
    """A line made of the serdes; ``None`` for serdes whose values are not known."""
    values = _VALUES | dict.fromkeys(_NUMBERS, 1)
    value = _example(records.value, values)
    if value is None:
        return None
    key = _example(records.key, values | _KEYS)
    return json.dumps({**({} if key is None else {"key": key}), "value": value})


def _example(serde: Any, known: Mapping[str, Any]) -> Any:
    if serde.plain is not None and serde.plain.example is not None:
        return serde.plain.example()
    return known.get(serde.name)


def _written(path: Path, records: Mapping[str, TopicRecords]) -> dict[str, str]:
    """The first line of each topic; a line that its topic would not take is logged and left out."""
    try:
        with path.open("rb") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:  # few projects have it
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            document = read_json(line) if line.strip() else {}
            topic = document.get("topic") if isinstance(document, dict) else None
            if isinstance(topic, str) and topic in records and topic not in found:
                read_record(line, records[topic].key, records[topic].value)
                found[topic] = json.dumps({name: each for name, each in document.items() if name != "topic"})
        except (ValueError, RecursionError) as error:
            log.warning("%s, line %d: %s; it is not a sample", path, number, error)
    return found
