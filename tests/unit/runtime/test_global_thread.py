"""The global thread over a fake broker: restores, updates, persists, and says what it cannot go on with."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from global_stores import TIMEOUT, FakeBroker, Globals, content
from streamsapp import (
    Consumed,
    Materialized,
    Serdes,
    StreamsBuilder,
    TopicPartition,
    Topology,
)
from streamsapp.errors import StateStoreError, TopicError
from streamsapp.runtime.changelog_reader import Observation
from streamsapp.runtime.global_stores import thread as global_thread
from streamsapp.state.api import ValueAndTimestamp
from task_parts import config

TEXT: Consumed[str, str] = Consumed(Serdes.string(), Serdes.string())
T0, T1 = TopicPartition("rates", 0), TopicPartition("rates", 1)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("rates", 2)
    return made


@pytest.fixture
def it(tmp_path: Path, broker: FakeBroker) -> Iterator[Globals]:
    made = Globals(tmp_path, broker)
    yield made
    made.stop()


def table(engine: Any = "rocksdb", topic: str = "rates", store: str = "rates") -> Topology:
    builder = StreamsBuilder()
    builder.global_table(topic, TEXT, Materialized(store, store=engine))
    return builder.build()


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
def test_all_partitions_are_restored_before_the_stores_count_as_restored(it: Globals, engine: str) -> None:
    it.broker.send("rates", "eur", "1.0", timestamp=5)
    it.broker.send("rates", "usd", "1.1", timestamp=6, partition=1)
    it.broker.send("rates", "eur", "1.2", timestamp=4)

    thread = it.restored(table(engine))

    assert content(thread) == {"eur": ValueAndTimestamp("1.2", 4), "usd": ValueAndTimestamp("1.1", 6)}
    assert {it.observed.lag for it in thread.reading.partitions.values()} == {0}


def test_records_without_key_are_skipped_and_those_without_value_delete(it: Globals) -> None:
    for key, value in (("eur", "1"), ("usd", "1"), (None, "x"), ("usd", None)):
        it.broker.send("rates", key, value)
    thread = it.restored(table())
    assert list(content(thread)) == ["eur"]

    for key, value in (("gbp", "1"), (None, "x"), ("eur", None)):
        it.broker.send("rates", key, value)
    it.broker.wait_for_polls()

    assert list(content(thread)) == ["gbp"]


def test_updates_after_restoring_are_seen_with_their_timestamps(it: Globals) -> None:
    thread = it.restored(table())

    it.broker.send("rates", "eur", "2", timestamp=9, partition=1)
    it.broker.wait_for_polls()

    assert thread.stores["rates"].get("eur") == ValueAndTimestamp("2", 9)
    assert thread.stores["rates"].approximate_num_entries() == 1


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
def test_tasks_read_on_several_threads_while_batches_are_written(it: Globals, engine: str) -> None:
    thread = it.restored(table(engine))
    store = thread.stores["rates"]

    def read() -> list[int]:
        seen = [0]
        while seen[-1] < 100:
            listed = {int(value.value) for _, value in store.all()}
            assert len(listed) <= 1, "a scan saw half of a batch"
            seen.append(int(store.get("49").value) if listed else 0)
        return seen

    with ThreadPoolExecutor(4) as readers:
        reading = [readers.submit(read) for _ in range(4)]
        for round_ in range(1, 101):
            with it.broker._changed:
                for key in range(50):
                    it.broker.send("rates", f"{key:02}", str(round_))
        for each in reading:
            seen = each.result(TIMEOUT)
            assert seen == sorted(seen)


def test_the_restore_listener_hears_of_every_partition_as_in_kafka_streams(it: Globals) -> None:
    for number in range(3):
        it.broker.send("rates", str(number), "v")
    it.broker.send("rates", None, "v")
    it.broker.limit = 3

    it.restored(table())

    assert it.listener.told == [
        "restore_start rates-0 rates 0 4",
        "restore_start rates-1 rates 0 0",
        "restore_end rates-1 rates 0",
        "batch_restored rates-0 rates 2 3",
        "batch_restored rates-0 rates 3 0",
        "restore_end rates-0 rates 3",
    ]


def test_restoring_goes_on_where_the_last_run_ended(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    it.restored(table())
    it.broker.send("rates", "usd", "1")
    it.broker.wait_for_polls()
    it.stop()
    it.listener.told.clear()
    it.broker.send("rates", "gbp", "1")

    thread = it.restored(table())

    assert it.listener.told[0] == "restore_start rates-0 rates 2 3"
    assert list(content(thread)) == ["eur", "gbp", "usd"]


def test_a_store_in_memory_is_restored_from_the_beginning(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    it.restored(table("memory"))
    it.stop()
    it.listener.told.clear()

    thread = it.restored(table("memory"))

    assert it.listener.told[0] == "restore_start rates-0 rates 0 1"
    assert list(content(thread)) == ["eur"]


@pytest.mark.parametrize(("low", "end"), [(2, 3), (0, 1)], ids=["its beginning was deleted", "it shrank"])
def test_stores_that_stand_where_the_topic_has_no_records_are_wiped_and_restored(
    it: Globals, low: int, end: int, caplog: pytest.LogCaptureFixture
) -> None:
    it.broker.send("rates", "old", "1")
    it.broker.limit = 1
    if end == 1:
        it.broker.send("rates", "older", "1")
    it.restored(table())
    it.stop()
    for key in ("lost", "new"):
        it.broker.send("rates", key, "1")
    it.broker.truncate("rates", low, end)

    thread = it.restored(table())

    assert list(content(thread)) == (["new"] if low else ["old"])
    assert "wiped and restored" in caplog.text


def test_a_topic_with_fewer_partitions_than_were_read_has_the_stores_restored(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    it.broker.send("rates", "usd", "1", partition=1)
    it.restored(table())
    it.stop()
    del it.broker.records[T1]

    thread = it.restored(table())

    assert list(content(thread)) == ["eur"]


def test_a_store_that_is_filled_from_another_topic_now_holds_nothing_of_the_old_one(it: Globals) -> None:
    it.broker.create("prices")
    it.broker.send("rates", "eur", "1")
    it.broker.send("prices", "bread", "2")
    it.restored(table())
    it.stop()

    thread = it.restored(table(topic="prices"))

    assert list(content(thread)) == ["bread"]


def test_a_store_that_left_the_topology_continues_where_it_stood_when_it_comes_back(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    it.restored(table())
    it.stop()
    it.restored(table(store="other"))
    it.stop()
    it.listener.told.clear()

    it.restored(table())

    assert it.listener.told[0] == "restore_start rates-0 rates 1 1"


def test_only_committed_records_are_waited_for_under_exactly_once(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    it.broker.committed[T0] = 1
    it.broker.ends[T0] = 2  # of a transaction that is open

    it.restored(table())

    assert it.listener.told[0] == "restore_start rates-0 rates 0 1"


def test_a_truncated_topic_ends_the_thread_and_the_next_start_restores_from_the_beginning(it: Globals) -> None:
    it.broker.send("rates", "old", "1")
    it.broker.send("rates", "older", "1")
    thread = it.restored(table())

    it.broker.truncate("rates", 0, 0)
    failure = it.failures.get(timeout=TIMEOUT)

    assert isinstance(failure.error, StateStoreError)
    assert str(failure.error) == (
        "rates-0 no longer has offset 2, which global store rates reads next: it was truncated, or the topic was "
        "created anew; restart, then the global stores are restored from the beginning"
    )
    assert list(content(thread)) == ["old", "older"]  # readable until the instance has ended
    it.stop()
    for number in range(5):
        it.broker.send("rates", str(number), "1")
    assert list(content(it.restored(table()))) == ["0", "1", "2", "3", "4"]


def test_what_the_broker_deletes_while_restoring_is_restored_from_what_is_left(
    it: Globals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        it.broker.send("rates", str(number), "1")
    thread = it.thread(table())
    # As if records vanished between the look at the offsets and the first fetch.
    monkeypatch.setattr(it.broker, "watermarks", partial(_truncating, it.broker, it.broker.watermarks))

    thread._restore()

    assert list(content(thread)) == ["2"]
    thread._close()


def _truncating(broker: FakeBroker, watermarks: Any, partition: TopicPartition, *, cached: bool) -> Any:
    found = watermarks(partition, cached=cached)
    broker.truncate("rates", 2, 3)
    return found


def test_a_topic_that_was_gone_for_a_moment_is_taken_for_another_one(it: Globals) -> None:
    it.broker.send("rates", "old", "1")
    it.restored(table())
    it.broker.error = TopicError("topic rates no longer exists")
    assert it.failures.get(timeout=TIMEOUT).error is it.broker.error
    it.stop()
    it.broker.error = None
    it.broker.create("rates", 2)
    for key in ("a", "b"):
        it.broker.send("rates", key, "1")

    assert list(content(it.restored(table()))) == ["a", "b"]


def test_a_missing_topic_is_named_with_its_store(it: Globals) -> None:
    it.start(table(topic="misspelt"))

    failure = it.failures.get(timeout=TIMEOUT)

    assert isinstance(failure.error, TopicError)
    assert str(failure.error) == "topic misspelt does not exist; global store rates is filled from it"


def test_what_a_poll_raises_goes_to_the_failures_and_stores_stay_readable_until_the_end(it: Globals) -> None:
    it.broker.send("rates", "eur", "1")
    thread = it.restored(table())

    it.broker.error = TopicError("topic rates no longer exists")
    failure = it.failures.get(timeout=TIMEOUT)

    assert (failure.thread, failure.task_id, failure.error) == ("global", None, it.broker.error)
    assert list(content(thread)) == ["eur"]
    it.stop()
    assert it.broker.closed
    with pytest.raises(StateStoreError, match="closed"):
        thread.stores["rates"].get("eur")


def test_a_thread_that_is_stopped_while_it_restores_ends(it: Globals, monkeypatch: pytest.MonkeyPatch) -> None:
    it.broker.ends[T0] = 5  # and not one record comes
    monkeypatch.setattr(it.broker, "_fetch", lambda *_: None)
    thread = it.start(table())
    it.broker.wait_for_polls()

    it.stop()

    assert not thread.restored.is_set()
    assert it.failures.empty()


def test_a_thread_that_is_stopped_before_a_broker_answered_asks_for_nothing(it: Globals) -> None:
    thread = it.thread(table())
    thread.start()

    thread.stop()
    thread.join(TIMEOUT)

    assert (it.broker.polls, it.broker.closed, thread.restored.is_set()) == (0, True, False)
    assert it.failures.empty()


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.put("eur", ("1", 0)),
        lambda store: store.delete("eur"),
        lambda store: store.put_if_absent("eur", ("1", 0)),
    ],
    ids=["put", "delete", "put_if_absent"],
)
def test_tasks_cannot_write_and_are_told_where_to(it: Globals, write: Any) -> None:
    thread = it.restored(table())

    with pytest.raises(
        StateStoreError, match=r"'rates' is filled from topic rates and read-only .* write to the topic"
    ):
        write(thread.stores["rates"])


def test_position_and_lag_of_every_partition_can_be_seen(it: Globals, monkeypatch: pytest.MonkeyPatch) -> None:
    it.broker.send("rates", "a", "x")
    it.clock.advance(7)
    thread = it.restored(table())
    it.broker.wait_for_polls(3)  # one to ask, one for the answer
    first = thread.reading.partitions[T0]
    assert (first.store, first.position, first.observed) == ("rates", 1, Observation(1, 1, 7))

    monkeypatch.setattr(it.broker, "_fetch", lambda *_: None)  # records that are not fetched yet
    it.broker.send("rates", "b", "x")
    it.clock.advance(2000)
    it.broker.wait_for_polls(4)  # likewise, after the one under way

    assert (first.position, first.observed, first.observed.lag) == (1, Observation(1, 2, 2007), 1)
    assert thread.reading.partitions[T1].observed.lag == 0


def test_many_updates_are_flushed_so_that_a_crash_costs_little(it: Globals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_thread, "UNFLUSHED", 2)
    thread = it.restored(table())
    flushes: list[int] = []
    monkeypatch.setattr(thread._task.stores, "flush", lambda: flushes.append(1))

    it.broker.send("rates", "a", "x")
    it.broker.wait_for_polls()
    assert flushes == []
    it.broker.send("rates", "b", "x")
    it.broker.wait_for_polls()
    assert flushes == [1]
    monkeypatch.undo()


def test_stores_of_a_topic_that_was_created_anew_are_restored_from_the_beginning(
    it: Globals, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("eur", "usd"):
        it.broker.send("rates", key, "1")
    it.restored(table())
    it.stop()
    it.broker.create("rates", 2)
    for _ in range(3):
        it.broker.send("rates", "gbp", "2")
    it.broker.ids["rates"] = "AAAAAAAAAAAAAAAAAAAAAg"

    assert list(content(it.restored(table()))) == ["gbp"]
    assert "global store rates was filled from topic rates with topic id AAAAAAAAAAAAAAAAAAAAAQ" in caplog.text


@pytest.mark.parametrize("days", [0, 2])
def test_stores_that_have_not_followed_for_longer_than_deletions_are_kept_are_restored_from_the_beginning(
    it: Globals, days: int
) -> None:
    for key in ("eur", "usd"):
        it.broker.send("rates", key, "1")
    it.restored(table())
    it.stop()
    for _ in range(3):
        it.broker.send("rates", "gbp", "2")
    it.broker.records[T0] = [each for each in it.broker.records[T0] if each.key() != b"usd"]  # deleted, and compacted
    it.clock.advance(days * 86_400_000)

    assert sorted(content(it.restored(table()))) == ["eur", "gbp", *([] if days else ["usd"])]


def test_what_the_handler_left_out_is_not_restored(it: Globals) -> None:
    builder = StreamsBuilder()
    builder.global_table("rates", Consumed(Serdes.string(), Serdes.long()), Materialized("rates"))
    it.broker.send("rates", "eur", "12345678")
    it.broker.send("rates", "eur", "bad")
    it.broker.send("rates", "usd", "bad")

    thread = it.restored(builder.build(), config(commit_interval_ms=0, deserialization_exception_handler="continue"))

    [(key, value)] = content(thread).items()
    assert (key, value.value) == ("eur", int.from_bytes(b"12345678", "big"))
