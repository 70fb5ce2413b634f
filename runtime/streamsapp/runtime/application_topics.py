"""The topics of the application: waited for and looked up when an instance starts, purged while it runs.

Called on the polling thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import MissingTopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.application_layout import ApplicationLayout, make_layout
from streamsapp.runtime.lost_offsets import refuse_lost_offsets
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.builder import Topology

#: Seconds between two rounds of deleting consumed records (``repartition.purge.interval.ms``).
PURGE_PERIOD = 30.0
#: Not every broker knows a newly created topic at once. Topics are looked for so often, and so many seconds apart,
#: before one is reported missing.
LOOK_UPS, LOOK_UP_PERIOD = 10, 0.2


class ApplicationTopics:
    """Source, sink and internal topics."""

    def __init__(self, topology: Topology, config: StreamsConfig, admin: TopicAdmin, clock: Clock) -> None:
        self.topology = topology
        self.config = config
        self._admin = admin
        self._clock = clock
        #: Since when (monotonic seconds) the instance has waited for a broker in order to start, and the last error;
        #: ``None`` while it does not. Read by ``status``.
        self.outage: tuple[float, str] | None = None
        self._next_purge = 0.0

    @property
    def application_id(self) -> str:
        """The id of the application that the topics belong to."""
        return self.config.application_id

    def wait_for_broker(self, given_up: Callable[[], bool]) -> None:
        """Return when a broker answers, or when ``given_up()``."""
        began = self._clock.monotonic()

        def waits_in_vain() -> bool:
            self.outage = began, self._admin.last_error
            return given_up()

        self._admin.wait_for_broker(waits_in_vain)
        self.outage = None

    def look_up(self) -> ApplicationLayout:
        """Find the topics, create the internal ones, and lay out the tasks; raises ``TopicError``, also where no source
        says at which offsets tasks would go on."""
        layout = self._lay_out()
        refuse_lost_offsets(layout, self.config, self._admin)
        return layout

    def _lay_out(self) -> ApplicationLayout:
        for _ in range(LOOK_UPS - 1):
            try:
                return make_layout(self.topology, self.config, self._admin)
            except MissingTopicError:
                time.sleep(LOOK_UP_PERIOD)
        return make_layout(self.topology, self.config, self._admin)

    def purge(self, layout: ApplicationLayout | None, tasks: Iterable[StreamTask], now: float) -> None:
        """Let the broker drop consumed records of repartition topics, now and then (``now``: monotonic seconds)."""
        if layout is None or not layout.repartition_topics or now < self._next_purge:
            return
        self._next_purge = now + PURGE_PERIOD
        consumed = {each: at for task in tasks for each, at in task.committed_offsets.items()}
        self._admin.delete_records(
            {each: at for each, at in consumed.items() if each.topic in layout.repartition_topics}
        )
