"""A task's stores against plain dicts: random reads, writes, scans, commits, reverts and restarts."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamsapp.record import TaskId
from streamsapp.serdes.api import Serde
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.builders import Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.managed_store import FrozenEpoch
from streamsapp.state.task_stores import TaskStores

BYTES = Serde[bytes](bytes, bytes, immutable=True, name="bytes")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")
LIST = Serde[list[int]](bytes, list, immutable=False, name="list")

#: One byte repeats often, 0xff has no successor, the empty key is the first of all.
KEYS = st.binary(max_size=3) | st.sampled_from([b"", b"\x00", b"\xff", b"\xff\xff", b"a", b"ab", b"b"])

BUILDERS = [
    Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("timestamped"), BYTES, LONG),
    Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("mutable"), BYTES, LIST),
    Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), BYTES, LONG),
    Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("memory"), BYTES, LONG),
]
NAMES = [builder.name for builder in BUILDERS]

#: Room for no entry at all, so that the read cache is evicted all the time.
TINY = 1024

Model = dict[str, dict[bytes, Any]]


def value_of(store: str, number: int, timestamp: int) -> Any:
    if store == "plain":
        return number
    return ValueAndTimestamp([number] if store == "mutable" else number, timestamp)


class StoresAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.resources = StateResources(32 << 20)
        self.resources.read_cache_bytes = TINY
        self.live: Model = {name: {} for name in NAMES}
        self.committed: Model = {name: {} for name in NAMES}
        self.being_committed: Model = {}
        self.frozen: FrozenEpoch | None = None
        self.steps: Iterator[None] | None = None
        self.offset = 0
        self.stores = self.opened()

    def opened(self) -> TaskStores:
        stores = TaskStores(
            TaskId(0, 0),
            self.directory,
            BUILDERS,
            self.resources,
            default_serdes=(BYTES, BYTES),
            context_timestamp=lambda: 5,
        )
        stores.open()
        return stores

    @rule(store=st.sampled_from(NAMES), key=KEYS, number=st.integers(0, 255), timestamp=st.integers(0, 1 << 40))
    def put(self, store: str, key: bytes, number: int, timestamp: int) -> None:
        value = value_of(store, number, timestamp)
        self.stores.stores[store].put(key, value)
        self.live[store][key] = value

    @rule(store=st.sampled_from(NAMES), keys=st.lists(KEYS, max_size=12), number=st.integers(0, 255))
    def put_all(self, store: str, keys: list[bytes], number: int) -> None:
        entries = [(key, value_of(store, number, 9)) for key in keys]
        self.stores.stores[store].put_all(entries)
        self.live[store].update(entries)

    @rule(store=st.sampled_from(NAMES), key=KEYS, number=st.integers(0, 255))
    def put_if_absent(self, store: str, key: bytes, number: int) -> None:
        value = value_of(store, number, 3)
        assert self.stores.stores[store].put_if_absent(key, value) == self.live[store].get(key)
        self.live[store].setdefault(key, value)

    @rule(store=st.sampled_from(NAMES), key=KEYS)
    def delete(self, store: str, key: bytes) -> None:
        assert self.stores.stores[store].delete(key) == self.live[store].pop(key, None)

    @rule(store=st.sampled_from(NAMES), key=KEYS)
    def get(self, store: str, key: bytes) -> None:
        assert self.stores.stores[store].get(key) == self.live[store].get(key)

    @rule(store=st.sampled_from(NAMES), keys=st.lists(KEYS, max_size=8))
    def prefetch(self, store: str, keys: list[bytes]) -> None:
        facade = self.stores.stores[store]
        facade.prefetch(keys)
        assert [facade.get(key) for key in keys] == [self.live[store].get(key) for key in keys]

    @rule(store=st.sampled_from(NAMES), low=KEYS | st.none(), high=KEYS | st.none(), reverse=st.booleans())
    def range(self, store: str, low: bytes | None, high: bytes | None, reverse: bool) -> None:
        facade = self.stores.stores[store]
        expected = [
            (key, self.live[store][key])
            for key in sorted(self.live[store], reverse=reverse)
            if (low is None or low <= key) and (high is None or key <= high)
        ]
        assert list((facade.reverse_range if reverse else facade.range)(low, high)) == expected

    @rule(store=st.sampled_from(NAMES), prefix=KEYS)
    def prefix_scan(self, store: str, prefix: bytes) -> None:
        expected = [(key, self.live[store][key]) for key in sorted(self.live[store]) if key.startswith(prefix)]
        assert list(self.stores.stores[store].prefix_scan(prefix)) == expected

    @rule(store=st.sampled_from(NAMES), number=st.integers(0, 255))
    def rewrite_while_scanning(self, store: str, number: int) -> None:
        """The scan must show what was there when it began."""
        facade, before = self.stores.stores[store], sorted(self.live[store].items())
        seen = []
        for key, value in facade.all():
            seen.append((key, value))
            self.delete(store, key)
            self.put(store, key + b"z", number, 1)
            if self.steps is not None and next(self.steps, self) is self:
                self.steps = None
                self.committed, self.frozen = self.being_committed, None
        assert seen == before

    @precondition(lambda self: self.frozen is None)
    @rule()
    def freeze(self) -> None:
        self.frozen = self.stores.freeze()
        if self.frozen is not None:
            self.being_committed = {name: dict(entries) for name, entries in self.live.items()}

    @precondition(lambda self: self.frozen is not None and self.steps is None)
    @rule(slice_size=st.integers(1, 4))
    def start_applying(self, slice_size: int) -> None:
        self.offset += 1
        self.stores.put_metadata("position", b"%d" % self.offset)
        self.steps = self.stores.apply(self.frozen, dict.fromkeys(NAMES, self.offset), slice_size=slice_size)
        next(self.steps)

    @precondition(lambda self: self.steps is not None)
    @rule()
    def finish_applying(self) -> None:
        assert self.steps is not None
        for _ in self.steps:
            pass
        self.steps = self.frozen = None
        self.committed = self.being_committed

    @precondition(lambda self: self.steps is None)
    @rule()
    def revert(self) -> None:
        self.stores.revert()
        self.frozen = None
        self.live = {name: dict(entries) for name, entries in self.committed.items()}

    @precondition(lambda self: self.steps is None)
    @rule()
    def reopen(self) -> None:
        self.stores.close()
        self.frozen = None
        self.committed["memory"] = {}
        self.live = {name: dict(entries) for name, entries in self.committed.items()}
        self.stores = self.opened()
        expected = self.offset or None
        assert self.stores.changelog_offset("plain") == expected
        assert self.stores.get_metadata("position") == (None if expected is None else b"%d" % expected)

    @rule()
    def flush(self) -> None:
        self.stores.flush()

    @invariant()
    def every_store_iterates_as_its_model(self) -> None:
        for name, facade in self.stores.stores.items():
            assert list(facade.all()) == sorted(self.live[name].items())

    def teardown(self) -> None:
        self.stores.close()
        shutil.rmtree(self.directory)


TestStoresAgainstModel = StoresAgainstModel.TestCase
TestStoresAgainstModel.settings = settings(stateful_step_count=40)
