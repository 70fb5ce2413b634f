"""Iterators over stores of every kind end with their block, and kinds are checked, in processors and in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    KeyValueStore,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    SessionStore,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    VersionedKeyValueStore,
    WindowStore,
)
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
STORES = ("counts", "windows", "sessions", "versions")

#: Every way to iterate, of each kind of store; the record is ``a`` at 12.
WAYS: dict[str, list[Callable[[Any], Any]]] = {
    "counts": [
        lambda store: store.range("a", "b"),
        lambda store: store.range("b", "a"),
        lambda store: store.reverse_range(None, None),
        lambda store: store.all(),
        lambda store: store.reverse_all(),
        lambda store: store.prefix_scan("a"),
    ],
    "windows": [
        lambda store: store.fetch("a", 0, 20),
        lambda store: store.backward_fetch("a", 0, 20),
        lambda store: store.fetch_range("a", "b", 0, 20),
        lambda store: store.backward_fetch_range("a", "b", 0, 20),
        lambda store: store.all(),
        lambda store: store.backward_all(),
    ],
    "sessions": [
        lambda store: store.find_sessions("a", 0, 20),
        lambda store: store.backward_find_sessions("a", 0, 20),
        lambda store: store.find_sessions_range("a", "b", 0, 20),
        lambda store: store.backward_find_sessions_range("a", "b", 0, 20),
        lambda store: store.fetch("a"),
        lambda store: store.backward_fetch("a"),
        lambda store: store.fetch_range("a", "b"),
        lambda store: store.backward_fetch_range("a", "b"),
    ],
    "versions": [lambda store: store.latest_versions()],
}


class Reader(Processor):
    """Keeps the context for the test, which reads stores within ``process`` by a function of its own."""

    read: Callable[[ProcessorContext], None]

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record[str, int]) -> None:
        type(self).read(self._context)


def driver() -> TopologyTestDriver:
    builder = StreamsBuilder()
    rows = builder.stream("in", Consumed(TEXT, LONG))
    grouped = rows.group_by_key()
    grouped.count(Materialized("counts"))
    grouped.windowed_by(TimeWindows.of(10)).count(Materialized("windows"))
    grouped.windowed_by(SessionWindows.of(5)).count(Materialized("sessions"))
    rows.to_table(Materialized("versions", TEXT, LONG, versioned=100))
    rows.process(Reader, *STORES)
    return TopologyTestDriver(builder.build())


def checked(of: Callable[[str], Any]) -> None:
    """Asserts that each way gives the same with a block and without, and nothing after it."""
    for name in STORES:
        for way in WAYS[name]:
            whole = list(way(of(name)))
            with way(of(name)) as found:
                assert list(found) == whole
            with way(of(name)) as found:
                first = next(found, None)
            assert first == (whole[0] if whole else None)
            for read in (next, list):
                with pytest.raises(StateStoreError, match="iterator of a state store is closed"):
                    read(found)


def test_iterators_of_every_kind_end_with_their_block() -> None:
    read = []

    def within(context: ProcessorContext) -> None:
        checked(context.get_state_store)
        read.append(True)

    Reader.read = within
    with driver() as it:
        it.create_input_topic("in", TEXT, LONG).pipe_input("a", 1, 12)
        assert read == [True]
        checked(it.get_state_store)
        views = {"counts": it.get_key_value_store("counts"), "windows": it.get_window_store("windows")}
        for name, way in (("counts", WAYS["counts"][0]), ("windows", WAYS["windows"][0])):
            with way(views[name]) as found:
                assert [value for _, value in found] == [1]


def test_a_store_is_given_as_its_kind_and_refused_as_another() -> None:
    read: list[object] = []

    def within(context: ProcessorContext) -> None:
        read.append(context.get_state_store("windows", WindowStore[str, int]).name)
        with pytest.raises(TopologyError, match="store windows is a WindowStore, and a KeyValueStore is asked for"):
            context.get_state_store("windows", KeyValueStore[str, int])

    Reader.read = within
    with driver() as it:
        it.create_input_topic("in", TEXT, LONG).pipe_input("a", 1, 12)
        assert read == ["windows"]
        assert it.get_state_store("sessions", SessionStore[str, int]).name == "sessions"
        assert it.get_state_store("versions", VersionedKeyValueStore[str, int]).name == "versions"
        assert it.get_state_store("counts", KeyValueStore).name == "counts"
        with pytest.raises(TopologyError, match="store counts: expected one of KeyValueStore, WindowStore, "):
            it.get_state_store("counts", int)
