"""Builds the two services: one gives every pod its name, one reaches any pod that is ready. Pure."""

from __future__ import annotations

from typing import Any

from streamsapp_operator.children.names import PORT, Owner, query_service_name, selector


def headless_service(owner: Owner) -> dict[str, Any]:
    """Returns the service that gives pods names, ready or not: a pod that restores is asked for its status too."""
    return _service(owner, owner.name, {"clusterIP": "None", "publishNotReadyAddresses": True})


def query_service(owner: Owner) -> dict[str, Any]:
    """Returns the service for questions about state: any pod answers, or asks the one that has it."""
    return _service(owner, query_service_name(owner.name), {"type": "ClusterIP"})


def _service(owner: Owner, name: str, kind: dict[str, Any]) -> dict[str, Any]:
    port = {"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}
    spec = {"selector": selector(owner.name), "ports": [port], "ipFamilyPolicy": "PreferDualStack"} | kind
    return {"apiVersion": "v1", "kind": "Service", "metadata": owner.metadata(name), "spec": spec}
