"""``StreamsRuntime``: one runtime instance, what a pod runs (Kafka Streams threading proposal).

Made and closed by the application on any of its threads. Its parts are put together in ``components.py``:

    polling        1   clients, commits, life of the tasks        (runtime/polling.py)
    processing     N   user code                                  (runtime/processing.py)
    restoration    1   changelogs into stores                     (runtime/restoration.py)
    snapshot       2   stores to remote state, if it is configured (runtime/remote_state/snapshots.py)
    restore        4   stores from remote state, before the changelogs (runtime/remote_state/restores.py)
    cleanup, metrics, topics: one each                            (runtime/housekeeping.py)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any

from streamsapp.brokers.errors import UnreachableError
from streamsapp.clock import Clock, SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.config.topology_optimization import missing_fault
from streamsapp.errors import ConfigError, StreamsError, UserInputError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import TaskAssignor
from streamsapp.metrics.samples import Sample
from streamsapp.query import KeyQueryMetadata, Queries, Staleness
from streamsapp.query.remote_reader import HttpFetch
from streamsapp.runtime import data_path, status
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.components import Components
from streamsapp.runtime.directory_lock import delete_state
from streamsapp.runtime.extensions import Extensions
from streamsapp.runtime.figures import figures
from streamsapp.runtime.listeners import (
    StandbyUpdateListener,
    StateListener,
    StateRestoreListener,
    UncaughtExceptionHandler,
    UncaughtExceptionResponse,
)
from streamsapp.runtime.query_host import InstanceHost
from streamsapp.runtime.set_aside import ASKED_FOR
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.tasks.fair_scheduler import FairScheduler
from streamsapp.tasks.scheduler import MostBufferedFirst, TaskScheduler
from streamsapp.topology.builder import Topology
from streamsapp.topology.description import TopologyDescription
from streamsapp.topology.naming import check_names
from streamsapp.topology.scheduling import SubTopologyNames, scheduling_fault, shares_of
from streamsapp.web.history import MomentHistory
from streamsapp.web.tokens import peer_proof

log = logging.getLogger(__name__)


class StreamsRuntime(JavaNames):
    """Runs a topology until it is closed or fails for good."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        *,
        clock: Clock | None = None,
        scheduler: TaskScheduler | None = None,
        assignor: TaskAssignor | None = None,
    ) -> None:
        """``scheduler`` chooses among tasks that have work; ``assignor`` decides, when this instance leads the group,
        which instance runs which task (KIP-924)."""
        if not isinstance(topology, Topology):
            raise ConfigError(f"StreamsRuntime runs a Topology, got {type(topology).__name__}{_build(topology)}")
        if not isinstance(config, StreamsConfig):
            raise ConfigError(
                f"StreamsRuntime takes a StreamsConfig, got {type(config).__name__}; make one with StreamsConfig(...), "
                "or StreamsConfig.from_properties({...}) for Kafka Streams' names"
            )
        fault = missing_fault(config.topology_optimization, topology.optimized)
        if fault is not None:
            raise ConfigError(f"topology_optimization: {fault}")
        check_names(topology.naming_fault, config)
        self._topology = topology.with_store_format(config.dsl_store_format)
        self._config = config
        self._clock = clock or SystemClock()
        self._state = StateHolder()
        self._extensions = Extensions(
            self._scheduler(scheduler), assignor or HighAvailabilityTaskAssignor(), _shut_down
        )
        self._components: Components | None = None
        self._lock = threading.RLock()  # a state listener may call back
        #: The figures of the last hour, as the console draws them.
        self.history = MomentHistory(config.client_id)
        fetch = HttpFetch(HTTP_TOKEN_FILE, partial(peer_proof, self._clock))
        #: Interactive queries, as the HTTP port makes them.
        self.queries = Queries(InstanceHost(config, lambda: self._components), self._clock, fetch)

    def _scheduler(self, given: TaskScheduler | None) -> TaskScheduler:
        entries, parts = self._config.scheduling, self._topology.sub_topologies()
        if not entries:
            return given or MostBufferedFirst()
        if given is not None:
            raise ConfigError("scheduling: give StreamsRuntime a scheduler, or the configuration entries, not both")
        fault = scheduling_fault(entries, parts)
        if fault is not None:
            raise ConfigError(f"scheduling[{fault[0]}]: {fault[1]}")
        return FairScheduler(shares_of(entries, parts), self._clock.monotonic)

    # ---- settings, before start --------------------------------------------------------------------------------

    def set_state_listener(self, listener: StateListener) -> None:
        """Sets the function ``listener(new, old)`` that is called at every change of state, on the polling thread."""
        self._state.listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Sets the function that decides about an exception which nothing else handled (KIP-671), on the polling
        thread. By default such an exception ends the instance."""
        self._extensions.uncaught_exception_handler = handler

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Sets the listener that follows how active tasks are restored (KIP-167), on the restoration thread."""
        self._extensions.restore_listener = listener

    def set_standby_update_listener(self, listener: StandbyUpdateListener) -> None:
        """Sets the listener that follows standby and warm-up tasks (KIP-988), on the restoration thread."""
        self._extensions.standby_listener = listener

    def set_member_listener(self, listener: Callable[[str], None]) -> None:
        """Sets the function that is called with each id under which the group counts this instance, on the membership
        thread, and with an empty one when it counts no more. Its id says whom to give to ``take_out`` when the process
        ends without leaving. A static member's is not said: its place is kept for its next process."""
        self._extensions.member_listener = listener

    # ---- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the threads, and returns at once.

        Raises ``ConfigError`` if a client refuses its properties or another instance uses the state directory, and
        ``StreamsError`` if the instance was started before. Any failure afterwards (no broker, no topic) goes to the
        uncaught exception handler; see ``wait``.
        """
        with self._lock:
            if self._state.state is not ClientState.CREATED or self._components is not None:
                raise StreamsError("an instance can be started once; make a new StreamsRuntime to start again")
            log.info("records are read and written by %s", data_path.described(self._config))
            with ExitStack() as clients:
                components = Components(
                    self._topology, self._config, self._clock, self._state, self._extensions, clients, self.history
                )
                components.stores.lock()
                clients.pop_all()  # they stay open: the polling thread closes them at the end
            self._components = components
        components.start()

    def run(self, http_port: int = 8080, *, http_host: str = "127.0.0.1", shutdown_timeout: float = 25.0) -> None:
        """Starts the instance with its HTTP port, and returns when SIGTERM, SIGINT or SIGHUP has closed it. A program
        may do this on its main thread and nothing else.

        The port serves ``/status``, ``/metrics``, ``/state`` and the rest; 0 takes any free one. Other instances reach
        it if ``http_host`` is ``"0.0.0.0"`` and ``application_server`` is set.

        The first signal hands the work over and commits, within ``shutdown_timeout`` seconds; a second one ends the
        process at once, as a crash would. Raises the error that ended the instance otherwise, and ``ValueError`` on any
        thread but the main one.
        """
        # Upwards and late: the program that runs an instance is a thin one, and the same for the command line.
        from streamsapp.cli.foreground import run_with_port

        run_with_port(self, http_host, http_port, self._config.application_server, shutdown_timeout)

    def close(self, timeout: float | timedelta = 60.0, leave_group: bool = True) -> bool:
        """Commits the records that were processed, and ends the instance. Returns whether that was done within
        ``timeout`` seconds.

        ``leave_group`` gives the tasks to the other instances at once, instead of when the session times out. ``drain``
        does so before it ends, and waits until they have them.

        If user code calls it on one of the instance's own threads, it returns ``False`` at once, and the instance ends
        when that code has returned.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        with self._lock:
            if self._components is None:
                self._state.to(ClientState.PENDING_SHUTDOWN)
                return self._state.to(ClientState.NOT_RUNNING) or self._state.state.ended
        if not self._state.state.ending:
            self._state.to(ClientState.PENDING_SHUTDOWN)
        self._components.requests.close(seconds, leave_group=leave_group)
        if threading.current_thread() in self._components.threads:
            return False  # the end waits for this thread
        return self._state.wait_for(lambda state: state.ended, seconds)

    def clean_up(self) -> None:
        """Deletes the local state of the application, before ``start`` or after ``close`` (Kafka Streams' ``cleanUp``):
        the next instance in this directory restores its stores whole. Data in Kafka and remote state stays.

        Raises ``StreamsError`` while the instance runs, and ``ConfigError`` while another one uses the directory.
        """
        with self._lock:
            if self._components is not None and not self._state.state.ended:
                raise StreamsError(
                    f"clean_up deletes the state of a running instance ({self.state.value}); close it first"
                )
            delete_state(self._config.state_dir / self._config.application_id)

    def drain(self, timeout: float | timedelta = 60.0) -> bool:
        """Hands every task over to another instance, each as soon as one has caught up with it, and ends the instance.

        All of it takes at most ``timeout`` seconds, whose last part is kept for the last commit and for closing. Tasks
        are processed until the moment they are handed over. The only instance of an application ends at once.

        Returns whether all tasks were taken over; the others are committed. Raises ``StreamsError`` before the start.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        components = self._started()
        components.requests.drain(seconds)
        self._state.wait_for(lambda state: state.ended, seconds)
        return components.requests.drained

    def snapshot(self, timeout: float | timedelta = 60.0) -> bool:
        """Takes a snapshot of every active task that runs now; a task that is being restored is left out. Returns
        whether remote state had all of them within ``timeout`` seconds.

        Processing goes on meanwhile. Raises ``StreamsError`` without remote state, and before the start.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        remote = self._started().stores.remote
        if remote is None:
            raise StreamsError("there is no remote state to take snapshots to; set remote_state")
        return remote.snapshots.take_all(seconds)

    def take_out(self, member_id: str) -> None:
        """Takes another instance, whose process has ended, out of the group: its tasks go on elsewhere at once, and not
        when its session times out. Kafka's admin client calls it ``removeMembersFromConsumerGroup``.

        The caller knows that the process has ended. A process that lives loses its tasks, and gets some again: that is
        all under exactly once, and at least once both may write for a moment. Raises ``StreamsError`` if the
        coordinator does not do it now, and for this instance's own id.
        """
        try:
            self._started().membership.take_out(member_id)
        except UnreachableError as error:
            raise StreamsError(f"member {member_id} is not taken out of the group: {error}") from error

    def wait(self, timeout: float | None = None) -> BaseException | None:
        """Blocks until the instance has ended, or for ``timeout`` seconds. Returns the error that ended it,
        ``None`` if it was closed or still runs."""
        self._state.wait_for(lambda state: state.ended, timeout)
        return None if self._components is None else self._components.life.error

    def pause(self, sub_topology: int | str | None = None) -> None:
        """Stops processing; membership, restoring and commits go on (KIP-834). With a ``sub_topology``, its number or a
        topic that it reads, only this one stops, until ``resume`` or the instance's next start.

        Raises ``StreamsError`` before the start, and ``UserInputError`` for a sub-topology that there is not.
        """
        components = self._started()
        if sub_topology is None:
            components.requests.pause(paused=True)
        else:
            components.hangs.set_aside.pause(self._number(sub_topology), ASKED_FOR)

    def resume(self, sub_topology: int | str | None = None) -> None:
        """Goes on with processing after ``pause``, or with a sub-topology that was paused or set aside. Raises as
        ``pause`` does."""
        components = self._started()
        if sub_topology is None:
            components.requests.pause(paused=False)
        else:
            components.hangs.set_aside.resume(self._number(sub_topology))

    def _number(self, sub_topology: int | str) -> int:
        names = SubTopologyNames(self._topology.sub_topologies())
        number = names.find(str(sub_topology))
        if number is None:
            raise UserInputError(names.unknown(str(sub_topology)))
        return number

    def __enter__(self) -> StreamsRuntime:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- queries -----------------------------------------------------------------------------------------------

    def query(
        self,
        store: str,
        key: Any = None,
        *,
        from_: Any = None,
        to: Any = None,
        from_time: int | None = None,
        to_time: int | None = None,
        as_of: int | None = None,
        partition: int | None = None,
        stale: Staleness | None = None,
    ) -> Any:
        """Reads a store, here or at the instance that has it.

        With a ``key`` it returns the key's value, as ``KeyValueStore.get`` does; without one, an iterator over keys and
        values with ``from_ <= key <= to``. ``partition`` looks into one partition only.

        A store with windows always gives an iterator, over the windows of these keys, as
        :class:`~streamsapp.serdes.windowed.Windowed`, and their values. ``from_time`` and ``to_time`` bound the
        windows' starts, both inclusive, in milliseconds since 1970.

        A versioned store gives the :class:`~streamsapp.state.kinds.versioned.VersionedRecord` that a key has now, or
        had at the time ``as_of``. With ``from_time`` or ``to_time``, or without a key, it gives an iterator over keys
        and the versions that were valid in that time (KIP-960, KIP-968).

        ``stale`` lets replicas answer too. Raises ``StoreNotAvailableError`` while a task moves: ask again. Do not call
        it on the instance's own threads, as it may wait for another instance.
        """
        info, timed = self.queries.store(store), from_time is not None or to_time is not None
        times = (from_time or 0, MAX_TIMESTAMP if to_time is None else to_time)
        if as_of is not None:
            return self.queries.as_of(store, key, as_of, partition=partition, stale=stale)
        if info.key_of is not None and (timed or key is None):
            return self.queries.versions(store, key, from_, to, times, partition=partition, stale=stale)
        if timed or info.window_of is not None:
            return self.queries.windows(store, key, from_, to, times, partition=partition, stale=stale)
        if key is not None:
            return self.queries.get(store, key, partition=partition, stale=stale)
        return self.queries.range(store, from_, to, partition=partition, stale=stale)

    def query_metadata_for_key(self, store: str, key: Any, key_serde: AnySerde | None = None) -> KeyQueryMetadata:
        """Returns the hosts of the active task and of the standbys that have a key, and the key's partition
        (KIP-535)."""
        return self.queries.key_metadata(store, key, key_serde)

    # ---- looking at it -----------------------------------------------------------------------------------------

    @property
    def state(self) -> ClientState:
        """The state of the instance."""
        return self._state.state

    def tasks(self) -> list[dict[str, Any]]:
        """Returns every task of this instance with role, state, stores and input lag, as in ``/status``."""
        return list(self.status()["tasks"])

    def lags(self) -> dict[str, dict[int, dict[str, int | None]]]:
        """Returns, by store and partition, ``position``, ``endOffset`` and ``lag`` of this instance's copies, in
        offsets; a figure that is not known is ``None`` (KIP-535)."""
        return status.store_lags(self.tasks())

    def status(self) -> dict[str, Any]:
        """Returns the document of ``/status``, as values that JSON has."""
        return status.document(self._config, self._state.state, self._components, self._clock)

    def figures(self, tapped: str | None = None) -> dict[str, Any]:
        """Returns the rates of the nodes, counted from one call to the next. Also returns the records that wait or were
        not processed, and the last records of the node ``tapped``."""
        return figures(self._components, self._clock, tapped)

    def describe(self) -> TopologyDescription:
        """Returns the nodes and stores of the topology, as ``Topology.describe`` does."""
        return self._topology.describe()

    def healthy(self) -> tuple[bool, str]:
        """Returns whether every thread lives and none hangs, and the reason in words."""
        return status.health(self._state.state, self._components, self._config.max_poll_interval_ms / 1000)

    def ready(self) -> tuple[bool, str]:
        """Returns whether the instance has come back, and the reason in words. It has if, since it joined the group, it
        runs the tasks that it was given first and its replicas have caught up once."""
        return status.readiness(self._state.state, self._components)

    def samples(self) -> Iterable[Sample]:
        """Returns a sample of everything that is measured, for ``/metrics``."""
        return status.samples(self._config, self._state.state, self._components, self._clock.now_ms())

    def _started(self) -> Components:
        if self._components is None:
            raise StreamsError("the instance is not started; call start() first")
        return self._components


def _build(given: object) -> str:
    return "; call build() and give what it returns" if hasattr(given, "build") else ""


def _shut_down(error: Exception) -> UncaughtExceptionResponse:
    log.error("uncaught: %s; the instance shuts down", error, exc_info=error.__cause__ or error)
    return UncaughtExceptionResponse.SHUTDOWN_CLIENT
