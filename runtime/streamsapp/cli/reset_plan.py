"""Plans a reset before anything is touched. Pure.

Like Kafka Streams' application reset: input topics are read again from a chosen place, internal topics, local state
and snapshots are deleted. Output topics stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from streamsapp.errors import ManifestError
from streamsapp.record import TopicPartition

_INTERNAL_SUFFIXES = (
    "-changelog",
    "-repartition",
    "-subscription-registration-topic",
    "-subscription-response-topic",
)


class ResetTarget(Enum):
    """The place from which input topics are read again."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    DATETIME = "datetime"
    SHIFT = "shift"


@dataclass(frozen=True)
class InputOffsets:
    """The offsets that are known of one input partition; ``at_time`` is the first offset at or after the wanted
    time."""

    earliest: int
    latest: int
    committed: int | None = None
    at_time: int | None = None


@dataclass(frozen=True)
class SnapshotsToDelete:
    """Everything that remote state holds of the application."""

    where: str
    keys: tuple[str, ...]
    tasks: int
    #: Objects with rows of tables whose write failed.
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResetPlan:
    """Everything a reset will do, in this order."""

    application_id: str
    delete_topics: tuple[str, ...]
    offsets: Mapping[TopicPartition, int]
    state_dir: Path | None
    #: First of all: what else is deleted must not come back from them.
    snapshots: SnapshotsToDelete | None = None
    #: Look like topics of this application, or of one whose id starts alike; left alone.
    unsure: tuple[str, ...] = ()
    #: Topics with time markers: with them the records of the sources give the same results once more.
    kept: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Returns the same for programs."""
        found = self.snapshots
        return {
            "applicationId": self.application_id,
            "snapshots": found and _shown(found),
            "deleteTopics": list(self.delete_topics),
            "offsets": [
                {"topic": each.topic, "partition": each.partition, "offset": offset}
                for each, offset in sorted(self.offsets.items())
            ],
            "stateDir": self.state_dir and str(self.state_dir),
            "leftAlone": list(self.unsure),
            "kept": list(self.kept),
        }

    def lines(self) -> Iterator[str]:
        """Returns the lines that say to the user what will be done."""
        for partition, offset in sorted(self.offsets.items()):
            yield f"set committed offset of {partition} to {offset}"
        if self.snapshots is not None:
            count = f"{len(self.snapshots.keys)} objects of {self.snapshots.tasks} tasks"
            yield f"delete snapshots in {self.snapshots.where}: {count}"
            if self.snapshots.rows:
                count = f"{len(self.snapshots.rows)} objects"
                yield f"delete rows that writes of tables left in {self.snapshots.where}/seed: {count}"
        for topic in self.delete_topics:
            yield f"delete internal topic {topic}"
        if self.state_dir is not None:
            yield f"delete local state {self.state_dir}"
        for topic in self.kept:
            yield f"keep time markers {topic} (delete them with --internal-topics {topic}: results may differ then)"
        for topic in self.unsure:
            yield f"left alone: {topic} (not of this topology; delete it with --internal-topics {topic} if it is yours)"


def _shown(found: SnapshotsToDelete) -> dict[str, Any]:
    return {
        "where": found.where,
        "objects": len(found.keys),
        "tasks": found.tasks,
        "objectsOfTables": len(found.rows),
    }


def internal_topics(
    application_id: str, own: Iterable[str], asked_for: Iterable[str], existing: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics to delete, and topics that only look like it.

    The prefix alone proves nothing: ``orders-`` also starts the topics of ``orders-audit``. So only the topology's own
    topics are deleted, and those asked for by name.
    """
    present = set(existing)
    wanted = set(own) | set(asked_for)
    for topic in sorted(set(asked_for) - present):
        raise ManifestError([f"--internal-topics: there is no topic {topic!r}"])
    for topic in sorted(set(asked_for) - set(own)):
        if not _looks_internal(application_id, topic):
            fault = f"--internal-topics: {topic!r} is no internal topic; their names start with {application_id}-"
            raise ManifestError([fault])
    unsure = {topic for topic in present - wanted if _looks_internal(application_id, topic)}
    return tuple(sorted(wanted & present)), tuple(sorted(unsure))


def new_offset(target: ResetTarget, bounds: InputOffsets, amount: int = 0) -> int:
    """Returns the offset from which a partition is read; never outside of what it holds."""
    match target:
        case ResetTarget.EARLIEST:
            wanted = bounds.earliest
        case ResetTarget.LATEST:
            wanted = bounds.latest
        case ResetTarget.OFFSET:
            wanted = amount
        case ResetTarget.DATETIME:
            # Nothing that late: as in Kafka's tool, the end.
            wanted = bounds.latest if bounds.at_time is None else bounds.at_time
        case ResetTarget.SHIFT:
            wanted = (bounds.earliest if bounds.committed is None else bounds.committed) + amount
    return min(max(wanted, bounds.earliest), bounds.latest)


def _looks_internal(application_id: str, topic: str) -> bool:
    return topic.startswith(f"{application_id}-") and topic.endswith(_INTERNAL_SUFFIXES)
