"""The kinds of stores by the names that users have for them: what ``get_state_store(name, kind)`` checks.

Called by the contexts of processors on processing threads, and by the test driver.
"""

from __future__ import annotations

from typing import Any, get_origin

from streamsapp.errors import TopologyError
from streamsapp.state.api import KeyValueStore
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl
from streamsapp.state.kinds.windowed_api import SessionStore, VersionedKeyValueStore, WindowStore

_KINDS: dict[Any, type] = {
    KeyValueStore: KeyValueStoreImpl,
    WindowStore: WindowStoreImpl,
    SessionStore: SessionStoreImpl,
    VersionedKeyValueStore: VersionedStoreImpl,
}


def of_kind(store: Any, name: str, kind: Any) -> Any:
    """Returns the store if it is of that kind, such as ``KeyValueStore[str, int]``; any is of the kind ``None``.
    Keys and values are not looked at. Raises ``TopologyError`` for a store of another kind."""
    if kind is None:
        return store
    wanted = get_origin(kind) or kind
    if wanted not in _KINDS:
        names = ", ".join(each.__name__ for each in _KINDS)
        raise TopologyError(f"store {name}: expected one of {names} as its kind, got {kind!r}")
    if not isinstance(store, _KINDS[wanted]):
        is_a = next((each.__name__ for each, made in _KINDS.items() if isinstance(store, made)), type(store).__name__)
        raise TopologyError(f"store {name} is a {is_a}, and a {wanted.__name__} is asked for")
    return store
