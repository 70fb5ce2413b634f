"""Measures one instance with much state: what a record costs that finds its key hot, and what a key at random costs.

Started by hand: ``python -m benchmarks.large_state`` from the root of the tree (``--keys 100000000`` for 10 GB). The
program is that of workload W3 without options. It first counts every key once, then many records of a few hot keys,
then keys at random out of all. Each of these three is a start of the program with the state that the one before left.
The same is done with the hot keys alone, so that a large state's hot records compare with those of a small state.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import launch, run
from benchmarks.family import end_on_sigterm
from benchmarks.measure import Measurement, Program, measure, run_to_end
from benchmarks.systems.job import Job
from benchmarks.topics import PREFIX, Topics
from benchmarks.verify import WrongResultError, check_committed
from benchmarks.workloads import W3, LastCounts, Message, counts_outcome

from streamsapp.cache_folder import cache_dir

_PREFIX = f"{PREFIX}large-state"
_SEED = 11
_TIMEOUT_SECONDS = 7_200.0
#: Without options: ours sends every update, Kafka Streams what its cache of 10 MB lets through.
VARIANTS = {"streamsapp": "emit-update", "kafka-streams": "cache-10m"}
#: Multipliers of five numbers, which make a key of 80 characters that neither prefixes nor compression make small.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)
_MASK = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Phase:
    """One start of the program: ``keys`` are the numbers of the keys that its records count."""

    name: str
    records: int
    keys: Iterable[int]


@dataclass(frozen=True)
class Row:
    """The time of one phase, and the size of the state behind it."""

    system: str
    keys: int
    phase: str
    figures: Measurement
    records: int
    state_gb: float


def main() -> int:
    options = _parse(sys.argv[1:])
    end_on_sigterm()
    directory = cache_dir() / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    print(_HEAD)
    with run.broker(options.bootstrap_servers, directory) as bootstrap_servers:
        topics = Topics(bootstrap_servers)
        for system in options.system.split(","):
            for keys in (options.hot, options.keys):
                topics.remove(_PREFIX)
                try:
                    for row in _Instance(topics, directory, system, keys, options).rows():
                        print(_line(row), flush=True)
                finally:
                    topics.remove(_PREFIX)
    return 0


class _Instance:
    """One application with its state, through all phases."""

    def __init__(self, topics: Topics, directory: Path, system: str, keys: int, options: argparse.Namespace) -> None:
        self._topics, self._directory, self._system, self._keys = topics, directory, system, keys
        self._options = options
        self._application = f"{_PREFIX}-{system}-{keys}"
        self._input, self._output = f"{self._application}-input", f"{self._application}-out"
        self._state = directory / "state"
        #: How often each key was counted beyond the first time.
        self._again: Counter[int] = Counter()
        #: The keys that the phase counts, unless it counts all.
        self._drawn: set[int] = set()

    def rows(self) -> Iterator[Row]:
        shutil.rmtree(self._state, ignore_errors=True)
        self._state.mkdir()
        self._topics.create(self._input, self._options.tasks)
        self._topics.create(self._output, self._options.tasks)
        try:
            for phase in self._phases():
                yield self._row(phase)
        finally:
            shutil.rmtree(self._state, ignore_errors=True)

    def _phases(self) -> Iterator[Phase]:
        draw, options = random.Random(_SEED), self._options
        yield Phase("fill", self._keys, range(self._keys))
        yield Phase("hot", options.records, (draw.randrange(options.hot) for _ in range(options.records)))
        if self._keys > options.hot:
            yield Phase("random", options.random, (draw.randrange(self._keys) for _ in range(options.random)))

    def _row(self, phase: Phase) -> Row:
        before = self._topics.offsets(self._output)
        self._topics.fill(self._input, self._messages(phase))
        figures = self._run(phase)
        check_committed(self._topics, self._application, self._input)
        self._check(phase, {partition: end for partition, (_, end) in before.items()})
        size = sum(file.stat().st_blocks * 512 for file in self._state.rglob("*") if file.is_file())
        return Row(self._system, self._keys, phase.name, figures, phase.records, size / 1e9)

    def _messages(self, phase: Phase) -> Iterator[Message]:
        self._drawn.clear()
        for number in phase.keys:
            if phase.name != "fill":
                self._drawn.add(number)
                self._again[number] += 1
            yield Message(key(number), b"v%019d" % number)

    def _run(self, phase: Phase) -> Measurement:
        job = Job(
            workload=W3.name,
            variant=VARIANTS[self._system],
            applicationId=self._application,
            bootstrapServers=self._topics.bootstrap_servers,
            input=self._input,
            output=self._output,
            records=phase.records,
            stateDir=str(self._state),
            remoteState={},
        )
        command = launch.prepare(self._system, self._directory)
        log = self._directory / f"{self._application}.log"
        program = Program([*command, job.to_json()], launch.environment(), log)
        return measure(run_to_end([program], _TIMEOUT_SECONDS))

    def _check(self, phase: Phase, begin: dict[int, int]) -> None:
        """Every key was written in the first phase; in later ones the last count of each key that they counted."""
        if phase.name == "fill":
            written = sum(end for _, end in self._topics.offsets(self._output).values())
            if written != self._keys:
                raise WrongResultError(f"{written} of {self._keys} keys were counted")
            return
        found = LastCounts()
        for message in self._topics.read(self._output, begin):
            found.add(message)
        due = {key(number): 1 + self._again[number] for number in self._drawn}
        if found.outcome() != counts_outcome(due):
            raise WrongResultError(f"{self._output} has other counts than its input asks for")


def key(number: int) -> bytes:
    """Returns the key of a number, 80 characters; numbers in order give keys at random."""
    return b"%016x%016x%016x%016x%016x" % tuple((number + 1) * factor & _MASK for factor in _FACTORS)


_HEAD = (
    f"{'system':<14}{'keys':>12}{'phase':>8}{'records':>13}{'rec/s':>10}{'rec/CPU-s':>11}{'2nd half/s':>12}"
    f"{'2nd half/CPU-s':>16}{'RSS MB':>8}{'state GB':>10}{'other load':>12}"
)


def _line(row: Row) -> str:
    figures = row.figures
    half = figures.second_half_records or 0
    by_wall, by_cpu = half / (figures.second_half_seconds or 1), half / (figures.second_half_cpu_seconds or 1)
    return (
        f"{row.system:<14}{row.keys:>12,}{row.phase:>8}{row.records:>13,}{row.records / figures.seconds:>10,.0f}"
        f"{row.records / figures.cpu_seconds:>11,.0f}{by_wall:>12,.0f}{by_cpu:>16,.0f}{figures.peak_rss_mb:>8,.0f}"
        f"{row.state_gb:>10.2f}{figures.other_load:>12.0%}"
    )


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_state", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys of the large state; default 10,000,000")
    parser.add_argument("--hot", type=int, default=500_000, help="keys that are hot; default 500,000")
    parser.add_argument("--records", type=int, default=10_000_000, help="records of hot keys; default 10,000,000")
    parser.add_argument("--random", type=int, default=1_000_000, help="records of keys at random; default 1,000,000")
    parser.add_argument("--tasks", type=int, default=64, help="partitions, each a task; default 64")
    parser.add_argument("--system", default="streamsapp,kafka-streams", help="which systems, one after the other")
    parser.add_argument("--bootstrap-servers", help="a broker to use instead of an embedded one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
