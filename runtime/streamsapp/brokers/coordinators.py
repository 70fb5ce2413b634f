"""Finding the brokers of the cluster, and the broker that coordinates a group or a transactional id. Pure."""

from __future__ import annotations

from streamsapp.brokers.bounds import check_told
from streamsapp.brokers.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from streamsapp.brokers.messages.metadata import MetadataRequest, MetadataResponse
from streamsapp.brokers.request import Request

#: Kinds of coordinators.
GROUP, TRANSACTION = 0, 1
#: The first version that has kinds, and that which asks for several at once.
_KINDS, _SEVERAL = 1, 4


def brokers_of_the_cluster() -> Request[MetadataResponse]:
    """Ask for all brokers, and for no topic; before this version, a broker may make the topics that are asked for."""
    return Request(MetadataRequest(allow_auto_topic_creation=False), least=4, greatest=9)


def find_coordinator(kind: int, key: str) -> Request[FindCoordinatorResponse]:
    before = _SEVERAL, FindCoordinatorRequest(key, kind)
    return Request(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), least=_KINDS, before=before)


def coordinator_of(answer: FindCoordinatorResponse) -> Coordinator | FindCoordinatorResponse:
    """The one coordinator that was asked for; newer brokers answer with a list."""
    return answer.coordinators[0] if answer.coordinators else answer


def check_coordinator(answer: FindCoordinatorResponse, key: str) -> None:
    """Raises ``WrongAnswerError`` for an answer that names other coordinators than that of the request."""
    if answer.coordinators:
        check_told("FindCoordinator", [key], [each.key for each in answer.coordinators])
