"""Notices that the changelog of a task that runs was deleted and created again.

No instance reads it while the task runs: its store has what the new topic lacks, and an instance that restores from
that topic would lose it. Called on the thread that looks after topics; it reads what the polling thread publishes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from confluent_kafka import KafkaException

from streamsapp.errors import TopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import UNKNOWN_TOPIC
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask

log = logging.getLogger(__name__)


class ChangelogWatch:
    """Compares the changelogs of active tasks with the changelogs that their stores were restored from."""

    def __init__(self, admin: TopicAdmin, active: Callable[[], Collection[StreamTask]]) -> None:
        self._admin = admin
        self._active = active

    def run(self) -> None:
        """Look once; raises ``TopicError`` that names task, store and topic. A broker out of reach is no evidence."""
        tasks = [task for task in self._active() if task.state is TaskState.RUNNING]
        try:
            found = self._admin.topics({each.topic for task in tasks for each in task.plan.changelogs.values()})
        except KafkaException as error:
            log.info("changelogs were not checked: %s", error)
            return
        for task in tasks:
            for store, changelog in task.plan.changelogs.items():
                before, now = task.topics.get(changelog.topic), found.get(changelog.topic, UNKNOWN_TOPIC)
                if now.is_other(before):
                    raise TopicError(
                        f"changelog topic {changelog.topic} was deleted and created again while task {task.id} ran "
                        f"({before} before, {now} now): it lacks what store {store} has. A restart restores the store "
                        "from what the topic has now; `streamsapp reset` rebuilds all state from the input"
                    )
