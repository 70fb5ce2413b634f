"""Finding the brokers of the cluster, and the one that coordinates a group or a transactional id. Pure."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from streamsapp.brokers.bounds import check_told

#: Kinds of coordinators.
GROUP, TRANSACTION = 0, 1


def brokers_of_the_cluster() -> Any:
    """Ask for all brokers, and for no topic."""
    return MetadataRequest(topics=[], allow_auto_topic_creation=False, max_version=9)


def find_coordinator(kind: int, key: str) -> Any:
    return FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key], max_version=4)


def coordinator_of(answer: Any) -> Any:
    """The one coordinator that was asked for; newer brokers answer with a list."""
    return answer.coordinators[0] if answer.coordinators else answer


def check_coordinator(answer: Any, key: str) -> None:
    """Raises ``WrongAnswerError`` for an answer that names other coordinators than the one that was asked for."""
    if answer.coordinators:
        check_told("FindCoordinator", [key], [each.key for each in answer.coordinators])
