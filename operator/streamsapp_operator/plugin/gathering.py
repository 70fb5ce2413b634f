"""Gathers what a report of an application has, from the API server, its pods and its operator. Runs on the main thread.

A part that cannot be had is no error: the report says which, and why.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from streamsapp_operator.children.names import http_secret_name
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import ApiError
from streamsapp_operator.kube.kinds import BUDGET, EVENT, JOB, NETWORK_POLICY, SECRET, STATEFUL_SET, Object
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.port_forward import PodUnreachableError


@dataclass(frozen=True, slots=True)
class ReportPart:
    """A file of a report: a document or a text, or why there is none."""

    name: str
    content: Any = None
    missing: str | None = None


def part(name: str, read: Callable[[], Any]) -> ReportPart:
    """Reads a part, or says why it cannot be read."""
    try:
        return ReportPart(name, read())
    except (ApiError, PluginError, PodUnreachableError) as error:
        return ReportPart(name, missing=str(error))


def children(client: Client, namespace: str, name: str) -> Iterator[ReportPart]:
    """Yields the application's children and events."""
    labels = f"app.kubernetes.io/instance={name},app.kubernetes.io/managed-by=streamsapp-operator"
    for kind in (STATEFUL_SET, BUDGET, NETWORK_POLICY, JOB):
        yield part(f"{kind.plural}.json", partial(client.list, kind, namespace, labels))
    yield part("events.json", lambda: _about(client.list(EVENT, namespace), name))


def _about(events: Iterable[Object], name: str) -> list[Object]:
    """Returns the events of an application and of what is named after it."""
    found = [(it, str(it["involvedObject"].get("name") or "")) for it in events]
    return [it for it, about in found if about == name or about.startswith(f"{name}-")]


def secret_values(client: Client, namespace: str, app: Object, pods: Iterable[Object]) -> Iterator[str]:
    """Yields the values of all Secrets that an application refers to, as far as the user may read them."""
    names = {http_secret_name(app["metadata"]["name"]), *_secret_names(app.get("spec")), *_secret_names(list(pods))}
    for name in sorted(names):
        try:
            found = client.get(SECRET, namespace, name) or {}
        except ApiError:
            continue
        for text in (found.get("data") or {}).values():
            yield base64.b64decode(text).decode("utf-8", errors="replace")


def _secret_names(document: Any) -> Iterator[str]:
    """Yields the names of Secrets that a document refers to, however it does."""
    if isinstance(document, list):
        for each in document:
            yield from _secret_names(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            if key in {"secretRef", "secretKeyRef", "secret"} and isinstance(value, dict):
                named = value.get("name") or value.get("secretName")
                if isinstance(named, str):
                    yield named
            yield from _secret_names(value)
