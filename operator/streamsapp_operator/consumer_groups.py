"""Finds applications that share a consumer group: those with the same application id on the same Kafka.

One for all applications, called on the threads of their loops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.spec_reader import application_id_of

#: Application id, and the addresses of its Kafka.
ConsumerGroup: TypeAlias = tuple[str, frozenset[str]]

#: The least seconds between two lists of all applications.
LEARN_SECONDS = 2.0


class ConsumerGroups:
    """Remembers the consumer group of each application, as ``namespace/name``, by its last spec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, ConsumerGroup] = {}
        self._learned_at = float("-inf")
        #: The creation time of each application, as its object has it.
        self._made: dict[str, str] = {}

    def rivals(self, app: str, application_id: str, bootstrap_servers: str | None) -> tuple[str, ...]:
        """Returns the others with whom ``app`` shares its group, and notes that it has this group from now on. ``None``
        stands for a Kafka that is not known, as the spec is invalid: then the group is as it was."""
        with self._lock:
            if bootstrap_servers is not None:
                self._of[app] = (application_id, _brokers(bootstrap_servers))
            mine = self._of.get(app)
            return tuple(
                sorted(
                    other
                    for other, (name, brokers) in self._of.items()
                    if mine is not None and other != app and name == mine[0] and not brokers.isdisjoint(mine[1])
                )
            )

    def learn(self, list_apps: Callable[[], Iterable[Object]], now: float) -> None:
        """Notes the groups of all applications, whose loops may not have come to them yet, and when each was made; not
        more often than every few seconds, however many are about to start."""
        with self._lock:
            if now - self._learned_at < LEARN_SECONDS:
                return
            self._learned_at = now
        for document in list_apps():
            metadata, spec = document["metadata"], document.get("spec")
            app = f"{metadata['namespace']}/{metadata['name']}"
            kafka = spec.get("kafka") if isinstance(spec, dict) else None
            servers = kafka.get("bootstrapServers") if isinstance(kafka, dict) else None
            with self._lock:
                self._made[app] = str(metadata.get("creationTimestamp") or "")
                if isinstance(servers, str):
                    self._of.setdefault(app, (application_id_of(document), _brokers(servers)))

    def elder(self, app: str, rivals: Iterable[str]) -> str | None:
        """Returns the oldest of the rivals if it was made before ``app``; of two made at the same time the first by
        name counts as older. An application whose time of making is unknown is no elder."""
        with self._lock:
            ages = [(self._made[other], other) for other in (app, *rivals) if self._made.get(other)]
        oldest = min(ages, default=("", app))[1]
        return None if oldest == app or app not in {name for _, name in ages} else oldest

    def forget(self, app: str) -> None:
        """Forgets an application that is gone."""
        with self._lock:
            self._of.pop(app, None)
            self._made.pop(app, None)


def _brokers(servers: str) -> frozenset[str]:
    return frozenset(part.strip() for part in servers.split(",") if part.strip())
