"""The serde of keys and values that nothing was declared for, where an operator keeps them: ``map_async``.

The configured default, as everywhere, unless that is bytes, which is the default of the default: then MessagePack,
which refuses what would not come back as it was. Bound on the polling thread when a task is created; runs on processing
threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamsapp.serdes.api import AnySerde, DefaultSerdes, Serde
from streamsapp.serdes.serdes import Serdes

_PACKED: AnySerde = Serdes.msgpack()


@dataclass(frozen=True)
class UndeclaredSerde(Serde[Any]):
    """MessagePack, unless the configured default takes its place."""

    of_keys: bool = False

    def or_default(self, defaults: DefaultSerdes) -> AnySerde:
        configured = defaults.key if self.of_keys else defaults.value
        return self if configured is Serdes.bytes() else configured


UNDECLARED = UndeclaredSerde(_PACKED.serialize, _PACKED.deserialize, name=_PACKED.name)
UNDECLARED_KEY = UndeclaredSerde(_PACKED.serialize, _PACKED.deserialize, name=_PACKED.name, of_keys=True)
