"""Runs one workload on Quix Streams until the last record is processed, flushed and committed.

Started by ``run.py`` in a virtual environment of its own. Quix has no callback for the end of a restore, so the
restore workload wraps the method that does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Any

from benchmarks.systems import quix_nexmark
from benchmarks.systems.job import Job, mark, mark_closed
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.state import State
from quixstreams.state.recovery import RecoveryManager
from rocksdict import AccessType, Options, Rdict

#: Keys that Quix writes for itself begin so.
_OWN_PREFIX = b"__"
#: As in ``workloads_in_time.py``, in milliseconds.
MINUTE, HOP, GRACE, JOIN_WINDOW = 60_000, 10_000, 10_000, 10_000


class Progress:
    """Counts records and marks the first, the middle and the last."""

    def __init__(self, application: Application, target: int) -> None:
        self._application = application
        self._target = target
        self._count = 0
        self._begun = False

    def begin(self, value: Any) -> None:
        if not self._begun:
            self._begun = True
            mark("FIRST")

    def count(self, value: Any) -> None:
        self._count += 1
        if self._count == 1:
            self.begin(value)
        if self._count == self._target // 2:
            mark("HALF", self._count)
        if self._count == self._target:
            mark("LAST", self._count)
            self._application.stop()


def occurrences(value: Any, state: State) -> int:
    count: int = state.get("n", 0) + 1
    state.set("n", count)
    return count


def keep(value: bytes, state: State) -> int:
    state.set("v", value.decode())
    return 1


def double_amount(event: dict[str, Any]) -> dict[str, Any]:
    event["amount"] *= 2
    return event


def map_strings(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "string").update(progress.count)
    stream = stream.filter(lambda value: not value.startswith("click9", 9)).apply(str.upper)
    stream.to_topic(application.topic(job.output, value_serializer="string", key_serializer="bytes"))


def map_json(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "json").update(progress.count)
    stream = stream.filter(lambda event: event["type"] != "click9").apply(double_amount)
    stream.to_topic(application.topic(job.output, value_serializer="json", key_serializer="bytes"))


def count_words(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "string").update(progress.begin)
    stream = stream.apply(lambda line: line.split(" "), expand=True).group_by(
        lambda word: word,
        name="word",
        value_serializer="string",
        key_serializer="string",
        value_deserializer="string",
        key_deserializer="string",
    )
    stream = stream.update(progress.count).apply(occurrences, stateful=True)
    stream.to_topic(application.topic(job.output, value_serializer="integer", key_serializer="string"))


def count_keys(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "bytes").update(progress.count).apply(occurrences, stateful=True)
    stream.to_topic(application.topic(job.output, value_serializer="integer", key_serializer="bytes"))


def count_windows(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "bytes").update(progress.count)
    if "hopping" in job.workload:
        windows = stream.hopping_window(MINUTE, HOP, GRACE)
    else:
        windows = stream.tumbling_window(MINUTE, GRACE)
    stream = windows.count().current().apply(with_window, metadata=True)
    output = application.topic(job.output, value_serializer=quix_nexmark.WindowCount(), key_serializer="bytes")
    stream.to_topic(output, key=lambda value: value[0])


def with_window(value: Any, key: Any, timestamp: int, headers: Any) -> tuple[bytes, int]:
    return key + value["start"].to_bytes(8, "big"), value["value"]


def join_streams(application: Application, job: Job, progress: Progress) -> None:
    left = source(application, job, "string").update(progress.count)
    right = source(application, replace(job, input=job.right), "string").update(progress.count)
    joined = left.join_interval(
        right, how="inner", on_merge=add, grace_ms=MINUTE, backward_ms=JOIN_WINDOW, forward_ms=JOIN_WINDOW
    )
    joined.to_topic(application.topic(job.output, value_serializer="string", key_serializer="bytes"))


def join_table(application: Application, job: Job, progress: Progress) -> None:
    stream = source(application, job, "string").update(progress.count)
    table = source(application, replace(job, input=job.right), "string").update(progress.begin)
    joined = stream.join_asof(table, how="inner", on_merge=add)
    joined.to_topic(application.topic(job.output, value_serializer="string", key_serializer="bytes"))


def fill_store(application: Application, job: Job, progress: Progress) -> None:
    source(application, job, "bytes").update(progress.count).apply(keep, stateful=True)


def restore_store(application: Application, job: Job, progress: Progress) -> None:
    source(application, job, "bytes").apply(keep, stateful=True)
    recover = RecoveryManager.do_recovery

    def marked(manager: RecoveryManager, *args: Any, **kwargs: Any) -> None:
        mark("FIRST")
        recover(manager, *args, **kwargs)
        mark("LAST", job.records)
        application.stop()

    RecoveryManager.do_recovery = marked


def source(application: Application, job: Job, deserializer: str) -> StreamingDataFrame:
    topic = application.topic(job.input, value_deserializer=deserializer, key_deserializer="bytes")
    return application.dataframe(topic)


def entries(state_dir: Path) -> int:
    """Returns the number of entries that the closed stores hold, read without Quix."""
    total = 0
    for current in state_dir.rglob("CURRENT"):
        store = Rdict(str(current.parent), Options(raw_mode=True), access_type=AccessType.read_only())
        total += sum(not key.startswith(_OWN_PREFIX) for key in store.keys())  # noqa: SIM118 - not a dict
        store.close()
    return total


WORKLOADS: dict[str, Callable[[Application, Job, Progress], None]] = {
    "w1-string": map_strings,
    "w1-json": map_json,
    "w2": count_words,
    "w3": count_keys,
    "w5-tumbling-1k": count_windows,
    "w5-tumbling-500k": count_windows,
    "w5-hopping-1k": count_windows,
    "w5-hopping-500k": count_windows,
    "w6": join_streams,
    "w7": join_table,
    "w4-fill": fill_store,
    "w4": restore_store,
}


def run(job: Job) -> None:
    application = Application(
        broker_address=job.bootstrapServers,
        consumer_group=job.applicationId,
        auto_offset_reset="earliest",
        commit_interval=30,
        state_dir=job.stateDir,
        loglevel="WARNING",
        producer_extra_config={"linger.ms": 20, "batch.size": 262_144, "queue.buffering.max.messages": 2_000_000},
    )
    WORKLOADS.get(job.workload, quix_nexmark.build)(application, job, Progress(application, job.records))
    application.run()


def main() -> None:
    job = Job.from_command_line()
    if job.workload == "w4-check":
        mark("STORE", entries(Path(job.stateDir)))
    else:
        run(job)
    mark_closed(job.records)


if __name__ == "__main__":
    main()
