"""A start reports all that keeps an application from working, and an exception in user code with its line."""

from __future__ import annotations

import logging

import pytest

from instances import Instances, produce
from kafka_cluster import Kafka
from streamsapp import Consumed, Produced, Serdes, StreamsBuilder
from streamsapp.errors import ConfigError, ProcessingError, TopicError

TEXT = Serdes.string()


def test_a_sink_and_a_dead_letter_topic_that_do_not_exist_are_told_at_once(kafka: Kafka, instances: Instances) -> None:
    builder = StreamsBuilder()
    builder.stream(kafka.create_topic("in"), Consumed(TEXT, TEXT)).to("nowhere", Produced(TEXT, TEXT))

    runtime = instances.start(builder.build(), instances.config(dead_letter_queue_topic="no-letters"))

    error = runtime.wait()
    assert isinstance(error, TopicError)
    assert "topic no-letters does not exist: create it before the application starts, dead_letter_queue" in str(error)
    assert "topic nowhere does not exist: create it before the application starts, sink KSTREAM-SINK" in str(error)
    assert f"(added at {__file__}:" in str(error)


def upset(value: str) -> str:
    raise ValueError(f"cannot bear {value}")


def test_an_exception_in_user_code_is_told_with_its_line_and_logged_with_its_traceback(
    kafka: Kafka, instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    source = kafka.create_topic("in")
    builder = StreamsBuilder()
    builder.stream(source, Consumed(TEXT, TEXT)).map_values(upset).to(kafka.create_topic("out"), Produced(TEXT, TEXT))
    produce(kafka, source, [(b"k", b"noise", 1)])

    with caplog.at_level(logging.ERROR):
        error = instances.start(builder.build(), instances.config()).wait()

    line = upset.__code__.co_firstlineno + 1
    assert isinstance(error, ProcessingError)
    assert f"record {source}-0@0: cannot bear noise ({__file__}:{line})" in str(error)
    (told,) = [record for record in caplog.records if record.getMessage().startswith("uncaught: ")]
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], ValueError)


@pytest.mark.parametrize("others", [{}, {"producer.socket.keepalive.enable": "true"}], ids=["batches", "librdkafka"])
def test_a_transaction_that_may_live_longer_than_the_broker_allows_is_told_with_the_remedy(
    kafka: Kafka, instances: Instances, others: dict[str, str]
) -> None:
    builder = StreamsBuilder()
    builder.stream(kafka.create_topic("in"), Consumed(TEXT, TEXT)).to(kafka.create_topic("out"), Produced(TEXT, TEXT))
    longer = {"producer.transaction.timeout.ms": "900001"} | others

    error = instances.start(builder.build(), instances.config(kafka=longer)).wait(60)

    assert isinstance(error, ConfigError)
    assert "producer.transaction.timeout.ms': the broker does not allow 900001; set it to no more than" in str(error)


def test_a_session_that_the_broker_does_not_allow_is_told_with_the_remedy(kafka: Kafka, instances: Instances) -> None:
    builder = StreamsBuilder()
    builder.stream(kafka.create_topic("in"), Consumed(TEXT, TEXT)).to(kafka.create_topic("out"), Produced(TEXT, TEXT))

    error = instances.start(builder.build(), instances.config(kafka={"session.timeout.ms": "1900000"})).wait(60)

    assert isinstance(error, ConfigError)
    assert "session.timeout.ms: the broker does not allow 1900000; choose one between its group.min" in str(error)
