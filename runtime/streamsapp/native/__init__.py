"""The compiled part of the runtime, by its names: fetched records and batches to be sent (``kafka``), steps, counts and
loops of tasks (``dsl``, ``tasks``), cells of stores (``state``).

The first use of a name loads the library, on the thread that uses it; a program that uses none, as the operator, loads
nothing. Raises ``ImportError`` where it cannot be had.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from streamsapp.native.kinds import FetchedPart, StepKind, Why

if TYPE_CHECKING:
    from streamsapp.native.compiled import (
        Cell,
        CellLog,
        CellRun,
        Cells,
        Chunk,
        CountPush,
        Loop,
        Outbox,
        PackedRecords,
        Recent,
        Record,
        Sink,
        Step,
        Window,
        WindowPush,
        answer,
        by_last_update,
        results,
        stamped,
    )

__all__ = (
    "Cell",
    "CellLog",
    "CellRun",
    "Cells",
    "Chunk",
    "CountPush",
    "FetchedPart",
    "Loop",
    "Outbox",
    "PackedRecords",
    "Recent",
    "Record",
    "Sink",
    "Step",
    "StepKind",
    "Why",
    "Window",
    "WindowPush",
    "answer",
    "by_last_update",
    "results",
    "stamped",
)

_COMPILED = "streamsapp.native.compiled"

#: Threads may use their first names at once; one of them compiles and loads.
_loading = Lock()


if not TYPE_CHECKING:  # which would take any name for one of the library's

    def __getattr__(name: str) -> Any:
        """Returns a name of the library, which is found without this function from then on."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with _loading:
            library = sys.modules.get(_COMPILED) or _loaded()
        found = globals()[name] = getattr(library, name)
        return found


def data_path_at_hand() -> Any:
    """The names. Tests put ``None`` in its place, for what Python does without them."""
    return sys.modules[__name__]


def _loaded() -> ModuleType:
    from streamsapp.native import build  # late: it needs confluent-kafka and the compiler's surroundings

    try:
        path = str(build.library())
    except build.UnavailableError as error:
        raise ImportError(f"the compiled part of streamsapp cannot be had here: {error}") from error
    spec = spec_from_file_location("streamsapp.native.records", path, loader=ExtensionFileLoader("records", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for kind in (module.CellLog, module.CellRun):
        Sequence.register(kind)
    sys.modules[_COMPILED] = module
    return module
