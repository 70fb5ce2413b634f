"""Finding the broker that coordinates a group or a transactional id, in kafka-python's classes. Pure."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from streamsapp.brokers.bounds import check_told

#: Kinds of coordinators.
GROUP, TRANSACTION = 0, 1


def find_coordinator(kind: int, key: str) -> Any:
    return FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key], max_version=4)


def coordinator_of(answer: Any) -> Any:
    """The one coordinator that was asked for; newer brokers answer with a list."""
    return answer.coordinators[0] if answer.coordinators else answer


def check_coordinator(answer: Any, key: str) -> None:
    """Raises ``WrongAnswerError`` for an answer that names other coordinators than the one that was asked for."""
    if answer.coordinators:
        check_told("FindCoordinator", [key], [each.key for each in answer.coordinators])
