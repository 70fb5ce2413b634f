"""Measures how fast the object store is read, for predictions of an instance that never restored anything.

Called on the snapshot threads after a snapshot was published: reads a bounded part of it back, now and then.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from threading import Lock

from streamsapp.clock import Clock
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import Snapshot, SnapshotFile
from streamsapp.remote.transfer_rates import MeasuredRate

log = logging.getLogger(__name__)

#: Bytes that are read at most, and seconds between two samples.
MOST, PERIOD = 8 << 20, 600.0


class DownloadSampler:
    """Takes the samples for all tasks of an instance."""

    def __init__(self, rate: MeasuredRate, directory: Path, clock: Clock) -> None:
        self._rate = rate
        self._directory = directory / "sample.part"
        self._clock = clock
        self._lock = Lock()
        self._due = 0.0

    def sample(self, chain: ManifestChain, snapshot: Snapshot) -> None:
        """Read files of a snapshot if it is time to."""
        if not self._is_due():
            return
        files = _sample_of(snapshot)
        began = self._clock.monotonic()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for file in files:
                chain.objects.download(chain.file_key(file), self._directory / file.name, file.size)
        except (ObjectStoreError, OSError) as error:
            log.info("how fast the object store is read was not measured: %s", error)
        else:
            self._rate.observe(sum(file.size for file in files), self._clock.monotonic() - began)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _is_due(self) -> bool:
        with self._lock:
            now = self._clock.monotonic()
            due = now >= self._due
            if due:
                self._due = now + PERIOD
            return due


def _sample_of(snapshot: Snapshot) -> list[SnapshotFile]:
    """The largest files that fit."""
    chosen, room = [], MOST
    for file in sorted(snapshot.files, key=lambda each: -each.size):
        if file.size <= room:
            chosen.append(file)
            room -= file.size
    return chosen
