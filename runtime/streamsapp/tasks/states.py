"""The life of a task, as states that know their legal transitions.

A transition is made on the thread that has the task: polling, processing or restoration.

                +----------+
                | CREATED  |-----+
                +----+-----+     |
                     | stores opened
                +----v-----+     |
        +------>| RESTORING|---->+
        |       +----+-----+     |
        |            | caught up |
        |       +----v-----+     |
        +-------| RUNNING  |---->+
                +----------+     |
                            +----v-----+
                            |  CLOSED  |
                            +----------+

A CREATED or RESTORING task is at the state manager, a RUNNING active one at the task manager. No task is ever at both
(the Kafka Streams threading proposal).
"""

from __future__ import annotations

from enum import Enum


class TaskRole(Enum):
    """The purpose for which an instance has a task. Standby and warm-up tasks follow their changelogs at the state
    manager."""

    ACTIVE = "active"
    STANDBY = "standby"
    #: A standby task that is to become active here (KIP-441).
    WARMUP = "warmup"


class TaskState(Enum):
    """State of a task; a standby task that follows its changelogs is RUNNING, at the state manager."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    CLOSED = "CLOSED"

    def may_become(self, target: TaskState) -> bool:
        """Return whether the transition is legal."""
        return target in _ALLOWED[self]


_ALLOWED: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.CLOSED}),
    TaskState.RUNNING: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset(),
}
