"""Finding the broker that coordinates a group or a transactional id, in kafka-python's classes. Pure."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

#: Kinds of coordinators.
GROUP, TRANSACTION = 0, 1


def find_coordinator(kind: int, key: str) -> Any:
    return FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key], max_version=4)


def coordinator_of(answer: Any) -> Any:
    """The one coordinator that was asked for; newer brokers answer with a list."""
    return answer.coordinators[0] if answer.coordinators else answer
