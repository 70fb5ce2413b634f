"""The broker is frozen while an instance closes: everything ends within the time for closing all the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from instances import TIMEOUT, Instances, end_offsets, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from killable import word_count
from streamsapp import ClientState, StreamsRuntime
from streamsapp.local.broker import EmbeddedBroker

#: Seconds for closing; every one of the waits on the way may take longer by itself.
WITHIN = 5.0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """It keeps its own registration while it is frozen, so that it serves another try."""
    with EmbeddedBroker(tmp_path / "kafka", start_timeout=START_TIMEOUT) as running:
        yield running


@pytest.fixture
def there(own_broker: EmbeddedBroker, tmp_path: Path) -> Instances:
    return Instances(Kafka(own_broker.bootstrap_servers), tmp_path)


@contextmanager
def frozen(broker: EmbeddedBroker) -> Iterator[None]:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def working(there: Instances, guarantee: str) -> StreamsRuntime:
    """An instance that has sent results and not committed them."""
    source, sink = there.kafka.create_topic("words", partitions=2), there.kafka.create_topic("counts", partitions=2)
    eventually(lambda: end_offsets(there.kafka, source) == end_offsets(there.kafka, sink) == 0)
    longer = {"producer.transaction.timeout.ms": "700000"}
    config = there.config(processing_guarantee=guarantee, commit_interval_ms=600_000, kafka=longer)
    instance = there.start(word_count(source, sink), config)
    eventually(lambda: instance.ready()[0])
    produce(there.kafka, source, [(None, b"word%d" % number, 1000) for number in range(1000)])
    eventually(lambda: processed(instance) >= 1000)
    return instance


def processed(instance: StreamsRuntime) -> float:
    return sum(sample.value for sample in instance.samples() if sample.name.endswith("process_total"))


def of_the_instance(instance: StreamsRuntime) -> list[str]:
    """The names of its threads; a request without a waiting caller has none of them."""
    client = instance.status()["instance"]
    named = (thread.name for thread in threading.enumerate() if thread.is_alive())
    return [name for name in named if name.startswith((f"{client}-", f"kafka-io-{client}-"))]


def ends_in_time(
    there: Instances, broker: EmbeddedBroker, guarantee: str, end: Callable[[StreamsRuntime], object]
) -> bool:
    """Says whether an instance that ``end`` ends within its time does so while the broker is frozen.

    A machine that stands still takes the time that is kept for the instance's own threads: another try has it. A wait
    that is not bounded takes too long every time.
    """
    instance = working(there, guarantee)
    with frozen(broker):
        end(instance)
        # The polling thread says that it is over, as the last thing it does.
        left = [name for name in of_the_instance(instance) if not name.endswith("-polling")]
        in_time = instance.state is ClientState.NOT_RUNNING and left == []
    instance.wait(TIMEOUT)
    eventually(lambda: of_the_instance(instance) == [], "the end of its threads")
    return in_time


def test_closing_ends_within_its_time_while_the_broker_does_not_answer(
    there: Instances, own_broker: EmbeddedBroker, guarantee: str
) -> None:
    assert any(ends_in_time(there, own_broker, guarantee, lambda instance: instance.close(WITHIN)) for _ in range(3))


def test_draining_ends_within_its_time_while_the_broker_does_not_answer(
    there: Instances, own_broker: EmbeddedBroker, guarantee: str
) -> None:
    assert any(ends_in_time(there, own_broker, guarantee, lambda instance: instance.drain(WITHIN)) for _ in range(3))
