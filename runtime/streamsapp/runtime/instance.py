"""``StreamsRuntime``: one runtime instance, what a pod runs (seed 000).

Made and closed by the application on any of its threads; this module only puts the modules together. Per instance
there is one main consumer, one restore consumer, one producer, one admin client and one membership, and these threads:

    polling        1   clients, commits, life of the tasks        (runtime/polling.py)
    processing     N   user code                                  (runtime/processing.py)
    restoration    1   changelogs into stores                     (runtime/restoration.py)
    cleanup, metrics, topics: one each                            (runtime/housekeeping.py)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import timedelta
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from streamsapp.clock import Clock, SystemClock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.single import SingleMember
from streamsapp.metrics.samples import Sample
from streamsapp.runtime import garbage, status
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.commit import CommitSchedule
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.housekeeping import (
    CLEANUP_PERIOD,
    METRICS_PERIOD,
    TOPICS_PERIOD,
    Cleanup,
    PeriodicThread,
    StoreStatistics,
    TopicWatch,
)
from streamsapp.runtime.input import InputFeeder
from streamsapp.runtime.lifecycle import Lifecycle
from streamsapp.runtime.listeners import (
    StateListener,
    StateRestoreListener,
    UncaughtExceptionHandler,
    UncaughtExceptionResponse,
)
from streamsapp.runtime.polling import PollingThread
from streamsapp.runtime.processing import ProcessingThread
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.tasks_life import TasksLife
from streamsapp.runtime.watch import HangWatch
from streamsapp.state.resources import StateResources
from streamsapp.tasks.scheduler import MostBufferedFirst, TaskScheduler
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

#: What a record waiting to be sent takes in memory, roughly; turns the byte budget into a number of records.
_OUTPUT_RECORD_BYTES = 512
#: Results that may wait for the next transaction.
_TRANSACTION_RECORDS = 50_000
#: How long the threads may take to end after everything was closed, in seconds.
_JOIN = 10.0


class StreamsRuntime:
    """Runs a topology until it is closed or fails for good."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        *,
        clock: Clock | None = None,
        scheduler: TaskScheduler | None = None,
    ) -> None:
        self._topology = topology
        self._config = config
        self._clock = clock or SystemClock()
        self._scheduler = scheduler or MostBufferedFirst()
        self._state = StateHolder()
        self._handler: UncaughtExceptionHandler = _shut_down
        self._restore_listener: StateRestoreListener | None = None
        self._parts: _Parts | None = None
        self._lock = threading.Lock()

    # ---- settings, before start --------------------------------------------------------------------------------

    def set_state_listener(self, listener: StateListener) -> None:
        """Hear of state changes; called on the polling thread."""
        self._state.listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Decide what an exception ends that nothing else handled; the default ends the instance."""
        self._handler = handler

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Follow restoring; called on the restoration thread."""
        self._restore_listener = listener

    # ---- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads and return; ``ConfigError`` when a client refuses its properties.

        What goes wrong afterwards (no broker, no topic) goes to the uncaught exception handler; see ``wait``.
        """
        with self._lock:
            if self._state.state is not ClientState.CREATED or self._parts is not None:
                raise StreamsError("an instance can be started once; make a new StreamsRuntime to start again")
            self._parts = _Parts(self)
        self._parts.start()

    def close(self, timeout: float | timedelta = 60.0) -> bool:
        """Commit what was processed and end; whether that was done within ``timeout`` (seconds)."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if self._parts is None:
            self._state.to(ClientState.PENDING_SHUTDOWN)
            return self._state.to(ClientState.NOT_RUNNING) or self._state.state.ended
        if not self._state.state.ending:
            self._state.to(ClientState.PENDING_SHUTDOWN)
        self._parts.polling.close(seconds)
        if threading.current_thread() is self._parts.polling:
            return False  # called by a listener or handler: ends after it returned
        return self._state.wait_for(lambda state: state.ended, seconds)

    def wait(self, timeout: float | None = None) -> BaseException | None:
        """Block until the instance has ended; what ended it, or ``None`` when it was closed."""
        self._state.wait_for(lambda state: state.ended, timeout)
        return None if self._parts is None else self._parts.life.error

    def pause(self) -> None:
        """Stop processing; membership, restoring and commits go on (KIP-834)."""
        self._started().polling.pause(paused=True)

    def resume(self) -> None:
        """Process again."""
        self._started().polling.pause(paused=False)

    def __enter__(self) -> StreamsRuntime:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- looking at it -----------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """Where the instance stands."""
        return self._state.state

    def tasks(self) -> list[dict[str, Any]]:
        """Every task with role, state, stores and input lag, as in ``/status``."""
        return list(self.status()["tasks"])

    def lags(self) -> dict[str, dict[int, dict[str, int | None]]]:
        """Store to partition to position, end offset and lag; what is not known is ``None``."""
        return status.store_lags(self.tasks())

    def status(self) -> dict[str, Any]:
        """The document of ``/status``."""
        return status.document(self._config, self._state.state, self._parts, self._clock.now_ms())

    def healthy(self) -> tuple[bool, str]:
        """Whether every thread lives and none hangs."""
        return status.health(self._state.state, self._parts, self._config.max_poll_interval_ms / 1000)

    def ready(self) -> tuple[bool, str]:
        """Whether all tasks are being processed."""
        state = self._state.state
        return state is ClientState.RUNNING, f"state is {state.value}"

    def samples(self) -> Iterable[Sample]:
        """Everything that is measured, for ``/metrics``."""
        return status.samples(self._config, self._state.state, self._parts)

    def _started(self) -> _Parts:
        if self._parts is None:
            raise StreamsError("the instance is not started; call start() first")
        return self._parts


class _Parts:
    """The modules and threads of a started instance."""

    def __init__(self, runtime: StreamsRuntime) -> None:
        config, clock, state = runtime._config, runtime._clock, runtime._state
        name = config.client_id
        self.state = state
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.admin = TopicAdmin(client_properties.admin(config))
        self.consumer = PartitionConsumer(client_properties.main_consumer(config))
        self.membership = SingleMember(config.application_id, self.consumer)
        self.tasks = TaskManager(runtime._scheduler)
        self.collector = RecordCollector(_output_capacity(config))
        self.feeder = InputFeeder(self.consumer, self.tasks, config.memory.input_buffers)
        self.restoration = RestorationThread(
            f"{name}-restoration",
            PartitionConsumer(client_properties.restore_consumer(config)),
            self.failures,
            lambda: runtime._restore_listener,
        )
        self.owned = TasksLife(
            config,
            StateResources(
                config.memory.block_cache + config.memory.write_buffers,
                config.memory.write_buffers,
                config.memory.read_cache,
            ),
            self.consumer,
            self.feeder,
            self.tasks,
            self.restoration,
            clock,
        )
        self.life = Lifecycle(
            runtime._topology,
            config,
            self.admin,
            self.membership,
            self.owned,
            self.tasks,
            self.collector,
            state,
            clock,
            lambda: runtime._handler,
        )
        self.watch = HangWatch(self.tasks, self.failures, config.max_poll_interval_ms / 1000)
        self.polling = PollingThread(
            f"{name}-polling",
            self.life,
            self.tasks,
            self.collector,
            self.feeder,
            CommitSchedule(config.commit_interval_ms / 1000, clock, config.memory.uncommitted),
            self.failures,
            self.watch,
            clock,
            self.end,
        )
        self.processing = [
            ProcessingThread(f"{name}-processing-{number}", self.tasks, self.collector, self.failures, clock)
            for number in range(1, config.threads + 1)
        ]
        self.statistics = StoreStatistics(
            lambda: {task_id: task.stores for task_id, task in list(self.owned.all.items())}
        )
        cleanup = Cleanup(self.owned.application_directory, lambda: list(self.owned.all))
        topics = TopicWatch(self.admin, lambda: self.life.layout)
        self.periodic = [
            PeriodicThread(f"{name}-cleanup", CLEANUP_PERIOD, cleanup.run, self.failures),
            PeriodicThread(f"{name}-metrics", METRICS_PERIOD, self.statistics.run, self.failures),
            PeriodicThread(f"{name}-topics", TOPICS_PERIOD, topics.run, self.failures),
        ]

    @property
    def threads(self) -> list[threading.Thread]:
        """All threads of the instance."""
        return [self.polling, self.restoration, *self.processing, *self.periodic]

    def start(self) -> None:
        """Start all threads."""
        garbage.relax()
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        """Called on the polling thread as its last act: stop the others, close the clients, say that it is over."""
        self.tasks.close()
        others: list[ProcessingThread | RestorationThread | PeriodicThread]
        others = [*self.processing, self.restoration, *self.periodic]
        for thread in others:
            thread.stop()
        for thread in others:
            thread.join(_JOIN)
            if thread.is_alive():
                log.error("%s does not end; it is left behind", thread.name)
        self.consumer.close()
        garbage.restore()
        if self.life.error is None:
            self.state.to(ClientState.PENDING_SHUTDOWN)
            self.state.to(ClientState.NOT_RUNNING)
        else:
            self.state.to(ClientState.PENDING_ERROR)
            self.state.to(ClientState.ERROR)


def _output_capacity(config: StreamsConfig) -> int:
    """Under exactly once what tasks send waits for the commit ahead of it, and with it whoever reads the results:
    under full load this bound is what keeps commits short."""
    affordable = max(1000, config.memory.output_buffers // _OUTPUT_RECORD_BYTES)
    return min(affordable, _TRANSACTION_RECORDS) if config.exactly_once else affordable


def _shut_down(error: Exception) -> UncaughtExceptionResponse:
    log.error("uncaught: %s; the instance shuts down (set an uncaught exception handler to decide otherwise)", error)
    return UncaughtExceptionResponse.SHUTDOWN_CLIENT
