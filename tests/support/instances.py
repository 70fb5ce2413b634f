"""Runtime instances of integration tests: in this process, or in one of their own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafka_cluster import Kafka
from streamsapp import Serdes, StreamsConfig, StreamsRuntime, TaskId, Topology
from streamsapp.kafka.retry import repeated
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores

#: Longer than anything takes that works, shorter than pytest waits.
TIMEOUT = 100.0
#: Of instances that are to stay members: longer than a restart takes, or this process stands still.
PATIENT = {"session.timeout.ms": "60000"}

_program_of_a_process = Path(__file__).with_name("killable.py")


def eventually(holds: Callable[[], Any], what: str = "", timeout: float = TIMEOUT) -> None:
    """Wait until ``holds()`` is true; fails with its last answer."""
    give_up = time.monotonic() + timeout
    while not (answer := holds()):
        assert time.monotonic() < give_up, f"{what or 'what was waited for'} did not come: {answer!r}"
        time.sleep(0.1)


def processes_that_name(folder: Path) -> list[bytes]:
    """The command lines of processes that have a folder in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            found += [line for line in [process.read_bytes()] if bytes(folder) in line]
    return found


class Instances:
    """Makes configurations and instances; ``close`` ends the instances that still run."""

    def __init__(self, kafka: Kafka, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory
        self._started: list[StreamsRuntime] = []
        self._processes: list[Process] = []

    def config(self, application_id: str = "", **settings: Any) -> StreamsConfig:
        """A configuration whose application no other test knows, committing often."""
        settings = {
            "application_id": application_id or self.kafka.unique("app"),
            "bootstrap_servers": self.kafka.bootstrap_servers,
            "state_dir": self.directory / "state",
            "commit_interval_ms": 100,
            "memory_bytes": 256 << 20,
            **settings,
        }
        return StreamsConfig(**settings)

    def make(self, topology: Topology, config: StreamsConfig) -> StreamsRuntime:
        """An instance that is closed at the end of the test; the caller may start it."""
        instance = StreamsRuntime(topology, config)
        self._started.append(instance)
        return instance

    def start(self, topology: Topology, config: StreamsConfig) -> StreamsRuntime:
        """A started instance."""
        instance = self.make(topology, config)
        instance.start()
        return instance

    def process(self, program: str, config: StreamsConfig, **arguments: Any) -> Process:
        """An instance in a process of its own, running one of the programs in ``killable.py``."""
        process = Process(program, config, arguments, self.directory / f"{program}-{len(self._processes)}.log")
        self._processes.append(process)
        return process

    def close(self) -> None:
        """End everything."""
        for process in self._processes:
            process.kill()
        for instance in self._started:
            instance.close(20)


class Process:
    """An instance that can be killed as the kernel kills."""

    def __init__(self, program: str, config: StreamsConfig, arguments: dict[str, Any], log: Path) -> None:
        settings = {
            "application_id": config.application_id,
            "bootstrap_servers": config.bootstrap_servers,
            "state_dir": str(config.state_dir),
            "commit_interval_ms": config.commit_interval_ms,
            "memory_bytes": config.memory_bytes,
            "processing_guarantee": config.processing_guarantee,
            "threads": config.threads,
            "standby_replicas": config.standby_replicas,
            "acceptable_recovery_lag": config.acceptable_recovery_lag,
            "client_id": config.client_id,
            "host_id": config.host_id,
            "kafka": dict(config.kafka),
            "dsl_store_format": config.dsl_store_format,
            "scheduling": [asdict(each) for each in config.scheduling],
        }
        if (remote := config.remote_state) is not None:
            settings["remote_state"] = {
                "url": remote.url,
                "endpoint": remote.endpoint,
                "credentials_dir": None if remote.credentials_dir is None else str(remote.credentials_dir),
                "snapshot_interval": remote.snapshot_interval,
                "retain": remote.retain,
                "grace": remote.grace,
            }
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(_program_of_a_process), program, json.dumps(settings), json.dumps(arguments)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONFAULTHANDLER": "1"},
                stdout=output,
                stderr=output,
            )

    def assert_running(self) -> bool:
        """Fails with what the process wrote when it has ended by itself."""
        assert self._process.poll() is None, self.log.read_text()[-4000:]
        return True

    @property
    def was_killed(self) -> bool:
        """Says whether a signal that nothing handles has ended it."""
        return self._process.poll() == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL, in the middle of its work."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGSTOP: it does nothing, and does not know that time goes by."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> int:
        """End in good order; the exit code. A process that does not end logs where its threads are."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(TIMEOUT)
            raise AssertionError(f"it did not end: {self.log.read_text()[-12000:]}") from None


def produce(
    kafka: Kafka,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None, int]],
    headers: list[tuple[str, Any]] | None = None,
    partition: int = -1,
    compression: str = "none",
) -> None:
    """Write ``(key, value, timestamp)`` and wait until the broker has them."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "partitioner": "murmur2_random",
            "message.max.bytes": 4_000_000,
            "compression.type": compression,
            "socket.timeout.ms": 100_000,  # records that are not confirmed until then may be written twice
        }
    )
    refused: list[Any] = []

    def delivered(error: Any, _: Message) -> None:
        if error is not None:
            refused.append(error)

    more: dict[str, Any] = {"partition": partition, "headers": headers or [], "on_delivery": delivered}
    for key, value, timestamp in records:
        producer.produce(topic, value=value, key=key, timestamp=timestamp, **more)
        producer.poll(0)
    assert producer.flush(TIMEOUT) == 0
    assert not refused


def end_offsets(kafka: Kafka, topic: str) -> int:
    """Returns the ends of a topic, summed over its partitions; transaction markers and open transactions count."""
    latest: Callable[[], OffsetSpec] = OffsetSpec.latest
    asked = {TopicPartition(topic, each): latest() for each in kafka.partitions_of(topic)}

    def ask() -> int:
        return sum(future.result().offset for future in kafka.admin.list_offsets(asked).values())

    return repeated(ask, "asking for the topic")


def values_per_key(messages: Iterable[Message]) -> dict[bytes, list[bytes | None]]:
    """Every value of each key, in order."""
    found: dict[bytes, list[bytes | None]] = {}
    for message in messages:
        found.setdefault(message.key() or b"", []).append(message.value())
    return found


def long(raw: bytes | None) -> int:
    """A count as Kafka's long serde writes it."""
    assert raw is not None
    return int.from_bytes(raw, "big", signed=True)


def counts_per_key(messages: Iterable[Message]) -> dict[bytes, list[int]]:
    """Every count of each key, in order."""
    return {key: [long(value) for value in values] for key, values in values_per_key(messages).items()}


def last_counts(messages: Iterable[Message]) -> dict[bytes, int]:
    """The last count of each key: the table that a changelog or a stream of updates stands for."""
    return {key: values[-1] for key, values in counts_per_key(messages).items()}


def _written(key: Any) -> bytes:
    """The bytes that a topic has for a key: text, or a window."""
    if isinstance(key, Windowed):
        return _written(key.key) + key.start_ms.to_bytes(8, "big")
    return key if isinstance(key, bytes) else bytes(key.encode())


def stored_counts(topology: Topology, config: StreamsConfig, store: str) -> dict[bytes, int]:
    """Returns the keys and counts of a store that a closed instance left in its state directory, over all tasks."""
    found: dict[bytes, int] = {}
    for sub_topology in topology.sub_topologies():
        if store not in {builder.name for builder in sub_topology.stores}:
            continue
        for directory in (config.state_dir / config.application_id).glob(f"{sub_topology.id}_*"):
            stores = TaskStores(
                TaskId.parse(directory.name),
                directory,
                sub_topology.stores,
                StateResources(32 << 20),
                default_serdes=(Serdes.bytes(), Serdes.bytes()),
                context_timestamp=lambda: 0,
            )
            stores.open()
            for key, counted in stores.stores[store].all():
                found[_written(key)] = counted.value
            stores.close()
    return found
