"""The buffer of a join with a grace: order, changelog, restore and revert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changelog import changelog_records
from streamsapp import Serdes, TaskId
from streamsapp.record import Headers, RawRecord
from streamsapp.state.api import StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.buffered_record import decode
from streamsapp.state.kinds.grace_buffer import GraceBuffer, GraceType
from streamsapp.state.task_stores import TaskStores


def _opened(directory: Path) -> TaskStores:
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        [StoreBuilder("b", GraceType(10), key_serde=Serdes.string(), value_serde=Serdes.string())],
        StateResources(16 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 7,
    )
    stores.open()
    return stores


def _add(buffer: GraceBuffer, key: str, timestamp: int, headers: Headers | None = None) -> bool:
    return buffer.add(key, f"{key}{timestamp}", timestamp, headers, RawRecord("in", 1, 9, None, None, timestamp))


def _taken(buffer: GraceBuffer) -> list[tuple[str, str]]:
    return [buffer.record(physical, waiting) for physical, waiting in buffer.take_due()]


def _commit(stores: TaskStores) -> list[RawRecord]:
    """Returns the records that the changelog gets."""
    frozen = stores.freeze()
    assert frozen is not None
    records = [RawRecord("c", 0, 0, key, value, timestamp) for _, key, value, timestamp in changelog_records(frozen)]
    for _ in stores.apply(frozen, {"b": 1}):
        pass
    return records


def test_records_go_on_by_time_when_stream_time_has_passed_them(tmp_path: Path) -> None:
    buffer: GraceBuffer = _opened(tmp_path).stores["b"]
    assert _add(buffer, "b", 20)
    assert _add(buffer, "a", 20)
    assert _add(buffer, "z", 10)
    assert _taken(buffer) == [("z", "z10")]
    assert not _add(buffer, "late", 9)
    assert _add(buffer, "new", 29)
    assert _taken(buffer) == []
    assert _add(buffer, "new", 30)
    assert _taken(buffer) == [("a", "a20"), ("b", "b20")]
    assert _taken(buffer) == []


def test_a_restored_buffer_goes_on_where_the_committed_one_stood(tmp_path: Path) -> None:
    stores = _opened(tmp_path / "one")
    buffer: GraceBuffer = stores.stores["b"]
    for timestamp in (5, 8, 8, 16):
        _add(buffer, "k", timestamp, [("h", b"v")])
    records = _commit(stores)
    assert _taken(buffer) == [("k", "k5")]
    records += _commit(stores)
    assert [(each.key(), each.value() is None) for each in records if (each.key() or b"")[8] == 5] == [
        (b"\0" + (5).to_bytes(8, "big") + b"k" + (1).to_bytes(4, "big"), False),
        (b"\0" + (5).to_bytes(8, "big") + b"k" + (1).to_bytes(4, "big"), True),
    ]

    other = _opened(tmp_path / "two")
    other.restore("b", records, len(records))
    restored: GraceBuffer = other.stores["b"]
    assert not _add(restored, "late", 5)
    assert _taken(restored) == []
    assert _add(restored, "k", 18)
    (first, waiting), second = restored.take_due()
    assert (waiting.topic, waiting.partition, waiting.offset, waiting.headers) == ("in", 1, 9, [("h", b"v")])
    assert [restored.record(first, waiting), restored.record(*second)] == [("k", "k8"), ("k", "k8")]


def test_a_reverted_epoch_gives_the_buffer_back_as_it_was_committed(tmp_path: Path) -> None:
    stores = _opened(tmp_path)
    buffer: GraceBuffer = stores.stores["b"]
    _add(buffer, "k", 5)
    _commit(stores)
    _add(buffer, "other", 40)
    assert _taken(buffer) == [("k", "k5")]
    stores.freeze()
    stores.revert()
    assert _add(buffer, "again", 15)
    assert _taken(buffer) == [("k", "k5")]


def test_a_header_that_is_text_is_logged_as_it_is_sent_and_one_that_is_neither_is_refused(tmp_path: Path) -> None:
    stores = _opened(tmp_path)
    buffer: GraceBuffer = stores.stores["b"]
    text: Any = [("h", "v")]
    number: Any = [("h", 5)]
    with pytest.raises(TypeError, match="header 'h'"):
        _add(buffer, "k", 50, number)
    assert _add(buffer, "k", 5, text)
    (record,) = _commit(stores)
    assert decode(record.value() or b"").headers == [("h", b"v")]
