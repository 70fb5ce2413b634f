"""The embedded broker against real processes and real clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from instances import eventually, processes_that_name
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.local.broker import EmbeddedBroker


def test_serves_records_to_clients(kafka: Kafka) -> None:
    topic = kafka.create_topic("served", partitions=2)

    kafka.produce(topic, [(b"a", b"1"), (b"b", None), (None, b"")])

    assert {(message.key(), message.value()) for message in kafka.read(topic)} == {
        (b"a", b"1"),
        (b"b", None),
        (None, b""),
    }


def test_does_not_create_topics_nobody_asked_for(kafka: Kafka) -> None:
    topic = kafka.unique("never-created")

    assert kafka.admin.list_topics(topic, timeout=60).topics[topic].error is not None


def test_a_killed_broker_keeps_address_and_records_when_it_is_started_again(own_broker: EmbeddedBroker) -> None:
    kafka = Kafka(own_broker.bootstrap_servers)
    topic = kafka.create_topic()
    kafka.produce(topic, [(None, b"before")])

    own_broker.kill()
    own_broker.start()
    kafka.produce(topic, [(None, b"after")])

    assert own_broker.bootstrap_servers == kafka.bootstrap_servers
    assert [message.value() for message in kafka.read(topic)] == [b"before", b"after"]


@pytest.mark.long
def test_a_restarted_broker_keeps_records(own_broker: EmbeddedBroker) -> None:
    kafka = Kafka(own_broker.bootstrap_servers)
    topic = kafka.create_topic()
    kafka.produce(topic, [(None, b"kept")])
    first = own_broker.pid

    own_broker.restart()

    assert own_broker.pid != first
    assert [message.value() for message in kafka.read(topic)] == [b"kept"]


def test_no_process_is_left_after_stop_and_stopping_again_is_nothing(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, start_timeout=START_TIMEOUT).start()
    pid = broker.pid
    assert pid is not None

    broker.stop()
    broker.stop()

    assert broker.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_process_is_left_when_a_start_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []

    def interrupted(broker: EmbeddedBroker, log_start: int) -> None:
        assert broker.pid is not None
        pids.append(broker.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedBroker, "_wait_until_ready", interrupted)
    broker = EmbeddedBroker(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        broker.start()

    assert broker.pid is None
    assert processes_that_name(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


#: A program that is killed as soon as the broker's process exists, before it knows of it.
KILLED_AT_ONCE = """
import os, signal, subprocess, sys
from streamsapp.local.broker import EmbeddedBroker

class Killed(subprocess.Popen):
    def __init__(self, command, *args, **options):
        super().__init__(command, *args, **options)
        if "kafka.Kafka" in command:
            os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen = Killed
EmbeddedBroker(sys.argv[1]).start()
"""


def test_no_process_is_left_when_the_starter_is_killed_as_the_broker_begins(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    starter = subprocess.run([sys.executable, "-c", KILLED_AT_ONCE, str(folder)], check=False)
    assert starter.returncode == -signal.SIGKILL
    assert (folder / "server.properties").exists(), "it came as far as the broker"
    eventually(lambda: processes_that_name(folder) == [], "the end of the broker")


def test_refuses_to_start_twice(own_broker: EmbeddedBroker) -> None:
    with pytest.raises(StreamsError, match="already runs: stop it before"):
        own_broker.start()


def test_names_the_port_that_is_taken_and_how_to_give_another(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = EmbeddedBroker(tmp_path, port=taken.getsockname()[1])

        with pytest.raises(UserInputError, match=rf"port {broker.port} is taken by another program.*--broker-port"):
            broker.start()

    assert broker.pid is None


def test_names_the_log_when_a_property_is_unusable(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, properties={"num.io.threads": "none"})

    with pytest.raises(StreamsError, match=r"(?s)could not format.*broker\.log.*num\.io\.threads"):
        broker.start()
