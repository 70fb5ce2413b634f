"""The soak driver finds faults in a chain of manifests and in a snapshot's contents, and nothing if all is well."""

from __future__ import annotations

import msgspec
import pytest

from application import FIRST
from bucket import Restored, check_chains, check_points
from local_state import LocalStore
from streamsapp import TaskId
from streamsapp.remote.snapshot import InputPoint, Snapshot, StorePoint

SOURCE = "app-input"


def snapshot(number: int, epoch: int, writer: str, offset: int = 3) -> Snapshot:
    return Snapshot(
        version=1,
        application_id="app",
        task="0_1",
        number=number,
        epoch=epoch,
        writer=writer,
        instance=f"instance-{writer}",
        created_at="2026-01-01T00:00:00.000Z",
        written_at="2026-01-01T00:00:00.000Z",
        fingerprint="",
        stores={FIRST: StorePoint(FIRST, "app-first-changelog", 1, None, offset)},
        inputs=(InputPoint(SOURCE, 1, offset, ""),),
        files=(),
    )


CHAIN = [snapshot(1, 1, "a"), snapshot(2, 1, "a", 4), snapshot(3, 3, "b", 4), snapshot(4, 3, "b", 5)]


def restored(counts: dict[str, int], position: int = 3) -> Restored:
    content = {key: {"c": count} for key, count in counts.items()}
    return Restored(snapshot(4, 3, "b"), [LocalStore("here", TaskId(0, 1), FIRST, 1, position, content)])


def test_writers_who_claim_follow_each_other() -> None:
    assert check_chains([CHAIN]) == []
    assert check_chains([[CHAIN[0], CHAIN[3]]]) == []  # the snapshots between are deleted or damaged


@pytest.mark.parametrize(
    ("after", "finding"),
    [
        (snapshot(5, 1, "a"), "two writers"),
        (snapshot(5, 3, "c"), "two writers"),
        (snapshot(5, 4, "c"), "without a claim"),
        (snapshot(5, 5, "c", offset=4), "does not repeat it"),
    ],
)
def test_a_chain_that_two_wrote_is_found(after: Snapshot, finding: str) -> None:
    found, *_ = check_chains([[*CHAIN, after]])

    assert finding in found
    assert "task 0_1: snapshot 5 of instance-" in found


def test_a_snapshot_counts_what_it_read() -> None:
    assert check_points([restored({"x": 1, "y": 2})], SOURCE, exactly_once=True) == []
    assert check_points([restored({"x": 2, "y": 2})], SOURCE, exactly_once=False) == []


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_snapshot_that_lost_a_record_is_found(exactly_once: bool) -> None:
    (found,) = check_points([restored({"x": 2})], SOURCE, exactly_once=exactly_once)

    assert "2 records are counted in first, 3 were read" in found


def test_a_snapshot_that_counted_twice_is_found_where_it_must_not() -> None:
    assert len(check_points([restored({"x": 4})], SOURCE, exactly_once=True)) == 1


def test_a_store_that_does_not_stand_where_its_manifest_says_is_found() -> None:
    (found,) = check_points([restored({"x": 3}, position=2)], SOURCE, exactly_once=True)

    assert "its store first stands at 2, its manifest says" in found


def test_a_store_that_the_manifest_does_not_know_is_found() -> None:
    whole = restored({"x": 3})
    unknown = whole._replace(snapshot=msgspec.structs.replace(whole.snapshot, stores={}))

    assert len(check_points([unknown], SOURCE, exactly_once=True)) == 1
