"""Sees to it that the broker keeps the changelogs of windows, sessions and versions for as long as their stores do.

A store forgets by stream time, and the broker by its clock. Changelogs are kept a day longer than their stores. If
records are read that are older than that, as of an archive, or if an input was silent for as long, the broker would
delete what the stores have: Kafka Streams loses it with the next restart. So the topic's setting is raised.

Called on a thread of its own, or on that of a process that runs lanes. It reads what processing threads write, of tasks
that run: a task that is restored goes through all of its changelog's times.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from datetime import UTC, datetime

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.kinds.store_type import KEPT_LONGER_MS
from streamsapp.state.task_stores import Expiry
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.internal_topics import FOR_EVER

log = logging.getLogger(__name__)

_DAY_MS = 24 * 60 * 60 * 1000
#: After a request that failed the broker is asked for nothing for so many seconds; and its answers, which others may
#: change, are believed for so long.
_PAUSE, _BELIEVED = 60.0, 300.0


class ChangelogRetention:
    """Knows for how long the broker keeps the changelogs that expire."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        #: Milliseconds by topic, of the topics that the broker was asked about lately.
        self._kept: dict[str, float] = {}
        self._believed_until = -math.inf
        self._pauses_until = -math.inf

    def see_to(self, tasks: Iterable[StreamTask]) -> None:
        """Raise the settings of changelogs whose tasks are far behind the clock. A refusal is logged, and the broker is
        asked again later."""
        now = self._clock.monotonic()
        if now < self._pauses_until:
            return
        if now >= self._believed_until:
            self._kept.clear()
            self._believed_until = now + _BELIEVED
        oldest: dict[str, tuple[Expiry, StreamTask]] = {}
        for task in tasks:
            if task.state is not TaskState.RUNNING:
                continue
            for expiry in task.stores.expiries():
                changelog = task.plan.changelogs.get(expiry.store)
                if changelog is None:
                    continue
                if changelog.topic not in oldest or expiry.stream_time < oldest[changelog.topic][0].stream_time:
                    oldest[changelog.topic] = expiry, task
        for topic, (expiry, task) in oldest.items():
            behind = self._clock.now_ms() - expiry.stream_time
            # Kafka takes no longer time, which windows without an end are kept for.
            wanted = min(expiry.kept_ms + behind, MAX_TIMESTAMP)
            if behind <= KEPT_LONGER_MS or self._kept.get(topic, 0) >= wanted - KEPT_LONGER_MS:
                continue
            if not self._raised(topic, expiry, wanted, task):
                self._pauses_until = self._clock.monotonic() + _PAUSE
                return

    def _raised(self, topic: str, expiry: Expiry, wanted: int, task: StreamTask) -> bool:
        """Raise one setting if need be; False if the broker did not answer, or refused."""
        time = datetime.fromtimestamp(expiry.stream_time / 1000, UTC).date().isoformat()
        try:
            set_now = self._admin.setting(topic, expiry.setting)
            self._kept[topic] = math.inf if set_now == FOR_EVER else int(set_now)
            if self._kept[topic] >= wanted - KEPT_LONGER_MS:
                return True
            self._admin.set(topic, expiry.setting, str(wanted))
        except (KafkaException, StreamsError, TimeoutError) as error:
            log.warning(
                "topic %s may lose what store %s of task %s has: the stream time of the task is %s, and the broker "
                "deletes by its clock. %s cannot be raised to %d: %s; grant ALTER_CONFIGS on the topic, or raise it",
                topic, expiry.store, task.id, time, expiry.setting, wanted, error,
            )  # fmt: skip
            return False
        # Asked for once more the next time: another instance may have set less at the same moment.
        del self._kept[topic]
        log.warning(
            "topic %s keeps its records for %d days from now on (%s=%d), as the stream time of task %s is %s and the "
            "broker deletes by its clock; once the task has caught up you may set %d again",
            topic, -(-wanted // _DAY_MS), expiry.setting, wanted, task.id, time, expiry.kept_ms,
        )  # fmt: skip
        return True
