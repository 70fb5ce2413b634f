"""The compiled part of the runtime, by its names: fetched records and batches to be sent (``kafka``), steps, counts and
loops of tasks (``dsl``, ``tasks``), cells of stores (``state``). Importing it changes nothing in the process.

The module ``compiled`` is made of the C sources beside this file when the project is built (``hatch_build.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from streamsapp.native.kinds import Why

try:
    from streamsapp.native.compiled import (
        Cell,
        CellLog,
        CellRun,
        Cells,
        Chunk,
        ComputedRows,
        CountPush,
        FetchAnswer,
        FetchedPart,
        FoldPush,
        ForwardUpdate,
        HoldUpdate,
        Input,
        JoinPush,
        KeptValues,
        Loop,
        NumberReader,
        NumberWriter,
        Outbox,
        PackedRecords,
        Recent,
        Record,
        ShapedWriter,
        Sink,
        Step,
        StoredRows,
        StreamTime,
        TakenBatch,
        TimeMarker,
        Tls,
        TlsContext,
        TlsError,
        ToStored,
        Window,
        WindowPush,
        answer,
        by_last_update,
        fits,
        require_bytes,
        results,
        stamped,
        take_large_arenas,
    )
except ImportError as error:
    from pathlib import Path

    _folder = Path(__file__).parent
    _found = " and ".join(sorted(path.name for path in _folder.glob("compiled.*.so"))) or "no file of it"
    raise ImportError(
        f"the compiled part of streamsapp cannot be loaded: {error}. There is {_found} in {_folder}, and this is "
        f"{sys.implementation.cache_tag} on {sys.platform}. Install the wheel that is for this Python and platform "
        "(pip install --force-reinstall streamsapp); in a clone, type: make setup"
    ) from error

__all__ = (
    "Cell",
    "CellLog",
    "CellRun",
    "Cells",
    "Chunk",
    "ComputedRows",
    "CountPush",
    "FetchAnswer",
    "FetchedPart",
    "FoldPush",
    "ForwardUpdate",
    "HoldUpdate",
    "Input",
    "JoinPush",
    "KeptValues",
    "Loop",
    "NumberReader",
    "NumberWriter",
    "Outbox",
    "PackedRecords",
    "Recent",
    "Record",
    "ShapedWriter",
    "Sink",
    "Step",
    "StoredRows",
    "StreamTime",
    "TakenBatch",
    "TimeMarker",
    "Tls",
    "TlsContext",
    "TlsError",
    "ToStored",
    "Why",
    "Window",
    "WindowPush",
    "answer",
    "by_last_update",
    "fits",
    "require_bytes",
    "results",
    "stamped",
    "take_large_arenas",
)

#: They have the methods of sequences.
for _kind in (CellLog, CellRun):
    Sequence.register(_kind)
