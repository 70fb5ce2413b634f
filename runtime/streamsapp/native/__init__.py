"""The native data path: records fetched in batches by C code, on the librdkafka that confluent-kafka brings, and made
batches to be sent (``kafka/batches``).

Clients ask for it when they are made, on their own threads; the log, ``/status`` and ``streamsapp --version`` say
whether it runs. Where it cannot be had Python does the same, and everything behaves as with it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from threading import Lock
from typing import cast

from streamsapp.errors import ConfigError
from streamsapp.native.cell_interfaces import CellLog, CellRun, Cells
from streamsapp.native.interfaces import (
    DataPath,
    FetchedPart,
    Outbox,
    PackedRecords,
    PushCount,
    PushSink,
    PushStep,
    PushWindowCount,
    RecentRecords,
    RecordChunk,
    RecordLoop,
    StepKind,
    Why,
    WindowParts,
)

__all__ = (
    "VARIABLE",
    "CellLog",
    "CellRun",
    "Cells",
    "DataPath",
    "FetchedPart",
    "Outbox",
    "PackedRecords",
    "PushCount",
    "PushSink",
    "PushStep",
    "PushWindowCount",
    "RecentRecords",
    "RecordChunk",
    "RecordLoop",
    "StepKind",
    "Why",
    "WindowParts",
    "data_path",
    "data_path_at_hand",
    "described",
)

#: ``0`` leaves it to Python; ``1`` is as if it were not set.
VARIABLE = "STREAMSAPP_NATIVE"

#: Threads may make their first clients at once; one of them compiles and loads.
_choosing = Lock()


def data_path() -> DataPath | None:
    """The native data path unless it is refused or cannot be had here. Compiles it if nobody did so before. Raises
    ``ConfigError`` for a wrong setting."""
    return _chosen()[0]


def data_path_at_hand() -> DataPath | None:
    """The native data path if it was chosen before, as it is by the first client. A program that makes none, as a
    test driver, has nothing compiled."""
    return data_path() if _choose.cache_info().currsize else None


def described() -> str:
    """Which data path runs and, if it is Python's, why."""
    return _chosen()[1]


def _chosen() -> tuple[DataPath | None, str]:
    with _choosing:
        return _choose()


@cache
def _choose() -> tuple[DataPath | None, str]:
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0":
        return None, f"Python ({VARIABLE} is 0)"
    if wanted not in ("", "1"):
        raise ConfigError(f"{VARIABLE}: {wanted!r} is neither 1 (the native data path) nor 0; correct or remove it")
    from streamsapp.native import build  # late: who makes no client needs nothing of all that

    try:
        return _loaded(str(build.library())), "native"
    except (build.UnavailableError, ImportError) as error:
        return None, f"Python (native: {error})"


def _loaded(path: str) -> DataPath:
    spec = spec_from_file_location("streamsapp.native.records", path, loader=ExtensionFileLoader("records", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for kind in (module.CellLog, module.CellRun):
        Sequence.register(kind)
    return cast(DataPath, module)
