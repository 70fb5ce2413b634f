"""Puts together the threads and clients of remote state.

Made when an instance starts for which it is configured, on the application's thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.deadline import Deadline
from streamsapp.remote.object_store import unobserved
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.transfer_rates import MeasuredRate, RateLimit
from streamsapp.runtime.instance_context import InstanceContext
from streamsapp.runtime.remote_state.changelog_facts import ChangelogInspector
from streamsapp.runtime.remote_state.download_sampler import DownloadSampler
from streamsapp.runtime.remote_state.priority_thread_pool import PriorityThreadPool
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.runtime.remote_state.restore_time import RestoreRates
from streamsapp.runtime.remote_state.restores import THREADS, Restores
from streamsapp.runtime.remote_state.snapshots import Snapshots
from streamsapp.runtime.remote_state.task_snapshots import SnapshotTaker

#: How long the threads may take to end, in seconds.
_END = 3.0


class RemoteState:
    """The snapshots of an instance's active tasks, and the restores of tasks that come."""

    def __init__(
        self,
        context: InstanceContext,
        remote_config: RemoteStateConfig,
        replay: MeasuredRate,
        directory: Path,
        permitted: Callable[[], bool],
    ) -> None:
        """``directory`` is the one below which tasks have theirs; ``permitted`` says whether tasks may be claimed: not
        when others may have taken them over already. Raises ``ConfigError`` for settings that no object store can be
        made of."""
        config, clock = context.config, context.clock
        remote = RemoteStore(open_store(remote_config), config.application_id, remote_config)
        #: Of all requests of this instance to its object store; read by status and metrics.
        self.requests = remote.objects.figures
        self.rates = RestoreRates(MeasuredRate(), replay)
        self._stopped = threading.Event()
        limit = remote_config.upload_bytes_per_second
        moved = unobserved if limit is None else RateLimit(limit, clock, self._stopped.wait)
        self.restores = Restores(
            PriorityThreadPool(f"{config.client_id}-restore", THREADS, context.failures),
            remote,
            ChangelogInspector(context.admin, clock),
            directory,
            self.rates,
            clock,
            exactly_once=config.exactly_once,
        )
        sampler = DownloadSampler(self.rates.download, directory, clock)
        taker = SnapshotTaker(
            remote, moved, sampler, clock, permitted, self._stopped.is_set, self.restores.damage.objection
        )
        self.snapshots = Snapshots(
            f"{config.client_id}-snapshot", config.client_id, remote, taker, self.restores, context.failures, clock
        )

    @property
    def threads(self) -> list[threading.Thread]:
        """All of them but those that are not needed yet."""
        return [*self.snapshots.threads, *self.restores.workers.threads, *self.restores.early.readers.running]

    def stop(self, deadline: Deadline) -> None:
        """Transfers break off, and the threads return. One that hangs is not waited for: it holds nothing up."""
        self._stopped.set()
        self.snapshots.stop()
        self.restores.workers.stop()
        self.restores.early.readers.stop()
        until = time.monotonic() + deadline.left(_END, part=0.5)
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
