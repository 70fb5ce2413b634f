"""``map_async``: results in order, calls that are kept and made again, back pressure, failures, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from manual_calls import CallingTask
from streamsapp import Consumed, KStream, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.clock import SystemClock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import ProcessingError, StateStoreError, TopologyError
from streamsapp.processor.async_calls import Answer
from streamsapp.runtime.processing import ProcessingThread
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import TopologyTestDriver
from streamsapp.testing.session import Session

TEXT = Serdes.string()


async def ask(value: str) -> str:
    return value.upper()


def program(build: Callable[[KStream[str, str]], Any]) -> Topology:
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(TEXT, TEXT)))
    return builder.build()


def asking(order: Any = "key", concurrency: int = 10, **options: Any) -> Topology:
    return program(lambda stream: stream.map_async(ask, concurrency, order, **options).to("out", Produced(TEXT, TEXT)))


def piped(topology: Topology, *records: tuple[Any, Any], config: StreamsConfig | None = None) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(topology, config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values(list(records))
        return driver.create_output_topic("out", TEXT, TEXT).read_key_values()


# ---- in the test driver ------------------------------------------------------------------------------------------


def test_results_have_key_time_and_headers_of_their_records() -> None:
    with TopologyTestDriver(asking()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 7, [("h", b"1")])
        (record,) = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert driver.produced_topic_names == {"out"}, "a record that is answered before the commit is not logged"
    assert (record.key, record.value, record.timestamp, record.headers) == ("k", "V", 7, [("h", b"1")])


def test_the_key_is_given_to_a_function_that_must_take_it() -> None:
    async def both(key: str, value: str, end: str = ".") -> str:
        return key + value + end

    assert piped(program(lambda s: s.map_async(both).to("out", Produced(TEXT, TEXT))), ("a", "b")) == [("a", "ab.")]


def test_records_without_key_or_value_are_answered_too() -> None:
    async def shown(key: Any, value: Any) -> Any:
        return None if value is None else f"{key} {value}"

    topology = program(lambda s: s.map_async(shown).to("out", Produced(TEXT, TEXT)))
    assert piped(topology, (None, "v"), ("k", None)) == [(None, "None v"), ("k", None)]


def test_sleeping_functions_and_timeouts_take_no_time_in_the_driver() -> None:
    tries: list[str] = []

    async def slow(value: str) -> str:
        tries.append(value)
        await asyncio.sleep(3_000 if len(tries) < 3 else 2_000)
        return value

    topology = program(
        lambda s: s.map_async(slow, timeout=timedelta(seconds=2_500), retries=2).to("out", Produced(TEXT, TEXT))
    )
    assert piped(topology, ("a", "b")) == [("a", "b")]
    assert tries == ["b", "b", "b"]


def test_functions_that_wait_for_other_threads_are_waited_for() -> None:
    async def elsewhere(value: str) -> str:
        return await asyncio.to_thread(str.upper, value)

    assert piped(program(lambda s: s.map_async(elsewhere).to("out", Produced(TEXT, TEXT))), ("a", "b")) == [("a", "B")]


def test_what_calls_use_is_opened_for_the_first_and_closed_in_the_end() -> None:
    life: list[str] = []

    @asynccontextmanager
    async def client() -> AsyncIterator[str]:
        life.append("opened")
        yield "client"
        life.append("closed")

    async def asked(client: str, key: str, value: str) -> str:
        life.append(value)
        return f"{client} {key} {value}"

    topology = program(lambda s: s.map_async(asked, using=client).to("out", Produced(TEXT, TEXT)))
    assert piped(topology, ("k", "1"), ("k", "2")) == [("k", "client k 1"), ("k", "client k 2")]
    assert life == ["opened", "1", "2", "closed"]


def test_calls_of_calls_and_what_follows_a_repartition_are_answered() -> None:
    topology = program(
        lambda s: s.map_async(ask).map(lambda k, v: (v, k)).repartition().map_async(ask).to("out", Produced(TEXT, TEXT))
    )
    config = StreamsConfig(
        application_id="a", bootstrap_servers="none:9092", default_key_serde=TEXT, default_value_serde=TEXT
    )
    assert piped(topology, ("k", "v"), config=config) == [("V", "K")]


def test_a_driver_runs_calls_while_another_loop_runs_as_in_a_notebook() -> None:
    async def notebook() -> list[tuple[Any, Any]]:
        return piped(asking(), ("k", "v"))

    assert asyncio.run(notebook()) == [("k", "V")]
    with Session(asking()) as session:
        session.feed("in", ("k", "v"))
        assert [record.value for record in session.results("out")] == ["V"]


def test_a_wrapper_around_every_processor_lets_answers_through() -> None:
    config = StreamsConfig(application_id="a", bootstrap_servers="none:9092", processor_wrapper=lambda name, made: made)
    assert piped(asking(), ("k", "v"), config=config) == [("k", "V")]


# ---- order -------------------------------------------------------------------------------------------------------


RECORDS = [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")]


@pytest.mark.parametrize(
    ("order", "after_4", "after_1", "after_3", "after_2"),
    [
        ("key", [], ["A=1"], ["A=3"], ["B=2", "B=4"]),
        ("partition", [], ["A=1"], [], ["B=2", "A=3", "B=4"]),
        ("none", ["B=4"], ["A=1"], ["A=3"], ["B=2"]),
    ],
)
def test_results_go_on_in_the_order_that_was_asked_for(
    order: str, after_4: list[str], after_1: list[str], after_3: list[str], after_2: list[str], tmp_path: Path
) -> None:
    task = CallingTask(asking(order), tmp_path)
    task.feed(*RECORDS)
    assert [value for _, _, value in task.calls.made] == ["1", "2", "3", "4"], "calls do not wait for each other"
    for answered, sent in (("4", after_4), ("1", after_1), ("3", after_3), ("2", after_2)):
        task.calls.answer(answered)
        assert task.values() == sent
    assert task.task.wait_ms(0) is None
    task.close()


def test_a_result_is_sent_as_part_of_the_record_that_it_answers(tmp_path: Path) -> None:
    seen: list[Any] = []

    def chosen(key: str, value: str, metadata: Any) -> str:
        seen.append(metadata)
        return "out"

    topology = program(lambda s: s.map_async(ask).to(chosen, Produced(TEXT, TEXT)))
    task = CallingTask(topology, tmp_path)
    task.feed(("a", "1"), ("b", "2"))
    task.calls.answer("2")
    assert [(value, timestamp, headers) for _, value, *_, timestamp, headers in task.sent()] == [
        (b"B=2", 10, [("h", b"1")])
    ]
    assert [each.offset for each in seen] == [1]
    task.close()


# ---- calls that are kept -----------------------------------------------------------------------------------------


def test_after_a_crash_only_calls_without_a_committed_answer_are_made_again(tmp_path: Path) -> None:
    topology = asking("key")
    task = CallingTask(topology, tmp_path / "1")
    task.feed(("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("c", "5"))
    task.calls.answer("2")  # waits for 1
    task.calls.answer("3")  # goes on
    assert task.values() == ["B=3"]
    task.commit()
    task.calls.answer("5")  # its answer is not committed
    assert task.values() == ["C=5"]

    again = task.restarted(topology, tmp_path / "2")
    again.run()
    assert [(key, value) for _, key, value in again.calls.made] == [("a", "1"), ("b", "4"), ("c", "5")]
    again.feed(("a", "6"))
    again.calls.answer("6")
    assert again.values() == []
    again.calls.answer("1")
    (first, second, third) = again.sent()
    assert [(value, timestamp) for _, value, *_, timestamp, _ in (first, second)] == [(b"A=1", 0), (b"A=2", 10)]
    assert third[1] == b"A=6"
    assert first[-1] == [("h", b"0")]
    again.close()


def test_the_changelog_has_only_what_waits_at_a_commit(tmp_path: Path) -> None:
    task = CallingTask(asking("none"), tmp_path)
    task.feed(("a", "1"), ("b", "2"))
    task.calls.answer("1")
    assert task.values() == ["A=1"]
    assert len(task.commit()) == 1
    assert task.commit() == [], "nothing has changed"
    task.feed(("c", "3"))
    task.calls.answer("3")
    task.calls.answer("2")
    assert task.values() == ["C=3", "B=2"]
    assert len(task.commit()) == 1
    assert set(task.changelog.values()) == {None}
    task.close()


def test_an_answer_is_kept_once_and_forgotten_with_its_record(tmp_path: Path) -> None:
    topology = asking("partition")
    task = CallingTask(topology, tmp_path / "1")
    task.feed(("a", "1"), ("b", "2"))
    task.calls.answer("2")
    assert task.values() == []
    task.commit()
    again = task.restarted(topology, tmp_path / "2")
    again.run()
    assert [value for _, _, value in again.calls.made] == ["1"]
    again.calls.answer("1")
    assert again.values() == ["A=1", "B=2"]
    again.commit()
    assert set(again.changelog.values()) == {None}
    last = again.restarted(topology, tmp_path / "3")
    last.run()
    assert last.calls.made == []
    last.close()


def test_an_order_that_was_changed_goes_on_with_what_waits(tmp_path: Path) -> None:
    task = CallingTask(asking("partition"), tmp_path / "1")
    task.feed(("a", "1"), ("b", "2"))
    task.calls.answer("2")
    task.run()
    task.commit()
    again = task.restarted(asking("none"), tmp_path / "2")
    assert again.values() == ["B=2"]
    again.close()


def test_an_answer_that_no_serde_writes_is_asked_for_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology = program(lambda s: s.map_async(ask, order="partition").map_values(str).to("out", Produced(TEXT, TEXT)))
    task = CallingTask(topology, tmp_path / "1")
    task.feed(("a", "1"), ("b", "2"), ("c", "3"))
    for number in (1, 2):
        task.calls.given.append(Answer(number, complex(1, number)))
    task.run()
    assert caplog.text.count("give map_async a result_serde") == 1
    task.commit()
    again = task.restarted(topology, tmp_path / "2")
    again.run()
    assert [value for _, _, value in again.calls.made] == ["1", "2", "3"]
    again.close()


def test_values_without_a_declared_serde_come_back_as_they_were(tmp_path: Path) -> None:
    topology = program(
        lambda s: (
            s.map_values(lambda value: {"items": [value, 1, None, b"\xff"]})
            .map_async(ask)
            .map_values(str)
            .to("out", Produced(TEXT, TEXT))
        )
    )
    task = CallingTask(topology, tmp_path / "1")
    task.feed(("a", "1"))
    task.commit()
    again = task.restarted(topology, tmp_path / "2")
    again.run()
    assert [call[1:] for call in again.calls.made] == [("a", {"items": ["1", 1, None, b"\xff"]})]
    again.close()


def test_a_value_that_would_not_come_back_is_refused_when_it_comes() -> None:
    topology = program(lambda s: s.map_values(lambda value: (value,)).map_async(ask).to("out", Produced(TEXT, TEXT)))
    with pytest.raises(ProcessingError, match=r"another value than was written: .*; give map_async a key_serde"):
        piped(topology, ("a", "1"))


def test_an_entry_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match=r"KSTREAM-MAPASYNC-0000000001-waiting.*not a record which waits"):
        CallingTask(asking(), tmp_path, {bytes(8): b"\x93\x01\x02\x03"})


# ---- back pressure -----------------------------------------------------------------------------------------------


def test_a_task_takes_no_more_records_than_may_wait(tmp_path: Path) -> None:
    task = CallingTask(asking("none", concurrency=2), tmp_path)
    woken: list[bool] = []
    task.task.context.execution.calls.wake = lambda: woken.append(True)
    task.task.context.execution.calls.stop = lambda: setattr(task.task.control, "stop", True)
    task.feed(*[("k", str(number)) for number in range(10)])
    assert len(task.calls.made) == 4, "as many as are called for, and as many again"
    assert task.task.wait_ms(0) is None
    assert task.task.buffered_records == 6
    task.calls.answer("2")
    assert woken
    assert task.values() == ["K=2"]
    assert len(task.calls.made) == 5
    for number in (0, 1, 3, 4):
        task.calls.answer(str(number))
    assert len(task.values()) == 4
    assert len(task.calls.made) == 9
    assert task.task.stores.statistics()[task.store]["waiting_records"] == 4
    task.close()
    assert task.calls.closed


def test_answers_that_come_while_a_commit_takes_the_task_out_of_turn_are_delivered_next(tmp_path: Path) -> None:
    task = CallingTask(asking("none", concurrency=1), tmp_path)
    tasks, collector = TaskManager(MostBufferedFirst()), RecordCollector(100)
    thread = ProcessingThread("processing", tasks, collector, SimpleQueue(), SystemClock())
    tasks.add(task.task)
    task.give(("k", "1"), ("k", "2"), ("k", "3"))
    thread._run_once()
    assert [value for _, _, value in task.calls.made] == ["1", "2"]
    assert tasks.resting
    task.calls.answer("1")
    assert not tasks.resting, "the answer wakes the task"
    tasks.end_epochs()
    thread._run_once()
    assert not tasks.resting, "the commit had its turn, and the answer has not"
    thread._run_once()
    assert [value for _, _, value in task.calls.made] == ["1", "2", "3"]
    task.close()


def test_records_that_one_record_becomes_are_all_kept(tmp_path: Path) -> None:
    topology = program(lambda s: s.flat_map_values(str.split).map_async(ask, 2, "none").to("out", Produced(TEXT, TEXT)))
    task = CallingTask(topology, tmp_path)
    task.feed(("k", "a b c d e f g h"))
    assert len(task.calls.made) == 8
    assert task.task.wait_ms(0) is None
    task.close()


# ---- failures ----------------------------------------------------------------------------------------------------


def test_a_failed_call_fails_the_task_and_names_the_record(tmp_path: Path) -> None:
    task = CallingTask(asking(), tmp_path)
    task.feed(("a", "1"), ("b", "2"))
    task.calls.answer("2", ValueError("no such address"))
    with pytest.raises(ProcessingError, match=r"ValueError at node KSTREAM-MAPASYNC.*record in-0@1: no such address"):
        task.run()


def test_a_record_that_the_handler_drops_holds_no_other_up(tmp_path: Path) -> None:
    task = CallingTask(asking("partition"), tmp_path / "1", processing_exception_handler="continue")
    task.feed(("a", "1"), ("b", "2"), ("c", "3"))
    task.calls.answer("3")
    task.calls.answer("2", ValueError("no"))
    assert task.values() == []
    task.commit()
    task.calls.answer("1")
    assert task.values() == ["A=1", "C=3"]
    task.commit()
    assert set(task.changelog.values()) == {None}
    assert task.task.context.dropped_records == 1
    task.close()


def test_a_dead_letter_has_the_bytes_of_the_record_also_after_a_restart(tmp_path: Path) -> None:
    topology = program(lambda s: s.map_values(str.upper).map_async(ask).to("out", Produced(TEXT, TEXT)))
    handling: dict[str, Any] = {"processing_exception_handler": "dead_letter", "dead_letter_queue_topic": "dead"}
    task = CallingTask(topology, tmp_path / "1", **handling)
    task.feed(("a", "one"), ("b", "two"))
    task.calls.answer("ONE", ValueError("no"))
    (first,) = task.sent()
    task.commit()
    task.close()
    again = CallingTask(topology, tmp_path / "2", task.changelog, **handling)
    again.run()
    again.calls.answer("TWO", ValueError("no"))
    (second,) = again.sent()
    assert [(letter[0], letter[2], letter[1]) for letter in (first, second)] == [
        ("dead", b"a", b"one"), ("dead", b"b", b"two")
    ]  # fmt: skip
    assert ("__streams.errors.offset", b"1") in (second[-1] or [])
    again.close()


# ---- what is refused ---------------------------------------------------------------------------------------------


def plain(value: str) -> str:
    return value


async def two(client: str, value: str) -> str:
    return client + value


async def four(one: str, client: str, key: str, value: str) -> str:
    return one


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (plain, {}, r"map_async needs a coroutine function, written with async def, not <function plain.*map_values"),
        (None, {}, "map_async needs a coroutine function"),
        (four, {}, r"map_async calls its function with \(key, value\); four"),
        (four, {"using": dict}, r"map_async calls its function with \(opened, key, value\); four"),
        (ask, {"using": dict}, r"map_async calls its function with \(opened, value\); ask"),
        (two, {"using": plain}, r"map_async's using calls its function with \(\); plain"),
        (ask, {"concurrency": 0}, "concurrency is 0; it is a whole number, at least 1"),
        (ask, {"concurrency": True}, "concurrency is True"),
        (ask, {"retries": -1}, "retries is -1; it is a whole number, at least 0"),
        (ask, {"timeout": 0}, "timeout is 0 ms; the least is 1 ms"),
        (ask, {"timeout": 1.5}, "a duration is a timedelta or whole milliseconds, got 1.5"),
        (ask, {"order": "keys"}, "order is 'keys'; it is one of 'key', 'partition', 'none'"),
        (ask, {"value_serde": "string"}, r"map_async\(value_serde='string'\): that is not a serde"),
        (ask, {"value_serde": Serdes.long()}, r"map_async: its values are string, which map_async\(value_serde=...\)"),
    ],
)
def test_what_cannot_be_meant_is_refused(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        program(lambda stream: stream.map_async(function, **options).to("out"))


def test_functions_in_disguise_are_coroutine_functions() -> None:
    class Asker:
        async def __call__(self, value: str) -> str:
            return value + "!"

    for function in (Asker(), partial(two, "c"), Asker().__call__):
        topology = program(partial(_asked_by, function))
        assert len(piped(topology, ("a", "b"))) == 1


def _asked_by(function: Any, stream: KStream[str, str]) -> None:
    stream.map_async(function).to("out", Produced(TEXT, TEXT))


def test_the_store_and_the_node_have_a_name_that_can_be_given() -> None:
    topology = program(lambda stream: stream.map_async(ask, named="geocode").to("out"))
    shown = str(topology.describe())
    assert topology.naming_fault() is None
    assert "KSTREAM-MAPASYNC-0000000001-waiting" in (asking().naming_fault() or "")
    assert "Processor: geocode (stores: [geocode-waiting])" in shown
