"""Names the kinds of objects that the operator deals with, and their paths in the API server. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of namespaced object."""

    api_version: str
    name: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Returns the path of one object, or of all in a namespace, or of all."""
        root = "/api" if "/" not in self.api_version else "/apis"
        parts = [root, self.api_version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part is not None)]
        return "/".join(parts)


STREAMS_APP = ResourceKind("streamsapp.dev/v1alpha1", "StreamsApp", "streamsapps")
STATEFUL_SET = ResourceKind("apps/v1", "StatefulSet", "statefulsets")
BUDGET = ResourceKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
SERVICE = ResourceKind("v1", "Service", "services")
SERVICE_ACCOUNT = ResourceKind("v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP = ResourceKind("v1", "ConfigMap", "configmaps")
SECRET = ResourceKind("v1", "Secret", "secrets")
POD = ResourceKind("v1", "Pod", "pods")
EVENT = ResourceKind("v1", "Event", "events")
JOB = ResourceKind("batch/v1", "Job", "jobs")
CRON_JOB = ResourceKind("batch/v1", "CronJob", "cronjobs")
#: Not of a namespace, and never stored: a question.
ACCESS_REVIEW = ResourceKind("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")
LEASE = ResourceKind("coordination.k8s.io/v1", "Lease", "leases")

_ALL = (
    STREAMS_APP,
    STATEFUL_SET,
    BUDGET,
    NETWORK_POLICY,
    SERVICE,
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    SECRET,
    POD,
    EVENT,
    JOB,
    CRON_JOB,
    LEASE,
)
_BY_NAME = {(kind.api_version, kind.name): kind for kind in _ALL}


def kind_of(document: Object) -> ResourceKind:
    """Returns the kind of an object that is about to be written."""
    return _BY_NAME[document["apiVersion"], document["kind"]]


def annotation(document: Object, name: str) -> str | None:
    """Returns an annotation of an object."""
    found = (document["metadata"].get("annotations") or {}).get(name)
    return None if found is None else str(found)


def label(document: Object, name: str) -> str | None:
    """Returns a label of an object."""
    found = (document["metadata"].get("labels") or {}).get(name)
    return None if found is None else str(found)
