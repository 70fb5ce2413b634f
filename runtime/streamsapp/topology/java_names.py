"""Tells who calls a method by its name in Kafka Streams what it is called here.

A base of the classes that users call methods on. ``__getattr__`` runs for names that are not there only, on the thread
that builds the topology.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

#: Methods of Kafka Streams that are gone there, or have another form here.
_INSTEAD = {
    "through": "use repartition(), or to() and then stream()",
    "transform": "use process()",
    "flat_transform": "use process()",
    "flat_transform_values": "use process_values()",
    "as": "use Named, Materialized(store_name) or Consumed(name=...)",
    "queryable_store_name": "give the store a name with Materialized(store_name)",
}
#: Methods that only grouped streams and tables have.
_GROUPED = frozenset({"count", "reduce", "aggregate", "cogroup", "windowed_by"})


class JavaNames:
    """Has none of the methods it is asked for here, and says which there are."""

    if not TYPE_CHECKING:  # or every name would be one for the type checker

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_fault(type(self), name), name=name, obj=None)


def _fault(kind: type, name: str) -> str:
    fault = f"{kind.__name__} has no {name!r}"
    if name.startswith("_"):
        return fault
    snake_case = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: f"_{letter[0]}", name).lower()
    methods = [each for each in dir(kind) if not each.startswith("_")]
    if snake_case in methods:
        return f"{fault}; here it is called {snake_case}"
    if snake_case in _INSTEAD:
        return f"{fault}; {_INSTEAD[snake_case]}"
    if snake_case in _GROUPED and "group_by" in methods:
        return f"{fault}; group it first, with group_by_key() or group_by()"
    close = difflib.get_close_matches(snake_case, methods, n=1)
    return f"{fault}; did you mean {close[0]}?" if close else f"{fault}; it has {', '.join(methods)}"
