"""The text that ``streamsapp snapshots`` prints."""

from __future__ import annotations

from checkpoints import TASK, a_snapshot
from streamsapp.cli.snapshots_text import as_data, in_detail, summary, table
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.snapshot import milliseconds
from streamsapp.runtime.snapshot_lag import SnapshotLag, SnapshotTask

NOW = milliseconds("2026-01-01T00:01:30.500Z")


def test_the_table_has_a_line_per_task() -> None:
    assert list(table([(TASK, 2, a_snapshot())], {}, NOW)) == [
        "TASK  EPOCH  NUMBER  OFFSETS    BYTES  NEW   AGE    BEHIND  INSTANCE",
        "0_3   1      2       counts=42  25 B   25 B  1m30s  -       pod-1",
    ]


def test_a_snapshot_that_is_behind_has_its_offsets_and_those_that_are_committed() -> None:
    task = SnapshotTask(TASK, a_snapshot(), {})
    lag = SnapshotLag(task, {TopicPartition("orders", 3): (84, 90)}, {"counts": (42, 47)})
    _, line, told = table([(TASK, 2, a_snapshot())], {TASK: lag}, NOW)
    assert line.split()[-2:] == ["6", "pod-1"]
    assert told.startswith("task 0_3: snapshot 2 of ")
    assert told.endswith(
        " stands at offset 84 of orders-3, and the group at 90; at offset 42 of the changelog of counts, which goes on "
        "to 47"
    )
    assert summary((TASK, 2, a_snapshot()), lag, NOW)["behind"] == {
        "records": 6,
        "inputs": {"orders-3": {"snapshot": 84, "committed": 90}},
        "changelogs": {"counts": {"snapshot": 42, "end": 47}},
    }
    _, line = table([(TASK, 2, a_snapshot())], {TASK: SnapshotLag(task)}, NOW)
    assert line.split()[-2:] == ["0", "pod-1"]


def test_the_table_says_where_the_newest_snapshot_cannot_be_used() -> None:
    lines = list(table([(TASK, 3, a_snapshot()), (TaskId(1, 0), 7, None)], {}, NOW))

    assert lines[2] == "1_0   -      -       -          -      -     -      -       -"
    assert lines[3:] == [
        "task 0_3: snapshot 3 cannot be used; `streamsapp snapshots verify` says why",
        "task 1_0: snapshot 7 cannot be used; `streamsapp snapshots verify` says why",
    ]


def test_a_line_as_data_has_null_for_what_is_not_known() -> None:
    known = summary((TASK, 3, a_snapshot()), None, NOW)
    unknown = summary((TASK, 3, None), None, NOW)

    assert (known["number"], known["newestNumber"], known["offsets"]) == (2, 3, {"counts": 42})
    assert known["ageSeconds"] == 90.5
    assert known.keys() == unknown.keys()
    assert {name for name, value in unknown.items() if value is not None} == {"task", "newestNumber"}


def test_details_have_stores_inputs_and_files() -> None:
    text = "\n".join(in_detail(a_snapshot(), NOW))

    assert "task 0_3, snapshot 2" in text
    assert "counts: orders-counts-changelog-3 up to offset 42" in text
    assert "orders-3: offset 84" in text
    assert "000008.sst" in text


def test_a_snapshot_as_data_is_its_manifest_and_what_follows_from_it() -> None:
    data = as_data(a_snapshot(), NOW)

    assert data["applicationId"] == "orders"
    assert data["stores"]["counts"]["offset"] == 42
    assert (data["bytes"], data["newBytes"], data["ageSeconds"]) == (25, 25, 90.5)
