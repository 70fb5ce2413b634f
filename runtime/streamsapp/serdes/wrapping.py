"""A serde made of another one, which may be the configured default: binding it to a topic binds the inner one.

Built with the topology; bound on the polling thread when a task is created.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from streamsapp.serdes.api import AnySerde, DefaultSerdes, Serde, T


@dataclass(frozen=True)
class WrappingSerde(Serde[T]):
    """``build`` makes the same kind of serde around another inner one."""

    inner: AnySerde = field(kw_only=True)
    build: Callable[[AnySerde], Serde[T]] = field(kw_only=True)

    def bind(self, topic: str, is_key: bool) -> Serde[T]:
        bound = self.inner.bind(topic, is_key)
        return self if bound is self.inner else self.build(bound)

    def or_default(self, defaults: DefaultSerdes) -> Serde[T]:
        known = self.inner.or_default(defaults)
        return self if known is self.inner else self.build(known)


@dataclass(frozen=True)
class _Configured(Serde[Any]):
    of_keys: bool = False

    def or_default(self, defaults: DefaultSerdes) -> AnySerde:
        return defaults.key if self.of_keys else defaults.value


def _unknown(value: Any) -> NoReturn:
    raise TypeError("the configured default serde is not known yet")


#: Stands for the configured default of values in a serde that is made of it, and for that of keys.
CONFIGURED = _Configured(_unknown, _unknown, name="default")
CONFIGURED_KEY = _Configured(_unknown, _unknown, name="default", of_keys=True)
