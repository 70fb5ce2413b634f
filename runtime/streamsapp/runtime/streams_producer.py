"""The instance's producer, and the one that takes its place when a transaction is lost.

Touched by the polling thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.kafka.producer import AtLeastOnceProducer, ExactlyOnceProducer
from streamsapp.kafka.refusals import Refusals
from streamsapp.membership.api import Membership
from streamsapp.runtime.commit import Commit, Confirm, nothing_to_confirm
from streamsapp.runtime.production_errors import ProductionErrors
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: Under at least once the broker does not fence a producer: records that it could not send before the group gave its
#: tasks to others must not be sent at all. This much less than the session time-out, in seconds; where records were
#: given more time once, batches are still sent only while the session holds.
DELIVERY_MARGIN = 1.0
#: How long the broker may take to abort the last transaction, in seconds.
ABORT = 15.0


class StreamsProducer:
    """Makes the client that sends results and commits, and makes it anew."""

    def __init__(
        self,
        config: StreamsConfig,
        membership: Membership,
        collector: RecordCollector,
        clock: Clock,
        closing: ClosingTime,
        confirm: Confirm = nothing_to_confirm,
    ) -> None:
        self._confirm = confirm
        self._config = config
        self._membership = membership
        self._collector = collector
        self._clock = clock
        self._closing = closing
        self._failures = ProductionErrors(config, collector, clock)
        self._refusals = Refusals()
        self._delivery_timeout = config.session_timeout_ms / 1000 - DELIVERY_MARGIN
        self.client = self._make(reports=False)

    def start(self) -> None:
        """Connect; under exactly once, fence the process that wrote under this transactional id before."""
        self.client.start()

    def know_dead_letters(self, dead_letters: DeadLetters) -> None:
        """The topics are known, and with them the limit of the dead letter queue."""
        self._failures.dead_letters = dead_letters

    def know_tasks(self, tasks: Callable[[], Sequence[StreamTask]]) -> None:
        """A record that cannot be written is reported with the task that may have sent it."""
        self._failures.tasks = tasks

    def new_commit(self, tasks: TaskManager) -> Commit:
        """A commit of all tasks, to be advanced by the caller."""
        self._failures.tell_due()
        give_up_after = self._config.max_poll_interval_ms / 1000
        return Commit(tasks, self._collector, self.client, self._membership, self._clock, give_up_after, self._confirm)

    def close(self) -> None:
        """Drop the unsent records; ``replace`` or the end comes next."""
        self.client.close()

    def replace(self) -> None:
        """Go on with a new client: after some errors the old one cannot know what became of its transaction."""
        self.client = self._make(reports=True)
        self.client.start()

    def wait_longer(self) -> None:
        """Records were not written in time: the next client gives them twice as long."""
        self._delivery_timeout *= 2
        log.warning("records may now take %.0f s to be written", self._delivery_timeout)

    def end(self) -> None:
        """Abort the uncommitted transaction, and close."""
        self.client.abort(self._closing.end.left(ABORT, part=0.5))
        self.client.close()
        self._failures.end()

    def _may_write(self) -> bool:
        return self._clock.monotonic() < self._membership.safe_until

    def _make(self, *, reports: bool) -> AtLeastOnceProducer | ExactlyOnceProducer:
        """``reports``: under exactly once, whether the producer shall report why a transaction is lost: a replacing
        producer does, so that a record which cannot be written is named when it comes again."""
        on_failure = self._failures.failed
        if not self._config.exactly_once:
            properties = client_properties.producer(self._config, delivery_timeout=self._delivery_timeout)
            return AtLeastOnceProducer(properties, on_failure, may_write=self._may_write, refusals=self._refusals)
        properties = client_properties.producer(self._config, self._membership.transactional_id)
        deadline = self._closing.remote
        return ExactlyOnceProducer(
            properties, on_failure, self._clock, reports=reports, deadline=deadline, refusals=self._refusals
        )
