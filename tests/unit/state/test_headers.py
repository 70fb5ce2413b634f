"""Stores that keep the headers of records (KIP-1271), over both engines: what users read, what changelogs and disks
have, and what is restored of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamsapp import Serdes, Stores, Windowed
from streamsapp.errors import StateStoreError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import Headers, RawRecord, TaskId
from streamsapp.state.api import (
    AggregationWithHeaders,
    Engine,
    StoreBuilder,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from streamsapp.state.engine.headers import heading, pack_headers, unpack_headers
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.facade import headers_format_of
from streamsapp.state.task_stores import TaskStores

NOW = 77
HEADERS: Headers = [("a", b"1"), ("a", None), ("ü", b"")]
TEXT = Serdes.string()
ENGINES = [Engine.ROCKSDB, Engine.MEMORY]


def _opened(directory: Path, builder: StoreBuilder) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [builder],
        StateResources(16 << 20),
        default_serdes=(TEXT, TEXT),
        context_timestamp=lambda: NOW,
    )
    stores.open()
    stores.restored({"s": 0}, {})
    return stores


def _committed(stores: TaskStores, offset: int = 1) -> list[OutputRecord]:
    frozen = stores.freeze()
    assert frozen is not None
    records = [each for _, changes in frozen.changelogs() for part in changes.records("log", 0, 100) for each in part]
    list(stores.apply(frozen, {"s": offset}))
    return records


def _key_values(engine: Engine, value_serde: Any = TEXT) -> StoreBuilder:
    make = {
        Engine.ROCKSDB: Stores.persistent_timestamped_key_value_store_with_headers,
        Engine.MEMORY: Stores.in_memory_key_value_store,
    }[engine]
    return Stores.timestamped_key_value_store_with_headers_builder(make("s"), TEXT, value_serde)


def _logged(records: list[OutputRecord]) -> list[tuple[Any, ...]]:
    return [(key, value, timestamp, headers) for _, value, key, _, _, _, timestamp, headers in records]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("serde", "value", "raw"), [(TEXT, "x", b"x"), (Serdes.long(), 5, bytes(7) + b"\5"), (Serdes.json(), [1], b"[1]")]
)
def test_a_value_has_its_headers_before_and_after_a_commit_and_when_it_is_read_from_the_changelog(
    tmp_path: Path, engine: Engine, serde: Any, value: Any, raw: bytes
) -> None:
    stores = _opened(tmp_path / "one", _key_values(engine, serde))
    store = stores.stores["s"]
    wanted = ValueTimestampHeaders(value, 5, HEADERS)
    store.put("k", wanted)
    assert store.get("k") == wanted
    records = _committed(stores)
    assert store.get("k") == wanted
    assert _logged(records) == [(b"k", raw, 5, HEADERS)]
    view = stores.views["s"]
    with view.readers.reading():
        seen = view.value(view.get(b"k", committed=True))
    assert seen == wanted
    assert isinstance(seen, ValueTimestampHeaders)
    stores.close()

    other = _opened(tmp_path / "two", _key_values(engine, serde))
    other.restore("s", [RawRecord("log", 0, 0, b"k", raw, 5, HEADERS)], 1)
    assert list(other.stores["s"].all()) == [("k", wanted)]
    other.close()


def test_headers_are_on_disk(tmp_path: Path) -> None:
    stores = _opened(tmp_path, _key_values(Engine.ROCKSDB))
    stores.stores["s"].put("k", ValueTimestampHeaders("x", 5, HEADERS))
    _committed(stores)
    stores.flush()
    stores.close()
    again = _opened(tmp_path, _key_values(Engine.ROCKSDB))
    assert again.stores["s"].get("k") == ValueTimestampHeaders("x", 5, HEADERS)
    again.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deletion_and_a_value_without_headers_of_its_own_have_those_of_the_record_in_process(
    tmp_path: Path, engine: Engine
) -> None:
    stores = _opened(tmp_path, _key_values(engine))
    store = stores.stores["s"]
    form = headers_format_of(store)
    assert form is not None

    def work(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        store.put("old", None)
        store.put("new", ValueAndTimestamp("x", 4))
        store.put("none", ValueTimestampHeaders("y", 4))

    fails: list[Any] = []
    heading([form], work, lambda *failed: fails.append(failed))("k", "v", 0, HEADERS)
    store.put("later", ValueAndTimestamp("z", 4))
    assert not fails
    assert _logged(_committed(stores)) == [
        (b"old", None, NOW, HEADERS),
        (b"new", b"x", 4, HEADERS),
        (b"none", b"y", 4, None),
        (b"later", b"z", 4, None),
    ]
    assert store.get("old") is None
    assert store.get("new") == ValueTimestampHeaders("x", 4, HEADERS)
    stores.close()


def test_headers_of_a_record_above_are_there_again_behind_one_below(tmp_path: Path) -> None:
    stores = _opened(tmp_path, _key_values(Engine.MEMORY))
    store = stores.stores["s"]
    form = headers_format_of(store)
    assert form is not None
    below = heading([form], lambda *_: store.put("below", ValueAndTimestamp("x", 1)), lambda *_: None)

    def above(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        below(key, value, timestamp, [("b", b"2")])
        store.put("above", ValueAndTimestamp("x", 1))

    heading([form], above, lambda *_: None)("k", "v", 0, [("a", b"1")])
    assert {key: value.headers for key, value in store.all()} == {"above": [("a", b"1")], "below": [("b", b"2")]}
    stores.close()


def test_headers_that_no_changelog_could_have_are_an_error_of_the_node(tmp_path: Path) -> None:
    stores = _opened(tmp_path, _key_values(Engine.MEMORY))
    form = headers_format_of(stores.stores["s"])
    assert form is not None
    failed: list[Exception] = []
    push = heading([form], lambda *_: pytest.fail("is not called"), lambda error, *_: failed.append(error))
    push("k", "v", 0, [("a", 5)])  # type: ignore[list-item]
    assert "value of header 'a' is int" in str(failed[0])
    with pytest.raises(TypeError, match="value of header 'a' is int"):
        stores.stores["s"].put("k", ValueTimestampHeaders("x", 1, [("a", 5)]))  # type: ignore[list-item]
    stores.close()


def test_what_a_user_does_to_the_list_of_headers_changes_nothing_that_is_stored(tmp_path: Path) -> None:
    stores = _opened(tmp_path, _key_values(Engine.MEMORY))
    store = stores.stores["s"]
    given: Headers = [("a", b"1")]
    store.put("k", ValueTimestampHeaders("x", 5, given))
    given.clear()
    store.get("k").headers.clear()
    assert store.get("k").headers == [("a", b"1")]
    stores.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_windows_keep_headers(tmp_path: Path, engine: Engine) -> None:
    make: Callable[..., Any] = {
        Engine.ROCKSDB: Stores.persistent_timestamped_window_store_with_headers,
        Engine.MEMORY: Stores.in_memory_window_store,
    }[engine]
    builder = Stores.timestamped_window_store_with_headers_builder(make("s", 1000, 100), TEXT, TEXT)
    stores = _opened(tmp_path / "one", builder)
    store = stores.stores["s"]
    wanted = ValueTimestampHeaders("x", 105, HEADERS)
    store.put("k", wanted, 100)
    store.put("k", ValueTimestampHeaders("y", 205), 200)
    assert store.fetch("k", 100) == wanted
    records = _committed(stores)
    assert list(store.fetch("k", 0, 300)) == [(100, wanted), (200, ValueTimestampHeaders("y", 205))]
    assert [(value, headers) for _, value, _, _, _, _, _, headers in records] == [(b"x", HEADERS), (b"y", None)]
    stores.close()

    other = _opened(tmp_path / "two", builder)
    restored = [RawRecord("log", 0, at, r[2], r[1], r[6], r[7]) for at, r in enumerate(records)]
    other.restore("s", restored, len(restored))
    assert other.stores["s"].fetch("k", 100) == wanted
    other.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_sessions_keep_headers(tmp_path: Path, engine: Engine) -> None:
    make: Callable[..., Any] = {
        Engine.ROCKSDB: Stores.persistent_session_store_with_headers,
        Engine.MEMORY: Stores.in_memory_session_store,
    }[engine]
    builder = Stores.session_store_with_headers_builder(make("s", 1000), TEXT, TEXT)
    stores = _opened(tmp_path / "one", builder)
    store = stores.stores["s"]
    wanted = AggregationWithHeaders("x", HEADERS)
    store.put(Windowed("k", 100, 200), wanted)
    store.put(Windowed("k", 300, 400), AggregationWithHeaders("y", []))
    assert store.fetch_session("k", 100, 200) == wanted
    records = _committed(stores)
    assert list(store.fetch("k")) == [
        (Windowed("k", 100, 200), wanted),
        (Windowed("k", 300, 400), AggregationWithHeaders("y", [])),
    ]
    assert list(store.find_sessions("k", 0, 150)) == [(Windowed("k", 100, 200), wanted)]
    assert [(value, headers) for _, value, _, _, _, _, _, headers in records] == [(b"x", HEADERS), (b"y", None)]
    view = stores.views["s"]
    with view.readers.reading():
        (_, entry), *_ = view.range(b"", None, committed=True)
        assert view.value(entry) == wanted
    stores.close()

    other = _opened(tmp_path / "two", builder)
    other.restore("s", [RawRecord("log", 0, at, r[2], r[1], r[6], r[7]) for at, r in enumerate(records)], 2)
    assert other.stores["s"].fetch_session("k", 100, 200) == wanted
    other.close()


@pytest.mark.parametrize("headers", [None, HEADERS, [("", None)], [("x" * 300, b"y" * 70_000)]])
def test_headers_are_read_as_they_were_written(headers: Headers | None) -> None:
    packed = pack_headers(headers)
    assert unpack_headers(packed + b"rest") == (headers, len(packed))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff" + bytes(8),
        pack_headers(HEADERS)[:-1],
        pack_headers([("a", b"1")])[:-5] + b"\0\0\0\x09",
        b"\0\0\0\1\0\0\0\1\xff\0\0\0\0",
        b"\0\0\0\1\xff\xff\xff\xfe" + bytes(8),
    ],
)
def test_bytes_that_are_no_headers_are_refused(data: bytes) -> None:
    with pytest.raises(StateStoreError, match="has headers that cannot be read"):
        unpack_headers(data)


def test_a_store_whose_format_changes_begins_anew_instead_of_misreading_its_bytes(tmp_path: Path) -> None:
    plain = Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("s"), TEXT, TEXT)
    stores = _opened(tmp_path, plain)
    stores.stores["s"].put("k", ValueAndTimestamp("x", 5))
    _committed(stores)
    stores.flush()
    stores.close()
    again = _opened(tmp_path, _key_values(Engine.ROCKSDB))
    assert again.stores["s"].get("k") is None
    assert again.changelog_offset("s") in (None, 0)
    again.close()


def test_a_value_with_headers_is_one_with_a_timestamp_too() -> None:
    made = ValueTimestampHeaders("x", 5, HEADERS)
    value, timestamp = made
    assert (value, timestamp, made.headers) == ("x", 5, HEADERS)
    assert isinstance(made, ValueAndTimestamp)
    assert made == ValueTimestampHeaders("x", 5, list(HEADERS))
    assert made != ValueTimestampHeaders("x", 5)
    assert made != ValueAndTimestamp("x", 5)
    assert ValueTimestampHeaders("x", 5) == ValueAndTimestamp("x", 5)
    assert repr(ValueTimestampHeaders("x", 5)) == "ValueTimestampHeaders(value='x', timestamp=5, headers=[])"
