"""Verifying reports what is wrong, but not snapshots that were collected in the normal way meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import chain_of, checkpoint, content_of, writer_of
from memory_objects import MemoryObjects
from streamsapp.remote.garbage_collection import collect
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot_verification import read_manifests, verify_files


@pytest.fixture
def objects(tmp_path: Path) -> MemoryObjects:
    """Three snapshots; no two have a table in common; number 1 is the claim."""
    made = MemoryObjects()
    writer = writer_of(made)
    writer.claim()
    for number in (2, 3, 4):
        made.sleep(60)
        assert writer.publish(checkpoint(tmp_path / str(number), {number: b"x" * number}), content_of(number))
    return made


@pytest.fixture
def chain(objects: MemoryObjects) -> ManifestChain:
    return chain_of(objects)


def table(objects: MemoryObjects, number: int) -> str:
    (key,) = [key for key in objects.objects if key.endswith(f"-{number:06d}.sst")]
    return key


def test_reads_each_object_once_however_many_snapshots_need_it(objects: MemoryObjects, chain: ManifestChain) -> None:
    verification = read_manifests(chain, every=True)
    verify_files([verification])

    assert verification.faults == []
    downloads = objects.asked("download")
    assert len(downloads) == len(set(downloads))
    assert set(downloads) == {key for key in objects.objects if "/files/" in key}


def test_a_fault_of_an_object_is_one_of_every_snapshot_that_needs_it(
    objects: MemoryObjects, chain: ManifestChain
) -> None:
    shared = next(key for key in objects.objects if key.endswith("-CURRENT"))
    objects.objects[shared] = b"MANIFEST-000006\n"

    verification = read_manifests(chain, every=True)
    verify_files([verification])

    assert [fault.partition(": CURRENT")[0] for fault in verification.faults] == [
        f"snapshot {number} of task 0_3" for number in (2, 3, 4)
    ]
    assert "has sha256" in verification.faults[0]


def test_a_damaged_newest_manifest_is_told_and_the_one_before_is_read(
    objects: MemoryObjects, chain: ManifestChain
) -> None:
    objects.objects[chain.manifest_key(4)] = b"rubbish"

    verification = read_manifests(chain, every=False)

    assert [snapshot.number for snapshot in verification.snapshots] == [3]
    assert len(verification.faults) == 1
    assert "snapshot 4 of task 0_3" in verification.faults[0]


def test_what_was_collected_meanwhile_is_no_fault(objects: MemoryObjects, chain: ManifestChain) -> None:
    verification = read_manifests(chain, every=True)
    for _ in range(2):
        collect(chain, 1, 0)

    verify_files([verification])

    assert verification.faults == []
    assert table(objects, 4) in objects.asked("download")


def test_what_is_missing_of_a_snapshot_that_is_there_is_a_fault(objects: MemoryObjects, chain: ManifestChain) -> None:
    del objects.objects[table(objects, 3)]

    verification = read_manifests(chain, every=True)
    verify_files([verification])

    (fault,) = verification.faults
    assert fault.startswith("snapshot 3 of task 0_3: 000003.sst: ")
