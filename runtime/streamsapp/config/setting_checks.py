"""Checks values of settings beyond their bounds and choices.

Called when a ``StreamsConfig`` is made, on that thread; what is said of an application's id and of servers also where a
manifest is read. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.config.times import time_faults
from streamsapp.config.topology_optimization import optimization_fault
from streamsapp.errors import ConfigError
from streamsapp.processor.handlers import BUILT_IN
from streamsapp.serdes.api import Serde
from streamsapp.web.endpoint import bracketed, is_endpoint

if TYPE_CHECKING:
    from streamsapp.config.streams_config import StreamsConfig

_SERVER = re.compile(r"([A-Za-z_]+://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>[0-9]{1,5})")
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: The limit of what an instance reports to the others about itself; they believe no more.
_LONGEST_NAME = 1000


def check_text(config: StreamsConfig) -> None:
    if (fault := application_id_fault(config.application_id)) is not None:
        raise ConfigError(f"application_id: {fault}")
    fault = bootstrap_servers_fault(config.bootstrap_servers)
    if fault is not None:
        raise ConfigError(f"bootstrap_servers: {fault}")
    if config.application_server and not is_endpoint(bracketed(config.application_server)):
        raise ConfigError(f"application_server: expected host:port, got {config.application_server!r}")
    for name, text in (
        ("host_id", config.host_id),
        *(("client_tags", part) for tag in config.client_tags.items() for part in tag),
    ):
        if not isinstance(text, str) or len(text) > _LONGEST_NAME or not text.isprintable():
            raise ConfigError(f"{name}: expected at most {_LONGEST_NAME} printable characters, got {text!r:.100}")
    fault = optimization_fault(config.topology_optimization)
    if fault is not None:
        raise ConfigError(f"topology_optimization: {fault}")
    topic = config.dead_letter_queue_topic
    if topic is not None and not _TOPIC_NAME.fullmatch(topic):
        raise ConfigError(f"dead_letter_queue_topic: {topic!r} is not a topic name; use letters, digits, '.', '_', '-'")
    if config.remote_state is not None and not isinstance(config.remote_state, RemoteStateConfig):
        raise ConfigError(f"remote_state: expected a RemoteStateConfig, got {config.remote_state!r}")


def check_serdes(config: StreamsConfig) -> None:
    for name in ("default_key_serde", "default_value_serde"):
        given = getattr(config, name)
        if not isinstance(given, Serde):
            raise ConfigError(f"{name}: expected a serde such as Serdes.string(), got {given!r}")
    if config.processor_wrapper is not None and not callable(config.processor_wrapper):
        given = config.processor_wrapper
        raise ConfigError(f"processor_wrapper: expected a function of (node_name, processor), got {given!r:.200}")
    if not callable(config.default_timestamp_extractor):
        given = config.default_timestamp_extractor
        raise ConfigError(f"default_timestamp_extractor: expected a function of a record, got {given!r}")


def application_id_fault(given: object) -> str | None:
    """Returns why a value is no ``application_id``; ``None``: it is one."""
    if not isinstance(given, str) or not _TOPIC_NAME.fullmatch(given):
        return (
            f"{given!r} is not usable; it becomes part of topic and directory names: use 1 to 249 letters, digits, "
            "'.', '_' and '-'"
        )
    return f"{given!r} names a directory; choose another name" if given in (".", "..") else None


def bootstrap_servers_fault(servers: object) -> str | None:
    """Returns the fault in ``bootstrap.servers``, ``None`` if there is none. Only a request shows whether a broker
    answers at an address."""
    if not isinstance(servers, str) or not servers.strip():
        return "must not be empty; give one or more host:port, separated by commas"
    if "@" in servers:
        return "must not carry credentials; set sasl.username and sasl.password among the clients' properties"
    for server in servers.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found["port"]) <= 65_535:
            return f"expected host:port, separated by commas, such as kafka:9092, got {server.strip()[:100]!r}"
    return None


def check_handlers(config: StreamsConfig) -> None:
    for kind in ("deserialization", "processing", "production"):
        name = f"{kind}_exception_handler"
        handler = getattr(config, name)
        if not callable(handler) and handler not in BUILT_IN:
            raise ConfigError(f"{name}: expected a function or one of {', '.join(BUILT_IN)}, got {handler!r}")
        if handler == "dead_letter" and config.dead_letter_queue_topic is None:
            raise ConfigError(
                f"{name}: 'dead_letter' needs a topic to write to; set dead_letter_queue_topic to an existing topic"
            )


def check_times(config: StreamsConfig) -> None:
    own = {name: getattr(config, name) for name in ("commit_interval_ms", "max_poll_interval_ms")}
    for name, fault in time_faults(config.kafka, own, exactly_once=config.exactly_once):
        raise ConfigError(f"{name if name in own else f'kafka property {name!r}'}: {fault}")
