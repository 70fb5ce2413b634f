"""Applications that do not run, with a manifest, code and snapshots: neither Kafka nor Spark is needed.

Called by the unit tests of the Spark part.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from streamsapp import TaskId
from streamsapp.manifest import load
from streamsapp.remote.snapshot import StorePoint
from streamsapp.remote.snapshot_writer import SnapshotContent, SnapshotWriter
from streamsapp.tasks.assembly import task_stores
from streamsapp.testing import MockClock
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application


@dataclass
class StoredApp:
    """An application whose snapshots are written by the test, in a folder of its own."""

    folder: Path
    code: str

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "objects").mkdir()
        # Python knows a module by its name.
        module = f"stored_{sha256(self.code.encode()).hexdigest()[:16]}"
        manifest = {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "stored"},
            "spec": {
                "topology": {"entrypoint": f"{module}:topology"},
                "code": {"files": {f"{module}.py": self.code}},
                "kafka": {"bootstrapServers": "nobody.invalid:9092"},
                "remoteState": {"url": (self.folder / "objects").as_uri()},
            },
        }
        self.manifest.write_text(json.dumps(manifest))

    @property
    def manifest(self) -> Path:
        return self.folder / "app.yaml"

    @cached_property
    def app(self) -> StoredApplication:
        return stored_application(ManifestPlace.of(load(self.manifest), self.folder))

    def snapshot(self, task: str, at_ms: int, writes: Mapping[str, Sequence[tuple[Any, ...]]]) -> int:
        """Publishes a snapshot with what the one before had and these writes, which are ``put(*write)``; returns its
        number."""
        task_id, directory = TaskId.parse(task), self.folder / f"state-{task}"
        plan = self.app.plan(task_id)
        stores = task_stores(plan, directory, self.app.config, self.app.resources, lambda: 0)
        stores.open()
        stores.restored({}, {})
        for store, entries in writes.items():
            for entry in entries:
                stores.stores[store].put(*entry)
        frozen = stores.freeze()
        list(stores.apply(frozen, {}) if frozen is not None else ())
        stores.checkpoint(directory / "checkpoint")
        families = stores.families
        stores.close()
        points = {name: StorePoint(families[name], *partition, None, 7) for name, partition in plan.changelogs.items()}
        writer = SnapshotWriter(self.app.chain(task_id), "somebody", MockClock(at_ms))
        writer.claim()
        published = writer.publish(directory / "checkpoint", SnapshotContent(points, (), "f" * 16))
        shutil.rmtree(directory / "checkpoint")
        assert published is not None
        return published.number
