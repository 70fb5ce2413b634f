"""Keeps the tasks of an instance together in stream time with those of other instances, and lets them go on by the
clock. Runs on a thread of its own, several times a second while there is a backlog.

The group's committed offsets say how far another instance is, and say it last: what its tasks sent has reached the
brokers by then. With them the times of the last records were committed, as Kafka Streams has it. Where these are long
ago, or not known, the offset itself says more: a broker knows which offset a time has, and other tasks are at a time T
if their committed offsets are not before the first record of T or later. No instance has to send anything for that but
to commit more often while there is a backlog. A task that moves, or that no instance has, is where it was committed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.kafka.partition_offsets import EARLIEST, LAST
from streamsapp.processor.timestamps import (
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.start_positions import DEFAULT_POLICY
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks import alignment
from streamsapp.tasks.alignment import BEHIND_MS, NOTHING, UNKNOWN, AlignedTasks, TimeAlignment
from streamsapp.tasks.task_plan import TaskPlan

log = logging.getLogger(__name__)

#: Seconds between two looks while there is a backlog, and at what others have committed while there is none.
PERIOD, SELDOM = 0.02, 5.0
#: Seconds between two commits while others may wait for them, and if the tasks here can do nothing before that.
COMMITS, COMMITS_AT_REST = 0.1, 0.02
#: For how many seconds it is believed which offsets are new.
_BELIEVED = 0.5
#: How long other instances may take to commit what they have processed, in milliseconds, while there is a backlog.
FRESH_MS = 2_000
#: How long a request may take, in seconds.
_TIMEOUT = 5.0
#: These give a record its own time, which is the one that brokers know.
_OWN_TIMES = {
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
}


class Offsets(Protocol):
    """The knowledge of brokers: implemented by ``kafka.cluster.Cluster``."""

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, tuple[int, str]]:
        """Offset and metadata of the partitions for which the group has committed one."""
        ...

    def offsets_at(self, wanted: Mapping[TopicPartition, int], timeout: float) -> Mapping[TopicPartition, int]:
        """The first offset of each partition at or after a time, -1 where no record is as late."""
        ...

    def close(self) -> None:
        """Ask nothing any more."""
        ...


class Others(NamedTuple):
    """Input partitions of a group's tasks that do not run here."""

    partitions: frozenset[TopicPartition]
    #: Of these, the ones that begin at their beginning where nothing was committed.
    from_beginning: frozenset[TopicPartition]


def others_of(tasks: AlignedTasks, plans: Mapping[TaskId, TaskPlan], default_extractor: TimestampExtractor) -> Others:
    """The partitions of the tasks that run elsewhere, as far as brokers know the times of their records."""
    here = {place.task.id for place in tasks.places}
    sources = {
        partition: source
        for task_id, plan in plans.items()
        if task_id.subtopology in tasks.group.sub_topologies and task_id not in here
        for partition, source in plan.inputs.items()
        if (source.timestamp_extractor or default_extractor) in _OWN_TIMES
    }
    begins = {each for each, source in sources.items() if (source.offset_reset or DEFAULT_POLICY) == "earliest"}
    return Others(frozenset(sources), frozenset(begins))


@dataclass
class _Look:
    """The knowledge of the tasks of one group that run elsewhere."""

    others: Others = field(default_factory=lambda: Others(frozenset(), frozenset()))
    #: When they are looked at next (monotonic seconds).
    next_at: float = -math.inf
    #: Where partitions without a committed offset begin.
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: The first offsets that are not old, for how old that is, and until when that is believed.
    fresh: tuple[int, float, Mapping[TopicPartition, int]] = (-1, -math.inf, MappingProxyType({}))
    #: Offsets that were asked for, by the time that was asked for.
    at_time: tuple[int, Mapping[TopicPartition, int]] | None = None
    #: Partitions that others wait for: the offset, and since when it is that one.
    since: dict[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    #: Partitions that are waited for no longer, with the offset at which they stood still.
    left_out: dict[TopicPartition, int] = field(default_factory=dict)
    #: The partitions that are behind.
    behind: frozenset[TopicPartition] = frozenset()


class AlignmentWatch:
    """Looks at the groups of an instance."""

    def __init__(
        self,
        groups: TimeAlignment,
        brokers: Offsets,
        plans: Callable[[], Mapping[TaskId, TaskPlan]],
        config: StreamsConfig,
        clock: Clock,
        *,
        paused: Callable[[], bool],
        commit: Callable[[], None],
    ) -> None:
        """``commit`` asks for a commit soon."""
        self._alignment = groups
        self._brokers = brokers
        self._plans = plans
        self._clock = clock
        self._extractor = config.default_timestamp_extractor
        self._commit_interval_ms = config.commit_interval_ms
        #: The longest time in seconds that results wait for a commit before they can be read.
        self._results_delay = config.commit_interval_ms / 1000 if config.exactly_once else 0.0
        self._paused = paused
        self._commit = commit
        self._looks = {id(each): _Look() for each in groups.groups}
        self._committed_at = -math.inf
        self._failing_since: float | None = None

    def run(self) -> None:
        """Look once at what is due."""
        now, now_ms, paused = self._clock.monotonic(), self._clock.now_ms(), self._paused()
        plans = self._plans()
        for tasks in self._alignment.groups:
            if tasks.group.are_peers:
                self._look_elsewhere(tasks, self._looks[id(tasks)], plans, now, now_ms)
        for tasks in self._alignment.groups:
            tasks.look(now, now_ms, self._results_delay, paused=paused)
        self._commit_early(now)

    def _commit_early(self, now: float) -> None:
        """Others see what was committed, and may wait for that."""
        aligned = [each for each in self._alignment.groups if self._looks[id(each)].behind]
        if not aligned:
            return
        at_rest = all(place.waits or place.time == NOTHING for tasks in aligned for place in tasks.places)
        if now >= self._committed_at + (COMMITS_AT_REST if at_rest else COMMITS):
            self._committed_at = now
            self._commit()

    def close(self) -> None:
        """Ask nothing any more."""
        self._brokers.close()

    def standing_still(self, tasks: AlignedTasks) -> list[TopicPartition]:
        """The partitions of other instances that are waited for no longer."""
        return sorted(self._looks[id(tasks)].left_out)

    def waited_for(self, tasks: AlignedTasks) -> list[TopicPartition]:
        """The partitions of other instances that are behind."""
        return sorted(self._looks[id(tasks)].behind)

    def _look_elsewhere(
        self, tasks: AlignedTasks, look: _Look, plans: Mapping[TaskId, TaskPlan], now: float, now_ms: int
    ) -> None:
        asked = tasks.elsewhere == UNKNOWN or tasks.aligning or bool(look.behind)
        if now < look.next_at and not asked:
            return
        others = others_of(tasks, plans, self._extractor)
        if others != look.others:
            self._looks[id(tasks)] = look = _Look(others)
        if not others.partitions:
            look.next_at = now + SELDOM
            tasks.set_elsewhere(NOTHING, now_ms)
            return
        try:
            time = self._oldest_elsewhere(tasks, look, now, now_ms)
        except KafkaException as error:
            self._failed(tasks, error, now, now_ms)
            return
        self._failing_since = None
        look.next_at = now if look.behind else now + SELDOM
        tasks.set_elsewhere(time, now_ms)

    def _failed(self, tasks: AlignedTasks, error: KafkaException, now: float, now_ms: int) -> None:
        """Without knowing where others are, the tasks here wait, but not for ever."""
        if self._failing_since is None:
            self._failing_since = now
            log.info("where the tasks of other instances are is not known: %s", error)
        elif now - self._failing_since >= alignment.STANDS_STILL and tasks.elsewhere != NOTHING:
            log.warning("tasks wait for those of other instances no longer: where these are is not known: %s", error)
            tasks.set_elsewhere(NOTHING, now_ms)

    def _oldest_elsewhere(self, tasks: AlignedTasks, look: _Look, now: float, now_ms: int) -> float:
        """A time that the next records of other instances' tasks are not older than; ``NOTHING`` if none is behind."""
        times, at = self._positions(look)
        aligning = tasks.aligning or bool(look.behind)
        old_ms = FRESH_MS if aligning else max(BEHIND_MS, tasks.group.most_ahead_ms) + 3 * self._commit_interval_ms
        if look.fresh[0] != old_ms or now >= look.fresh[1] or look.fresh[2].keys() != at.keys():
            look.fresh = old_ms, now + _BELIEVED, self._first_at(at, now_ms - old_ms)
        behind = _before(at, look.fresh[2])
        look.behind = frozenset(behind)
        if not behind:
            look.since.clear()
            return NOTHING
        time = self._oldest_here(tasks, now_ms)
        known = min(times.get(each, -1) for each in behind)
        if known >= time:
            look.since.clear()
            look.left_out = {}
            return float(known)
        late = _before(behind, self._at_time(look, behind, time))
        self._leave_out(look, late, tasks, now)
        if not (late.keys() - look.left_out.keys()):
            return NOTHING if behind.keys() <= look.left_out.keys() else float(time)
        before = tasks.elsewhere
        return max(0.0, known, 0.0 if before == NOTHING else before)

    def _oldest_here(self, tasks: AlignedTasks, now_ms: int) -> int:
        """The time that others have to have reached for the task that is furthest behind here to go on."""
        below = [each for each in self._alignment.groups if tasks in each.above]
        oldest = min(tasks.oldest, *(each.oldest for each in below)) if below else tasks.oldest
        # A task that has read nothing yet waits for its first records first.
        return now_ms if oldest == NOTHING else 0 if oldest == UNKNOWN else min(int(oldest), now_ms)

    def _positions(self, look: _Look) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The time of each partition's last record that was processed, as far as it is known, and the offset of the
        next one; none for partitions that begin at their end."""
        committed = self._brokers.committed(look.others.partitions, _TIMEOUT)
        unknown = look.others.from_beginning - committed.keys() - look.begins.keys()
        if unknown:
            look.begins = {**look.begins, **self._brokers.offsets_at(dict.fromkeys(unknown, EARLIEST), _TIMEOUT)}
        begins = {each: at for each, at in look.begins.items() if each in look.others.from_beginning}
        times = {each: OffsetMetadata.decode(metadata).partition_time for each, (_, metadata) in committed.items()}
        return times, begins | {each: offset for each, (offset, _) in committed.items()}

    def _at_time(self, look: _Look, partitions: Collection[TopicPartition], time: int) -> Mapping[TopicPartition, int]:
        if look.at_time is None or look.at_time[0] != time or not look.at_time[1].keys() >= set(partitions):
            look.at_time = time, self._first_at(partitions, time)
        return look.at_time[1]

    def _first_at(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The offset of each partition's first record of this time or later; without one, the end of its records."""
        found = dict(self._brokers.offsets_at(dict.fromkeys(partitions, max(0, time_ms)), _TIMEOUT))
        ended = [each for each, offset in found.items() if offset < 0]
        if ended:
            # Not where the partition ends: behind its last record there may be marks of transactions.
            last = self._brokers.offsets_at(dict.fromkeys(ended, LAST), _TIMEOUT)
            found.update({each: offset + 1 for each, offset in last.items()})
        return found

    def _leave_out(self, look: _Look, late: Mapping[TopicPartition, int], tasks: AlignedTasks, now: float) -> None:
        """Leave out what stands still while tasks here wait for it, and take back what has moved since."""
        look.left_out = {each: at for each, at in look.left_out.items() if late.get(each) == at}
        waiting = not self._paused() and any(place.waits for place in tasks.places)
        since = {each: look.since.get(each, (at, now)) for each, at in late.items()} if waiting else {}
        look.since = {each: it if it[0] == late[each] else (late[each], now) for each, it in since.items()}
        for each, (at, began) in look.since.items():
            if now - began >= alignment.STANDS_STILL and each not in look.left_out:
                look.left_out[each] = at
                log.warning(
                    "%s has stood still at offset %d for %.0f s with a backlog, at another instance or at none: tasks "
                    "here wait for it no longer, and what is sent when it goes on may come too late for windows",
                    each, at, alignment.STANDS_STILL,
                )  # fmt: skip


def _before(at: Mapping[TopicPartition, int], needed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {each: offset for each, offset in at.items() if each in needed and offset < needed[each]}
