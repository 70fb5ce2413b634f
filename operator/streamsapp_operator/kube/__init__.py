"""The API server as the operator uses it: objects are plain documents, every call has a time limit, errors are few."""

from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    OlderDefinition,
    Refused,
    Rejected,
    Unavailable,
)
from streamsapp_operator.kube.kinds import Object, ResourceKind

__all__ = [
    "ApiError",
    "Client",
    "Conflict",
    "Forbidden",
    "Gone",
    "InternalError",
    "Object",
    "OlderDefinition",
    "Refused",
    "Rejected",
    "ResourceKind",
    "Unavailable",
]
