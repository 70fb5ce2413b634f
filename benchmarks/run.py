"""The benchmarks' command line: ``python -m benchmarks.run``, which ``make bench`` calls.

For each workload: make its topics, then run every system in turn, as many rounds as asked, so that what else the
machine does meanwhile meets all of them; check every result; remove the topics. One thread; the programs under test
are processes of their own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks import cases, inputs, launch, report
from benchmarks.cases import Case
from benchmarks.execution import Executor
from benchmarks.family import end_on_sigterm
from benchmarks.measure import Measurement
from benchmarks.object_store import ObjectStore, object_store
from benchmarks.topics import PREFIX, Topics
from benchmarks.workloads import Workload

from streamsapp.cache_folder import cache_dir
from streamsapp.local.broker import EmbeddedBroker

RESULTS = Path(__file__).parent / "results"
#: Removed topics free their disk space at once, not after the usual minute: each run leaves gigabytes.
_BROKER_PROPERTIES = {"log.segment.delete.delay.ms": "1000"}


def main() -> int:
    options = _parse(sys.argv[1:])
    end_on_sigterm()
    chosen = cases.connected(cases.select(options.only, options.system, options.variant), options.over, options.client)
    if not chosen:
        print("no case matches --only, --system and --variant; see benchmarks/cases.py", file=sys.stderr)
        return 2
    cache = cache_dir() / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    needs_objects = any(case.remote for case in chosen)
    kept = "latest.json" if (options.over, options.client) == ([cases.PLAINTEXT], [cases.OWN]) else "connections.json"
    connections: dict[str, dict[str, str]] = {}
    with (
        _broker(options, cache, connections) as bootstrap_servers,
        object_store(cache) if needs_objects else nullcontext() as objects,
    ):
        rows: list[report.Row] = []
        for measured in _run(chosen, bootstrap_servers, objects, cache, connections, options):
            report.write_json(measured, RESULTS / ("smoke.json" if options.scale < 1 else kept))
            rows += measured
    print(report.table(rows, chosen))
    return 0


def _run(
    chosen: list[Case],
    bootstrap_servers: str,
    objects: ObjectStore | None,
    cache: Path,
    connections: dict[str, dict[str, str]],
    options: argparse.Namespace,
) -> Iterator[list[report.Row]]:
    """Workload by workload, so that only one workload's topics take disk at a time, and finished ones are kept if one
    fails later or the run is given up."""
    systems = {"streamsapp", *(case.system for case in chosen)}
    commands = {system: launch.prepare(system, cache) for system in systems}
    topics = Topics(bootstrap_servers)
    executor = Executor(topics, cache, commands, objects, connections)
    for workload in dict.fromkeys(case.workload for case in chosen):
        topics.remove(PREFIX)
        try:
            ours = [case for case in chosen if case.workload is workload]
            measured = _run_workload(workload, ours, executor, topics, options)
        finally:
            topics.remove(PREFIX)
        yield measured


def _run_workload(
    workload: Workload, chosen: list[Case], executor: Executor, topics: Topics, options: argparse.Namespace
) -> list[report.Row]:
    print(f"\n{workload.name}: {workload.title}", file=sys.stderr)
    filled = inputs.fill(topics, chosen, options.scale)
    records = {case: sum(each.records for each in filled[case]) for case in chosen}
    executor.prepare(chosen, filled[chosen[0]][0])
    runs: dict[Case, list[Measurement]] = {case: [] for case in chosen}
    for number in range(1, options.runs + 1):
        for case in chosen:
            measurement = executor.run(case, filled[case], number)
            runs[case].append(measurement)
            _log(case, number, records[case], measurement)
    return [report.summarise(case, records[case], runs[case], smoke=options.scale < 1) for case in chosen]


def _log(case: Case, number: int, records: int, measurement: Measurement) -> None:
    print(
        f"  run {number}  {case.system} {case.variant} {case.over} {case.client}: {measurement.seconds:.1f} s,"
        f" {records / measurement.seconds:,.0f}/s, {records / measurement.cpu_seconds:,.0f}/CPU-s,"
        f" other load {measurement.other_load:.0%}",
        file=sys.stderr,
    )


@contextmanager
def _broker(options: argparse.Namespace, cache: Path, connections: dict[str, dict[str, str]]) -> Iterator[str]:
    """The broker of a run; adds to ``connections`` how each system reaches a secured broker."""
    if cases.SASL_SSL not in options.over:
        with broker(options.bootstrap_servers, cache) as bootstrap_servers:
            yield bootstrap_servers
        return
    from benchmarks.secured import connection, secured_broker  # tests/support need not be there otherwise

    data = cache / "secured-broker"
    shutil.rmtree(data, ignore_errors=True)
    try:
        with secured_broker(data, _BROKER_PROPERTIES) as started:
            connections |= {system: connection(started, system) for system in ("streamsapp", "kafka-streams")}
            yield started.bootstrap_servers
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def broker(bootstrap_servers: str | None, cache: Path) -> Iterator[str]:
    """The broker asked for, or one of our own that leaves nothing behind."""
    if bootstrap_servers:
        yield bootstrap_servers
        return
    data = cache / "broker"
    shutil.rmtree(data, ignore_errors=True)
    try:
        with EmbeddedBroker(data, properties=_BROKER_PROPERTIES) as started:
            yield started.bootstrap_servers
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _parse(arguments: list[str]) -> argparse.Namespace:
    def names(text: str) -> set[str]:
        return {name for name in text.split(",") if name}

    def some_of(*known: str) -> Callable[[str], list[str]]:
        def named(text: str) -> list[str]:
            if unknown := names(text) - set(known):
                raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
            return [each for each in known if each in names(text)]

        return named

    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", type=names, default=set(), help="workloads, like W1,W3; default all")
    parser.add_argument("--system", type=names, default=set(), help="systems, like streamsapp,quix; default all")
    parser.add_argument("--variant", type=names, default=set(), help="variants, like cache-0,plain; default all")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case, of which the median counts; default 3")
    parser.add_argument(
        "--scale",
        type=float,
        default=float(os.environ.get("BENCH_SCALE", "1")),
        help="size of the inputs; below 1 is a smoke run, written to results/smoke.json; default $BENCH_SCALE or 1",
    )
    parser.add_argument("--bootstrap-servers", help="a broker to use instead of an embedded one")
    parser.add_argument(
        "--over",
        type=some_of(cases.PLAINTEXT, cases.SASL_SSL),
        default=[cases.PLAINTEXT],
        help="kinds of connections, in turn: plaintext (default), sasl_ssl; needs PYTHONPATH=tests/support:tools",
    )
    parser.add_argument(
        "--client",
        type=some_of(cases.OWN, cases.LIBRDKAFKA),
        default=[cases.OWN],
        help="clients that move our records, in turn: streamsapp (default), librdkafka",
    )
    options = parser.parse_args(arguments)
    if options.bootstrap_servers and cases.SASL_SSL in options.over:
        parser.error("--over sasl_ssl: starts a broker of its own; leave out --bootstrap-servers")
    return options


if __name__ == "__main__":
    sys.exit(main())
