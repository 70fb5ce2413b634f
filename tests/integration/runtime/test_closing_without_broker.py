"""The broker is frozen while an instance closes: everything ends within the time for closing all the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instances import Instances, end_offsets, eventually, produce
from kafka_cluster import Kafka
from killable import word_count
from streamsapp import ClientState, StreamsRuntime
from streamsapp.local.broker import EmbeddedBroker

#: Seconds for closing; every one of the waits on the way may take longer by itself.
WITHIN = 5.0


@pytest.fixture
def there(own_broker: EmbeddedBroker, tmp_path: Path) -> Instances:
    return Instances(Kafka(own_broker.bootstrap_servers), tmp_path)


@pytest.fixture
def freeze(own_broker: EmbeddedBroker) -> Iterator[Callable[[], None]]:
    assert own_broker.pid is not None
    pid = own_broker.pid
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def working(there: Instances, guarantee: str) -> StreamsRuntime:
    """An instance that has sent results and not committed them."""
    source, sink = there.kafka.create_topic("words", partitions=2), there.kafka.create_topic("counts", partitions=2)
    eventually(lambda: end_offsets(there.kafka, source) == end_offsets(there.kafka, sink) == 0)
    config = there.config(processing_guarantee=guarantee, commit_interval_ms=600_000)
    instance = there.start(word_count(source, sink), config)
    eventually(lambda: instance.ready()[0])
    produce(there.kafka, source, [(None, b"word%d" % number, 1000) for number in range(1000)])
    eventually(lambda: processed(instance) >= 1000)
    return instance


def processed(instance: StreamsRuntime) -> float:
    return sum(sample.value for sample in instance.samples() if sample.name.endswith("process_total"))


def of_the_instance() -> list[str]:
    """The names of its threads; a request that nobody waits for any more has none of them."""
    named = (thread.name for thread in threading.enumerate() if thread.is_alive())
    return [name for name in named if name.startswith(("app-", "kafka-io"))]


def test_closing_ends_within_its_time_while_the_broker_does_not_answer(
    there: Instances, freeze: Callable[[], None], guarantee: str
) -> None:
    instance = working(there, guarantee)

    freeze()

    assert instance.close(WITHIN)
    assert instance.state is ClientState.NOT_RUNNING
    assert of_the_instance() == []


def test_draining_ends_within_its_time_while_the_broker_does_not_answer(
    there: Instances, freeze: Callable[[], None], guarantee: str
) -> None:
    instance = working(there, guarantee)

    freeze()
    instance.drain(WITHIN)

    assert instance.state is ClientState.NOT_RUNNING
    assert of_the_instance() == []
