"""The buffer of ``suppress``: order, changelog, restore, revert, and what it refuses to restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsapp import Serdes, TaskId
from streamsapp.errors import StateStoreError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import Headers, RawRecord
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.buffered_record import Buffered, decode
from streamsapp.state.kinds.suppress_buffer import SUPPRESSION, SuppressionBuffer
from streamsapp.state.task_stores import TaskStores

_VERSION: Headers = [("v", b"\x03")]


def _opened(directory: Path) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [StoreBuilder("b", SUPPRESSION, Engine.MEMORY, Serdes.string(), Serdes.string())],
        StateResources(16 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 7,
    )
    stores.open()
    return stores


def _update(time: int, new: bytes | None, old: bytes | None = None, headers: Headers | None = None) -> Buffered:
    return Buffered(time, None, old, new, time + 1, "in", 2, 9, headers)


def _commit(stores: TaskStores) -> list[OutputRecord]:
    frozen = stores.freeze()
    assert frozen is not None
    records = [record for _, changes in frozen.changelogs() for part in changes.records("c", 0, 100) for record in part]
    for _ in stores.apply(frozen, {"b": 1}):
        pass
    return records


def _emitted(buffer: SuppressionBuffer) -> list[tuple[bytes, Buffered]]:
    emitted = []
    while buffer.first_time is not None:
        emitted.append(buffer.first())
        buffer.remove_first()
    return emitted


def _restored(records: list[OutputRecord]) -> list[RawRecord]:
    return [RawRecord("c", 0, at, each[2], each[1], 5, each[7]) for at, each in enumerate(records)]


def test_updates_go_on_by_time_and_key_and_a_newer_one_keeps_the_place_and_the_prior_value(tmp_path: Path) -> None:
    buffer: SuppressionBuffer = _opened(tmp_path).stores["b"]
    buffer.put(b"late", _update(20, b"1"))
    buffer.put(b"b", _update(10, b"2", old=b"0"))
    buffer.put(b"a", _update(10, b"3"))
    buffer.put(b"b", _update(99, b"4", old=b"2"))

    assert [(key, each.prior, each.old, each.new, each.time) for key, each in _emitted(buffer)] == [
        (b"a", None, None, b"3", 10),
        (b"b", b"0", b"2", b"4", 10),
        (b"late", None, None, b"1", 20),
    ]
    assert (buffer.count, buffer.size) == (0, 0)


def test_a_restored_buffer_is_the_one_that_was_committed(tmp_path: Path) -> None:
    stores = _opened(tmp_path / "one")
    buffer: SuppressionBuffer = stores.stores["b"]
    buffer.put(b"gone", _update(1, b"x"))
    buffer.put(b"k", _update(3, None, old=b"0", headers=[("h", None), ("h", b"v")]))
    buffer.put(b"j", _update(2, b"y"))
    records = _commit(stores)
    buffer.remove_first()
    records += _commit(stores)
    assert [(each[2], each[1] is None, each[6], each[7]) for each in records] == [
        (b"gone", False, -1, _VERSION),
        (b"k", False, -1, _VERSION),
        (b"j", False, -1, _VERSION),
        (b"gone", True, -1, None),
    ]

    other = _opened(tmp_path / "two")
    other.restore("b", _restored(records), 4)
    restored: SuppressionBuffer = other.stores["b"]
    assert (restored.count, restored.size) == (buffer.count, buffer.size)
    assert _emitted(restored) == _emitted(buffer)


def test_a_reverted_epoch_gives_the_buffer_back_as_it_was_committed(tmp_path: Path) -> None:
    stores = _opened(tmp_path)
    buffer: SuppressionBuffer = stores.stores["b"]
    buffer.put(b"k", _update(3, b"x"))
    _commit(stores)
    size = buffer.size
    buffer.remove_first()
    buffer.put(b"k", _update(7, b"longer"))
    buffer.put(b"other", _update(1, b"y"))
    stores.freeze()
    buffer.put(b"third", _update(0, b"z"))
    stores.revert()

    assert (buffer.count, buffer.size, buffer.first_time) == (1, size, 3)
    assert [(key, each.new) for key, each in _emitted(buffer)] == [(b"k", b"x")]


def test_how_full_a_buffer_is_can_be_measured(tmp_path: Path) -> None:
    stores = _opened(tmp_path)
    stores.stores["b"].put(b"k", _update(3, b"x"))
    figures = stores.statistics()["b"]
    assert figures["suppression_buffer_count"] == 1
    # 28 bytes of numbers, the key, the topic and the value, as Kafka Streams counts.
    assert figures["suppression_buffer_size"] == 28 + 1 + 2 + 1


@pytest.mark.parametrize(
    ("value", "headers", "why"),
    [
        (_update(1, b"x").encode(), None, "no header v=03"),
        (_update(1, b"x").encode(), [("v", b"\x02")], "no header v=03"),
        (_update(1, b"x").encode()[:-1], _VERSION, "ends in the middle"),
        (_update(1, b"x").encode() + b"\0", _VERSION, "1 bytes follow its end"),
        (b"", _VERSION, "ends in the middle"),
        (bytes(16) + (1 << 30).to_bytes(4, "big"), _VERSION, "has 1073741824 bytes"),
        (bytes(16) + (-3).to_bytes(4, "big", signed=True), _VERSION, "has -3 bytes"),
        (bytes(24) + (1 << 30).to_bytes(4, "big"), _VERSION, "has 1073741824 headers"),
    ],
)
def test_a_record_that_is_no_buffered_update_is_refused_by_name(
    tmp_path: Path, value: bytes, headers: Headers | None, why: str
) -> None:
    stores = _opened(tmp_path)
    with pytest.raises(StateStoreError, match=rf"record c-0@4 .*{why}"):
        stores.restore("b", [RawRecord("c", 0, 4, b"k", value, 5, headers)], 5)


def test_a_value_is_read_as_it_was_written() -> None:
    for update in (
        Buffered(-1, None, None, None, 0, None, -1, -1, None),
        Buffered(5, b"", b"", b"", 1, "t", 0, 3, [("", b"")]),
        Buffered(5, b"a", b"b", b"c", 1, "téxt", 0, 3, None),
    ):
        assert decode(update.encode()) == update


def test_a_header_that_is_text_is_logged_as_it_is_sent(tmp_path: Path) -> None:
    stores = _opened(tmp_path)
    text: Any = [("a", "ü"), ("b", None)]
    stores.stores["b"].put(b"k", _update(3, b"x", headers=text))
    (record,) = _commit(stores)
    assert record[1] is not None
    assert decode(record[1]).headers == [("a", "ü".encode()), ("b", None)]


@pytest.mark.parametrize("headers", [[("a", 5)], [("a", "\ud800")], [(b"a", b"")]])
def test_headers_that_cannot_be_logged_change_nothing(tmp_path: Path, headers: Any) -> None:
    stores = _opened(tmp_path)
    buffer: SuppressionBuffer = stores.stores["b"]
    buffer.put(b"k", _update(3, b"x"))
    size = buffer.size
    for key in (b"k", b"other"):
        with pytest.raises((TypeError, ValueError)):
            buffer.put(key, _update(1, b"longer", headers=headers))
    assert (buffer.count, buffer.size) == (1, size)
    assert len(_commit(stores)) == 1
