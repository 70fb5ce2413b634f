"""Tasks that are run in batches, by whichever process is there, beside instances of the same application.

Without an engine: the test orders, and processes are objects with directories of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

import batch_language
from batched_words import Application, applications, grouped, with_snapshots
from instances import TIMEOUT, Instances, eventually, produce
from kafka_cluster import wait_until_seen
from streamsapp import (
    Consumed,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamsBuilder,
    TopicPartition,
    Topology,
)
from streamsapp.errors import FencedError, StateStoreError, TaskCorruptedError, TopicError
from streamsapp.kafka.cluster import Cluster
from streamsapp.runtime.micro_batches import batches as batches_module
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.model import LaneOrder
from streamsapp.runtime.micro_batches.planning import MicroBatchSize
from streamsapp.runtime.micro_batches.process import LaneProcess
from streamsapp.runtime.thread_failure import ThreadFailure

TEXT, LONG = Serdes.string(), Serdes.long()

Make = Callable[..., Application]


@pytest.fixture
def make(instances: Instances) -> Iterator[Make]:
    """Makes an application, whose processes are closed at the end."""
    with applications(instances) as make:
        yield make


@pytest.fixture
def app(make: Make) -> Application:
    return make()


def test_batches_do_what_an_instance_does_and_nothing_when_there_is_nothing_to_do(app: Application) -> None:
    app.produce(200)
    process = app.process()
    assert app.catch_up(process) > 0
    app.check()
    app.produce(100)
    assert app.catch_up(process) > 0
    app.check()
    assert app.catch_up(process) == 0
    assert app.catch_up(app.process()) == 0


def test_instances_and_batches_go_on_where_the_others_have_stopped(app: Application) -> None:
    process = app.process()
    for number in range(2):
        app.produce(100)
        config = replace(app.config, state_dir=app.instances.directory / f"instance-{number}")
        instance = app.instances.start(app.topology(), config)
        eventually(lambda: len(app.kafka.read(app.counts)) == app.produced, "results of the instance")
        assert instance.close()
        # A leave does not wait for long until the coordinator has heard it, and batches commit nothing before.
        eventually(lambda: not app.kafka.members_of(app.config.application_id), "a group without members")
        app.produce(100)
        app.catch_up(process)
        app.check()


def test_who_comes_back_after_others_does_not_go_on_with_old_state(app: Application) -> None:
    processes = app.process(), app.process()
    for _ in range(4):
        app.produce(50)
        app.catch_up(*processes)
    app.check()


def test_an_input_that_has_had_no_record_yet_is_no_obstacle_to_the_next_process(app: Application) -> None:
    app.produce(30, partition=0)
    batches, process = app.batches(), app.process()
    batches.planner.due_at_once(batches.planner.partitions)
    signs_of_life: list[None] = []
    for order in batches.next():
        process.run(order, lambda: signs_of_life.append(None))
    assert signs_of_life
    app.produce(30)
    app.catch_up(app.process())
    app.check()


def lose_offsets(app: Application) -> None:
    """As the broker does a week after the application has stopped."""
    group = app.config.application_id
    app.kafka.admin.delete_consumer_groups([group])[group].result()


def test_where_the_group_has_no_offsets_any_more_tasks_go_on_where_their_snapshot_stands(app: Application) -> None:
    app.topology = lambda: grouped(app)  # type: ignore[method-assign]
    with_snapshots(app).run(LaneOrder(0, (), gives_up=True))
    lose_offsets(app)
    app.produce(60)
    app.catch_up(app.process())
    app.check()


def test_state_beyond_its_snapshot_does_not_count_twice_when_the_group_has_lost_its_offsets(app: Application) -> None:
    app.topology = lambda: grouped(app)  # type: ignore[method-assign]
    process = with_snapshots(app)
    process.run(LaneOrder(0, (), gives_up=True))
    app.produce(60)
    app.catch_up(app.process())
    lose_offsets(app)
    with pytest.raises(StateStoreError, match="would count twice: set the group's offsets"):
        app.catch_up(app.process())
    app.check()


def test_tasks_without_snapshots_do_not_read_everything_again_when_the_group_has_lost_its_offsets(
    app: Application,
) -> None:
    with_snapshots(app).run(LaneOrder(0, (), gives_up=True))
    lose_offsets(app)
    with pytest.raises(TopicError, match=rf"nothing shows how far {app.words}-0, {app.words}-1 were read"):
        app.layout()
    app.check()


class InBackground:
    """Runs a function on a thread of its own, and keeps the exception that ends it."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._errors: list[type[BaseException]] = []
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._errors.append(type(error))

    def raised(self) -> list[type[BaseException]]:
        """The kind of exception, if any, once the function has ended."""
        self._thread.join()
        return self._errors


def test_who_was_given_up_for_lost_and_goes_on_changes_nothing(make: Make) -> None:
    reached, go_on = threading.Event(), threading.Event()
    hanging = threading.local()

    def seen(word: str) -> None:
        if getattr(hanging, "hangs", False):
            reached.set()
            go_on.wait()

    app = make(seen)
    app.produce(100)
    lost, heir = app.process(), app.process()
    order = app.order()

    def run() -> None:
        hanging.hangs = True
        lost.run(order)

    zombie = InBackground(run)
    assert reached.wait(TIMEOUT)
    heir.run(order)
    go_on.set()
    assert zombie.raised() == [FencedError]
    app.catch_up(heir)
    app.check()


def test_a_driver_that_starts_fences_whoever_is_left(make: Make) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def seen(word: str) -> None:
        reached.set()
        go_on.wait()

    app = make(seen)
    app.produce(10)
    left, order = app.process(), app.order()
    running = InBackground(lambda: left.run(order))
    assert reached.wait(TIMEOUT)
    claim = DriverClaim(app.config)
    claim.take()
    assert claim.held()
    go_on.set()
    assert running.raised() == [FencedError]
    app.catch_up(app.process())
    app.check()
    assert claim.held(), "processes of its own have taken nothing from it"
    later = DriverClaim(app.config)
    later.take()
    assert (claim.held(), later.held()) == (False, True)
    claim.close()
    later.close()


def test_while_the_group_has_members_a_batch_commits_nothing(app: Application) -> None:
    app.produce(100)
    process, order = app.process(), app.order()
    app.instances.start(app.topology(), app.config)
    eventually(lambda: len(app.kafka.read(app.counts)) == app.produced, "results of the instance")
    with pytest.raises(FencedError):
        process.run(order)
    app.check()


def test_an_instance_that_starts_in_the_middle_of_a_batch_ends_it(make: Make) -> None:
    reached, go_on = threading.Event(), threading.Event()
    in_batch = threading.local()

    def seen(word: str) -> None:
        if getattr(in_batch, "here", False):
            reached.set()
            go_on.wait()

    app = make(seen)
    app.produce(100)
    process, order = app.process(), app.order()

    def run() -> None:
        in_batch.here = True
        process.run(order)

    batch = InBackground(run)
    assert reached.wait(TIMEOUT)
    app.instances.start(app.topology(), app.config)
    eventually(lambda: len(app.kafka.read(app.counts)) == app.produced, "results of the instance")
    go_on.set()
    assert batch.raised() == [FencedError]
    app.check()


def test_damage_that_another_thread_finds_costs_the_lane_it_is_in_and_no_other(app: Application) -> None:
    app.produce(100)
    process = app.process()
    app.catch_up(process, lanes=2)
    app.produce(100)
    batches = app.batches(lanes=2)
    order = batches.next()[0]
    [other] = process._lanes.keys() - {order.number}
    kept, damaged = process._lanes[order.number], process._lanes[other]
    process._failures.put(ThreadFailure("snapshot", TaskCorruptedError("a bad block"), min(damaged.tasks)))

    process.run(order)

    assert process._lanes == {order.number: kept}
    app.catch_up(process, lanes=2)
    app.check()


def test_state_that_is_found_damaged_in_a_batch_is_wiped_before_the_next_try(make: Make) -> None:
    fails: list[str] = []
    open_then: list[str] = []

    def seen(word: str) -> None:
        if fails:
            open_then.extend(str(task_id) for lane in process._lanes.values() for task_id in lane.tasks)
            raise TaskCorruptedError(fails.pop())

    app = make(seen)
    app.produce(100)
    process = app.process()
    app.catch_up(process)
    app.produce(100)
    databases = list(process._stores.directory.glob("*_*/rocksdb"))
    for database in databases:
        (database / "left").touch()
    fails.append("a bad block")

    app.catch_up(process)

    wiped = {each.parent.name for each in databases if not (each / "left").exists()}
    assert wiped
    assert wiped == {each.parent.name for each in databases} & set(open_then)
    app.check()


@pytest.mark.long
def test_all_of_the_language_has_the_same_results_in_batches_as_without_them(app: Application) -> None:
    names = (*batch_language.INPUTS, *batch_language.RESULTS, *batch_language.LAST_RESULTS)
    topics = {name: app.kafka.create_topic(name, 1) for name in names}
    app.topology = lambda: batch_language.language(topics)  # type: ignore[method-assign]
    app.config = replace(
        app.config, processing_exception_handler="dead_letter", dead_letter_queue_topic=topics["failed"]
    )
    app.size = MicroBatchSize(90, 0)
    records = list(batch_language.records(300))
    one, other = app.process(), app.process()

    def run(some: list[tuple[str, str, str, int]], *processes: LaneProcess) -> None:
        for name in batch_language.INPUTS:
            mine = [(key.encode(), value.encode(), at) for of, key, value, at in some if of == name]
            produce(app.kafka, topics[name], mine)
        assert app.catch_up(*processes) > 2

    run(records[:200], one)
    run(records[200:], other, one)

    def read(name: str) -> list[tuple[str, str]]:
        return [((it.key() or b"").decode(), (it.value() or b"").decode()) for it in app.kafka.read(topics[name])]

    expected = batch_language.expected(topics, app.config, 300)
    assert all(expected.values())
    eventually(lambda: len(read("closed")) >= len(expected["closed"]), "the last results")
    assert batch_language.results(read) == expected


class Greeter(Processor):
    """Sends what the global store has for its key, by the wall clock and not when a record comes."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.names = context.get_state_store("names")
        self.waiting: list[Record] = []
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, self.greet)

    def process(self, record: Record) -> None:
        self.waiting.append(record)

    def greet(self, timestamp: int) -> None:
        for record in self.waiting:
            self.context.forward(record.with_value(self.names.get(record.key).value))
        self.waiting.clear()


def test_what_waits_for_the_clock_is_done_in_a_batch_without_records_and_global_stores_are_read(
    make: Make,
) -> None:
    app = make()
    names = app.kafka.create_topic("names", 1)
    app.kafka.produce(names, [(b"k", b"Ada")])

    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.global_table(names, Consumed(TEXT, TEXT), Materialized("names", key_serde=TEXT, value_serde=TEXT))
        greeted = builder.stream(app.words, Consumed(TEXT, TEXT)).process(Greeter)
        greeted.to(app.counts, Produced(key_serde=TEXT, value_serde=TEXT))
        return builder.build()

    app.topology = topology  # type: ignore[method-assign]
    app.kafka.produce(app.words, [(b"k", b"hello")], partition=0)
    batches, process = app.batches(), app.process()
    orders = batches.next()
    for order in orders:
        batches.report(process.run(order))

    def greeted() -> bool:
        for order in batches.next():
            report = process.run(order)
            assert sum(task.records for task in report.tasks) == 0
            batches.report(report)
        return bool(app.kafka.read(app.counts))

    eventually(greeted, "the greeting")
    assert [(message.key(), message.value()) for message in app.kafka.read(app.counts)] == [(b"k", b"Ada")]


def make_words_anew(app: Application) -> None:
    admin = app.kafka.admin
    admin.delete_topics([app.words])[app.words].result(TIMEOUT)

    def made() -> bool:
        try:
            admin.create_topics([NewTopic(app.words, 2, 1)])[app.words].result(TIMEOUT)
        except KafkaException:  # brokers have not forgotten it yet
            return False
        return True

    eventually(made, "the topic")
    wait_until_seen(admin, app.words, 2)


def test_a_topic_that_was_created_anew_is_read_from_its_beginning(app: Application) -> None:
    app.produce(70)
    app.catch_up(app.process())
    group = app.config.application_id
    committed = app.kafka.committed(group, app.words)

    make_words_anew(app)
    # Brokers delete the offsets of a deleted topic, some time later; a transaction under way can bring them back.
    eventually(lambda: not app.kafka.committed(group, app.words), "offsets of the topic are deleted")
    with closing(Cluster({"bootstrap.servers": app.kafka.bootstrap_servers, "group.id": group})) as cluster:
        cluster.commit({TopicPartition(app.words, each): at for each, at in committed.items()})
    app.produce(70)

    app.catch_up(app.process())
    app.check()
    app.produce(7)
    app.catch_up(app.process())
    app.check()


def test_batches_end_when_a_topic_is_created_anew_while_they_run(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_module, "_COMPARISON_PERIOD", 0.0)
    app.produce(70)
    batches = app.batches()
    make_words_anew(app)

    with pytest.raises(TopicError, match=f"topic {app.words} was deleted and created again"):
        batches.next()
