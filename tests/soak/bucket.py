"""Reads the object store of a finished run as a restore reads it; on the driver's main thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from application import FIRST
from local_state import LocalStore, local_stores
from streamsapp.config import RemoteStateConfig
from streamsapp.remote.manifest_chain import chains_of
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.snapshot import MAX_SNAPSHOT_BYTES, Snapshot
from streamsapp.remote.snapshot_fetch import fetch
from verification import Findings, most


class Restored(NamedTuple):
    """The newest snapshot of a task that can be used, and what is in it."""

    snapshot: Snapshot
    stores: list[LocalStore]


class Bucket(NamedTuple):
    """Everything that was found."""

    #: Of each task, all manifests that can be read, oldest first.
    chains: list[list[Snapshot]]
    restored: list[Restored]


def read_bucket(config: RemoteStateConfig, application_id: str, directory: Path) -> Bucket:
    """Restore every task's newest snapshot below ``directory``."""
    chains, newest = [], {}
    for chain in chains_of(open_store(config), application_id):
        chains.append(sorted(chain.valid(chain.numbers()), key=lambda snapshot: snapshot.number))
        folder = directory / application_id / str(chain.task_id)
        found = fetch(chain, folder, lambda _: None, MAX_SNAPSHOT_BYTES)
        if found is not None:
            newest[chain.task_id] = found
    stores: dict[str, list[LocalStore]] = {str(task_id): [] for task_id in newest}
    for store in local_stores(application_id, directory):
        stores[str(store.task)].append(store)
    return Bucket(chains, [Restored(snapshot, stores[snapshot.task]) for snapshot in newest.values()])


def check_chains(chains: Iterable[Sequence[Snapshot]]) -> Findings:
    """One writer at a time: a successor has claimed the task, with a manifest that repeats a snapshot."""
    return most(fault for chain in chains for before, after in pairwise(chain) for fault in _link(before, after))


def _link(before: Snapshot, after: Snapshot) -> Iterator[str]:
    where = f"task {after.task}: snapshot {after.number} of {after.instance} (epoch {after.epoch})"
    follows = f"after {before.number} of {before.instance} (epoch {before.epoch})"
    if after.epoch < before.epoch or (after.epoch == before.epoch) != (after.writer == before.writer):
        yield f"{where} comes {follows}: two writers"
    adjacent = after.number == before.number + 1
    if adjacent and after.epoch not in (before.epoch, after.number):
        yield f"{where} comes {follows} without a claim"
    if adjacent and after.epoch == after.number and (after.files, after.inputs) != (before.files, before.inputs):
        yield f"{where} claims the task {follows}, and does not repeat it"


def check_points(restored: Iterable[Restored], source: str, *, exactly_once: bool) -> Findings:
    """A snapshot holds what its manifest says: stores at their offsets, and what became of its inputs."""
    return most(fault for each in restored for fault in _point_faults(each, source, exactly_once))


def _point_faults(restored: Restored, source: str, exactly_once: bool) -> Iterator[str]:
    snapshot = restored.snapshot
    where = f"snapshot {snapshot.number} of task {snapshot.task}"
    for store in restored.stores:
        point = snapshot.stores.get(store.store)
        if point is None or point.offset != store.position:
            yield f"{where}: its store {store.store} stands at {store.position}, its manifest says {point}"
        if store.store == FIRST:
            counted = sum(each["c"] for each in store.content.values())
            read = sum(each.offset for each in snapshot.inputs if each.topic == source)
            if counted < read or (exactly_once and counted > read):
                yield f"{where}: {counted} records are counted in {FIRST}, {read} were read of {source}"
