"""Finds applications that share a consumer group: those with the same application id on the same Kafka.

One for all applications, called on the threads of their loops.
"""

from __future__ import annotations

import threading
from typing import TypeAlias

#: Application id, and the addresses of its Kafka.
ConsumerGroup: TypeAlias = tuple[str, frozenset[str]]


class ConsumerGroups:
    """Remembers the consumer group of each application, as ``namespace/name``, by its last spec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, ConsumerGroup] = {}

    def rivals(self, app: str, application_id: str, bootstrap_servers: str | None) -> tuple[str, ...]:
        """Returns the others with whom ``app`` shares its group, and notes that it has this group from now on. ``None``
        stands for a Kafka that is not known, as the spec is invalid: then the group is as it was."""
        servers = frozenset(part.strip() for part in (bootstrap_servers or "").split(",") if part.strip())
        with self._lock:
            if bootstrap_servers is not None:
                self._of[app] = (application_id, servers)
            mine = self._of.get(app)
            return tuple(
                sorted(
                    other
                    for other, (name, brokers) in self._of.items()
                    if mine is not None and other != app and name == mine[0] and not brokers.isdisjoint(mine[1])
                )
            )

    def forget(self, app: str) -> None:
        """Forgets an application that is gone."""
        with self._lock:
            self._of.pop(app, None)
