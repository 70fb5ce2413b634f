"""kill -9 in the middle of a count per key, several times, and what the outputs, changelog and state say afterwards."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable

import pytest

from instances import (
    Instances,
    Process,
    counts_per_key,
    end_offsets,
    eventually,
    last_counts,
    produce,
    stored_counts,
)
from kafka_cluster import Kafka
from killable import COUNTED_WINDOWS, count_per_key, count_windows
from streamsapp import StreamsConfig
from streamsapp.config.memory import MINIMUM_BYTES

RECORDS_A_RUN = 30_000
KEYS = 4_000
PARTITIONS = 2
KILLS = 2


class Run:
    """An application that gets more input before each start, and is killed in the middle of it."""

    #: The timestamp of the first record of each start, in milliseconds.
    begin = 1_000_000

    def __init__(self, instances: Instances, program: str, config: StreamsConfig, **arguments: object) -> None:
        self.instances = instances
        self.kafka = instances.kafka
        self.program = program
        self.config = config
        self.arguments = arguments
        self.source = self.kafka.create_topic("many-keys", partitions=PARTITIONS)
        self.sink = self.kafka.create_topic("counts", partitions=PARTITIONS)
        self.truth: Counter[bytes] = Counter()
        #: Records that were written to the input.
        self.written = 0
        self._chosen = random.Random(11)

    def kill_in_the_middle(self, *, wipe: bool = False, after: int = RECORDS_A_RUN // 3) -> None:
        """Start, kill when some of the output is written (``after`` records at most), perhaps lose the disk."""
        wanted = end_offsets(self.kafka, self.sink) + self._chosen.randrange(1, after)
        process = self.start()
        # Records that the process before this one had on the way may come after it was killed.
        keeps = self.arguments.get("store") != "memory"  # which makes no directory
        eventually(lambda: process.assert_running() and (self.config.state_dir.exists() or not keeps))
        eventually(lambda: process.assert_running() and end_offsets(self.kafka, self.sink) >= wanted)
        process.kill()
        if wipe:
            shutil.rmtree(self.config.state_dir)

    def start(self) -> Process:
        """A process with new input."""
        keys = [b"key%d" % min(KEYS - 1, int(self._chosen.expovariate(1 / 600))) for _ in range(RECORDS_A_RUN)]
        produce(self.kafka, self.source, [(key, key, self.begin + at) for at, key in enumerate(keys)])
        self.written += len(keys)
        self.truth.update(self.results_due(keys))
        return self.instances.process(self.program, self.config, source=self.source, sink=self.sink, **self.arguments)

    def results_due(self, keys: list[bytes]) -> Iterable[bytes]:
        """The key of each count that input adds one to."""
        return keys

    def finish(self) -> None:
        """Let the last process read everything, and close it."""
        process = self.start()
        wanted = self.truth.total()
        eventually(
            lambda: process.assert_running() and self._consumed() >= self.written
        )  # reading all results takes longer
        eventually(lambda: process.assert_running() and sum(last_counts(self.kafka.read(self.sink)).values()) >= wanted)
        assert process.close() == 0

    def _consumed(self) -> int:
        """Records of the input whose processing is committed."""
        return sum(at for at, _ in self.kafka.committed(self.config.application_id, self.source).values())


class WindowRun(Run):
    """The same with windows, several for each record."""

    # Changelogs of windows lose what is old.
    begin = int(time.time() * 1000)

    def results_due(self, keys: list[bytes]) -> Iterable[bytes]:
        for at, key in enumerate(keys):
            for start in COUNTED_WINDOWS.starts_for(self.begin + at):
                yield key + start.to_bytes(8, "big")


@pytest.mark.parametrize("wipe", [True, pytest.param(False, marks=pytest.mark.long)], ids=["state_wiped", "state_kept"])
def test_nothing_is_lost_and_state_equals_changelog_when_the_process_is_killed(
    kafka: Kafka, instances: Instances, guarantee: str, wipe: bool
) -> None:
    config = instances.config(processing_guarantee=guarantee, threads=2)
    run = Run(instances, "count_per_key", config)
    for _ in range(KILLS):
        run.kill_in_the_middle(wipe=wipe)
    run.finish()

    updates = counts_per_key(kafka.read(run.sink))
    final = {key: counts[-1] for key, counts in updates.items()}
    changelog = last_counts(kafka.read(f"{config.application_id}-counts-changelog"))
    assert stored_counts(count_per_key(run.source, run.sink), config, "counts") == changelog == final
    if guarantee == "exactly_once":
        assert final == run.truth
        assert all(counts == list(range(1, run.truth[key] + 1)) for key, counts in updates.items())
    else:
        assert final.keys() == run.truth.keys()
        assert all(final[key] >= count for key, count in run.truth.items())


@pytest.mark.parametrize("combine", [True, pytest.param(False, marks=pytest.mark.long)], ids=["combined", "plain"])
def test_words_are_counted_exactly_through_a_repartition_when_the_process_is_killed(
    kafka: Kafka, instances: Instances, combine: bool
) -> None:
    config = instances.config(processing_guarantee="exactly_once", threads=2)
    run = Run(instances, "word_count", config, combine=combine)
    for _ in range(KILLS):
        run.kill_in_the_middle(after=300)
    run.finish()

    counts = counts_per_key(kafka.read(run.sink))
    assert {key: values[-1] for key, values in counts.items()} == run.truth
    assert all(values == sorted(set(values)) for values in counts.values())
    assert last_counts(kafka.read(f"{config.application_id}-counts-changelog")) == run.truth


def test_updates_held_for_the_commit_end_in_the_same_counts_when_the_process_is_killed(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    config = instances.config(processing_guarantee=guarantee)
    run = Run(instances, "count_per_key", config, emit="commit")
    run.kill_in_the_middle(after=300)
    run.kill_in_the_middle(after=300, wipe=True)
    run.finish()

    counts = counts_per_key(kafka.read(run.sink))
    final = {key: values[-1] for key, values in counts.items()}
    assert last_counts(kafka.read(f"{config.application_id}-counts-changelog")) == final
    if guarantee == "exactly_once":
        assert final == run.truth
        assert all(values == sorted(set(values)) for values in counts.values())
    else:
        assert all(final[key] >= count for key, count in run.truth.items())


@pytest.mark.parametrize(
    ("emit", "wipe"), [("update", True), ("commit", False), pytest.param("commit", True, marks=pytest.mark.long)]
)
def test_windows_are_counted_exactly_when_the_process_is_killed(
    kafka: Kafka, instances: Instances, emit: str, wipe: bool
) -> None:
    # With little memory: cells are forgotten all the time.
    config = instances.config(processing_guarantee="exactly_once", memory_bytes=MINIMUM_BYTES)
    run = WindowRun(instances, "count_windows", config, emit=emit)
    for _ in range(KILLS):
        run.kill_in_the_middle(wipe=wipe, after=RECORDS_A_RUN // 3 if emit == "update" else 300)
    run.finish()

    updates = counts_per_key(kafka.read(run.sink))
    assert {window: counts[-1] for window, counts in updates.items()} == run.truth
    assert all(counts == sorted(set(counts)) for counts in updates.values())
    assert emit == "commit" or all(counts == list(range(1, counts[-1] + 1)) for counts in updates.values())
    changelog = last_counts(kafka.read(f"{config.application_id}-counts-changelog"))
    assert {window[:-4]: count for window, count in changelog.items()} == run.truth
    assert stored_counts(count_windows(run.source, run.sink), config, "counts") == run.truth


@pytest.mark.long
def test_an_in_memory_store_is_restored_from_its_changelog_when_the_process_is_killed(
    kafka: Kafka, instances: Instances
) -> None:
    config = instances.config(processing_guarantee="exactly_once")
    run = Run(instances, "count_per_key", config, store="memory")
    run.kill_in_the_middle()
    run.finish()

    counts = counts_per_key(kafka.read(run.sink))
    assert all(values == list(range(1, run.truth[key] + 1)) for key, values in counts.items())
    assert last_counts(kafka.read(f"{config.application_id}-counts-changelog")) == run.truth
