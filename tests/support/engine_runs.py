"""One program as an application of its own, run by pods or by Spark, which may be killed at any moment.

Called by the tests that compare engines. Pods and drivers are processes of their own.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Message

from engine_programs import PARTITIONS, EngineProgram, Row, Same
from instances import Instances, end_offsets, eventually, produce
from spark_apps import App
from streamsapp.runtime.client_state import ClientState
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import ValueAndTimestamp

#: Longer than a driver takes to start on a busy machine, and what it does then.
_PATIENCE = 600.0
#: Longer than the time between two looks at what waits until windows close, as it is in Kafka Streams, in seconds.
_EMIT_INTERVAL = 1.1

Outcome = dict[str, Any]


class EngineRun:
    """An application with its own topics."""

    def __init__(self, instances: Instances, name: str, program: EngineProgram, partitions: int = PARTITIONS) -> None:
        self._partitions = partitions
        self.kafka = instances.kafka
        self.program = program
        names = [*program.inputs, *program.results, "failed"]
        self.topics = {each: self.kafka.create_topic(f"{name}-{each}", partitions) for each in names}
        errors = {"processing": "dead_letter", "deadLetterTopic": self.topics["failed"]}
        self.app = App(instances, self.kafka.unique(name), self.code(program.code), spec={"errors": errors})
        self._left = {each: list(rows) for each, rows in program.inputs.items()}
        self._processes: list[subprocess.Popen[bytes]] = []
        for each in program.first:
            self._feed(each, len(self._left[each]))

    def code(self, of: str) -> str:
        """Code with the names of the topics."""
        for each, topic in self.topics.items():
            of = of.replace(f"<{each}>", topic)
        return of

    # ---- input -------------------------------------------------------------------------------------------------

    def feed(self, share: float = 1.0) -> None:
        """A share of every input's records that are left."""
        for each, rows in self._left.items():
            self._feed(each, round(len(rows) * share))

    def _feed(self, name: str, count: int) -> None:
        rows, self._left[name] = self._left[name][:count], self._left[name][count:]
        produce(self.kafka, self.topics[name], map(_raw, rows))

    def end_inputs(self) -> None:
        """Windows close. Before that, everything has to be processed: which of two topics ends first is not said."""
        time.sleep(_EMIT_INTERVAL)
        for each in self.program.ended:
            for partition in range(self._partitions):
                last = _raw((self._last_key(partition), "end0", self.program.end_ms))
                produce(self.kafka, self.topics[each], [last], partition=partition)

    def _last_key(self, partition: int) -> str:
        """A key that belongs there: where streams are merged, the repartitioned ones have it there, too."""
        keys = (f"end{number}" for number in itertools.count())
        return next(key for key in keys if partition_for(key.encode(), self._partitions) == partition)

    # ---- engines -----------------------------------------------------------------------------------------------

    def _manifest(self, spark: dict[str, Any] | None = None) -> Path:
        """The application's manifest, for pods or for Spark."""
        manifest = json.loads(self.app.manifest.read_text())
        if spark is not None:
            manifest["spec"] |= {"engine": "spark", "spark": {**spark, "conf": {"spark.ui.enabled": "false"}}}
        path = self.app.folder / ("pods.yaml" if spark is None else "spark.yaml")
        path.write_text(json.dumps(manifest))
        return path

    def _start(self, manifest: Path, state: str, *options: str) -> subprocess.Popen[bytes]:
        """A pod or a driver with a disk of that name."""
        arguments = ["-f", str(manifest), "--http-port", "0", "--state-dir", str(self.app.folder / state), *options]
        arguments += ["--shutdown-timeout", f"{_PATIENCE:.0f}"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamsapp.cli.main", "run", *arguments], stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    @property
    def log(self) -> Path:
        return self.app.folder / "log"

    def told(self) -> str:
        return f"{self.log}: {self.log.read_text(errors='replace')[-6000:]}"

    def close(self) -> None:
        for each in self._processes:
            each.kill()
            each.wait()

    def driver(self, records: int, trigger: str = "100ms") -> subprocess.Popen[bytes]:
        """A driver whose batches have so many records at most."""
        return self._start(self._manifest({"trigger": trigger, "maxRecordsPerBatch": records}), "spark", *_LOCAL)

    def pod(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(self._manifest(), f"pod-{number}")

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """In good order; by the signal itself where it does not catch it yet."""
        allowed = {0} if _catches(process, signal.SIGTERM) else {0, -signal.SIGTERM}
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE) in allowed, self.told()

    def catch_up(self, records: int) -> None:
        """A query that ends when it has caught up."""
        spark = {"trigger": "availableNow", "maxRecordsPerBatch": records}
        driver = self._start(self._manifest(spark), "spark", *_LOCAL)
        assert driver.wait(_PATIENCE) == 0, self.told()

    def catches_up_with_nothing(self) -> None:
        """A run that has nothing left to read writes nothing."""
        before = self._written()
        self.catch_up(1_000)
        assert self._written() == before

    def _written(self) -> dict[str, int]:
        return {topic: end_offsets(self.kafka, topic) for topic in [*self._internal(), *self.topics.values()]}

    def worked_on(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until it has committed something."""
        before = self._committed()
        self.until(process, lambda: self._committed() != before, "a commit")

    def until_caught_up(self, process: subprocess.Popen[bytes]) -> None:
        self.until(process, self.caught_up, "the end")

    def until(self, process: subprocess.Popen[bytes], holds: Callable[[], bool], what: str) -> None:
        """Wait for something that comes while a process runs."""

        def goes_on() -> bool:
            assert process.poll() is None, self.told()
            return holds()

        eventually(goes_on, f"{what} of {self.app.name}, {self.log}", _PATIENCE)

    def _committed(self) -> dict[str, dict[int, tuple[int, str]]]:
        return {each: self.kafka.committed(self.app.name, self.topics[each]) for each in self.program.read}

    # ---- outcome -----------------------------------------------------------------------------------------------

    def caught_up(self) -> bool:
        """Says whether everything is processed, which makes nothing new."""
        before = self._ends()
        return all(self._is_read(topic) for topic in before) and self._ends() == before

    def _ends(self) -> dict[str, int]:
        """Of the topics that tasks read."""
        internal = [each for each in self._internal() if not each.endswith("-changelog")]
        read = [self.topics[each] for each in self.program.read]
        return {topic: end_offsets(self.kafka, topic) for topic in [*internal, *read]}

    def _internal(self) -> list[str]:
        """The topics that the application made."""
        names = self.kafka.admin.list_topics(timeout=30).topics
        return [each for each in names if each.startswith(f"{self.app.name}-")]

    def _is_read(self, topic: str) -> bool:
        committed = self.kafka.committed(self.app.name, topic)
        last = {message.partition(): message.offset() for message in self.kafka.read(topic)}
        return all(each in committed and committed[each][0] > (at or 0) for each, at in last.items())

    def outcome(self) -> Outcome:
        """Results, and stores as an instance with an empty disk restores them, as far as they have to agree."""
        instance = self.app.start()
        eventually(lambda: instance.state is ClientState.RUNNING, f"{self.app.name} restores", _PATIENCE)
        eventually(self.caught_up, f"{self.app.name} is at the end", _PATIENCE)
        assert instance.close(60)
        found = {name: _results(self.app.read(self.topics[name]), same) for name, same in self.program.results.items()}
        found["failed"] = Counter((message.key(), message.value()) for message in self.app.read(self.topics["failed"]))
        stored = self.app.stored(len(self.app.started) - 1)
        return found | {name: _entries(stored.get(name, {}), same) for name, same in self.program.stores.items()}


_LOCAL = ("--master", "local[2]")


def _catches(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def kill_a_worker(driver: subprocess.Popen[bytes], random: Random) -> bool:
    """Kill a Python worker of Spark's; ``False`` if there is none at the moment."""
    children = _children()
    workers = [
        worker
        for java in _below(driver.pid, children)
        for worker in children.get(java, ())
        if b"pyspark.daemon" in _command(java) and b"pyspark.daemon" in _command(worker)
    ]
    if not workers:
        return False
    with suppress(ProcessLookupError):
        os.kill(random.choice(workers), signal.SIGKILL)
    return True


def _below(pid: int, children: dict[int, list[int]]) -> list[int]:
    return [each for child in children.get(pid, ()) for each in (child, *_below(child, children))]


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(stat.parent.name))
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _raw(row: Row) -> tuple[bytes, bytes | None, int]:
    key, value, at = row
    return key.encode(), None if value is None else value.encode(), at


def _results(messages: list[Message], same: Same) -> Any:
    if same is Same.ALL:
        return Counter((each.key(), each.value(), each.timestamp()[1]) for each in messages)
    found: dict[Any, list[Any]] = {}
    for each in messages:
        found.setdefault(each.key(), []).append((each.value(), each.timestamp()[1]))
    if same is Same.IN_ORDER:
        return found
    # A row that came and went, and the sum of nothing, may never have been.
    return {key: values[-1][0] for key, values in found.items() if values[-1][0] not in (None, bytes(8))}


def _entries(stored: dict[Any, Any], same: Same) -> dict[Any, Any]:
    if same is Same.IN_ORDER:
        return stored
    values = {key: entry.value if isinstance(entry, ValueAndTimestamp) else entry for key, entry in stored.items()}
    return {key: value for key, value in values.items() if value}
