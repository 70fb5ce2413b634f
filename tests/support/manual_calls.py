"""Calls of coroutine functions that a test answers itself, in the order that it wants; and a task that makes them.

Called by the unit tests of ``map_async``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from changelog import changelog_records
from streamsapp import StreamsConfig, TaskId, TopicPartition, Topology
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.async_calls import Answer, AsyncFunction, Caller, CallLoop
from streamsapp.record import Headers, InputRecord, RawRecord
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.testing import MockClock


class ManualCaller(Caller):
    """Makes no calls, and notes what it is given."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.made: list[tuple[int, Any, Any]] = []
        self.given: list[Answer] = []
        self.retried = 0
        self.closed = False
        self._told = wake

    def start(self, number: int, key: Any, value: Any) -> None:
        self.made.append((number, key, value))

    @property
    def answered(self) -> bool:
        return bool(self.given)

    def take(self) -> Iterator[Answer]:
        answers, self.given = self.given, []
        yield from answers

    def close(self) -> None:
        self.closed = True

    def answer(self, value: Any, error: Exception | None = None) -> None:
        """Answers the call for a value, with that in capitals."""
        number, key, _ = next(call for call in self.made if call[2] == value)
        self.given.append(Answer(number, f"{key}={value}".upper() if error is None else None, error))
        self._told()


class ManualCalls(CallLoop):
    """Has one caller."""

    def __init__(self) -> None:
        super().__init__(lambda function: None)
        self.made: list[ManualCaller] = []

    def caller(self, function: AsyncFunction, wake: Callable[[], None]) -> Caller:
        self.made.append(ManualCaller(wake))
        return self.made[-1]


class CallingTask:
    """A task of a topology with one ``map_async``, begun with what a changelog has."""

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        changelog: Mapping[bytes, bytes | None] | None = None,
        **settings: Any,
    ) -> None:
        calls = ManualCalls()
        config = StreamsConfig(application_id="app", bootstrap_servers="none:9092", **settings)
        (part,) = topology.sub_topologies()
        (self.store,) = (store.name for store in part.stores)
        plan = TaskPlan(
            id=TaskId(0, 0),
            sub_topology=part,
            inputs={TopicPartition(topic, 0): node for node in part.sources for topic in node.topics},
            changelogs={self.store: TopicPartition("changelog", 0)},
            source_changelogs={},
            topic_name=str,
            partition_count=lambda topic: 1,
        )
        #: The last value of each key.
        self.changelog: dict[bytes, bytes | None] = dict(changelog or {})
        restored: Sequence[InputRecord] = [
            RawRecord("changelog", 0, at, key, value, 0) for at, (key, value) in enumerate(self.changelog.items())
        ]
        assembly = TaskAssembly(config, StateResources(), MockClock(), call_loop=calls)
        self.task: StreamTask = assembly.started(plan, directory, {self.store: restored})
        (self.calls,) = calls.made
        self._offset = 0

    def feed(self, *records: tuple[str | None, str | None]) -> None:
        """Gives the task records, and has it process what it takes."""
        self.give(*records)
        self.run()

    def give(self, *records: tuple[str | None, str | None]) -> None:
        """Puts records into the task's buffer."""
        for key, value in records:
            key_bytes, data = (None if each is None else each.encode() for each in (key, value))
            headers: Headers = [("h", b"%d" % self._offset)]
            record = RawRecord("in", 0, self._offset, key_bytes, data, 10 * self._offset, headers)
            self.task.add_records(TopicPartition("in", 0), [record])
            self._offset += 1

    def run(self) -> None:
        """Does what a processing thread does in its turn."""
        self.task.control.stop = False
        self.task.deliver()
        while self.task.wait_ms(0) == 0 and not self.task.control.stop:
            self.task.process(self.task.control, 100)

    def sent(self) -> list[OutputRecord]:
        """Returns what was written since the last call, after what has come was delivered."""
        self.run()
        return self.task.take_output()

    def values(self) -> list[str]:
        """Returns the values of it."""
        return [(value or b"").decode() for _, value, *_ in self.sent()]

    def commit(self) -> list[bytes | None]:
        """Commits, and returns the keys of the records that the changelog gets."""
        epoch = self.task.freeze()
        if epoch is None or epoch.frozen is None:
            return []
        records = list(changelog_records(epoch.frozen))
        for _ in self.task.stores.apply(epoch.frozen, {}):
            pass
        for _, key, value, _ in records:
            assert key is not None
            self.changelog[key] = value
        return [key for _, key, _, _ in records]

    def restarted(self, topology: Topology, directory: Path) -> CallingTask:
        """A task that goes on from the changelog, after a crash of this one."""
        self.close()
        return CallingTask(topology, directory, self.changelog)

    def close(self) -> None:
        self.task.close_user_code()
        self.task.stores.close()
