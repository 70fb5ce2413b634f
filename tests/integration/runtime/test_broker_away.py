"""The broker goes away under load and comes back: nothing is lost, nothing ends."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from instances import Instances, counts_per_key, end_offsets, eventually, last_counts, produce
from kafka_cluster import START_TIMEOUT, Kafka
from killable import word_count
from streamsapp import ClientState, StreamsRuntime
from streamsapp.local.broker import EmbeddedBroker

#: Seconds without a broker: some, and more than a transaction may take, so that the broker has given up on it when it
#: is back.
AWAY, LONG_AWAY = 5.0, 16.0
TRANSACTION_TIMEOUT_MS = "10000"
#: States in which an instance works, whatever the broker does: it may be away for longer than the group waits.
WELL = (ClientState.RUNNING, ClientState.REBALANCING)


def some_words(seed: int, number: int) -> list[bytes]:
    chosen = random.Random(seed)
    return [b"word%d" % chosen.randrange(2000) for _ in range(number)]


class Load:
    """Word counts under one guarantee, and the truth about them."""

    def __init__(self, instances: Instances, guarantee: str) -> None:
        self.kafka, self.guarantee = instances.kafka, guarantee
        self.source = self.kafka.create_topic("words", partitions=2)
        self.sink = self.kafka.create_topic("counts", partitions=2)
        self.config = instances.config(
            threads=2, processing_guarantee=guarantee, kafka={"producer.transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        )
        self.truth: Counter[bytes] = Counter()
        self.instance: StreamsRuntime = instances.start(word_count(self.source, self.sink), self.config)

    def produce(self, words: list[bytes]) -> None:
        self.truth.update(words)
        produce(self.kafka, self.source, [(None, word, 1000) for word in words])

    def await_all(self) -> None:
        def counted() -> bool:
            assert self.instance.state in WELL, self.instance.wait(0)
            if end_offsets(self.kafka, self.sink) < self.truth.total():
                return False  # reading takes longer
            counts = last_counts(self.kafka.read(self.sink))
            # Of each word, and not of all together: at least once may count some of them twice.
            return all(counts.get(word, 0) >= count for word, count in self.truth.items())

        eventually(counted)

    def verify(self) -> None:
        updates = counts_per_key(self.kafka.read(self.sink))
        final = {key: counts[-1] for key, counts in updates.items()}
        assert last_counts(self.kafka.read(f"{self.config.application_id}-counts-changelog")) == final
        if self.guarantee == "exactly_once":
            assert final == self.truth
            assert all(counts == list(range(1, self.truth[key] + 1)) for key, counts in updates.items())
        else:
            assert all(final[key] >= count for key, count in self.truth.items())


def stay_away(load: Load, seconds: float) -> None:
    """Nothing answers for a while, and the instance does not mind."""
    away_until = time.monotonic() + seconds
    while time.monotonic() < away_until:
        assert load.instance.state in WELL
        assert load.instance.healthy()[0]
        threading.Event().wait(1)


def go_on(load: Load) -> None:
    load.produce(some_words(2, 5_000))
    load.await_all()
    assert load.instance.close()
    load.verify()


def test_an_instance_goes_on_when_the_broker_was_stopped_under_load(
    own_broker: EmbeddedBroker, there: Instances
) -> None:
    load = Load(there, "at_least_once")
    load.produce(some_words(1, 12_000))
    eventually(lambda: end_offsets(there.kafka, load.sink) > 1000)

    own_broker.stop()
    stay_away(load, AWAY)
    own_broker.start()

    go_on(load)


@pytest.mark.long
def test_exactly_once_holds_when_the_broker_did_not_answer_for_longer_than_a_transaction_may_take(
    tmp_path: Path,
) -> None:
    """Frozen, not restarted: Kafka 4.3 loses transaction markers of partitions whose only replica restarts.

    ``docs/decisions/0007-hanging-transactions.md`` has the evidence. The broker keeps its own registration meanwhile.
    """
    with EmbeddedBroker(tmp_path / "kafka", start_timeout=START_TIMEOUT) as broker:
        instances = Instances(Kafka(broker.bootstrap_servers), tmp_path)
        load = Load(instances, "exactly_once")
        load.produce(some_words(1, 30_000))
        eventually(lambda: end_offsets(instances.kafka, load.sink) > 1000)

        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            stay_away(load, LONG_AWAY)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

        go_on(load)
        instances.close()
