"""Reports where the broker deletes records of an application's topics because of their age, before they were read.

A broker deletes by the time of records and its own clock: a topic that keeps seven days loses an archive within
minutes, without a word. Changelogs are seen to elsewhere (``changelog_retention``), repartition topics keep everything.
Called on a thread of its own; it reads what the polling and the processing threads write.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.internal_topics import FOR_EVER
from streamsapp.topology.nodes import SinkNode

log = logging.getLogger(__name__)

#: Younger records than this are no reason to ask: no broker deletes that soon.
_YOUNG_MS = 60_000
#: So many seconds an answer is believed, as users raise the setting; and after a failed request nothing is asked.
_BELIEVED, _PAUSE = 300.0, 60.0
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


class _Use(NamedTuple):
    """A topic that a task reads or writes, with the time of a record there."""

    topic: str
    time_ms: int
    verb: str


class RecordAges:
    """Compares the age of records with the time for which their topics keep them."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._told: set[str] = set()
        #: By topic: for how many milliseconds it keeps records, and until when that is believed.
        self._kept: dict[str, tuple[float, float]] = {}
        self._pauses_until = -math.inf

    def look(self, tasks: Iterable[StreamTask]) -> None:
        """Look at every task once, and report a topic once."""
        now_ms = self._clock.now_ms()
        for task in tasks:
            if task.state is not TaskState.RUNNING:
                continue
            for use in _uses(task):
                age_ms = now_ms - use.time_ms
                if use.topic in self._told or age_ms < _YOUNG_MS or self._clock.monotonic() < self._pauses_until:
                    continue
                kept_ms = self._kept_ms(use.topic)
                if kept_ms is not None and age_ms > kept_ms:
                    self._told.add(use.topic)
                    _tell(use, int(kept_ms))

    def _kept_ms(self, topic: str) -> float | None:
        """``None`` if the broker did not answer; infinite for a topic that keeps records whatever their time."""
        now = self._clock.monotonic()
        kept, until = self._kept.get(topic, (0.0, -math.inf))
        if now < until:
            return kept
        try:
            settings = {name: self._admin.setting(topic, name) for name in _SETTINGS}
        except (KafkaException, StreamsError, TimeoutError) as error:
            log.info("for how long topic %s keeps its records is not known: %s", topic, error)
            self._pauses_until = now + _PAUSE
            return None
        by_time = "delete" in settings["cleanup.policy"] and settings["message.timestamp.type"] != "LogAppendTime"
        retention = settings["retention.ms"]
        kept = float(retention) if by_time and retention != FOR_EVER else math.inf
        self._kept[topic] = kept, now + _BELIEVED
        return kept


_SETTINGS = ("cleanup.policy", "message.timestamp.type", "retention.ms")


def _uses(task: StreamTask) -> Iterator[_Use]:
    plan = task.plan
    for partition, time_ms in list(task.first_times.items()):
        if time_ms >= 0 and partition.topic not in plan.repartition_topics:
            yield _Use(partition.topic, time_ms, "reads")
    if task.context.stream_time >= 0:
        own = set(plan.sub_topology.repartition_sinks)
        for node in plan.sub_topology.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and node.topic not in own:
                yield _Use(plan.topic_name(node.topic), task.context.stream_time, "writes")


def _tell(use: _Use, kept_ms: int) -> None:
    time = datetime.fromtimestamp(use.time_ms / 1000, UTC).date().isoformat()
    log.warning(
        "topic %s keeps records for %s (retention.ms=%d), and the application %s records of %s there: the broker "
        "deletes them by their own time, perhaps before they are read; kafka-configs.sh --alter --topic %s "
        "--add-config retention.ms=-1 keeps all",
        use.topic, _duration(kept_ms), kept_ms, use.verb, time, use.topic,
    )  # fmt: skip


def _duration(milliseconds: int) -> str:
    if milliseconds >= _DAY_MS:
        return f"{milliseconds / _DAY_MS:.3g} days"
    return f"{milliseconds / _HOUR_MS:.3g} hours"
