"""The text that ``streamsapp snapshots`` prints."""

from __future__ import annotations

from checkpoints import TASK, a_snapshot
from streamsapp.cli.snapshots_text import as_data, in_detail, summary, table
from streamsapp.record import TaskId
from streamsapp.remote.snapshot import milliseconds

NOW = milliseconds("2026-01-01T00:01:30.500Z")


def test_the_table_has_a_line_per_task() -> None:
    assert list(table([(TASK, 2, a_snapshot())], NOW)) == [
        "TASK  EPOCH  NUMBER  OFFSETS    BYTES  NEW   AGE    INSTANCE",
        "0_3   1      2       counts=42  25 B   25 B  1m30s  pod-1",
    ]


def test_the_table_says_where_the_newest_snapshot_cannot_be_used() -> None:
    lines = list(table([(TASK, 3, a_snapshot()), (TaskId(1, 0), 7, None)], NOW))

    assert lines[2] == "1_0   -      -       -          -      -     -      -"
    assert lines[3:] == [
        "task 0_3: snapshot 3 cannot be used; `streamsapp snapshots verify` says why",
        "task 1_0: snapshot 7 cannot be used; `streamsapp snapshots verify` says why",
    ]


def test_a_line_as_data_has_null_for_what_is_not_known() -> None:
    known = summary(TASK, 3, a_snapshot(), NOW)
    unknown = summary(TASK, 3, None, NOW)

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
