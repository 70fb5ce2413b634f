"""``/status`` and ``/healthz`` of an instance that has read its login from a mounted Secret.

Called by ``run``; the routes on threads of the HTTP server.
"""

from __future__ import annotations

from typing import Any, Protocol

from streamsapp.manifest.kafka_secret import KafkaSecret
from streamsapp.web.request_routing import Route, Routes, json_response, probe

REFUSED = (
    "Kafka refuses the login of this process, and the mounted Secret has another one: the process has to begin anew"
)


class SeenInstance(Protocol):
    """The part of ``StreamsRuntime`` that is asked."""

    def status(self) -> dict[str, Any]: ...

    def healthy(self) -> tuple[bool, str]: ...


def secret_routes(instance: SeenInstance, secret: KafkaSecret) -> Routes:
    """Returns the two routes, which replace the routes of the same name that every instance has."""
    return {
        "/status": Route(lambda _: json_response(status_of(instance, secret))),
        "/healthz": Route(lambda _: probe(health_of(instance, secret)), open=True),
    }


def status_of(instance: SeenInstance, secret: KafkaSecret) -> dict[str, Any]:
    """Returns the document of ``/status``, which says whether the Secret has changed."""
    return instance.status() | {"kafkaSecretChanged": secret.has_changed()}


def health_of(instance: SeenInstance, secret: KafkaSecret) -> tuple[bool, str]:
    """Says that a process is not healthy whose login is refused while there is another one: waiting is in vain. Its
    container, or its supervisor, starts it again where its state is. A pod that is taken away would lose that."""
    healthy, why = instance.healthy()
    if healthy and any(outage.get("refused") for outage in instance.status()["outages"]) and secret.has_changed():
        return False, REFUSED
    return healthy, why
