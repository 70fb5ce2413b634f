"""Makes the store of a table from a ``Materialized`` once an operator has filled in names and serdes.

Used while a program is built, on the user's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from streamsapp.dsl.fitting import fitting
from streamsapp.dsl.names import NameGenerator
from streamsapp.dsl.options import Emit, Materialized
from streamsapp.dsl.windows import EmitStrategy, SessionWindows, SlidingWindows, Windows
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.expiring import TIMESTAMPED_KEY_VALUE_WITH_TTL, ExpiringType, ttl_in_ms
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.window import WindowType


@dataclass(frozen=True)
class TableStore:
    """The store of a table. One that is not ``queryable`` carries a generated name, and may not be needed at all."""

    builder: StoreBuilder
    queryable: bool
    #: When its updates go downstream, if the user said so.
    emit: Emit | None = None

    @property
    def name(self) -> str:
        return self.builder.name

    @property
    def emit_at_commit(self) -> bool:
        """Says whether updates wait for the commit."""
        return self.emit == "commit"

    @property
    def wanted(self) -> bool:
        """Says whether there is a store whatever is built below: it is named, keeps versions, its rows have a time to
        live, or updates are held back for the commit."""
        has_times = self.history_ms is not None or isinstance(self.builder.type, ExpiringType)
        return self.queryable or self.emit_at_commit or has_times

    @property
    def history_ms(self) -> int | None:
        """The time in milliseconds for which the store keeps earlier values of its keys; ``None`` if it keeps the last
        one only."""
        kind = self.builder.type
        return kind.history_retention_ms if isinstance(kind, VersionedType) else None

    @property
    def key_serde(self) -> AnySerde | None:
        return self.builder.key_serde

    @property
    def value_serde(self) -> AnySerde | None:
        return self.builder.value_serde


def table_store(
    names: NameGenerator,
    prefix: str,
    materialized: Materialized[Any, Any] | None,
    key_serde: AnySerde | None,
    value_serde: AnySerde | None,
) -> TableStore:
    """Returns the store of a table, with a generated name unless it was named.

    The serdes given here serve where ``materialized`` has none.
    """
    if materialized is not None and materialized.retention is not None:
        raise TopologyError(
            f"Materialized({materialized.store_name or ''!r}, retention=...): a table without windows keeps every key; "
            "leave retention out, and delete rows by writing None, or give them a time to live with ttl"
        )
    return _store(names, prefix, materialized, key_serde, value_serde, _kind(materialized))


def _kind(materialized: Materialized[Any, Any] | None) -> StoreType:
    if materialized is not None and materialized.ttl is not None:
        return _expiring(materialized, materialized.ttl)
    if materialized is None or materialized.versioned is None:
        return TIMESTAMPED_KEY_VALUE
    if materialized.store == "memory" or materialized.emit == "commit":
        raise TopologyError(
            f"Materialized({materialized.store_name or ''!r}, versioned=...) needs store='rocksdb', which is "
            "the default, and has no emit='commit': leave store and emit out, or versioned"
        )
    history_ms = duration_ms(materialized.versioned)
    if history_ms < 0:
        raise TopologyError(
            f"Materialized({materialized.store_name or ''!r}, versioned={history_ms} ms): the time for which earlier "
            "values are kept must not be negative"
        )
    return VersionedType(history_ms)


def _expiring(materialized: Materialized[Any, Any], ttl: Duration) -> StoreType:
    where = f"Materialized({materialized.store_name or ''!r}, ttl=...)"
    if materialized.versioned is not None:
        raise TopologyError(
            f"{where}: a table that keeps versions does so for their history; leave ttl or versioned out"
        )
    return replace(TIMESTAMPED_KEY_VALUE_WITH_TTL, ttl_ms=ttl_in_ms(where, ttl))


def refuse_ttl(materialized: Materialized[Any, Any] | None, why: str) -> None:
    """Raises where rows can have no time to live."""
    if materialized is not None and materialized.ttl is not None:
        raise TopologyError(f"Materialized({materialized.store_name or ''!r}, ttl=...): {why}")


def window_store(
    names: NameGenerator,
    prefix: str,
    materialized: Materialized[Any, Any] | None,
    key_serde: AnySerde | None,
    value_serde: AnySerde | None,
    windows: Windows | SlidingWindows,
    emit: EmitStrategy,
) -> TableStore:
    """Returns the store of an aggregation by time window. It keeps a window as long as its results may change, or
    longer if ``materialized`` says so; raises ``TopologyError`` for less."""
    if isinstance(windows, SlidingWindows):
        size, least, needs = windows.difference_ms, 2 * windows.difference_ms, "twice their time difference"
    else:
        size, least, needs = windows.size_ms, windows.size_ms, "their size"
    kept = _retention(materialized, min(least + windows.grace_ms, MAX_TIMESTAMP), f"the windows need at least {needs}")
    kind = WindowType(
        kept,
        size,
        keeps_timestamps=True,
        time_ordered=emit is EmitStrategy.WINDOW_CLOSE,
        in_memory=materialized is not None and materialized.store == "memory",
    )
    return _store(names, prefix, materialized, key_serde, value_serde, kind)


def session_store(
    names: NameGenerator,
    prefix: str,
    materialized: Materialized[Any, Any] | None,
    key_serde: AnySerde | None,
    value_serde: AnySerde | None,
    windows: SessionWindows,
    emit: EmitStrategy,
) -> TableStore:
    """Returns the store of an aggregation by session."""
    kept = _retention(
        materialized, min(windows.gap_ms + windows.grace_ms, MAX_TIMESTAMP), "sessions need at least their gap"
    )
    in_memory = materialized is not None and materialized.store == "memory"
    kind = SessionType(kept, by_time=emit is EmitStrategy.WINDOW_CLOSE, in_memory=in_memory)
    return _store(names, prefix, materialized, key_serde, value_serde, kind)


def _retention(materialized: Materialized[Any, Any] | None, least: int, needs: str) -> int:
    if materialized is not None and materialized.versioned is not None:
        raise TopologyError(f"Materialized({materialized.store_name or ''!r}, versioned=...): windows have no versions")
    refuse_ttl(materialized, "windows and sessions are kept for their retention; set retention, or leave ttl out")
    retention = materialized.retention if materialized is not None else None
    kept = least if retention is None else duration_ms(retention)
    if kept < least:
        raise TopologyError(f"Materialized(retention={kept} ms): {needs} and grace, {least} ms")
    return kept


def _store(
    names: NameGenerator,
    prefix: str,
    materialized: Materialized[Any, Any] | None,
    key_serde: AnySerde | None,
    value_serde: AnySerde | None,
    kind: StoreType,
) -> TableStore:
    options = materialized or Materialized[Any, Any]()
    name = options.store_name or names.store(prefix)
    fitting(f"store {name}", key_serde, options.key_serde, "Materialized", "key_serde")
    fitting(f"store {name}", value_serde, options.value_serde, "Materialized", "value_serde")
    builder = StoreBuilder(
        name=name,
        type=kind,
        engine=Engine(options.store),
        key_serde=options.key_serde or key_serde,
        value_serde=options.value_serde or value_serde,
        logging=options.logging,
        log_config=options.log_config,
        caching=options.caching,
        of_table=True,
    )
    return TableStore(builder, options.store_name is not None, options.emit)
