"""A store goes on from its position if that is a place in the present changelog, and if no deletion is missing there.
The tests restore pass by pass, from changelogs that a fake broker keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from restoring import Restoring, keys
from streamsapp import TaskId, TopicPartition
from streamsapp.record import TopicIdentity
from streamsapp.runtime import restoration
from streamsapp.state.provenance import Provenance
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask

S = TopicPartition("app-s-changelog", 0)
DAY_MS = 86_400_000
SECOND_ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoration, "WORK_WAIT", 0)


@pytest.fixture
def it(tmp_path: Path) -> Restoring:
    it = Restoring(tmp_path)
    it.log(S, 0, 1, 2)
    it.admin.settings = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)}
    return it


def run_and_close(it: Restoring) -> None:
    task = it.task()
    it.restore(task)
    it.thread.close([task])
    it.passes()


def again(it: Restoring, caplog: pytest.LogCaptureFixture) -> tuple[list[str], str]:
    """The keys of the store after another start, and the log."""
    caplog.clear()
    task = it.task()
    it.restore(task)
    assert it.failed == []
    found = keys(task)
    it.thread.close([task])
    it.passes()
    return found, caplog.text


@pytest.mark.parametrize("end", [2, 3, 9], ids=["shorter", "as long", "longer"])
def test_state_of_a_changelog_that_was_created_anew_is_not_used(
    it: Restoring, caplog: pytest.LogCaptureFixture, end: int
) -> None:
    run_and_close(it)
    it.log(S, 0, end=end)
    it.consumer.ids[S.topic] = SECOND_ID

    found, told = again(it, caplog)

    assert found == ["0"]
    assert "store s was made from topic app-s-changelog with topic id AAAAAAAAAAAAAAAAAAAAAQ in cluster cluster" in told
    assert f"topic id {SECOND_ID}" in told


def test_state_of_another_cluster_is_not_used_where_brokers_tell_no_ids(
    it: Restoring, caplog: pytest.LogCaptureFixture
) -> None:
    it.consumer.ids[S.topic] = ""
    run_and_close(it)
    it.log(S, 0, 1, 9)
    assert again(it, caplog) == (["0", "1", "2", "9"], "")

    it.consumer.cluster = "elsewhere"

    assert again(it, caplog)[0] == ["0", "1", "9"]


def test_state_without_an_origin_is_used_as_before(it: Restoring, caplog: pytest.LogCaptureFixture) -> None:
    it.leave_on_disk("old", offset=2)
    it.clock.advance(1000 * DAY_MS)

    assert again(it, caplog) == (["2", "old"], "")


@pytest.mark.parametrize(("age_ms", "used"), [(DAY_MS // 2, True), (DAY_MS - 30_000, False), (40 * DAY_MS, False)])
def test_state_that_did_not_follow_for_longer_than_deletions_are_kept_is_not_used(
    it: Restoring, caplog: pytest.LogCaptureFixture, age_ms: int, used: bool
) -> None:
    run_and_close(it)
    it.log(S, 0, 2, 8, 9)  # the deletion of the record 1 is compacted away
    it.clock.advance(age_ms)

    found, told = again(it, caplog)

    assert found == (["0", "1", "2", "8", "9"] if used else ["0", "2", "8", "9"])
    assert ("delete.retention.ms" in told) is not used


@pytest.mark.parametrize("end", [3, 4], ids=["nothing came", "one record came, which is never compacted away"])
def test_the_state_of_an_idle_changelog_does_not_age(it: Restoring, caplog: pytest.LogCaptureFixture, end: int) -> None:
    run_and_close(it)
    it.log(S, 0, 2, end=end)  # not what a broker does: it shows that the records before are not read
    for _ in range(3):
        it.clock.advance(10 * DAY_MS)
        assert again(it, caplog) == (["0", "1", "2"], "")


@pytest.mark.parametrize("settings", [{"cleanup.policy": "delete"}, {}], ids=["deletes", "not told"])
def test_the_age_that_is_taken_where_the_broker_keeps_no_tombstones_or_does_not_tell(
    it: Restoring, caplog: pytest.LogCaptureFixture, settings: dict[str, str]
) -> None:
    run_and_close(it)
    it.log(S, 0, 2, 8, 9)
    it.admin.settings = settings
    it.clock.advance(2 * DAY_MS)

    assert again(it, caplog)[0] == (["0", "1", "2", "8", "9"] if settings else ["0", "2", "8", "9"])


def standby(it: Restoring) -> StreamTask:
    task = it.task(role=TaskRole.STANDBY)
    it.thread.add(task)
    it.passes(3)
    it.clock.advance(1_000)
    it.passes(3)
    return task


def test_a_standby_that_stood_still_for_too_long_begins_anew(it: Restoring, caplog: pytest.LogCaptureFixture) -> None:
    task = standby(it)
    assert keys(task) == ["0", "1", "2"]
    it.thread.paused = True
    it.passes()
    it.log(S, 0, 2, 8, 9)
    for _ in range(5):
        it.clock.advance(DAY_MS)
        it.passes(2)
    it.thread.paused = False

    it.passes(6)

    assert keys(task) == ["0", "2", "8", "9"]
    assert "has not followed app-s-changelog-0" in caplog.text


def test_a_standby_that_stood_still_while_nothing_came_goes_on(it: Restoring, caplog: pytest.LogCaptureFixture) -> None:
    task = standby(it)
    for _ in range(5):
        it.clock.advance(DAY_MS)
        it.passes(2)
    it.log(S, 0, 2, 8, 9)

    it.passes(3)

    assert keys(task) == ["0", "1", "2", "8", "9"]
    assert caplog.text == ""


def test_a_standby_begins_anew_with_a_changelog_that_was_created_anew(it: Restoring) -> None:
    task = standby(it)
    it.log(S, 0, 7)
    it.consumer.ids[S.topic] = SECOND_ID
    it.consumer.replaced.append(S)

    it.passes(4)

    assert keys(task) == ["0", "7"]
    assert it.failed == []


def test_an_origin_is_read_as_it_was_kept_and_damage_is_not_known() -> None:
    kept = Provenance(TopicIdentity("ovENmxWJQ2qPly/cKkEDqw", "a cluster"), 1_700_000_000_000)
    assert Provenance.decode(kept.encode()) == kept
    for damaged in (b"", b"1", b"\xff", b"x y z", b"1 !! c", b"1 AAAA c"):
        assert Provenance.decode(damaged) == Provenance()


def test_a_refusal_to_tell_settings_is_no_failure(it: Restoring, caplog: pytest.LogCaptureFixture) -> None:
    run_and_close(it)
    it.log(S, 0, 2, 8, 9)
    it.admin.refusal = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    it.clock.advance(2 * DAY_MS)

    assert again(it, caplog)[0] == ["0", "2", "8", "9"]
    assert it.restored == [TaskId(0, 0)] * 2
