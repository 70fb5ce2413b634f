"""Measures the cost of many tasks in one instance: the same counts per key, spread over few tasks and over many.

Started by hand: ``python -m benchmarks.many_tasks`` from the root of the tree (``--tasks 10,1000 --runs 3`` if nothing
else is said). The program is that of workload W3, variant ``emit-commit``: one processing thread, a store per task, a
commit every 30 s. It is a process of its own, measured from outside as every program here, and its result is checked.
Numbers of tasks take turns, so that what else the machine does meets them alike.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import launch, run, verify
from benchmarks.family import end_on_sigterm
from benchmarks.measure import Mark, Program, run_to_end
from benchmarks.systems.job import Job
from benchmarks.topics import PARTITIONS, PREFIX, Topics
from benchmarks.workloads import W3, Message, Outcome, Reckoning, first_messages

from streamsapp.cache_folder import cache_dir

_PREFIX = f"{PREFIX}many-tasks"
_RECORDS = 6_000_000
_TIMEOUT_SECONDS = 1_200.0


@dataclass(frozen=True)
class Cost:
    """One run: getting to work, working, ending."""

    start_seconds: float
    start_cpu_seconds: float
    started_rss_mb: float
    records_per_second: float
    records_per_cpu_second: float
    #: The last commit, and closing every task's database.
    close_cpu_seconds: float
    peak_rss_mb: float


def main() -> int:
    options = _parse(sys.argv[1:])
    end_on_sigterm()
    counts = [int(text) for text in options.tasks.split(",")]
    directory = cache_dir() / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    costs: dict[int, list[Cost]] = {count: [] for count in counts}
    with run.broker(options.bootstrap_servers, directory) as bootstrap_servers:
        topics = Topics(bootstrap_servers)
        topics.remove(_PREFIX)
        try:
            expected = {count: _fill(topics, count, options.records) for count in counts}
            for number in range(options.runs):
                for count in counts:
                    costs[count].append(_run(topics, directory, count, number, options.records, expected[count]))
                    print(f"  run {number + 1}, {count} tasks: {costs[count][-1]}", file=sys.stderr)
        finally:
            topics.remove(_PREFIX)
    print(_table(costs))
    return 0


def _fill(topics: Topics, tasks: int, records: int) -> Outcome:
    """One partition for each task; what must come out."""
    topics.create(_input(tasks), tasks)
    reckoning = W3.expected()

    def reckoned(message: Message) -> Message:
        reckoning.add(message)
        return message

    topics.fill(_input(tasks), map(reckoned, first_messages(W3, records)))
    return reckoning.outcome()


def _run(topics: Topics, directory: Path, tasks: int, number: int, records: int, expected: Outcome) -> Cost:
    application = f"{_PREFIX}-{tasks}-{number}"
    state = directory / "state"
    shutil.rmtree(state, ignore_errors=True)
    job = Job(
        workload=W3.name,
        variant="emit-commit",
        applicationId=application,
        bootstrapServers=topics.bootstrap_servers,
        input=_input(tasks),
        output=f"{application}-out",
        records=records,
        stateDir=str(state),
        remoteState={},
    )
    topics.create(job.output, PARTITIONS)
    state.mkdir()
    began = time.monotonic()
    try:
        program = Program(
            [*launch.prepare("streamsapp", directory), job.to_json()],
            launch.environment(),
            directory / f"{application}.log",
        )
        [marks] = run_to_end([program], _TIMEOUT_SECONDS)
    finally:
        shutil.rmtree(state, ignore_errors=True)
    found: Reckoning = W3.found()
    verify.check_output(topics, job.output, found, expected)
    verify.check_committed(topics, application, job.input)
    topics.remove(application)
    return _cost(began, marks, records)


def _cost(began: float, marks: dict[str, Mark], records: int) -> Cost:
    first, last, closed = marks["FIRST"], marks["LAST"], marks["CLOSED"]
    return Cost(
        start_seconds=first.at - began,
        start_cpu_seconds=first.cpu_seconds,
        started_rss_mb=first.peak_rss_mb,
        records_per_second=records / (last.at - first.at),
        records_per_cpu_second=records / (last.cpu_seconds - first.cpu_seconds),
        close_cpu_seconds=closed.cpu_seconds - last.cpu_seconds,
        peak_rss_mb=closed.peak_rss_mb,
    )


def _input(tasks: int) -> str:
    return f"{_PREFIX}-input-{tasks}"


def _table(costs: dict[int, list[Cost]]) -> str:
    """Medians, figure by figure."""
    lines = [f"{'tasks':<24}" + "".join(f"{count:>12,}" for count in costs)]
    for name in Cost.__dataclass_fields__:
        medians = [statistics.median(getattr(cost, name) for cost in runs) for runs in costs.values()]
        lines.append(f"{name:<24}" + "".join(f"{median:>12,.{0 if median > 100 else 1}f}" for median in medians))
    return "\n".join(lines)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_tasks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--tasks", default="10,1000", help="numbers of tasks to compare; default 10,1000")
    parser.add_argument("--records", type=int, default=_RECORDS, help=f"input records; default {_RECORDS:,}")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, of which the median counts; default 3")
    parser.add_argument("--bootstrap-servers", help="a broker to use instead of an embedded one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
