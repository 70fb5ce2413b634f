"""The object store of an instance, and whether it is fit to be used.

Made when the instance starts; used on the snapshot threads and on those that prepare tasks.
"""

from __future__ import annotations

import threading

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.record import TaskId
from streamsapp.remote.chain import Chain
from streamsapp.remote.objects import ObjectStore


class RemoteStore:
    """One application's part of an object store."""

    def __init__(self, objects: ObjectStore, application_id: str, config: RemoteStateConfig) -> None:
        self.objects = objects
        self.config = config
        self._application_id = application_id
        self._probing = threading.Lock()
        #: Whether the object store has shown that it is.
        self.fit = False

    def chain(self, task_id: TaskId) -> Chain:
        """The snapshots of a task."""
        return Chain(self.objects, self._application_id, task_id)

    def ensure_fit(self) -> None:
        """Return once the object store has shown that it is fit to be used; raises as ``ObjectStore.probe`` does."""
        if self.fit:
            return
        with self._probing:
            if not self.fit:
                self.objects.probe()
                self.fit = True
