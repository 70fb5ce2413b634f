"""The data pipeline on Spark: topic history into snapshots (``bootstrap``), the application as a query (``run``),
snapshots as DataFrames (``spark.read.format("streamsapp")``), and one checked against the other (``audit``).

Reached from the command line by name, never imported by the runtime; users' programs import the functions below, and
each is imported when it is first asked for: every Python worker of Spark's imports this package. Spark schedules,
shuffles and retries; what runs in its workers is the runtime's own task code on its own stores.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsapp_spark.dataframes.frames import run_topology as run_topology
    from streamsapp_spark.dataframes.typed_results import typed_results as typed_results
    from streamsapp_spark.python_program import bootstrap as bootstrap, run as run

_MODULES = {
    "bootstrap": "python_program",
    "run": "python_program",
    "run_topology": "dataframes.frames",
    "typed_results": "dataframes.typed_results",
}

__all__ = ["bootstrap", "run", "run_topology", "typed_results"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
