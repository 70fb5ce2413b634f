"""The properties of librdkafka's that a client of our own knows: what it does not know is left to librdkafka. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from streamsapp.config.client_properties import ClientProperties


@dataclass(frozen=True)
class KnownProperties:
    """Those of one kind of client."""

    #: Properties that mean the same, or nothing, whatever their value.
    names: frozenset[str]
    #: Those that are numbers, with the least and the greatest: librdkafka says what is wrong with others.
    numbers: Mapping[str, tuple[float, float]]
    #: The values that are known, of properties of which not all are.
    values: Mapping[str, frozenset[str]]
    #: Makes a number of a value, or raises ``ValueError``.
    parse: Callable[[str], float]
    #: Without these librdkafka does something that is not known here.
    needed: Collection[str] = ()

    def unknown(self, properties: ClientProperties) -> str | None:
        """The first property for which librdkafka is needed, if there is one."""
        wanted = dict.fromkeys(self.needed, "") | properties
        return next((key for key, value in wanted.items() if not self._knows(key, str(value))), None)

    def _knows(self, key: str, value: str) -> bool:
        if key in self.numbers:
            least, greatest = self.numbers[key]
            try:
                return least <= self.parse(value) <= greatest
            except ValueError:
                return False
        return value.lower() in self.values[key] if key in self.values else key in self.names
