"""Global tables and stores on a real broker: complete before tasks start, kept up to date, restored from disk."""

from __future__ import annotations

import json
import shutil
from functools import partial
from http import HTTPStatus
from typing import Any
from unittest.mock import ANY

from confluent_kafka import Producer

from instances import PATIENT, TIMEOUT, Instances, eventually
from kafka_cluster import Kafka
from streamsapp import (
    ClientState,
    Consumed,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    StreamsBuilder,
    StreamsRuntime,
    Topology,
    UncaughtExceptionResponse,
)
from streamsapp.dsl.options import Produced
from streamsapp.errors import StateStoreError, TopicError
from streamsapp.http.state_routes import StateRoute
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.web.request_routing import HttpRequest

TEXT: Consumed[str, str] = Consumed(Serdes.string(), Serdes.string())
WRITTEN: Produced[str, str] = Produced(Serdes.string(), Serdes.string())


class LookUp(Processor):
    """Replaces a value by what the global table has for it."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._rates = context.get_state_store("rates")

    def process(self, record: Record) -> None:
        found = self._rates.get(record.value)
        self._context.forward(record.with_value("nothing" if found is None else found.value))


def looking_up(rates: str, source: str, sink: str, engine: Any = "rocksdb") -> Topology:
    builder = StreamsBuilder()
    builder.global_table(rates, TEXT, Materialized("rates", store=engine))
    builder.stream(source, TEXT).process(LookUp).to(sink, WRITTEN)
    return builder.build()


class Restored:
    """Remembers how many records restored each store."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def on_restore_start(self, partition: Any, store: str, start: int, end: int) -> None:
        self.totals.setdefault(store, 0)

    def on_batch_restored(self, partition: Any, store: str, end: int, count: int) -> None:
        self.totals[store] += count

    def on_restore_end(self, partition: Any, store: str, total: int) -> None: ...

    def on_restore_suspended(self, partition: Any, store: str, total: int) -> None: ...


def running(instance: StreamsRuntime) -> StreamsRuntime:
    eventually(lambda: instance.state is ClientState.RUNNING)
    return instance


def values(kafka: Kafka, topic: str) -> list[bytes | None]:
    return [message.value() for message in kafka.read(topic)]


def test_every_record_sees_the_whole_table_from_the_first_one_on(
    instances: Instances, kafka: Kafka, guarantee: str
) -> None:
    rates, source, sink = kafka.create_topic("rates", 3), kafka.create_topic("in"), kafka.create_topic("out")
    kafka.produce(rates, [(b"%d" % number, b"rate %d" % number) for number in range(3000)])
    kafka.produce(source, [(b"k", b"%d" % number) for number in range(0, 3000, 100)])

    config = instances.config(processing_guarantee=guarantee, kafka=PATIENT)
    running(instances.start(looking_up(rates, source, sink), config))

    eventually(lambda: len(values(kafka, sink)) == 30)
    assert values(kafka, sink) == [b"rate %d" % number for number in range(0, 3000, 100)]


def test_updates_and_deletions_are_seen_while_the_application_runs(instances: Instances, kafka: Kafka) -> None:
    rates, source, sink = kafka.create_topic("rates", 2), kafka.create_topic("in"), kafka.create_topic("out")
    instance = running(instances.start(looking_up(rates, source, sink), instances.config(kafka=PATIENT)))

    def seen(expected: bytes) -> bool:
        kafka.produce(source, [(b"k", b"eur")])
        return expected in values(kafka, sink)

    kafka.produce(rates, [(b"eur", b"1.1")])
    eventually(lambda: seen(b"1.1"))
    kafka.produce(rates, [(b"eur", None)])
    eventually(lambda: values(kafka, sink)[-1] == b"nothing" if seen(b"nothing") else False)
    assert instance.state is ClientState.RUNNING


def test_every_instance_has_the_whole_table(instances: Instances, kafka: Kafka) -> None:
    rates, source, sink = kafka.create_topic("rates", 4), kafka.create_topic("in", 2), kafka.create_topic("out")
    kafka.produce(rates, [(b"%d" % number, b"v") for number in range(100)])
    topology, application_id = looking_up(rates, source, sink), kafka.unique("app")
    for number in range(2):
        directory = instances.directory / f"state-{number}"
        instance = running(instances.start(topology, instances.config(application_id, state_dir=directory)))
        eventually(partial(followed, instance))
        assert sum(each["position"] for each in global_stores(instance)) == 100


def followed(instance: StreamsRuntime) -> bool:
    return [each["lag"] for each in global_stores(instance)] == [0, 0, 0, 0]


def global_stores(instance: StreamsRuntime) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = instance.status()["globalStores"]
    return found


def test_a_restart_reads_only_what_is_new_unless_the_disk_is_lost(instances: Instances, kafka: Kafka) -> None:
    rates, source, sink = kafka.create_topic("rates"), kafka.create_topic("in"), kafka.create_topic("out")
    kafka.produce(rates, [(b"%d" % number, b"v") for number in range(50)])
    config = instances.config()
    topology = looking_up(rates, source, sink)

    def restored() -> dict[str, int]:
        listener = Restored()
        instance = instances.make(topology, config)
        instance.set_global_state_restore_listener(listener)
        instance.start()
        running(instance).close()
        return listener.totals

    assert restored() == {"rates": 50}
    kafka.produce(rates, [(b"new", b"v")])
    assert restored() == {"rates": 1}
    shutil.rmtree(config.state_dir / config.application_id / "global")
    assert restored() == {"rates": 51}


def test_records_of_an_open_or_aborted_transaction_stay_out_of_the_table(instances: Instances, kafka: Kafka) -> None:
    rates, source, sink = kafka.create_topic("rates"), kafka.create_topic("in"), kafka.create_topic("out")
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": kafka.unique("writer"),
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(rates, key=b"aborted", value=b"v")
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(rates, key=b"open", value=b"v")
    producer.flush()
    kafka.produce(source, [(b"k", b"aborted"), (b"k", b"open")])

    running(instances.start(looking_up(rates, source, sink), instances.config(kafka=PATIENT)))
    eventually(lambda: values(kafka, sink) == [b"nothing", b"nothing"])

    producer.commit_transaction()

    def seen() -> bool:
        kafka.produce(source, [(b"k", b"open")])
        return b"v" in values(kafka, sink)

    eventually(seen)


def test_a_missing_global_topic_is_named(instances: Instances, kafka: Kafka) -> None:
    nowhere = kafka.unique("nowhere")
    source = kafka.create_topic("in")

    error = instances.start(looking_up(nowhere, source, "out"), instances.config()).wait(TIMEOUT)

    assert isinstance(error, TopicError)
    assert nowhere in str(error)


def test_a_topology_of_a_global_table_alone_runs(instances: Instances, kafka: Kafka) -> None:
    rates = kafka.create_topic("rates")
    builder = StreamsBuilder()
    builder.global_table(rates, TEXT)

    instance = running(instances.start(builder.build(), instances.config()))

    assert instance.tasks() == []


class Writing(LookUp):
    def process(self, record: Record) -> None:
        self._rates.put("eur", ("1", 0))


def test_a_task_that_writes_a_global_store_is_told_to_write_the_topic(instances: Instances, kafka: Kafka) -> None:
    rates, source = kafka.create_topic("rates"), kafka.create_topic("in")
    builder = StreamsBuilder()
    builder.global_table(rates, TEXT, Materialized("rates"))
    builder.stream(source, TEXT).process(Writing)
    kafka.produce(source, [(b"k", b"v")])

    error = instances.start(builder.build(), instances.config()).wait(TIMEOUT)

    assert isinstance(error, StateStoreError)
    assert f"global store 'rates' is filled from topic {rates} and read-only elsewhere" in str(error)


def test_a_global_thread_that_fails_cannot_be_replaced(instances: Instances, kafka: Kafka) -> None:
    rates, source, sink = kafka.create_topic("rates"), kafka.create_topic("in"), kafka.create_topic("out")
    builder = StreamsBuilder()
    builder.global_table(rates, Consumed(Serdes.string(), Serdes.long()), Materialized("rates"))
    builder.stream(source, TEXT).to(sink, WRITTEN)
    instance = instances.make(builder.build(), instances.config())
    instance.set_uncaught_exception_handler(lambda error: UncaughtExceptionResponse.REPLACE_THREAD)
    instance.start()
    running(instance)

    kafka.produce(rates, [(b"eur", b"not a long")])

    assert "cannot deserialise" in str(instance.wait(TIMEOUT))
    assert instance.state is ClientState.ERROR


def test_every_instance_is_asked_for_a_global_table_and_answers_from_its_own_copy(
    instances: Instances, kafka: Kafka
) -> None:
    rates, source, sink = (kafka.create_topic(name, partitions=2) for name in ("rates", "in", "out"))
    kafka.produce(rates, [(b"EUR", b"1.1"), (b"USD", b"1"), (b"CHF", b"1.2")])
    application_id = kafka.unique("app")
    running: list[StreamsRuntime] = []
    for number in range(2):
        directory = instances.directory / f"instance-{number}"
        endpoint = f"127.0.0.1:{18000 + number}"  # nothing listens there: no instance asks another
        config = instances.config(application_id, state_dir=directory, application_server=endpoint)
        running.append(instances.start(looking_up(rates, source, sink), config))
    eventually(lambda: all(each.state is ClientState.RUNNING for each in running))
    for instance in running:
        assert instance.query("rates", key="USD") == ValueAndTimestamp("1", ANY)
        assert [key for key, _ in instance.query("rates", from_="D", to="F")] == ["EUR"]
        metadata = instance.query_metadata_for_key("rates", "EUR")
        assert (metadata.active_host, metadata.partition) == (instance.queries.host.endpoint, -1)
        answers = StateRoute(instance.queries)
        one = json.loads(answers(HttpRequest("GET", "/state/rates/EUR")).body)
        assert (one["value"], one["role"], one["lag"]) == ("1.1", "global", 0)
        assert sum(one["positions"].values()) == 3
        every = json.loads(answers(HttpRequest("GET", "/state/rates")).body)
        assert [entry["key"] for entry in every["entries"]] == ["CHF", "EUR", "USD"]
        assert every["role"] == "global"
        assert answers(HttpRequest("GET", "/state/rates/GBP")).status == HTTPStatus.NOT_FOUND
        refused = answers(HttpRequest("GET", "/state/rates/EUR?partition=1"))
        assert (refused.status, b"leave it out" in refused.body) == (HTTPStatus.BAD_REQUEST, True)

    kafka.produce(rates, [(b"EUR", b"2")])

    for instance in running:
        assert_becomes(instance, "2")


def assert_becomes(instance: StreamsRuntime, rate: str) -> None:
    eventually(lambda: instance.query("rates", key="EUR").value == rate, "the new value")
