"""Applications whose state is bootstrapped, and the same applications run live from the beginning.

Called by the tests of Spark. Commands run in processes of their own: each has a Spark session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from instances import Instances, end_offsets, eventually
from store_entries import entries
from streamsapp import StreamsRuntime, TaskId
from streamsapp.manifest.entrypoint import read_app
from streamsapp.manifest.to_config import to_config
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.runtime.application_layout import lay_out
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores

#: Longer than a session of Spark's on a busy machine.
TIMEOUT = 600.0

#: Two sources that are read as one, a repartition, a table, and a processor whose results depend on the order.
PROGRAM = '''
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()


class Last(Processor):
    """The value before, and this one."""

    def init(self, context):
        self.context, self.store = context, context.get_state_store("last")

    def process(self, record):
        before = self.store.get(record.key)
        self.store.put(record.key, record.value)
        self.context.forward(record.with_value(f"{before}>{record.value}@{self.context.current_stream_time_ms}"))


def topology():
    builder = StreamsBuilder()
    first = builder.stream("{first}", Consumed(TEXT, TEXT))
    second = builder.stream("{second}", Consumed(TEXT, TEXT))
    both = first.merge(second)
    by_value = both.group_by(lambda key, value: value, Grouped(key_serde=TEXT, value_serde=TEXT))
    counts = by_value.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().to("{counts}", Produced(key_serde=TEXT, value_serde=LONG))
    builder.table("{table}", Consumed(TEXT, TEXT), Materialized("table", key_serde=TEXT, value_serde=TEXT))
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("last"), TEXT, TEXT))
    both.process(Last, "last").to("{pairs}", Produced(key_serde=TEXT, value_serde=TEXT))
    return builder.build()
'''


@dataclass
class App:
    """One application id with a manifest of its own."""

    instances: Instances
    name: str
    code: str
    remote_state: Mapping[str, Any] | None = None
    guarantee: str = "exactly_once"
    #: More of ``spec``.
    spec: Mapping[str, Any] = field(default_factory=dict)
    started: list[StreamsRuntime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.objects.mkdir()
        manifest = {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": self.name},
            "spec": {
                "topology": {"entrypoint": f"{self.module}:topology"},
                "kafka": {"bootstrapServers": self.instances.kafka.bootstrap_servers},
                "remoteState": {
                    "snapshotIntervalSeconds": 1,
                    "url": self.objects.as_uri(),
                    **(self.remote_state or {}),
                },
                "processing": {"guarantee": self.guarantee, "commitIntervalMs": 100},
                **self.spec,
            },
        }
        self.manifest.write_text(json.dumps(manifest))
        (self.folder / f"{self.module}.py").write_text(self.code)

    @property
    def module(self) -> str:
        """Python knows a module by its name, and every test has its own."""
        return self.name.replace("-", "_")

    @property
    def folder(self) -> Path:
        return self.instances.directory / self.name

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def manifest(self) -> Path:
        return self.folder / "app.yaml"

    # ---- commands ----------------------------------------------------------------------------------------------

    def command(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """A command of ``streamsapp`` on this application, under way; its name may have two words."""
        name, *options = arguments
        return subprocess.Popen(
            [sys.executable, "-m", "streamsapp.cli.main", *name.split(), "-f", str(self.manifest), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        return finished(self.command(*arguments))

    def bootstrap(self, *options: str, master: str = "local[2]") -> str:
        """A bootstrap that has to go well; returns its last words."""
        code, said, errors = self.run("bootstrap", "--master", master, *options)
        assert code == 0, errors[-6000:]
        return said

    def until(self, offsets: Mapping[str, Mapping[int, int]]) -> str:
        """A file for ``--until``."""
        path = self.folder / "until.json"
        path.write_text(json.dumps({topic: {str(p): at for p, at in of.items()} for topic, of in offsets.items()}))
        return str(path)

    # ---- live --------------------------------------------------------------------------------------------------

    def start(self) -> StreamsRuntime:
        """An instance with an empty disk."""
        app, topology = read_app(self.manifest)
        directory = self.folder / f"state-{len(self.started)}"
        config = to_config(app, state_dir=directory, memory_bytes=256 << 20)
        instance = self.instances.start(topology, config)
        self.started.append(instance)
        return instance

    def processed(self, *topics: str) -> None:
        """Wait until everything in these topics is processed and committed."""

        def holds() -> bool:
            return all(self._lag(topic) == 0 for topic in topics)

        eventually(holds, f"the end of {topics}", TIMEOUT)

    def _lag(self, topic: str) -> int:
        kafka = self.instances.kafka
        committed = kafka.committed(self.name, topic)
        # Transactions of the application itself end with control records, which are committed with the next records.
        transactions = self.guarantee == "exactly_once" and topic.startswith(self.name)
        own = len(kafka.partitions_of(topic)) if transactions else 0
        lag = end_offsets(kafka, topic) - sum(offset for offset, _ in committed.values())
        return 0 if lag <= own else lag

    def read(self, topic: str) -> list[Message]:
        return self.instances.kafka.read(topic)

    # ---- state -------------------------------------------------------------------------------------------------

    def stored(self, number: int = 0) -> dict[str, dict[Any, Any]]:
        """Returns the entries of every store that a closed instance left on its disk."""
        app, topology = read_app(self.manifest)
        config = to_config(app)
        existing = {
            name: len(of.partitions) for name, of in self.instances.kafka.admin.list_topics(timeout=60).topics.items()
        }
        layout, _ = lay_out(topology, config, existing, str)
        found: dict[str, dict[Any, Any]] = {}
        for task_id, plan in layout.plans.items():
            directory = self.folder / f"state-{number}" / self.name / str(task_id)
            if not directory.is_dir():
                continue
            stores = TaskStores(
                task_id,
                directory,
                plan.sub_topology.stores,
                StateResources(32 << 20),
                default_serdes=(config.default_key_serde, config.default_value_serde),
                context_timestamp=lambda: 0,
            )
            stores.open()
            for name, of_task in entries(stores.stores).items():
                found.setdefault(name, {}).update({(task_id, key): value for key, value in of_task})
            stores.close()
        return found

    def chain(self, task: str) -> ManifestChain:
        return ManifestChain(DirectoryStore(self.objects), self.name, TaskId.parse(task))


def finished(process: subprocess.Popen[str], timeout: float = TIMEOUT) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that ends."""
    try:
        said, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        said, errors = process.communicate()
        raise AssertionError(f"it did not end: {errors[-6000:]}") from None
    return process.returncode, said, errors
