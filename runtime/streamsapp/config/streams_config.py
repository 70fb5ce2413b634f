"""``StreamsConfig``: everything that an application can set, typed, and validated when it is made.

Made by the user, the command line or the manifest; read by every thread. Names are Kafka Streams' in snake_case.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from streamsapp.config.client_keys import check_client_keys
from streamsapp.config.java_values import from_java
from streamsapp.config.known_properties import OWN, check_known, client_fault
from streamsapp.config.memory import MINIMUM_BYTES, MemoryBudget, available_memory
from streamsapp.config.redaction import redact
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.config.times import time_faults
from streamsapp.config.topology_optimization import optimization_fault
from streamsapp.errors import ConfigError
from streamsapp.java_names import properties as java_properties
from streamsapp.java_names.lookup import java_names
from streamsapp.plain_text import plain_text
from streamsapp.processor.handlers import BUILT_IN, ExceptionHandler
from streamsapp.processor.timestamps import TimestampExtractor, fail_on_invalid_timestamp
from streamsapp.serdes.api import AnySerde, DefaultSerdes, Serde
from streamsapp.serdes.serdes import Serdes
from streamsapp.web.endpoint import bracketed, is_endpoint

if TYPE_CHECKING:
    from streamsapp.topology.partition_grouper import PartitionGrouper

EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"

#: Chosen by the runtime.
AUTO = -1

_COMMIT_INTERVAL_MS = {EXACTLY_ONCE: 100, AT_LEAST_ONCE: 30_000}
_SERVER = re.compile(r"([A-Za-z_]+://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>[0-9]{1,5})")
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


@java_names("StreamsConfig", java_properties.constants())
@dataclass(frozen=True, kw_only=True)
class StreamsConfig:
    """The configuration of an application, named as in Kafka Streams' ``StreamsConfig``. Only ``application_id`` and
    ``bootstrap_servers`` must be given.

    Times are milliseconds where a name ends in ``_ms``, sizes are bytes. ``commit_interval_ms`` and ``memory_bytes``
    are chosen by the runtime unless set; reading them gives the choice. Exception handlers are functions or one of the
    names ``fail``, ``continue`` and ``dead_letter``. Raises ``ConfigError``, which names the field and the remedy, for
    a value that cannot be used.
    """

    application_id: str
    bootstrap_servers: str
    processing_guarantee: str = EXACTLY_ONCE
    #: Processing threads.
    threads: int = 1
    #: 100 under exactly once, 30,000 under at least once.
    commit_interval_ms: int = AUTO
    state_dir: Path = field(default_factory=lambda: Path(tempfile.gettempdir()) / "streamsapp")
    #: The control group's limit, or 75 % of the machine's memory where there is none.
    memory_bytes: int = AUTO
    default_key_serde: AnySerde = field(default_factory=Serdes.bytes)
    default_value_serde: AnySerde = field(default_factory=Serdes.bytes)
    default_timestamp_extractor: TimestampExtractor = fail_on_invalid_timestamp
    max_task_idle_ms: int = 0
    #: A processor that takes longer over one record is reported as hanging.
    max_poll_interval_ms: int = 300_000
    dead_letter_queue_topic: str | None = None
    deserialization_exception_handler: str | ExceptionHandler = "fail"
    processing_exception_handler: str | ExceptionHandler = "fail"
    production_exception_handler: str | ExceptionHandler = "fail"
    partition_grouper: PartitionGrouper | None = None
    #: Of internal topics; the broker's default unless set.
    replication_factor: int = AUTO
    #: Settings of internal topics, over the runtime's own.
    topic_properties: Mapping[str, str] = field(default_factory=dict)
    client_id: str = ""
    #: A span of OpenTelemetry for each record that is processed and each that is sent, as the ``OTEL_*`` variables say.
    tracing: bool = False
    #: The client that moves records: the runtime's own, or ``librdkafka`` for a property that only librdkafka knows.
    client: str = OWN
    #: Passed to the clients; a prefix such as ``consumer.`` limits a key to some of them.
    kafka: Mapping[str, str] = field(default_factory=dict)
    #: ``none``, ``all`` or names as in Kafka Streams; the runtime refuses what ``build(optimize=...)`` did not do.
    topology_optimization: str = "none"
    #: Copies of each task's state on other instances, kept up to date to take over at once.
    standby_replicas: int = 0
    #: A copy no more records behind than this may take over (KIP-441).
    acceptable_recovery_lag: int = 10_000
    #: Copies made at the same time of tasks that are to move to an instance without one (KIP-441).
    max_warmup_replicas: int = 2
    #: How often a task that waits for its warm-up replica is looked at again, besides when the replica has caught up.
    probing_rebalance_interval_ms: int = 600_000
    #: Makes this a static member: a restart within the session time-out keeps its tasks (KIP-345).
    group_instance_id: str | None = None
    #: ``host:port`` under which other instances reach this one's HTTP server (``application.server``).
    application_server: str = ""
    #: The name that several instances on one machine or in one pod share: an active task's standbys are kept off its
    #: host.
    host_id: str = ""
    #: The place where the instance runs, such as ``{"zone": "a"}``; standbys are spread over different values
    #: (KIP-708).
    client_tags: Mapping[str, str] = field(default_factory=dict)
    #: The place where snapshots of the stores are kept, from which an instance with an empty disk starts; nowhere
    #: unless set.
    remote_state: RemoteStateConfig | None = None

    def __new__(cls, *_: object, **settings: object) -> StreamsConfig:
        known = {each.name for each in fields(cls)}
        for name in settings.keys() - known:
            raise ConfigError(f"{name}: {_unknown(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, from_java(each.name, getattr(self, each.name)))
        _check_text(self)
        _check_serdes(self)
        _check_numbers(self)
        _resolve(self)
        _check_handlers(self)
        check_client_keys(self.kafka)
        check_known(self.client, self.kafka)
        _ = self.session_timeout_ms  # raises where it is not usable
        _check_times(self)

    @property
    def exactly_once(self) -> bool:
        """Says whether the processing guarantee is exactly once."""
        return self.processing_guarantee == EXACTLY_ONCE

    @property
    def default_serdes(self) -> DefaultSerdes:
        """The serdes of keys and values that a program declares none for."""
        return DefaultSerdes(self.default_key_serde, self.default_value_serde)

    @cached_property
    def session_timeout_ms(self) -> int:
        """The time in milliseconds after which an instance that gives no sign of life is replaced by others:
        ``session.timeout.ms`` of the clients' properties, 6 s unless set, which is the shortest that brokers allow as
        they come."""
        for key in ("main.consumer.session.timeout.ms", "consumer.session.timeout.ms", "session.timeout.ms"):
            if key in self.kafka:
                if not str(self.kafka[key]).isdecimal() or int(self.kafka[key]) < 2000:
                    raise ConfigError(f"kafka property {key!r}: expected milliseconds ≥ 2000, got {self.kafka[key]!r}")
                return int(self.kafka[key])
        return 6000

    @cached_property
    def memory(self) -> MemoryBudget:
        """The bytes of ``memory_bytes`` that each part of the instance may use."""
        return MemoryBudget.divide(self.memory_bytes)

    @cached_property
    def on_deserialization_error(self) -> ExceptionHandler:
        return _handler(self.deserialization_exception_handler)

    @cached_property
    def on_processing_error(self) -> ExceptionHandler:
        return _handler(self.processing_exception_handler)

    @cached_property
    def on_production_error(self) -> ExceptionHandler:
        return _handler(self.production_exception_handler)

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self)} | {"kafka": redact(self.kafka)}
        return f"StreamsConfig({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> StreamsConfig:
        """Makes a configuration from Kafka Streams' dotted names: ``application.id`` and the like, and its values:
        classes of Java's that have a counterpart here are taken by name.

        Keys that are not ours go to the clients. Raises ``ConfigError`` for what has no meaning here, all at once.
        """
        for required in ("application.id", "bootstrap.servers"):
            if required not in properties:
                raise ConfigError(f"{required} is not set")
        faults = [f"{key}: {java_properties.answer(key)}" for key in properties if key in java_properties.NO_MEANING]
        if faults:
            raise ConfigError("; ".join(faults))
        return cls(**_settings(cls, properties))


def _settings(kind: type[StreamsConfig], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that dotted names stand for: ours, and what is left for the clients and internal topics."""
    own = {name.replace("_", "."): name for name in (f.name for f in fields(kind))} | dict(java_properties.FIELDS)
    nested: dict[str, dict[str, str]] = {"topic_properties": {}, "client_tags": {}, "kafka": {}}
    settings: dict[str, Any] = {}
    # The deprecated names of handlers, which begin so, give way to the new ones.
    for key, value in sorted(given.items(), key=lambda item: not item[0].startswith("default.")):
        prefix = next((each for each in _NESTED if key.startswith(each)), None)
        if prefix is not None:
            nested[_NESTED[prefix]][key.removeprefix(prefix)] = str(value)
        elif key in own:
            settings[own[key]] = _coerce(own[key], value)
        else:
            nested["kafka"][java_properties.RENAMED.get(key, key)] = str(value)
    return nested | settings


#: Prefixes of names that belong together in one field.
_NESTED = {"topic.": "topic_properties", "client.tag.": "client_tags"}

#: Settings that are none of an instance's, with what to do instead.
_INSTEAD = {
    "http_port": "HTTP is served by `streamsapp run --http-port`; in a program of yours ask StreamsRuntime itself",
}


def _unknown(name: str, known: Collection[str]) -> str:
    if name in _INSTEAD:
        return _INSTEAD[name]
    dotted = name.replace("_", ".")
    if dotted in java_properties.FIELDS:
        return f"is called {java_properties.FIELDS[dotted]} here"
    if dotted in java_properties.CLIENTS or dotted in java_properties.RENAMED:
        return f'is a property of the clients; write kafka={{"{java_properties.RENAMED.get(dotted, dotted)}": ...}}'
    if (answer := java_properties.answer(dotted)) is not None:
        return answer
    close = get_close_matches(name, known, n=1)
    return f"there is no such setting; {f'did you mean {close[0]}?' if close else 'see docs/configuration.md'}"


_INTEGERS = {
    # name: (least value, whether AUTO is allowed)
    "threads": (1, False),
    "commit_interval_ms": (0, True),
    "memory_bytes": (MINIMUM_BYTES, True),
    "max_task_idle_ms": (-1, False),
    "max_poll_interval_ms": (1, False),
    "replication_factor": (1, True),
    "standby_replicas": (0, False),
    "acceptable_recovery_lag": (0, False),
    "max_warmup_replicas": (1, False),
    "probing_rebalance_interval_ms": (60_000, False),
}


#: Of what an instance tells the others about itself; they believe no more.
_LONGEST_NAME = 1000


def _check_text(config: StreamsConfig) -> None:
    if (fault := application_id_fault(config.application_id)) is not None:
        raise ConfigError(f"application_id: {fault}")
    fault = bootstrap_servers_fault(config.bootstrap_servers)
    if fault is not None:
        raise ConfigError(f"bootstrap_servers: {fault}")
    if (fault := client_fault(config.client)) is not None:
        raise ConfigError(f"client: {fault}")
    if config.processing_guarantee not in _COMMIT_INTERVAL_MS:
        raise ConfigError(
            f"processing_guarantee: expected '{EXACTLY_ONCE}' or '{AT_LEAST_ONCE}', got {config.processing_guarantee!r}"
        )
    if config.application_server and not is_endpoint(bracketed(config.application_server)):
        raise ConfigError(f"application_server: expected host:port, got {config.application_server!r}")
    for name, text in (
        ("host_id", config.host_id),
        *(("client_tags", part) for tag in config.client_tags.items() for part in tag),
    ):
        if not isinstance(text, str) or len(text) > _LONGEST_NAME or not text.isprintable():
            raise ConfigError(f"{name}: expected at most {_LONGEST_NAME} printable characters, got {text!r:.100}")
    if not isinstance(config.tracing, bool):
        raise ConfigError(f"tracing: expected True or False, got {config.tracing!r}")
    fault = optimization_fault(config.topology_optimization)
    if fault is not None:
        raise ConfigError(f"topology_optimization: {fault}")
    topic = config.dead_letter_queue_topic
    if topic is not None and not _TOPIC_NAME.fullmatch(topic):
        raise ConfigError(f"dead_letter_queue_topic: {topic!r} is not a topic name; use letters, digits, '.', '_', '-'")
    if config.remote_state is not None and not isinstance(config.remote_state, RemoteStateConfig):
        raise ConfigError(f"remote_state: expected a RemoteStateConfig, got {config.remote_state!r}")


def _check_serdes(config: StreamsConfig) -> None:
    for name in ("default_key_serde", "default_value_serde"):
        given = getattr(config, name)
        if not isinstance(given, Serde):
            raise ConfigError(f"{name}: expected a serde such as Serdes.string(), got {given!r}")
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
    """Returns the fault in ``bootstrap.servers``, ``None`` if there is none. Only asking tells whether a broker answers
    at an address."""
    if not isinstance(servers, str) or not servers.strip():
        return "must not be empty; give one or more host:port, separated by commas"
    if "@" in servers:
        return "must not carry credentials; set sasl.username and sasl.password among the clients' properties"
    for server in servers.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found["port"]) <= 65_535:
            return f"expected host:port, separated by commas, such as kafka:9092, got {server.strip()[:100]!r}"
    return None


def _check_numbers(config: StreamsConfig) -> None:
    for name, (least, auto) in _INTEGERS.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or not (value >= least or (auto and value == AUTO)):
            raise ConfigError(f"{name}: expected an integer ≥ {least}, got {value!r}")


def _resolve(config: StreamsConfig) -> None:
    """Fills in the values that the runtime chooses, freezes mappings that came in mutable, and makes members of
    enumerations the text that they are: they print as something else than they are encoded to."""
    chosen: dict[str, Any] = {
        "state_dir": Path(config.state_dir).expanduser(),
        "topic_properties": _plain_mapping(config.topic_properties),
        "kafka": _plain_mapping(config.kafka),
        "client_tags": _plain_mapping(config.client_tags),
        "client_id": plain_text(config.client_id or config.application_id),
        "application_server": bracketed(plain_text(config.application_server)),
    }
    if config.commit_interval_ms == AUTO:
        chosen["commit_interval_ms"] = _COMMIT_INTERVAL_MS[config.processing_guarantee]
    if config.memory_bytes == AUTO:
        chosen["memory_bytes"] = max(available_memory(), MINIMUM_BYTES)
    texts = {each.name: plain_text(getattr(config, each.name)) for each in fields(config)}
    for name, value in (texts | chosen).items():
        object.__setattr__(config, name, value)


def _plain_mapping(given: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({plain_text(key): plain_text(value) for key, value in dict(given).items()})


def _check_handlers(config: StreamsConfig) -> None:
    for kind in ("deserialization", "processing", "production"):
        name = f"{kind}_exception_handler"
        handler = getattr(config, name)
        if not callable(handler) and handler not in BUILT_IN:
            raise ConfigError(f"{name}: expected a function or one of {', '.join(BUILT_IN)}, got {handler!r}")
        if handler == "dead_letter" and config.dead_letter_queue_topic is None:
            raise ConfigError(
                f"{name}: 'dead_letter' needs a topic to write to; set dead_letter_queue_topic to an existing topic"
            )


def _check_times(config: StreamsConfig) -> None:
    own = {name: getattr(config, name) for name in ("commit_interval_ms", "max_poll_interval_ms")}
    for name, fault in time_faults(config.kafka, own, exactly_once=config.exactly_once):
        raise ConfigError(f"{name if name in own else f'kafka property {name!r}'}: {fault}")


def _handler(handler: str | ExceptionHandler) -> ExceptionHandler:
    return BUILT_IN[handler] if isinstance(handler, str) else handler


def _coerce(name: str, value: Any) -> Any:
    """Turns text into a field's type: properties files hold text only, so numbers and paths arrive as strings."""
    if not isinstance(value, str):
        return value
    if name in _INTEGERS:
        return int(value) if re.fullmatch(r"-?\d+", value) else value
    if name == "tracing":
        return {"true": True, "false": False}.get(value.lower(), value)
    return Path(value) if name == "state_dir" else value
