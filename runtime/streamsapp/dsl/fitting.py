"""Checks the serdes of an operator against the records that come to it, as far as they are known.

Asked while a program is built, on the user's thread: a fault that every record would meet is reported there, and not
with the first record.
"""

from __future__ import annotations

from typing import NamedTuple

from streamsapp.dsl.place import Place
from streamsapp.errors import TopologyError, written_in_manifest
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.kinds import cannot_write, other_keys
from streamsapp.serdes.wrapping import WrappingSerde


class SerdeOption(NamedTuple):
    """An option that names a serde: ``Produced(value_serde=...)``."""

    group: str
    field: str

    def __str__(self) -> str:
        if written_in_manifest():
            first, *others = self.field.split("_")
            return first + "".join(each.capitalize() for each in others)
        return f"{self.group}({self.field}=...)"


def fitting(operation: str, given: AnySerde | None, declared: AnySerde | None, group: str, field: str) -> None:
    """Raises ``TopologyError`` for a serde that can write none of the keys or values that an operation is given."""
    if given is None or declared is None or not cannot_write(declared, given):
        return
    side = "key" if "key" in field else "value"
    option = SerdeOption(group, field)
    raise TopologyError(
        f"{operation}: its {side}s are {given.name}, which {option} cannot write as {declared.name}; "
        f"{_remedy(side, given, option)}"
    )


def fit_place(operation: str, place: Place, key: AnySerde | None, value: AnySerde | None, group: str) -> None:
    """Raises as ``fitting`` does, for keys and values of a place."""
    fitting(operation, place.key_serde, key, group, "key_serde")
    fitting(operation, place.value_serde, value, group, "value_serde")


def same_keys(operation: str, left: AnySerde | None, right: AnySerde | None) -> None:
    """Raises ``TopologyError`` for a join of keys that are never equal."""
    if left is None or right is None or not other_keys(left, right):
        return
    raise TopologyError(
        f"{operation}: the keys of the left side are {left.name}, those of the right side {right.name}, so that none "
        f"equals another; give one side the other's keys first, with {_spelt('select_key')}"
    )


def _remedy(side: str, given: AnySerde, option: SerdeOption) -> str:
    leave = f"leave {option.field if not written_in_manifest() else option} out"
    if given.name in ("time_windowed", "session_windowed"):
        if written_in_manifest():
            return f"{leave}, or give records the key within: {{toStream: {{mapper: module:function}}}} returning w.key"
        size = ", size" if given.name == "time_windowed" else ""
        inner = f"Serdes.{given.inner.name}()" if isinstance(given, WrappingSerde) else "inner"
        return (
            f"write Serdes.{given.name}({inner}{size}), {leave}, or give records the key within: "
            "to_stream(lambda w, value: w.key)"
        )
    return f"{leave}, or give records other {side}s first, with {_spelt('map_values' if side == 'value' else 'map')}"


def _spelt(operation: str) -> str:
    """An operation's name, as programs or as manifests have it."""
    first, *others = operation.split("_")
    return first + "".join(each.capitalize() for each in others) if written_in_manifest() else operation
