"""All entries of a task's stores, for tests that compare state. Called by those of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamsapp.state.kinds.grace_buffer import GraceBuffer
from streamsapp.state.kinds.outer_join import OuterJoinStore
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.suppress_buffer import SuppressionBuffer
from streamsapp.state.kinds.versioned import VersionedStoreImpl

#: Not compared: rows that wait in joins and in ``suppress``, and versions. Their results are.
_LEFT_OUT = (GraceBuffer, OuterJoinStore, SuppressionBuffer, VersionedStoreImpl)


def entries(stores: Mapping[str, Any]) -> dict[str, list[tuple[Any, Any]]]:
    """The entries of each store; stores of some kinds are left out."""
    return {name: list(_all(store)) for name, store in stores.items() if not isinstance(store, _LEFT_OUT)}


def _all(store: Any) -> Iterable[tuple[Any, Any]]:
    return store.fetch_range(None, None) if isinstance(store, SessionStoreImpl) else store.all()
