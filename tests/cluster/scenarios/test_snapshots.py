"""An application without standbys, whose tasks move by snapshots alone."""

from __future__ import annotations

import pytest

from cluster_world import SNAPSHOTS, Running


@pytest.mark.long
def test_pods_come_at_once_and_go_one_at_a_time_when_the_number_is_changed(snapshots: Running) -> None:
    snapshots.app.scale(4)
    status = snapshots.app.wait_settled()
    assert status["readyReplicas"] == 4

    snapshots.app.scale(2)
    snapshots.app.wait_settled()

    gone = [removal.pod.name for removal in snapshots.observer.removals]
    assert gone == [f"{SNAPSHOTS}-3", f"{SNAPSHOTS}-2"]
    assert sorted(snapshots.app.uids()) == [f"{SNAPSHOTS}-0", f"{SNAPSHOTS}-1"]
    snapshots.load.check()


@pytest.mark.long
def test_counting_goes_on_while_the_object_store_is_away_and_the_snapshots_are_told_to_be_old(
    snapshots: Running,
) -> None:
    with snapshots.world.object_store_away():
        snapshots.app.wait(lambda: snapshots.app.condition("SnapshotsFresh")["status"] == "False", "old snapshots", 180)
        snapshots.load.wait_for_counts(timeout=30)

    snapshots.app.wait(lambda: snapshots.app.condition("SnapshotsFresh")["status"] == "True", "fresh snapshots")
    snapshots.load.check()


@pytest.mark.long
def test_a_rolling_restart_by_snapshots_alone_is_exact(snapshots: Running) -> None:
    snapshots.app.scale(2)
    snapshots.app.wait_settled()
    before = snapshots.app.uids()

    snapshots.app.ask_for_restart()
    snapshots.app.wait_replaced(before)

    assert len(snapshots.observer.most_down) == 1
    snapshots.load.check()


def test_an_application_that_is_deleted_drains_and_leaves_nothing_behind(snapshots: Running) -> None:
    where = f"--namespace={snapshots.app.namespace}"
    selector = f"--selector=streamsapp.dev/name={SNAPSHOTS}"
    kinds = "pods,statefulsets,services,configmaps,secrets,poddisruptionbudgets,serviceaccounts,networkpolicies"
    assert snapshots.world.kubectl("get", kinds, where, selector, "--output=name").split()

    snapshots.world.kubectl("delete", "streamsapp", SNAPSHOTS, where, "--timeout=240s")

    def left() -> list[str]:
        return snapshots.world.kubectl("get", kinds, where, selector, "--output=name").split()

    snapshots.app.wait(lambda: not left(), "nothing")
    snapshots.app.wait(lambda: snapshots.observer.told("Draining"), "an event")
    snapshots.app.apply(snapshots.world.snapshots_manifest())
    snapshots.app.wait_settled()
    snapshots.load.check()
