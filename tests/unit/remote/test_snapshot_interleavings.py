"""Owners, zombies, readers and collectors at the same task in any order, with faults: the invariants always hold.

Each example is an interleaving of steps. Some operations raise before or after they had an effect; others happen in the
middle of an upload, a download or a collection.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from checkpoints import APPLICATION, TASK, chain_of, checkpoint, content_of, files_in, saved_files, writer_of
from memory_objects import MemoryObjects
from streamsapp.remote.garbage_collection import collect
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import Snapshot, decode
from streamsapp.remote.snapshot_fetch import fetch
from streamsapp.remote.snapshot_writer import SnapshotFencedError, SnapshotWriter

GRACE = 300.0
RETAIN = 2

WRITES = ("put_new", "upload")
OPERATIONS = (*WRITES, "read", "list", "delete", "download")

ACTIONS = ("claim", "collect", "go on", "0", "1", "2")

tables = st.dictionaries(st.integers(1, 6), st.sampled_from([b"a", b"bb", b"cc"]), max_size=4)


class Task(RuleBasedStateMachine):
    """One task's chain, and all that believe they have to do with it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.objects = MemoryObjects()
        self.objects.before = self.fail_before
        self.objects.after = self.fail_after
        self.chain = chain_of(self.objects)
        self.writers: list[SnapshotWriter] = []
        self.fenced: set[int] = set()
        self.faults: list[tuple[str, bool]] = []
        self.between: tuple[str, str] | None = None
        self.publishing: set[int] = set()
        #: The entries that were put into each checkpoint, by the offset it stands for.
        self.truth: dict[int, dict[str, bytes]] = {}
        self.highest = 0
        #: The highest number that was deleted.
        self.collected = 0
        self.count = 0

    def teardown(self) -> None:
        self.check_that_at_most_one_writer_is_left()
        shutil.rmtree(self.root)

    def fail_before(self, operation: str, key: str) -> None:
        if (operation, False) in self.faults:
            self.faults.remove((operation, False))
            raise ObjectStoreError(f"{operation} failed")
        if self.between is not None and self.between[0] == operation:
            action, self.between = self.between[1], None
            self.act(action)
        if operation == "delete" and "/manifests/" in key:
            self.collected = max(self.collected, int(key[-21:-5]))

    def fail_after(self, operation: str, key: str) -> None:
        if (operation, True) in self.faults:
            self.faults.remove((operation, True))
            raise ObjectStoreError(f"{operation} went through and yet failed")

    @rule(operation=st.sampled_from(OPERATIONS), after=st.booleans())
    def let_fail(self, operation: str, after: bool) -> None:
        self.faults = [(operation, after and operation in WRITES)]

    @rule(operation=st.sampled_from(OPERATIONS), action=st.sampled_from(ACTIONS))
    def let_happen_in_between(self, operation: str, action: str) -> None:
        self.between = (operation, action)

    def act(self, action: str) -> None:
        """Does what others do while a writer is at work."""
        if action == "claim":
            self.claim()
        elif action == "collect":
            self.collect()
        elif action == "go on":
            for number in range(1, 4):
                self.wait(1000.0)
                self.publish_as(0, {number: b"between"})
            self.collect()
            self.collect()
        else:
            self.publish_as(int(action), {int(action) + 1: b"between"})

    @rule(seconds=st.sampled_from([1.0, 200.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.objects.sleep(seconds)

    @rule()
    def claim(self) -> None:
        writer = writer_of(self.objects, f"pod-{len(self.writers)}")
        self.writers.append(writer)
        with suppress(ObjectStoreError):
            writer.claim()

    @rule(who=st.integers(0, 5), content=tables)
    def publish_as(self, who: int, content: dict[int, bytes]) -> None:
        if not self.writers:
            return
        index = len(self.writers) - 1 - who % len(self.writers)
        writer = self.writers[index]
        if writer.last is None or index in self.publishing:
            return
        self.count += 1
        offset, directory = self.count, checkpoint(self.root / str(self.count), content)
        self.truth[offset] = saved_files(directory)
        self.publishing.add(index)
        try:
            writer.publish(directory, content_of(offset))
        except SnapshotFencedError:
            self.fenced.add(index)
        except ObjectStoreError:
            pass
        else:
            assert index not in self.fenced
        finally:
            self.publishing.remove(index)

    @rule()
    def collect(self) -> None:
        before = self.chain_numbers()
        with suppress(ObjectStoreError):
            collect(self.chain, RETAIN, GRACE)
        assert len(self.chain_numbers()) >= min(len(before), RETAIN)

    @rule()
    def fetch(self) -> None:
        target = self.root / "task"
        shutil.rmtree(target, ignore_errors=True)
        usable = [number for number in self.chain_numbers() if self.files_of(number)]
        quiet = not self.faults and self.between is None
        with suppress(ObjectStoreError):
            restored = fetch(self.chain, target, lambda snapshot: None, 1 << 30, downloads=2)
            assert (restored is not None) or not usable
            if restored is not None:
                assert files_in(target / "rocksdb") == self.truth[restored.stores["counts"].offset]
                assert not quiet or restored.number == usable[0]
        assert not target.exists() or {path.name for path in target.iterdir()} <= {"rocksdb"}

    @invariant()
    def the_chain_has_no_gaps_and_never_goes_back(self) -> None:
        """But for a number that a zombie writes once more after it was collected: no reader looks at that."""
        newest = max(self.chain_numbers(), default=0)
        assert newest >= self.highest
        assert self.living_numbers() == list(range(newest, self.collected, -1))
        self.highest = newest

    @invariant()
    def every_manifest_has_its_files_and_they_are_those_of_its_commit(self) -> None:
        for number in self.living_numbers():
            snapshot = self.read(number)
            for file in snapshot.files:
                offset = snapshot.stores["counts"].offset
                assert self.objects.objects[self.chain.file_key(file)] == self.truth[offset][file.name]

    def check_that_at_most_one_writer_is_left(self) -> None:
        """Each in turn asks whether it is the owner: only one writer gets a yes, the last to claim."""
        self.faults, self.between = [], None
        left = []
        for writer in self.writers:
            if writer.last is not None:
                with suppress(SnapshotFencedError):
                    left.append(writer.confirm().writer)
        assert len(left) <= 1
        if left:
            assert left == [self.read(self.chain_numbers()[0]).writer]

    def chain_numbers(self) -> list[int]:
        """Without asking the store, which might fail."""
        prefix = f"{self.chain.folder}manifests/"
        return sorted((int(key[-21:-5]) for key in self.objects.objects if key.startswith(prefix)), reverse=True)

    def living_numbers(self) -> list[int]:
        return [number for number in self.chain_numbers() if number > self.collected]

    def read(self, number: int) -> Snapshot:
        return decode(self.objects.objects[self.chain.manifest_key(number)], APPLICATION, TASK, number)

    def files_of(self, number: int) -> set[str]:
        return {self.chain.file_key(file) for file in self.read(number).files}


TestTask = Task.TestCase
TestTask.settings = settings(stateful_step_count=40)
