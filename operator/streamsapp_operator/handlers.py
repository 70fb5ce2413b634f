"""Registers kopf's handlers, which only watch applications and wake their loops. ``shared_informers`` watches children.

Handlers run on kopf's event loop, so they only hand over. No finalizers, annotations, events or retries of kopf are in
use: the status holds everything that an application needs, and the loop observes for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import kopf

from streamsapp_operator.kopf_session import shallow_session
from streamsapp_operator.kube.kinds import STREAMS_APP
from streamsapp_operator.loop import Key, Loops
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import WatchAge, key_of


def make_registry(loops: Loops, age: WatchAge, clock: SteadyClock) -> kopf.OperatorRegistry:
    """Makes the registry of the handlers."""
    registry = kopf.OperatorRegistry()
    seen: dict[Key, tuple[object, ...]] = {}

    async def app_changed(type: str | None, body: Mapping[str, Any], **_: Any) -> None:
        metadata = body["metadata"]
        key = Key(metadata["namespace"], metadata["name"])
        if type == "DELETED":
            age.gone(key_of(STREAMS_APP, metadata))
            seen.pop(key, None)
        else:
            age.told(key_of(STREAMS_APP, metadata), metadata["resourceVersion"], clock.now())
            asked = (
                metadata["uid"],
                metadata.get("generation"),
                metadata.get("deletionTimestamp"),
                _annotations(metadata),
            )
            if seen.get(key) == asked:
                return  # the operator's own write of the status
            seen[key] = asked
        loops.saw(key)

    async def login(**arguments: Any) -> kopf.AiohttpSession | None:
        info = kopf.login_via_client(**arguments)
        return None if info is None else shallow_session(info)

    kopf.on.login(registry=registry)(login)
    group, _, version = STREAMS_APP.api_version.partition("/")
    kopf.on.event(group, version, STREAMS_APP.plural, registry=registry)(app_changed)
    return registry


def make_settings() -> kopf.OperatorSettings:
    """Makes kopf's own settings."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.execution.max_workers = 1
    # Each watch ends after a while, and a hanging one is noticed.
    settings.watching.server_timeout = 120
    settings.watching.client_timeout = 150
    settings.watching.connect_timeout = 5
    settings.watching.reconnect_backoff = 1.0
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 30
    # However long the API server is away.
    settings.networking.error_backoffs = itertools.repeat(2.0)
    return settings


def _annotations(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((metadata.get("annotations") or {}).items()))
