"""The status as the API server has it: people's fields, and the operator's memory in one field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from streamsapp_operator.model.resource_status import MEMORY, from_document, to_document
from streamsapp_operator.model.status import Accepted, AppStatus, ExpectedGap, ObservedGap, RolloutStatus, Trial

AT = datetime(2026, 1, 2, tzinfo=UTC)
SHAPE = {"sources": {"0": ["a"]}, "stores": {"0": {"counts": "key_value"}}}
#: In the middle of a rollout, and of everything else that is remembered.
STATUS = AppStatus(
    phase="Restarting 1/3",
    last_good_revision="one",
    rollout=RolloutStatus(
        revision="two", phase="Rolling", current="app-1", current_uid="u1", step_started_at=AT, soaking="s",
        soaking_since=AT, checked=True, proved=True, shape=SHAPE, measured_from=AT, measured_until=AT,
        expected=ExpectedGap(seconds=1.5, kind="snapshot", work_seconds=0.5, observed=3), seen_by_looks=True,
    ),
    trial=Trial(revision="two", since=AT, shape=SHAPE),
    observed_gaps=(ObservedGap(kind="snapshot", work_seconds=0.5, seconds=1.4),),
    failed_revision="three",
    shape=SHAPE,
    shapes={"zero": SHAPE},
    known_tasks={"0": 4},
    target_replicas=3,
    draining_since=AT,
    accepted=Accepted(revision="two", replicas=3, restart_on_change=True),
    last_good_scheduled=True,
)  # fmt: skip


def test_everything_comes_back_and_the_memory_stands_in_one_field() -> None:
    document = to_document(STATUS)
    assert from_document(document) == STATUS
    memory = {"trial", "failedRevision", "shape", "shapes", "knownTasks", "targetReplicas", "drainingSince", "accepted"}
    assert document[MEMORY].keys() == memory | {"lastGoodScheduled", "observedGaps", "rollout"}
    assert not memory & document.keys()
    assert not {"currentUid", "soaking", "soakingSince", "shape", "expected"} & document["rollout"].keys()
    assert max(document) == MEMORY, "kubectl describe shows it last"


def test_a_status_that_an_operator_before_this_field_has_left_is_read_and_written_anew() -> None:
    """Such as by an upgrade in the middle of a rollout, or of a drain."""
    left: dict[str, Any] = to_builtins(STATUS)
    assert MEMORY not in left
    assert left["rollout"]["currentUid"] == "u1"

    read = from_document(left)

    assert read == STATUS
    assert "drainingSince" not in to_document(read)


def test_a_status_without_a_rollout_comes_back() -> None:
    status = replace(STATUS, rollout=None)
    assert from_document(to_document(status)) == status
    assert from_document(None) == AppStatus()


def test_the_memory_changes_no_field_of_people() -> None:
    document = to_document(STATUS)
    document[MEMORY] |= {"phase": "Running", "conditions": 5}
    document[MEMORY]["rollout"] |= {"phase": "Complete", "revision": "zero"}
    assert from_document(document) == STATUS


@pytest.mark.parametrize("memory", [None, 5, [], {"knownTasks": "many"}, {"rollout": 7, "shape": []}])
def test_a_memory_that_is_none_is_no_error(memory: object) -> None:
    document = to_document(AppStatus(phase="Running", rollout=RolloutStatus(revision="one"))) | {MEMORY: memory}
    assert from_document(document).known_tasks == {}
