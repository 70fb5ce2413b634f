"""Stateful stream processing on Kafka, compatible with Kafka Streams. These are the names applications use.

Each name is imported when it is first asked for: the operator reads manifests and a plain tool describes a topology
without loading the Kafka client or RocksDB.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsapp.config.scheduling import Scheduling as Scheduling
    from streamsapp.config.streams_config import StreamsConfig as StreamsConfig
    from streamsapp.dsl.builder import StreamsBuilder as StreamsBuilder
    from streamsapp.dsl.cogrouped import CogroupedKStream as CogroupedKStream
    from streamsapp.dsl.count_windowed import CountWindowedKStream as CountWindowedKStream
    from streamsapp.dsl.global_table import GlobalKTable as GlobalKTable
    from streamsapp.dsl.join_options import Joined as Joined, StreamJoined as StreamJoined, TableJoined as TableJoined
    from streamsapp.dsl.kgroupedstream import KGroupedStream as KGroupedStream
    from streamsapp.dsl.kgroupedtable import KGroupedTable as KGroupedTable
    from streamsapp.dsl.kstream import KStream as KStream
    from streamsapp.dsl.ktable import KTable as KTable
    from streamsapp.dsl.late import Late as Late
    from streamsapp.dsl.options import (
        Branched as Branched,
        Consumed as Consumed,
        Grouped as Grouped,
        Materialized as Materialized,
        Named as Named,
        Printed as Printed,
        Produced as Produced,
        Repartitioned as Repartitioned,
    )
    from streamsapp.dsl.session_windowed import SessionWindowedKStream as SessionWindowedKStream
    from streamsapp.dsl.suppressed import Suppressed as Suppressed
    from streamsapp.dsl.time_windowed import TimeWindowedKStream as TimeWindowedKStream
    from streamsapp.dsl.windows import (
        CountWindows as CountWindows,
        EmitStrategy as EmitStrategy,
        JoinWindows as JoinWindows,
        SessionWindows as SessionWindows,
        SlidingWindows as SlidingWindows,
        TimeWindows as TimeWindows,
        UnlimitedWindows as UnlimitedWindows,
        Windows as Windows,
    )
    from streamsapp.processor.api import (
        Processor as Processor,
        ProcessorContext as ProcessorContext,
        PunctuationType as PunctuationType,
    )
    from streamsapp.record import Record as Record, TaskId as TaskId, TopicPartition as TopicPartition
    from streamsapp.runtime.client_state import ClientState as ClientState
    from streamsapp.runtime.instance import StreamsRuntime as StreamsRuntime
    from streamsapp.runtime.listeners import (
        StandbyUpdateListener as StandbyUpdateListener,
        StateRestoreListener as StateRestoreListener,
        SuspendReason as SuspendReason,
        UncaughtExceptionResponse as UncaughtExceptionResponse,
    )
    from streamsapp.serdes.schema_registry import SchemaRegistry as SchemaRegistry
    from streamsapp.serdes.serdes import Serdes as Serdes
    from streamsapp.serdes.windowed import Windowed as Windowed
    from streamsapp.state.api import (
        AggregationWithHeaders as AggregationWithHeaders,
        KeyValueStore as KeyValueStore,
        ValueAndTimestamp as ValueAndTimestamp,
        ValueTimestampHeaders as ValueTimestampHeaders,
    )
    from streamsapp.state.builders import Stores as Stores
    from streamsapp.state.iterators import KeyValueIterator as KeyValueIterator
    from streamsapp.state.kinds.versioned import VersionedRecord as VersionedRecord
    from streamsapp.state.kinds.windowed_api import (
        SessionStore as SessionStore,
        VersionedKeyValueStore as VersionedKeyValueStore,
        WindowStore as WindowStore,
    )
    from streamsapp.testing.session import Session as Session
    from streamsapp.topology.builder import Topology as Topology

#: The place where each public name lives.
_HOMES = {
    "streamsapp.config.scheduling": ("Scheduling",),
    "streamsapp.config.streams_config": ("StreamsConfig",),
    "streamsapp.dsl.builder": ("StreamsBuilder",),
    "streamsapp.dsl.cogrouped": ("CogroupedKStream",),
    "streamsapp.dsl.count_windowed": ("CountWindowedKStream",),
    "streamsapp.dsl.global_table": ("GlobalKTable",),
    "streamsapp.dsl.kgroupedstream": ("KGroupedStream",),
    "streamsapp.dsl.kgroupedtable": ("KGroupedTable",),
    "streamsapp.dsl.kstream": ("KStream",),
    "streamsapp.dsl.ktable": ("KTable",),
    "streamsapp.dsl.late": ("Late",),
    "streamsapp.dsl.join_options": ("Joined", "StreamJoined", "TableJoined"),
    "streamsapp.dsl.options": (
        "Branched",
        "Consumed",
        "Grouped",
        "Materialized",
        "Named",
        "Printed",
        "Produced",
        "Repartitioned",
    ),
    "streamsapp.dsl.session_windowed": ("SessionWindowedKStream",),
    "streamsapp.dsl.suppressed": ("Suppressed",),
    "streamsapp.dsl.time_windowed": ("TimeWindowedKStream",),
    "streamsapp.dsl.windows": (
        "CountWindows",
        "EmitStrategy",
        "JoinWindows",
        "SessionWindows",
        "SlidingWindows",
        "TimeWindows",
        "UnlimitedWindows",
        "Windows",
    ),
    "streamsapp.processor.api": ("Processor", "ProcessorContext", "PunctuationType"),
    "streamsapp.record": ("Record", "TaskId", "TopicPartition"),
    "streamsapp.runtime.client_state": ("ClientState",),
    "streamsapp.runtime.instance": ("StreamsRuntime",),
    "streamsapp.runtime.listeners": (
        "StandbyUpdateListener",
        "StateRestoreListener",
        "SuspendReason",
        "UncaughtExceptionResponse",
    ),
    "streamsapp.serdes.schema_registry": ("SchemaRegistry",),
    "streamsapp.serdes.serdes": ("Serdes",),
    "streamsapp.serdes.windowed": ("Windowed",),
    "streamsapp.state.api": ("AggregationWithHeaders", "KeyValueStore", "ValueAndTimestamp", "ValueTimestampHeaders"),
    "streamsapp.state.builders": ("Stores",),
    "streamsapp.state.iterators": ("KeyValueIterator",),
    "streamsapp.state.kinds.versioned": ("VersionedRecord",),
    "streamsapp.state.kinds.windowed_api": ("SessionStore", "VersionedKeyValueStore", "WindowStore"),
    "streamsapp.testing.session": ("Session",),
    "streamsapp.topology.builder": ("Topology",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - a list, only not a literal: the names stand once


#: The version of the distribution that is installed.
__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # late: takes longer than all else here

        return version("streamsapp")
    if name not in _HOME_OF:
        raise _unknown(name)
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _unknown(name: str) -> Exception:
    from streamsapp.java_names.lookup import unknown_class  # late, as all else

    here = unknown_class(name)
    if here is None:
        return AttributeError(f"module {__name__!r} has no attribute {name!r}; its public names: {', '.join(__all__)}")
    # `from streamsapp import X` replaces an AttributeError by one without a remedy; only importlib asks for it then.
    kind = ImportError if sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap" else AttributeError
    return kind(f"there is no {name} here; {here}", name=name)
