"""Queries by name, key and range, wherever the answer is: ``StreamsRuntime.query`` and the HTTP port.

Called on any thread but those of the runtime: it waits for other instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, NoReturn

from streamsapp.clock import Clock
from streamsapp.errors import InvalidQueryError, StoreNotAvailableError, UnknownStateStoreError
from streamsapp.query.api import (
    Found,
    Host,
    KeyQueryMetadata,
    KeyRange,
    Page,
    QuerySource,
    Staleness,
    StoreInfo,
    Wanted,
)
from streamsapp.query.local_reader import LocalReader
from streamsapp.query.remote_reader import Fetch, Patience, RemoteReader
from streamsapp.query.routing import Hosts, hosts_of, to_ask
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.serdes.windowed import MAX_TIMESTAMP, Windowed
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.versions import VersionedRecord
from streamsapp.state.layers.window_view import WindowRange

#: Entries that are read at once, per partition.
PAGE = 1000
#: Windows whenever they start.
ALL_TIME = (0, MAX_TIMESTAMP)


class Queries:
    """Reads an application's stores at one of its instances."""

    def __init__(self, host: Host, clock: Clock, fetch: Fetch) -> None:
        self.host = host
        #: Answers from this instance alone.
        self.local = LocalReader(host, clock)
        self._remote = RemoteReader(fetch)

    # ---- what user code calls ----------------------------------------------------------------------------------

    def get(self, store: str, key: Any, *, partition: int | None = None, stale: Staleness | None = None) -> Any:
        """Returns the value of a key as ``KeyValueStore.get`` gives it, from this instance or the instance that has it
        (KIP-67).

        The partition of a key is known in a store behind a repartition topic. If others write the topics, it is not.
        Then all partitions are asked for a key that is not where the default partitioner puts it, unless ``partition``
        is given. Raises ``StoreNotAvailableError`` while no instance can answer.
        """
        info = self.store(store)
        _require_no_windows(info)
        key_bytes = serialize(info, key)
        where = self.partitions_of(info, key_bytes) if partition is None else [partition]
        return self.find(info, where, key_bytes, stale)[0].value

    def as_of(
        self, store: str, key: Any, timestamp: int, *, partition: int | None = None, stale: Staleness | None = None
    ) -> VersionedRecord | None:
        """Returns the version that a key of a versioned store had at a time, in milliseconds (KIP-960). Returns
        ``None`` if it had no value then, or the time lies before the history."""
        found = self.versions(store, key, times=(timestamp, timestamp), partition=partition, stale=stale)
        return next((version for _, version in found), None)

    def versions(
        self,
        store: str,
        key: Any = None,
        from_: Any = None,
        to: Any = None,
        times: tuple[int, int] = ALL_TIME,
        *,
        partition: int | None = None,
        stale: Staleness | None = None,
    ) -> KeyValueIterator[Any, VersionedRecord]:
        """Iterates over keys and versions of a key, or of the keys with ``from_ <= key <= to`` (``None`` is an open
        end). The versions were valid at any time within ``times``, both inclusive and in milliseconds (KIP-968).
        Versions of one key come in the order of time, versions of several keys as the store has them."""
        info = self.store(store)
        key_of = info.key_of
        if key_of is None:
            raise InvalidQueryError(f"store {store} keeps no versions; ask for a key or a range of keys")
        found = self._in_time(info, key, time_range(info, key, from_, to, times), partition, stale)
        deserialize = info.key_serde.deserialize
        return KeyValueIterator((deserialize(key_of(each.key)), each.value) for each in found)

    def range(
        self,
        store: str,
        from_: Any = None,
        to: Any = None,
        *,
        partition: int | None = None,
        stale: Staleness | None = None,
    ) -> KeyValueIterator[Any, Any]:
        """Iterates over keys and values with ``from_ <= key <= to`` in the order of the keys' bytes; ``None`` is an
        open end.

        It reads all partitions, wherever they are, unless one is given, page by page: each page of a partition shows
        one moment.
        """
        info = self.store(store)
        _require_no_windows(info)
        if info.key_of is not None:
            raise InvalidQueryError(f"store {store} keeps versions; ask for the versions of a range of keys")
        keys = key_range(info, from_, to)
        partitions = range(info.partitions) if partition is None else [partition]
        for each in partitions:
            info.task_id(each)
        deserialize = info.key_serde.deserialize
        rows = self._rows(info, partitions, keys, stale)
        return KeyValueIterator((deserialize(found.key), found.value) for found in rows)

    def windows(
        self,
        store: str,
        key: Any = None,
        from_: Any = None,
        to: Any = None,
        times: tuple[int, int] = ALL_TIME,
        *,
        partition: int | None = None,
        stale: Staleness | None = None,
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over windows and values of a key, or of the keys with ``from_ <= key <= to`` (``None`` is an open
        end). The windows start within ``times``, both inclusive and in milliseconds. Windows of one key come in the
        order of time, windows of several keys as the store has them."""
        info = self.store(store)
        if info.window_of is None:
            raise InvalidQueryError(f"store {store} has no windows; ask for a key or a range of keys, without times")
        found = self._in_time(info, key, time_range(info, key, from_, to, times), partition, stale)
        return KeyValueIterator((windowed(info, each.key), each.value) for each in found)

    def key_metadata(self, store: str, key: Any, key_serde: AnySerde | None = None) -> KeyQueryMetadata:
        """Returns the instances that have a key; it is serialised by the store's own serde unless one is given."""
        info = self.store(store)
        key_bytes = serialize(info, key) if key_serde is None else key_serde.serialize(key)
        if info.is_global:
            return self._here(info)
        partition, *others = self.partitions_of(info, key_bytes)
        if others:
            partition = self.find(info, [partition, *others], key_bytes, None)[1].partition
        hosts = self.hosts(info, partition)
        if hosts.active is None:
            raise StoreNotAvailableError(
                f"partition {partition} of store {store} is with no instance that has an endpoint; set "
                "application_server, or try again after the rebalance"
            )
        return KeyQueryMetadata(hosts.active, frozenset(hosts.standby), partition)

    def _here(self, store: StoreInfo) -> KeyQueryMetadata:
        """Every instance has all of a global store, and the key has no partition there. As in Kafka Streams
        (``StreamsMetadataState``), it is this instance, or any other if this one has no endpoint."""
        others = sorted(peer.endpoint for peer in self.host.peers().values() if peer.endpoint)
        endpoint = self.host.endpoint or next(iter(others), "")
        if not endpoint:
            raise StoreNotAvailableError(
                f"global store {store.name} is on every instance, and none has an endpoint; set application_server"
            )
        return KeyQueryMetadata(endpoint, frozenset(), -1)

    # ---- parts -------------------------------------------------------------------------------------------------

    def store(self, name: str) -> StoreInfo:
        """Returns a store of the application; raises ``UnknownStateStoreError`` if there is none of that
        name."""
        stores = self.host.stores()
        if name not in stores:
            _refuse(name, stores)
        return stores[name]

    @staticmethod
    def partitions_of(store: StoreInfo, key: bytes) -> list[int]:
        """Returns the partitions that a key may be in, the likeliest first: that of the default partitioner."""
        likeliest = partition_for(key, store.partitions)
        if store.placed:
            return [likeliest]
        return [likeliest, *(each for each in range(store.partitions) if each != likeliest)]

    def find(
        self, store: StoreInfo, partitions: Iterable[int], key: bytes, stale: Staleness | None
    ) -> tuple[Found, QuerySource]:
        """Returns the entry of a key from the first of the partitions that has it, here or elsewhere."""
        patience = Patience()

        def get(partition: int) -> tuple[Found, QuerySource]:
            try:
                return self.local.get(store, partition, key, stale)
            except StoreNotAvailableError:
                if store.is_global:
                    raise  # each instance has its own
                return self._remote_get(store, partition, key, stale, patience)

        return _first_with(map(get, partitions))

    def find_here(
        self, store: StoreInfo, partitions: Iterable[int], key: bytes, stale: Staleness | None
    ) -> tuple[Found, QuerySource]:
        """Returns the entry of a key on this instance. Raises ``StoreNotAvailableError`` if it has none here, and may
        have one elsewhere."""
        missing: list[StoreNotAvailableError] = []

        def here() -> Iterator[tuple[Found, QuerySource]]:
            for partition in partitions:
                try:
                    yield self.local.get(store, partition, key, stale)
                except StoreNotAvailableError as error:
                    missing.append(error)
            if missing:
                raise missing[0]

        return _first_with(here())

    def hosts(self, store: StoreInfo, partition: int) -> Hosts:
        """Returns the instances that have a partition of a store."""
        return hosts_of(store.task_id(partition), self.host.peers())

    def _remote_get(
        self, store: StoreInfo, partition: int, key: bytes, stale: Staleness | None, patience: Patience
    ) -> tuple[Found, QuerySource]:
        endpoints = to_ask(self.hosts(store, partition), stale)
        return self._remote.get(store, partition, key, stale, endpoints, patience)

    def remote_range(
        self,
        store: StoreInfo,
        partition: int,
        keys: Wanted,
        limit: int,
        stale: Staleness | None,
        patience: Patience,
    ) -> Page:
        """Returns the first entries of a range from an instance that has the partition."""
        endpoints = to_ask(self.hosts(store, partition), stale)
        return self._remote.range(store, partition, keys, limit, stale, endpoints, patience)

    def _in_time(
        self, store: StoreInfo, key: Any, keys: WindowRange, partition: int | None, stale: Staleness | None
    ) -> Iterator[Found]:
        if partition is not None:
            where = [partition]
        else:
            where = list(range(store.partitions)) if key is None else self.partitions_of(store, keys.low)
        for each in where:
            store.task_id(each)
        return self._rows(store, where, keys, stale)

    def _rows(
        self, store: StoreInfo, partitions: Iterable[int], keys: Wanted, stale: Staleness | None
    ) -> Iterator[Found]:
        return merge(*(self._partition(store, each, keys, stale) for each in partitions), key=lambda found: found.key)

    def _partition(self, store: StoreInfo, partition: int, keys: Wanted, stale: Staleness | None) -> Iterator[Found]:
        while True:
            try:
                page, _ = self.local.range(store, partition, keys, PAGE, stale)
            except StoreNotAvailableError:
                if store.is_global:
                    raise
                # The caller takes rows at its own pace: the time is that of a page.
                page = self.remote_range(store, partition, keys, PAGE, stale, Patience())
            yield from page.entries
            if page.next is None:
                return
            keys = keys._replace(start=page.next)


def _require_no_windows(store: StoreInfo) -> None:
    if store.window_of is not None:
        raise InvalidQueryError(f"store {store.name} has windows; ask for the windows of a key, or of a range of time")


def _first_with(answers: Iterable[tuple[Found, QuerySource]]) -> tuple[Found, QuerySource]:
    """Returns the first entry that has a value, or else the first."""
    first: tuple[Found, QuerySource] | None = None
    for found, source in answers:
        if found.raw is not None:
            return found, source
        first = first or (found, source)
    assert first is not None
    return first


def serialize(store: StoreInfo, key: Any) -> bytes:
    """Returns a key's bytes."""
    if key is None:
        raise InvalidQueryError(f"a null key is in no store; give a key of store {store.name}")
    try:
        data: bytes = store.key_serde.serialize(key)
    except Exception as error:
        raise InvalidQueryError(
            f"{key!r} is not a key of store {store.name}, whose keys are {store.key_serde.name}: {error}"
        ) from error
    return data


def key_range(store: StoreInfo, from_: Any, to: Any) -> KeyRange:
    """Returns the range of keys with ``from_ <= key <= to``; ``None`` is an open end."""
    # The end is exclusive below; a zero byte appended is the next key there can be.
    end = None if to is None else serialize(store, to) + b"\x00"
    return KeyRange(b"" if from_ is None else serialize(store, from_), end)


def time_range(store: StoreInfo, key: Any, from_: Any, to: Any, times: tuple[int, int]) -> WindowRange:
    """Returns the range of the windows, or versions, of one key or of a range of keys."""
    from_ms, to_ms = times
    if from_ms < 0 or to_ms < from_ms:
        raise InvalidQueryError(f"there is no time from {from_ms} to {to_ms}; give milliseconds, the earlier one first")
    if key is not None:
        from_ = to = key
    low = b"" if from_ is None else serialize(store, from_)
    return WindowRange(b"", low, None if to is None else serialize(store, to), from_ms, to_ms)


def windowed(store: StoreInfo, entry_key: bytes) -> Windowed[Any]:
    """Returns the window of an entry, with its key."""
    assert store.window_of is not None
    key, start_ms, end_ms = store.window_of(entry_key)
    return Windowed(store.key_serde.deserialize(key), start_ms, end_ms)


def _refuse(name: str, stores: Iterable[str]) -> NoReturn:
    known = ", ".join(sorted(stores))
    if not known:
        raise StoreNotAvailableError("the instance does not know its stores yet; try again soon")
    raise UnknownStateStoreError(f"the topology has no store {name!r}; it has {known}")
