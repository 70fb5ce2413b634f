"""The keys of a chain alone give its numbers; unusable objects are passed over with a warning."""

from __future__ import annotations

import logging

import msgspec
import pytest

from checkpoints import a_snapshot, chain_of
from memory_objects import MemoryObjects
from streamsapp.remote import manifest_chain as chain_module
from streamsapp.remote.object_store import ObjectExistsError, ObjectMissingError, ObjectStoreError
from streamsapp.remote.snapshot import SnapshotInvalidError
from streamsapp.remote.snapshot_writer import SnapshotWriter
from streamsapp.testing import MockClock


def test_an_empty_chain_has_no_newest() -> None:
    assert chain_of(MemoryObjects()).newest() == (0, None)


def test_numbers_are_those_of_the_keys_newest_first_whatever_is_in_them() -> None:
    objects = MemoryObjects()
    for name in ("0000000000000002", "0000000000000010", "0000000000000009"):
        objects.put_new(f"orders/0_3/manifests/{name}.json", b"rubbish")

    assert chain_of(objects).numbers() == [10, 9, 2]


@pytest.mark.parametrize(
    "name",
    ["10.json", f"{0:016}.json", f"{1:016}.json.bak", f"x/{1:016}.json", "00000000000000aa.json"],
)
def test_other_keys_beside_the_manifests_are_none(name: str) -> None:
    objects = MemoryObjects()
    objects.put_new(f"orders/0_3/manifests/{name}", b"rubbish")

    assert chain_of(objects).numbers() == []


def test_a_number_that_no_chain_gets_to_does_not_use_up_the_numbers_there_are(caplog: pytest.LogCaptureFixture) -> None:
    objects = MemoryObjects()
    chain = chain_of(objects)
    chain.append(a_snapshot(2))
    for number in (9_999_999_999_999_999, 5_000_000_000):
        objects.put_new(f"orders/0_3/manifests/{number:016}.json", b"rubbish")

    claimed = SnapshotWriter(chain, "pod-1", MockClock()).claim()

    assert claimed.number == 3
    assert chain.numbers() == [3, 2]
    assert "snapshot 5000000000 of task 0_3 was not written by this application" in caplog.text


def test_an_application_whose_name_starts_alike_has_a_chain_of_its_own() -> None:
    objects = MemoryObjects()
    chain_of(objects, "orders-audit").append(msgspec.structs.replace(a_snapshot(), application_id="orders-audit"))

    assert chain_of(objects, "orders").numbers() == []


def test_a_number_is_appended_once() -> None:
    chain = chain_of(MemoryObjects())
    chain.append(a_snapshot())

    with pytest.raises(ObjectExistsError):
        chain.append(a_snapshot())
    assert chain.read(2) == a_snapshot()


def test_what_could_not_be_read_again_is_not_appended() -> None:
    objects = MemoryObjects()

    with pytest.raises(SnapshotInvalidError, match="instance"):
        chain_of(objects).append(msgspec.structs.replace(a_snapshot(), instance="x" * 2000))
    assert objects.objects == {}


def test_a_damaged_manifest_keeps_its_number_and_the_one_before_is_the_newest_that_can_be_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    objects = MemoryObjects()
    chain = chain_of(objects)
    chain.append(a_snapshot(2))
    chain.append(a_snapshot(3))
    objects.objects[chain.manifest_key(3)] = objects.objects[chain.manifest_key(3)].replace(b"pod-1", b"pod-2")

    assert chain.newest() == (3, a_snapshot(2))
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "snapshot 3 of task 0_3" in warning.getMessage()
    assert "sha256 differs" in warning.getMessage()


def test_a_manifest_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of(MemoryObjects())
    chain.append(a_snapshot())
    monkeypatch.setattr(chain_module, "DOCUMENT_LIMIT", 100)

    with pytest.raises(SnapshotInvalidError, match="snapshot 2 of task 0_3 is damaged"):
        chain.read(2)


def test_a_manifest_that_was_collected_since_it_was_listed_is_passed_over() -> None:
    objects = MemoryObjects()
    chain = chain_of(objects)
    chain.append(a_snapshot(2))

    assert list(chain.valid([3, 2])) == [a_snapshot(2)]
    with pytest.raises(ObjectMissingError):
        chain.read(3)


def test_a_store_that_is_out_of_reach_is_not_taken_for_a_damaged_manifest() -> None:
    objects = MemoryObjects()
    chain = chain_of(objects)
    chain.append(a_snapshot())

    def fail(operation: str, key: str) -> None:
        if operation == "read":
            raise ObjectStoreError("out of reach")

    objects.before = fail
    with pytest.raises(ObjectStoreError, match="out of reach"):
        chain.newest()
