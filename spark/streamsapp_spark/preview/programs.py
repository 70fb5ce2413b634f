"""The two programs of a preview, and the state of the one that the other begins with. Pure but for loading code; used
on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.builder import Topology
from streamsapp_spark.preview.start import Start
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.snapshots.database_comparison import compared_stores


@dataclass(frozen=True)
class PreviewedProgram:
    """One of the programs, with the tasks that it has on the topics there are."""

    app: StreamsApp
    folder: Path
    topology: Topology
    config: StreamsConfig
    layout: ApplicationLayout

    @cached_property
    def stages(self) -> Stages:
        return Stages(self.layout)

    @property
    def sources(self) -> set[TopicPartition]:
        """Returns the input partitions that are no internal ones."""
        inputs = {each for plan in self.layout.plans.values() for each in plan.inputs}
        return {each for each in inputs if each.topic not in self.layout.repartition_topics}

    @property
    def shared(self) -> set[TopicPartition]:
        """Returns the partitions of global stores."""
        topics = {each.topic for each in self.topology.global_stores()}
        return {TopicPartition(topic, number) for topic in topics for number in range(self.layout.sources[topic])}

    @property
    def stores(self) -> dict[str, StoreBuilder]:
        return {each.name: each for part in self.stages.parts.values() for each in part.stores}


@dataclass(frozen=True)
class Succession:
    """The part of today's state that tomorrow's program has."""

    today: PreviewedProgram
    tomorrow: PreviewedProgram

    def snapshots(self, start: Start) -> dict[str, tuple[str, int]]:
        """Returns the task and the snapshot that each of tomorrow's tasks begins with. Raises ``ManifestError`` for
        state that lies otherwise today."""
        found: dict[str, tuple[str, int]] = {}
        for number, part in self.tomorrow.stages.parts.items():
            names = {each.name for each in compared_stores(part.stores, None)}
            for task_id in self.tomorrow.stages.tasks(number) if names else ():
                before = self._before(number, names)
                of = None if before is None else TaskId(before, task_id.partition)
                if of is not None and of in start.snapshots:
                    found[str(task_id)] = (str(of), start.snapshots[of])
        return found

    def _before(self, number: int, names: set[str]) -> int | None:
        """Returns today's sub-topology with these stores; ``None`` if all are new."""
        stages = self.today.stages
        found = [part for part, of in stages.parts.items() if names & {each.name for each in of.stores}]
        if len(found) > 1:
            raise ManifestError(
                [f"spec.topology: the stores {', '.join(sorted(names))} are in one sub-topology, and in several today"]
            )
        if found and len(stages.tasks(found[0])) != len(self.tomorrow.stages.tasks(number)):
            has, would = len(stages.tasks(found[0])), len(self.tomorrow.stages.tasks(number))
            moved = f"have {has} tasks today, and {would} here: their keys would have to move"
            raise ManifestError([f"spec.topology: the stores {', '.join(sorted(names))} {moved}"])
        return found[0] if found else None

    def compared(self) -> frozenset[str]:
        """Returns the stores whose entries both programs write in the same form."""
        one, other = self.today.stores, self.tomorrow.stores
        kept = {each.name for each in compared_stores(one.values(), None)}
        kept &= {each.name for each in compared_stores(other.values(), None)}
        return frozenset(name for name in kept if _form(one[name], self.today) == _form(other[name], self.tomorrow))

    def notes(self) -> Iterator[str]:
        """Yields a sentence for each store that is not compared."""
        one, other, compared = self.today.stores, self.tomorrow.stores, self.compared()
        for name in sorted({*one, *other} - compared):
            if name not in other or name not in one:
                yield f"store {name}: only {'today' if name in one else 'tomorrow'}; it is not compared"
            elif _form(one[name], self.today) != _form(other[name], self.tomorrow):
                yield f"store {name}: of another kind, or with other serdes, tomorrow; it is not compared"
            else:
                yield f"store {name}: has no snapshots; it begins empty and is not compared"

    def positions(
        self, start: Start, lows: Mapping[TopicPartition, int], highs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Returns the positions at which tomorrow's tasks begin; topics that are not read today begin as
        ``offset_reset`` says."""
        found = dict(start.positions)
        for plan in self.tomorrow.layout.plans.values():
            for partition, node in plan.inputs.items():
                if partition in lows:
                    new = highs if node.offset_reset == "latest" else lows
                    found.setdefault(partition, (new[partition], ""))
        return found


def _form(store: StoreBuilder, program: PreviewedProgram) -> tuple[str, str, str]:
    key, value = store.key_serde or program.config.default_key_serde, store.value_serde
    return store.type.name, key.name, (value or program.config.default_value_serde).name
