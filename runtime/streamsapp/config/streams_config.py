"""``StreamsConfig``: everything that an application can set, typed, and validated when it is made.

Made by the user, the command line or the manifest; read by every thread. ``settings`` has the fields.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from streamsapp.config.client_keys import check_client_keys
from streamsapp.config.java_values import from_java
from streamsapp.config.known_properties import check_known
from streamsapp.config.memory import MINIMUM_BYTES, MemoryBudget, available_memory
from streamsapp.config.redaction import redact
from streamsapp.config.scheduling import check_scheduling
from streamsapp.config.setting import AUTO, check_values
from streamsapp.config.setting_checks import check_handlers, check_serdes, check_text, check_times
from streamsapp.config.settings import AT_LEAST_ONCE, EXACTLY_ONCE, ApplicationSettings
from streamsapp.errors import ConfigError
from streamsapp.java_names import properties as java_properties
from streamsapp.java_names.lookup import java_names
from streamsapp.plain_text import plain_text
from streamsapp.processor.handlers import BUILT_IN, ExceptionHandler
from streamsapp.serdes.api import DefaultSerdes
from streamsapp.web.endpoint import bracketed

_COMMIT_INTERVAL_MS = {EXACTLY_ONCE: 100, AT_LEAST_ONCE: 30_000}


@java_names("StreamsConfig", java_properties.constants())
@dataclass(frozen=True, kw_only=True)
class StreamsConfig(ApplicationSettings):
    """The configuration of an application, named as in Kafka Streams' ``StreamsConfig``. Only ``application_id`` and
    ``bootstrap_servers`` must be given.

    Times are milliseconds where a name ends in ``_ms``, sizes are bytes. ``commit_interval_ms`` and ``memory_bytes``
    are chosen by the runtime unless set; reading them gives the choice. Exception handlers are functions or one of the
    names ``fail``, ``continue`` and ``dead_letter``. Raises ``ConfigError``, which names the field and the remedy, for
    a value that cannot be used.
    """

    def __new__(cls, *_: object, **settings: object) -> StreamsConfig:
        known = {each.name for each in fields(cls)}
        for name in settings.keys() - known:
            raise ConfigError(f"{name}: {_unknown(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, from_java(each.name, getattr(self, each.name)))
        check_text(self)
        check_serdes(self)
        check_values(self)
        _resolve(self)
        check_handlers(self)
        check_client_keys(self.kafka)
        check_known(self.client, self.kafka)
        _ = self.session_timeout_ms  # raises where it is not usable
        check_times(self)

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

        Keys that are not ours go to the clients. Raises ``ConfigError`` for all keys without a meaning here at once.
        """
        for required in ("application.id", "bootstrap.servers"):
            if required not in properties:
                raise ConfigError(f"{required} is not set")
        faults = [f"{key}: {java_properties.answer(key)}" for key in properties if key in java_properties.NO_MEANING]
        if faults:
            raise ConfigError("; ".join(faults))
        try:
            return cls(**_settings(cls, properties))
        except ConfigError as error:
            raise ConfigError(_as_given(str(error), properties)) from error


def _settings(kind: type[StreamsConfig], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that dotted names stand for: ours, and the rest for the clients and internal topics."""
    own = {name.replace("_", "."): name for name in (f.name for f in fields(kind))} | dict(java_properties.FIELDS)
    nested: dict[str, dict[str, str]] = {"topic_properties": {}, "client_tags": {}, "kafka": {}}
    defined = {each.name: each for each in fields(kind)}
    settings: dict[str, Any] = {}
    # The deprecated names of handlers, which begin so, give way to the new ones.
    for key, value in sorted(given.items(), key=lambda item: not item[0].startswith("default.")):
        prefix = next((each for each in _NESTED if key.startswith(each)), None)
        if prefix is not None:
            nested[_NESTED[prefix]][key.removeprefix(prefix)] = str(value)
        elif key in own:
            settings[own[key]] = _coerce(defined[own[key]], value)
        else:
            nested["kafka"][java_properties.RENAMED.get(key, key)] = str(value)
    return nested | settings


def _as_given(fault: str, properties: Collection[str]) -> str:
    """The message with the property that was given in the place of the setting that it begins with."""
    name, colon, rest = fault.partition(": ")
    known = (*java_properties.FIELDS.items(), (name.replace("_", "."), name))
    dotted = next((each for each, field in known if field == name and each in properties), name)
    return f"{dotted}{colon}{rest}"


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


def _resolve(config: StreamsConfig) -> None:
    """Fills in the values that the runtime chooses, freezes mappings that came in mutable, and makes members of
    enumerations the text that they are: they print as something else than they are encoded to."""
    chosen: dict[str, Any] = {
        "state_dir": _folder(config.state_dir),
        "topic_properties": _plain_mapping(config.topic_properties),
        "kafka": _plain_mapping(config.kafka),
        "client_tags": _plain_mapping(config.client_tags),
        "scheduling": check_scheduling(config.scheduling),
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


def _folder(given: object) -> Path:
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"state_dir: expected the path of a folder, got {given!r:.100}")
    return Path(given).expanduser()


def _plain_mapping(given: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({plain_text(key): plain_text(value) for key, value in dict(given).items()})


def _handler(handler: str | ExceptionHandler) -> ExceptionHandler:
    return BUILT_IN[handler] if isinstance(handler, str) else handler


def _coerce(of: Field[Any], value: Any) -> Any:
    """Turns text into a field's type: properties files hold text only, so numbers and paths arrive as strings."""
    if not isinstance(value, str):
        return value
    if isinstance(of.default, bool):
        return {"true": True, "false": False}.get(value.lower(), value)
    if isinstance(of.default, int):
        return int(value) if re.fullmatch(r"-?\d+", value) else value
    return Path(value) if of.name == "state_dir" else value
