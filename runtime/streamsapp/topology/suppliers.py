"""Checks the supplier of a processor node: a class, or a function that makes one processor per task.

Called by the topology builder, on the thread that builds the topology.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Set as AbstractSet
from typing import TypeAlias

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor
from streamsapp.processor.operator import Operator
from streamsapp.state.api import StoreBuilder

#: A subclass of ``Processor``, or a function without arguments that makes a new processor each time.
NodeSupplier: TypeAlias = Callable[[], Processor | Operator]


def check_supplier(name: str, supplier: NodeSupplier) -> None:
    """Raises unless ``supplier`` makes a processor of its own for each task."""
    if isinstance(supplier, Processor | Operator):
        kind = type(supplier).__name__
        raise TopologyError(f"processor {name}: got one {kind}; give the class, or a function that makes one per task")
    if isinstance(supplier, type):
        if not issubclass(supplier, Processor | Operator):
            raise TopologyError(f"processor {name}: {supplier.__name__} is not a subclass of Processor")
        _check_plain(name, supplier)
        return
    if not callable(supplier):
        raise TopologyError(f"processor {name}: the supplier must be a class or a function, got {supplier!r}")
    _check_takes_nothing(name, supplier)
    made = supplier()
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, Processor | Operator):
        raise TopologyError(f"processor {name}: the supplier made a {type(made).__name__}, not a Processor")
    _check_plain(name, type(made))
    if supplier() is made:
        raise TopologyError(f"processor {name}: the supplier must make a new processor each time; tasks share nothing")


def _check_takes_nothing(name: str, supplier: Callable[..., object]) -> None:
    try:
        inspect.signature(supplier).bind()
    except TypeError:
        raise TopologyError(
            f"processor {name}: the supplier is called without arguments and makes a Processor; a function of a record "
            "is not a supplier: write a class with process(self, record), or use map, filter or foreach"
        ) from None
    except ValueError:  # some built-ins have no signature
        return


def _check_plain(name: str, kind: type) -> None:
    for method in ("init", "process", "close"):
        if inspect.iscoroutinefunction(getattr(kind, method, None)):
            what = f"{kind.__name__}.{method}"
            raise TopologyError(
                f"processor {name}: {what} is a coroutine, which is never awaited; write it without async, or call a "
                "service with map_async"
            )


def supplied_stores(supplier: NodeSupplier) -> Iterable[StoreBuilder]:
    """The stores a supplier brings along: what its ``stores()`` gives (on a class: a static or class method).

    Stores of a set come by name, so that every process builds the same topology."""
    if isinstance(supplier, type):
        declared = inspect.getattr_static(supplier, "stores", None)
        if not isinstance(declared, staticmethod | classmethod):
            return ()
    stores = getattr(supplier, "stores", None)
    found = stores() if callable(stores) else ()
    return sorted(found, key=lambda builder: builder.name) if isinstance(found, AbstractSet) else tuple(found or ())
