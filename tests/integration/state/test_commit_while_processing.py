"""One thread processes while another commits: no increment may be lost, no scan may see a key twice or not at all."""

from __future__ import annotations

import random
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from changelog import changelog_records
from streamsapp.record import TaskId
from streamsapp.serdes.api import Serde
from streamsapp.state.builders import KeyValueStoreSupplier, Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.task_stores import TaskStores

BYTES = Serde[bytes](bytes, bytes, immutable=True, name="bytes")
LONG = Serde[int](struct.Struct(">q").pack, lambda raw: struct.unpack(">q", raw)[0], immutable=True, name="long")
KEYS = [b"key%03d" % i for i in range(400)]
INCREMENTS = 40_000


class Committer(threading.Thread):
    """The polling thread's part: it freezes while no thread processes, and does the rest at the same time."""

    def __init__(self, stores: TaskStores, processing: threading.Lock) -> None:
        super().__init__()
        self.stores = stores
        self.processing = processing
        self.stop = threading.Event()
        self.commits = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.commit()
        except BaseException as error:
            self.error = error

    def commit(self) -> None:
        with self.processing:
            frozen = self.stores.freeze()
        if frozen is not None:
            self.commits += 1
            assert sum(1 for _ in changelog_records(frozen)) == frozen.entries
            for _ in self.stores.apply(frozen, {"counts": self.commits}, slice_size=50):
                pass
            if self.commits % 20 == 0:
                self.stores.flush()
            _ = self.stores.uncommitted_bytes


def count(store: KeyValueStoreImpl, expected: dict[bytes, int], randomness: random.Random, increments: int) -> None:
    """Part of a time slice."""
    for _ in range(increments):
        key = randomness.choice(KEYS)
        value = (store.read(key)[0] or 0) + 1
        store.write(key, value, 0)
        expected[key] = expected.get(key, 0) + 1
        assert value == expected[key]
    assert [(key, entry.value) for key, entry in store.all()] == sorted(expected.items())


@pytest.fixture(autouse=True)
def threads_that_alternate_all_the_time() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("supplier", [Stores.persistent_key_value_store, Stores.in_memory_key_value_store])
def test_commits_and_processing_do_not_disturb_each_other(
    tmp_path: Path, supplier: Callable[[str], KeyValueStoreSupplier]
) -> None:
    resources = StateResources(16 << 20)
    resources.read_cache_bytes = 50 * 350
    builder = Stores.timestamped_key_value_store_builder(supplier("counts"), BYTES, LONG)
    stores = TaskStores(
        TaskId(0, 0),
        tmp_path,
        [builder],
        resources,
        default_serdes=(BYTES, BYTES),
        context_timestamp=lambda: 0,
    )
    stores.open()
    processing = threading.Lock()
    committer = Committer(stores, processing)
    committer.start()
    expected: dict[bytes, int] = {}
    randomness = random.Random(1)
    counted = 0
    while committer.is_alive() and (counted < INCREMENTS or committer.commits < 2):
        with processing:
            count(stores.stores["counts"], expected, randomness, 100)
        counted += 100
    committer.stop.set()
    committer.join()
    assert committer.error is None
    assert committer.commits > 1
    committer.commit()
    stores.revert()
    assert {key: entry.value for key, entry in stores.stores["counts"].all()} == expected
    stores.close()
