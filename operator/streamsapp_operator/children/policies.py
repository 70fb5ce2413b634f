"""Builds the PodDisruptionBudget and the NetworkPolicy of an application. Pure."""

from __future__ import annotations

from typing import Any

from streamsapp_operator.children.names import CLIENT_LABEL, PORT, Owner, all_pods, selector
from streamsapp_operator.children.settings import RenderSettings


def disruption_budget(owner: Owner, max_unavailable: int, *, unready_may_go: bool = False) -> dict[str, Any]:
    """Returns the budget, which is the gate as far as the Eviction API knows it: ``kubectl drain`` waits while it is 0.
    ``unready_may_go``, for a moment: a pod that is not ready may be evicted, also where no other one is ready, for
    which no number is enough."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": owner.metadata(owner.name),
        "spec": {
            "maxUnavailable": max_unavailable,
            "selector": {"matchLabels": selector(owner.name)},
            # A pod that restores is not ready, and is needed all the same.
            "unhealthyPodEvictionPolicy": "AlwaysAllow" if unready_may_go else "IfHealthyBudget",
        },
    }


def network_policy(owner: Owner, settings: RenderSettings, *, among_pods: bool) -> dict[str, Any]:
    """Returns the network policy. It is about all pods of the application, including the ones that check, preview or
    make state of history. The port is open to the application's own pods, the operator, and pods that are labelled as
    clients, in any namespace: metrics are scraped from another one. Answers beyond metrics still need the token. With
    ``among_pods`` the application's own pods may reach all ports of each other, as Spark's do."""
    peers = [
        {"podSelector": {"matchLabels": selector(owner.name)}},
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.operator_namespace}},
            "podSelector": {"matchLabels": dict(settings.operator_labels)},
        },
        {"namespaceSelector": {}, "podSelector": {"matchLabels": {CLIENT_LABEL: "true"}}},
    ]
    ingress: list[dict[str, Any]] = [{"from": peers, "ports": [{"port": PORT, "protocol": "TCP"}]}]
    if among_pods:
        ingress.append({"from": peers[:1]})
    egress = _egress(peers[:1], settings, among_pods=among_pods)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": owner.metadata(owner.name),
        "spec": {
            "podSelector": {"matchLabels": all_pods(owner.name)},
            "policyTypes": ["Ingress", *(["Egress"] if egress else [])],
            "ingress": ingress,
            **({"egress": egress} if egress else {}),
        },
    }


def _egress(own: list[dict[str, Any]], settings: RenderSettings, *, among_pods: bool) -> list[dict[str, Any]]:
    """Returns what the pods may reach: DNS, each other, and the operator's rules; nothing is said without those."""
    if not settings.egress:
        return []
    dns = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    ports = {} if among_pods else {"ports": [{"port": PORT, "protocol": "TCP"}]}
    return [dns, {"to": own, **ports}, *map(dict, settings.egress)]
