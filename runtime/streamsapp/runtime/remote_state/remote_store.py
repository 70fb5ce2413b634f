"""The object store of an instance, and whether it is fit to be used.

Made when the instance starts; used on the snapshot threads and on the threads that prepare tasks.
"""

from __future__ import annotations

import threading

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.errors import StateStoreError
from streamsapp.record import TaskId
from streamsapp.remote.bootstraps import BootstrapDone, Bootstraps
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStore


class RemoteStore:
    """One application's part of an object store."""

    def __init__(self, objects: ObjectStore, application_id: str, config: RemoteStateConfig) -> None:
        self.objects = objects
        self.config = config
        self._application_id = application_id
        self._probing = threading.Lock()
        #: True if the object store has shown that it is.
        self.fit = False
        self._bootstrap: BootstrapDone | None = None
        self._looked_for_bootstrap = False

    def chain(self, task_id: TaskId) -> ManifestChain:
        """The snapshots of a task."""
        return ManifestChain(self.objects, self._application_id, task_id)

    def ensure_fit(self) -> None:
        """Return once the object store has shown that it is fit to be used; raises as ``ObjectStore.probe`` does."""
        if self.fit:
            return
        with self._probing:
            if not self.fit:
                self.objects.probe()
                self.fit = True

    def reach(self) -> None:
        """Return once the object store has answered; raises as ``ensure_fit`` and ``ObjectStore.list`` do."""
        if self.fit:
            next(self.objects.list(f"{self._application_id}/reach/"), None)
        else:
            self.ensure_fit()

    def bootstrap(self) -> BootstrapDone | None:
        """The result of the application's bootstrap, if it had one. ``StateStoreError`` if it is not done: some tasks
        would skip history that others have not seen. Looked up once: none begins while there are instances."""
        with self._probing:
            if not self._looked_for_bootstrap:
                newest = Bootstraps(self.objects, self._application_id).newest()
                if newest is not None and not newest.is_done:
                    raise StateStoreError(newest.unfinished(self._application_id))
                self._bootstrap = None if newest is None else newest.done()
                self._looked_for_bootstrap = True
            return self._bootstrap
