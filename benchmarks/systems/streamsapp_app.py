"""Runs one workload on streamsapp until the last record is processed, flushed and committed.

Started by ``run.py``. Progress is read from the status document ten times a second, so the topologies hold nothing
but the work itself; the first mark comes when the instance begins to run, a little before its first record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.systems.job import Job, mark, mark_closed
from benchmarks.systems.streamsapp_in_time import count_sessions, count_windows, join_foreign, join_streams, join_table
from benchmarks.systems.streamsapp_nexmark import QUERIES, SHAPES
from benchmarks.topics import Topics
from benchmarks.workloads import WORDS_PER_LINE
from rocksdict import AccessType, Options, Rdict

from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntime,
    TopicPartition,
    Topology,
)
from streamsapp.config import RemoteStateConfig
from streamsapp.native import take_large_arenas
from streamsapp.remote.manifest_chain import ManifestChain, chains_of
from streamsapp.remote.object_store_factory import open_store

#: The JVM gets this much as heap.
MEMORY_BYTES = 2 << 30
POLL_SECONDS = 0.1
#: Between two sub-topologies records are on their way: the lag has to stay zero for so many looks.
SETTLED_LOOKS = 5
CLOSE_SECONDS = 300.0
#: Between the snapshots of a task while it works, and where the runs shall not take any.
STEADY_SECONDS, NEVER_SECONDS = 10.0, 86_400.0
#: Queries whose input is read by two sub-topologies.
TWO_READERS = ("nexmark-q3", "nexmark-q8")
#: The column family of the task itself; every other column family is a store.
METADATA_FAMILY = "default"


class Idle(Processor):
    """Ties the store to a source, as a restored store needs a task."""

    def process(self, record: Record) -> None:
        """The source is empty."""


class RestoreMarks:
    """Counts restored records and marks the first, the middle and the last."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._count = 0
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._count >= self._target

    def on_restore_start(self, partition: TopicPartition, store: str, begin: int, end: int) -> None:
        if not self._begun:
            self._begun = True
            mark("FIRST")

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, restored: int) -> None:
        half = self._target // 2
        if self._count < half <= self._count + restored:
            mark("HALF", self._count + restored)
        self._count += restored
        if self.complete:
            mark("LAST", self._count)

    def on_restore_end(self, partition: TopicPartition, store: str, total: int) -> None:
        """Counted by batch."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, total: int) -> None:
        """One instance keeps its tasks."""


def double_amount(event: dict[str, Any]) -> dict[str, Any]:
    event["amount"] *= 2
    return event


def map_strings(builder: StreamsBuilder, job: Job) -> None:
    (
        builder.stream(job.input, Consumed(Serdes.bytes(), Serdes.string()))
        .filter(lambda key, value: not value.startswith("click9", 9))
        .map_values(str.upper)
        .to(job.output, Produced(Serdes.bytes(), Serdes.string()))
    )


def map_json(builder: StreamsBuilder, job: Job) -> None:
    (
        builder.stream(job.input, Consumed(Serdes.bytes(), Serdes.json()))
        .filter(lambda key, event: event["type"] != "click9")
        .map_values(double_amount)
        .to(job.output, Produced(Serdes.bytes(), Serdes.json()))
    )


def count_words(builder: StreamsBuilder, job: Job) -> None:
    grouped = Grouped(Serdes.string(), Serdes.string(), name="words", combine=job.variant == "combine")
    (
        builder.stream(job.input, Consumed(Serdes.bytes(), Serdes.string()))
        .flat_map_values(lambda line: line.split(" "))
        .group_by(lambda key, word: word, grouped)
        .count(Materialized("counts"))
        .to_stream()
        .to(job.output, Produced(Serdes.string(), Serdes.long()))
    )


def count_keys(builder: StreamsBuilder, job: Job) -> None:
    held_back = job.variant in ("emit-commit", "eos-commit")
    counts: Materialized[bytes, int] = Materialized("counts", emit="commit" if held_back else "update")
    (
        builder.stream(job.input, Consumed(Serdes.bytes(), Serdes.bytes()))
        .group_by_key(Grouped(Serdes.bytes(), Serdes.bytes()))
        .count(counts)
        .to_stream()
        .to(job.output, Produced(Serdes.bytes(), Serdes.long()))
    )


def keep_store(builder: StreamsBuilder, job: Job) -> None:
    supplier = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(supplier, Serdes.bytes(), Serdes.bytes()))
    builder.stream(job.input, Consumed(Serdes.bytes(), Serdes.bytes())).process(Idle, "store")


WORKLOADS: dict[str, Callable[[StreamsBuilder, Job], None]] = {
    "w1-string": map_strings,
    "w1-json": map_json,
    "w2": count_words,
    "w3": count_keys,
    "steady": count_keys,
    "w5-tumbling-1k": count_windows,
    "w5-tumbling-500k": count_windows,
    "w5-hopping-1k": count_windows,
    "w5-hopping-500k": count_windows,
    "w6": join_streams,
    "w7": join_table,
    "w8": count_sessions,
    "w9": join_foreign,
    "w4": keep_store,
    "restore": keep_store,
    "snapshot": keep_store,
    **QUERIES,
    **SHAPES,
}


def topology(job: Job) -> Topology:
    builder = StreamsBuilder()
    WORKLOADS[job.workload](builder, job)
    return builder.build()


def input_lag(status: dict[str, Any]) -> int | None:
    """Records that are still to be processed; ``None`` until the end of every partition is known."""
    lags = [task["inputLag"] for task in status["tasks"]]
    return None if not lags or None in lags else sum(lags)


def process(job: Job) -> None:
    """Process the input; marks the first, the middle and the last record."""
    runtime = started(job)
    mark("FIRST")
    follow(runtime, job)
    mark("LAST", job.records)
    if job.remoteState:
        check_unchanged_is_not_uploaded(runtime, job)
    runtime.close(CLOSE_SECONDS)
    # Records that a step has held until the commit go on at that of closing, not earlier, as the next regular commit is
    # up to 30 s away. Another start processes them. Its time is in the clock.
    while Topics(job.bootstrapServers).unread(job.applicationId):
        runtime = started(job)
        follow(runtime, job, halfway=True)
        mark("LAST", job.records)
        runtime.close(CLOSE_SECONDS)


def started(job: Job) -> StreamsRuntime:
    runtime = StreamsRuntime(topology(job), config(job))
    runtime.start()
    while runtime.state.name != "RUNNING":
        check(runtime)
        time.sleep(0.001)
    return runtime


def check(runtime: StreamsRuntime) -> None:
    """Raises what ended the instance, if it has ended."""
    if runtime.state.ending:
        raise runtime.wait() or RuntimeError("the instance ended before its work was done")


def follow(runtime: StreamsRuntime, job: Job, *, halfway: bool = False) -> None:
    """Return when nothing is left to process; marks the middle unless ``halfway`` says that it was passed."""
    two_steps = job.workload in ("w2", "w9")
    looks = SETTLED_LOOKS if two_steps or job.workload in QUERIES else 1
    settled = 0
    while settled < looks:
        time.sleep(POLL_SECONDS)
        check(runtime)
        status = runtime.status()
        lag = input_lag(status)
        if lag is None:
            continue
        settled = settled + 1 if lag == 0 and not (two_steps and results_missing(job)) else 0
        if not halfway and (done := processed(status, lag, job)) >= job.records // 2:
            halfway = True
            mark("HALF", done)


def processed(status: dict[str, Any], lag: int, job: Job) -> int:
    """Records that are done. In W2, records are words, which the second sub-topology counts; where they are combined in
    front of it, it gets fewer, and the lines show it. In W9 an order is done with its result. The lag is that of both
    steps there, and may be zero in between. In Nexmark the first sub-topology reads the input."""
    if job.workload == "w9":
        return results(job)
    if job.workload == "w2":
        group, words = ("0_", WORDS_PER_LINE) if job.variant == "combine" else ("1_", 1)
        return sum(words * (task["processedRecords"] or 0) for task in status["tasks"] if task["id"].startswith(group))
    if job.workload in QUERIES and job.workload not in TWO_READERS:
        return job.records - sum(int(task["inputLag"]) for task in status["tasks"] if task["id"].startswith("0_"))
    return job.records - lag


def results_missing(job: Job) -> bool:
    """Returns whether results of W2 and W9 are still on their way: every word and every order has one. On a busy
    machine nothing may be left to read anywhere for longer than the looks take. Counts that are held for the commit
    cannot be waited for."""
    return job.variant != "combine" and results(job) < job.records


def results(job: Job) -> int:
    """Records of the output topic."""
    return sum(end - begin for begin, end in Topics(job.bootstrapServers).offsets(job.output).values())


def restore(job: Job) -> None:
    """Restore the store; marks as the listener hears of it."""
    runtime = StreamsRuntime(topology(job), config(job))
    restored = RestoreMarks(job.records)
    runtime.set_global_state_restore_listener(restored)
    runtime.start()
    while not restored.complete:
        check(runtime)
        time.sleep(0.01)
    runtime.close(CLOSE_SECONDS)


def come_up(job: Job) -> None:
    """From an empty disk until every task runs; how the download went, if there was one, is reported afterwards."""
    mark("FIRST")
    runtime = started(job)
    mark("RUNNING", job.records)
    if job.remoteState:
        restores = [task["restore"] for task in runtime.tasks()]
        mark("MILLISECONDS", round(1000 * max(each["downloadSeconds"] for each in restores)))
        mark("BYTES", sum(each["downloadedBytes"] for each in restores))
    runtime.close(CLOSE_SECONDS)


def take_snapshots(job: Job) -> None:
    """Restore the store and have the object store keep it."""
    runtime = started(job)
    take_snapshot(runtime)
    runtime.close(CLOSE_SECONDS)


def check_unchanged_is_not_uploaded(runtime: StreamsRuntime, job: Job) -> None:
    """Once the last commit is in a snapshot, another one brings no file."""
    chains = chains_of(open_store(remote_state(job)), job.applicationId)
    take_snapshot(runtime)
    while sum(map(consumed, chains)) < job.records:
        time.sleep(POLL_SECONDS)
        take_snapshot(runtime)
    before = {file for chain in chains for file in files(chain)}
    take_snapshot(runtime)
    if new := {file for chain in chains for file in files(chain)} - before:
        raise RuntimeError(f"a snapshot of unchanged stores uploaded {sorted(new)}")


def take_snapshot(runtime: StreamsRuntime) -> None:
    if not runtime.snapshot(CLOSE_SECONDS):
        raise RuntimeError("not every task got a snapshot")


def consumed(chain: ManifestChain) -> int:
    """Input records that are in a task's newest snapshot."""
    snapshot = chain.newest()[1]
    return 0 if snapshot is None else sum(point.offset for point in snapshot.inputs)


def files(chain: ManifestChain) -> set[str]:
    return {info.key for info in chain.objects.list(f"{chain.folder}files/")}


def remote_state(job: Job) -> RemoteStateConfig:
    return RemoteStateConfig(
        url=job.remoteState["url"],
        endpoint=job.remoteState["endpoint"],
        credentials_dir=Path(job.remoteState["credentials_dir"]),
        snapshot_interval=STEADY_SECONDS if job.workload == "steady" else NEVER_SECONDS,
    )


def config(job: Job) -> StreamsConfig:
    exactly_once = job.variant.startswith("eos-")
    connection = dict(job.connection)
    return StreamsConfig(
        application_id=job.applicationId,
        bootstrap_servers=connection.pop("bootstrap.servers", job.bootstrapServers),
        client=job.client,
        kafka=connection,
        processing_guarantee="exactly_once" if exactly_once else "at_least_once",
        commit_interval_ms=job.commitIntervalMs or (100 if exactly_once else 30_000),
        threads=1,
        memory_bytes=MEMORY_BYTES,
        state_dir=Path(job.stateDir),
        remote_state=remote_state(job) if job.remoteState else None,
    )


def entries(state_dir: Path) -> int:
    """Returns the number of entries that the closed store holds in all tasks, read without the runtime."""
    total = 0
    raw = Options(raw_mode=True)
    for current in state_dir.rglob("CURRENT"):
        directory = str(current.parent)
        stores = [family for family in Rdict.list_cf(directory, raw) if family != METADATA_FAMILY]
        families = {family: Options(raw_mode=True) for family in stores}
        database = Rdict(directory, raw, column_families=families, access_type=AccessType.read_only())
        for family in stores:
            total += sum(1 for _ in database.get_column_family(family).keys())  # noqa: SIM118 - not a dict
        database.close()
    return total


def main() -> None:
    take_large_arenas()  # as ``streamsapp run`` does
    job = Job.from_command_line()
    if job.workload == "w4-check":
        mark("STORE", entries(Path(job.stateDir)))
    elif job.workload == "w4":
        restore(job)
    elif job.workload == "restore":
        come_up(job)
    elif job.workload == "snapshot":
        take_snapshots(job)
    else:
        process(job)
    mark_closed(job.records)


if __name__ == "__main__":
    main()
