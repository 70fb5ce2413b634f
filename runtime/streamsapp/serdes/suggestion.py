"""The serde that fits a value, for people whose serde does not. Pure; asked after a serde has refused a value."""

from __future__ import annotations

import uuid
from typing import Any

from streamsapp.serdes.windowed import Windowed

_SERDES = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes", uuid.UUID: "uuid"}


def suggested(value: Any) -> str:
    """Returns the serde to declare for a value, as Python writes it."""
    if isinstance(value, Windowed):
        return f"Serdes.time_windowed({suggested(value.key)}, size), or Serdes.session_windowed for sessions"
    if type(value) in _SERDES:
        return f"Serdes.{_SERDES[type(value)]}()"
    return "Serdes.json()" if isinstance(value, (dict, list)) else "Serdes.of(serialize, deserialize)"


def wrong_type(value: Any, serde: str) -> TypeError:
    """Returns the error of a serde that was given a value of another type."""
    return TypeError(
        f"got {type(value).__name__}, the serde is {serde}; declare one that fits, e.g. {suggested(value)}"
    )
