"""A process that is killed: the contents of RocksDB afterwards, and after a replay of the changelog."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp.record import RawRecord, TaskId
from streamsapp.serdes.api import Serde
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.builders import Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores

BYTES = Serde[bytes](bytes, bytes, immutable=True, name="bytes")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")
KEYS_PER_EPOCH = 40
KEYS = 1000

#: Commits epochs until it is killed. Writes the number of each epoch once Kafka would have committed it; memtables are
#: so small that RocksDB flushes all the time, in the middle of epochs too.
WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
import test_crash
stores = test_crash.opened(Path(sys.argv[1]), memory=1 << 20)
epoch = 0
while True:
    epoch += 1
    for store in ("left", "right"):
        for key, value in test_crash.writes_of(epoch):
            stores.stores[store].write(key, value, epoch)
    frozen = stores.freeze()
    print(epoch, flush=True)
    for _ in stores.apply(frozen, {"left": epoch, "right": epoch}, slice_size=int(sys.argv[2])):
        pass
"""


def opened(directory: Path, memory: int = 32 << 20) -> TaskStores:
    builders = [
        Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store(name), BYTES, LONG)
        for name in ("left", "right")
    ]
    stores = TaskStores(
        TaskId(0, 0),
        directory,
        builders,
        StateResources(memory, backlog_bytes=1 << 15),
        default_serdes=(BYTES, BYTES),
        context_timestamp=lambda: 0,
    )
    stores.open()
    return stores


def writes_of(epoch: int) -> list[tuple[bytes, int | None]]:
    """Each epoch puts and deletes some of the same thousand keys."""
    first = epoch * 7919
    return [
        (b"key%d" % ((first + i * 31) % KEYS), None if (epoch + i) % 5 == 0 else epoch) for i in range(KEYS_PER_EPOCH)
    ]


def state_after(epochs: int) -> dict[bytes, ValueAndTimestamp]:
    state: dict[bytes, ValueAndTimestamp] = {}
    for epoch in range(1, epochs + 1):
        for key, value in writes_of(epoch):
            if value is None:
                state.pop(key, None)
            else:
                state[key] = ValueAndTimestamp(value, epoch)
    return state


def kill_writer_after(epochs: int, directory: Path, slice_size: int) -> int:
    """Returns the last epoch that Kafka would have committed."""
    command = [sys.executable, "-c", WRITER, str(directory), str(slice_size), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == epochs:
                writer.send_signal(signal.SIGKILL)
                break
        return max([epochs, *(int(line) for line in writer.stdout if line.endswith("\n"))])


@pytest.mark.parametrize("epochs", [50, 700, 1500])
def test_after_a_kill_every_store_is_exactly_at_the_same_commit(tmp_path: Path, epochs: int) -> None:
    committed = kill_writer_after(epochs, tmp_path, slice_size=10_000)
    stores = opened(tmp_path)
    offset = stores.changelog_offset("left") or 0
    assert offset <= committed
    assert (stores.changelog_offset("right") or 0) == offset
    assert dict(stores.stores["left"].all()) == state_after(offset)
    assert dict(stores.stores["right"].all()) == state_after(offset)
    stores.close()


@pytest.mark.parametrize("epochs", [50, 700, 1500])
def test_replaying_the_changelog_repairs_an_epoch_that_was_applied_in_part(tmp_path: Path, epochs: int) -> None:
    committed = kill_writer_after(epochs, tmp_path, slice_size=7)
    stores = opened(tmp_path)
    for store in ("left", "right"):
        offset = stores.changelog_offset(store) or 0
        assert offset <= committed
        for epoch in range(offset + 1, committed + 1):
            records = [
                RawRecord("app-left-changelog", 0, epoch, key, None if value is None else LONG.serialize(value), epoch)
                for key, value in writes_of(epoch)
            ]
            stores.restore(store, records, epoch)
        assert dict(stores.stores[store].all()) == state_after(committed)
        assert stores.changelog_offset(store) == committed
    stores.close()


def test_the_kill_comes_after_rocksdb_has_flushed_something(tmp_path: Path) -> None:
    """Guards the two tests above: with nothing on disk they would show nothing."""
    kill_writer_after(1500, tmp_path, slice_size=10_000)
    stores = opened(tmp_path)
    assert (stores.changelog_offset("left") or 0) > 0
    stores.close()


def test_a_checkpoint_holds_what_was_applied_though_nothing_was_flushed(tmp_path: Path) -> None:
    stores = opened(tmp_path / "task")
    stores.stores["left"].put(b"key", ValueAndTimestamp(1, 2))
    for _ in stores.apply(stores.freeze(), {"left": 9}):
        pass
    stores.stores["left"].put(b"key", ValueAndTimestamp(2, 3))
    stores.checkpoint(tmp_path / "copy" / "rocksdb")
    stores.close()
    copy = opened(tmp_path / "copy")
    assert dict(copy.stores["left"].all()) == {b"key": ValueAndTimestamp(1, 2)}
    assert copy.changelog_offset("left") == 9
    copy.close()


def test_flush_makes_applied_epochs_survive_a_kill(tmp_path: Path) -> None:
    script = WRITER.replace(
        "pass\n", "pass\n    stores.flush()\n    print('flushed', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), "10", str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert [writer.stdout.readline(), writer.stdout.readline()] == ["1\n", "flushed\n"]
        writer.send_signal(signal.SIGKILL)
    stores = opened(tmp_path)
    assert dict(stores.stores["right"].all()) == state_after(1)
    assert stores.changelog_offset("right") == 1
    stores.close()
