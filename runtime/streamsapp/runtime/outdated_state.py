"""Decides whether a store may go on from where it stands in its changelog: not in another topic, and not after so long
that deletions are missing there.

A compacted topic keeps a tombstone for ``delete.retention.ms``, and then no record says that its key was deleted: a
store that has not read it by then keeps the row for ever (KIP-1259 has a setting for the same). Called on the
restoration, the global and the restore threads.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicIdentity, TopicPartition
from streamsapp.state.provenance import UNKNOWN_AGE, Provenance
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)

#: Kafka's own default, in milliseconds.
_DELETE_RETENTION_MS = 86_400_000
#: So much earlier than the broker may: a part of the time, and no more than so many milliseconds.
_MARGIN, _MOST_MARGIN_MS = 0.1, 60_000.0
#: The broker's answers, which others may change, are believed for so many seconds.
_BELIEVED = 300.0


class TombstoneRetention:
    """Knows how long brokers keep the tombstones of topics."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._known: dict[str, tuple[float, float]] = {}

    def passed(self, topic: str, fresh_at_ms: int) -> bool:
        """Return whether tombstones may be gone that were written after a time."""
        if fresh_at_ms == UNKNOWN_AGE:
            return False
        age = self._clock.now_ms() - fresh_at_ms
        return age > 0 and age > self._limit_ms(topic)

    def _limit_ms(self, topic: str) -> float:
        now = self._clock.monotonic()
        believed_until, limit = self._known.get(topic, (-math.inf, 0.0))
        if now >= believed_until:
            kept = self._kept_ms(topic)
            limit = kept - min(_MARGIN * kept, _MOST_MARGIN_MS) if math.isfinite(kept) else kept
            self._known[topic] = now + _BELIEVED, limit
        return limit

    def _kept_ms(self, topic: str) -> float:
        try:
            if "compact" not in self._admin.setting(topic, "cleanup.policy"):
                return math.inf
            return float(self._admin.setting(topic, "delete.retention.ms"))
        except (KafkaException, TimeoutError, KeyError, TypeError, ValueError) as error:  # some have none, or no number
            log.info("how long topic %s keeps tombstones is not known, a day is taken for it: %s", topic, error)
            return _DELETE_RETENTION_MS


def objection_to_store(
    name: str,
    position: int,
    kept: Provenance,
    changelog: TopicPartition,
    now: TopicIdentity | None,
    end: int,
    retention: TombstoneRetention,
) -> str | None:
    """Returns why a store must not go on from its position, if so."""
    if now is not None and now.is_other(kept.topic):
        return (
            f"store {name} was made from topic {changelog.topic} with {kept.topic}, which is {now} now: it was deleted "
            "and created again, or this is another cluster"
        )
    # The last record of a partition is never compacted away.
    if position < end - 1 and retention.passed(changelog.topic, kept.fresh_at_ms):
        return (
            f"store {name} stands at offset {position} of {changelog}, which ends at {end}, and has not followed it "
            "for longer than the broker keeps deletions (delete.retention.ms)"
        )
    return None


def objection_to_task(
    task: StreamTask, ends: Mapping[TopicPartition, int], retention: TombstoneRetention
) -> str | None:
    """Returns why a task's stores, which are open, must not go on from where they stand."""
    for store, changelog in task.plan.all_changelogs.items():
        position = task.stores.changelog_offset(store)
        if position is not None and (
            why := objection_to_store(
                store, position, task.stores.provenance(store), changelog, task.topics.get(changelog.topic),
                ends[changelog], retention,
            )
        ):  # fmt: skip
            return why
    return None
