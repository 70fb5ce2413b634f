"""The parts of an instance that keep state: memory, directory, the threads that fill stores, the object store.

Made by ``components`` when the instance starts, on the application's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from streamsapp.config import client_properties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.remote.transfer_rates import MeasuredRate
from streamsapp.runtime.directory_lock import DirectoryLock
from streamsapp.runtime.directory_preparation import NOTHING_TO_PREPARE
from streamsapp.runtime.global_stores.letters import GlobalLetters
from streamsapp.runtime.global_stores.reading import GlobalReading
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.global_stores.thread import FlushSchedule, GlobalThread
from streamsapp.runtime.instance_context import InstanceContext
from streamsapp.runtime.remote_state.components import RemoteState
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.restore_consumer import RestoreConsumer
from streamsapp.runtime.restore_events import RestoreEvents
from streamsapp.state.api import Engine
from streamsapp.state.engine.resources import StateResources
from streamsapp.topology.builder import Topology


class StateComponents:
    """The state manager (Kafka Streams threading proposal), put together."""

    def __init__(
        self,
        topology: Topology,
        context: InstanceContext,
        permitted: Callable[[], bool],
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        """``permitted`` says whether this instance is certainly a member of its group; ``on_restored`` is called on the
        restoration thread when it hands a task back."""
        config, clock, extensions = context.config, context.clock, context.extensions
        self.directory = config.state_dir / config.application_id
        self._uses_disk = _uses_disk(topology)
        self._lock: DirectoryLock | None = None
        self.resources = StateResources(
            config.memory.block_cache + config.memory.write_buffers,
            config.memory.write_buffers,
            config.memory.read_cache,
            config.memory.uncommitted,
        )
        replay = MeasuredRate()
        self.remote = (
            None
            if config.remote_state is None
            else RemoteState(context, config.remote_state, replay, self.directory, permitted)
        )
        consumer = PartitionConsumer(client_properties.restore_consumer(config), context.closing.remote, Wakeup())
        context.clients.callback(consumer.close)
        events = RestoreEvents(consumer, lambda: extensions.restore_listener, lambda: extensions.standby_listener)
        self.restoration = RestorationThread(
            f"{config.client_id}-restoration",
            RestoreConsumer(consumer, context.admin, events, clock),
            context.failures,
            clock,
            NOTHING_TO_PREPARE if self.remote is None else self.remote.restores,
            replay,
            on_restored,
        )
        self.global_thread = self._global_thread(topology, context)

    def _global_thread(self, topology: Topology, context: InstanceContext) -> GlobalThread | None:
        config, clock = context.config, context.clock
        stores = topology.global_stores()
        if not stores:
            return None
        letters = GlobalLetters(config, context.admin)
        context.clients.callback(letters.close)
        task = GlobalTask(stores, config, clock, self.resources, self.directory, letters)
        consumer = PartitionConsumer(client_properties.global_consumer(config), context.closing.remote)
        context.clients.callback(consumer.close)
        thread = GlobalThread(
            f"{config.client_id}-global",
            task,
            GlobalReading(task, consumer, context.admin, clock),
            FlushSchedule(config.commit_interval_ms / 1000, clock),
            context.failures,
            lambda: context.extensions.restore_listener,
        )
        letters.stopping = thread.is_stopping
        return thread

    @property
    def threads(self) -> list[threading.Thread]:
        """All threads that fill stores or copy them."""
        remote = [] if self.remote is None else self.remote.threads
        return [self.restoration, *([] if self.global_thread is None else [self.global_thread]), *remote]

    @property
    def locked_directory(self) -> Path | None:
        """The directory that no other process uses from ``lock`` on; ``None`` if nothing is kept on disk."""
        return self.directory if self._uses_disk else None

    def lock(self) -> None:
        """Lock the directory, before any thread starts. Raises ``ConfigError`` if another process uses it."""
        if self._uses_disk:
            self._lock = DirectoryLock(self.directory)

    def release(self) -> None:
        """Give the directory up, now that every store is closed."""
        if self._lock is not None:
            self._lock.release()


def _uses_disk(topology: Topology) -> bool:
    parts = topology.sub_topologies()
    builders = [store for part in parts for store in part.stores]
    builders += [each.store for each in topology.global_stores()]
    return any(builder.engine is Engine.ROCKSDB for builder in builders)
