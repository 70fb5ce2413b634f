"""Measures the cost of a rolling restart of three pods for readers of the output, on the node of ``make cluster-up``.

``python -m benchmarks.rolling`` with tools and tests/support on PYTHONPATH. Word count under load, its state filled
before; the figure is the longest time for which no count of some word came through though the word was written. With
the operator's gate, and without: pods are deleted one after the other as soon as the one before runs. Every count is
verified in either case. Writes ``benchmarks/results/rolling.json``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer

from cluster.host_services import KAFKA
from cluster_app import App
from cluster_world import SNAPSHOTS, WORDCOUNT, Running, World
from kube_cluster import cluster_for_tests

RESULTS = Path(__file__).parent / "results" / "rolling.json"
_NAMESPACE = "rolling"
_TIMEOUT = 300.0
_WORDS_PER_LINE = 50


@dataclass(frozen=True)
class Result:
    """The figures of one way to restart pods."""

    workload: str
    gate: bool
    #: The longest gap of each run, in seconds.
    gaps: list[float]
    #: How long all pods took.
    seconds: list[float]
    #: The longest prediction of the steps of each run; ``None`` without the operator.
    predicted: list[float | None]
    #: Findings of the observer: pods taken away against the rule.
    unsafe: int


def measure(running: Running, name: str, runs: int) -> list[Result]:
    """With the gate and without."""
    found = []
    for gate, restart in ((True, with_gate), (False, without_gate)):
        running.observer.findings = []
        gaps, seconds, predicted = [], [], []
        for _ in range(runs):
            running.app.wait_settled(_TIMEOUT)
            began = time.monotonic()
            predicted.append(restart(running))
            seconds.append(round(time.monotonic() - began, 1))
            running.load.wait_for_counts()
            gaps.append(round(running.load.longest_gap(began).seconds, 2))
            running.load.check(_TIMEOUT)
            print(f"  {name}, gate {'on' if gate else 'off'}: longest gap {gaps[-1]} s, all pods {seconds[-1]} s, "
                  f"predicted {predicted[-1]}", flush=True)  # fmt: skip
        found.append(Result(name, gate, gaps, seconds, predicted, len(running.observer.findings)))
    return found


def with_gate(running: Running) -> float | None:
    """The operator restarts every pod; the longest prediction it made."""
    before, predicted = set(running.app.uids().values()), [0.0]
    running.app.ask_for_restart()

    def is_done() -> bool:
        predicted.append(running.app.rollout().get("predictedSeconds") or 0.0)
        return not before & set(running.app.uids().values())

    running.app.wait(is_done, "a restart of every pod", _TIMEOUT)
    running.app.wait_settled(_TIMEOUT)
    return max(predicted)


def without_gate(running: Running) -> None:
    """As soon as one pod runs, the next one is deleted."""
    for name, uid in running.app.uids().items():
        where = f"--namespace={running.app.namespace}"
        running.world.kubectl("delete", "pod", name, where, "--wait=false")
        running.app.wait(_runs_anew(running.app, name, uid), f"{name} to run again", _TIMEOUT)
    running.app.wait_settled(_TIMEOUT)


def _runs_anew(app: App, name: str, uid: str) -> Callable[[], bool]:
    def holds() -> bool:
        pod: dict[str, Any] = app.pods().get(name, {"metadata": {"uid": uid}})
        return bool(pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running")

    return holds


def fill(topic: str, words: int) -> None:
    """So many different words into the input, once each."""
    producer = Producer({"bootstrap.servers": KAFKA, "linger.ms": 20})
    for first in range(0, words, _WORDS_PER_LINE):
        line = " ".join(f"state{number}" for number in range(first, first + _WORDS_PER_LINE))
        producer.produce(topic, line.encode())
        producer.poll(0)
    assert producer.flush(60) == 0


def run(world: World, example: str, options: argparse.Namespace) -> list[Result]:
    """One application, alone."""
    app, topics = world.app(example), f"rolling-{example}"
    with world.load(topics=topics, rate=options.rate) as load, world.observer(example, topics) as observer:
        fill(f"{topics}-lines", options.words)
        app.apply(world.manifest(example, topics=topics, applicationId=topics))
        app.wait_settled(_TIMEOUT)
        load.check(_TIMEOUT)
        found = measure(Running(world, app, load, observer), example, options.runs)
    world.kubectl("delete", "streamsapp", example, f"--namespace={world.namespace}", "--timeout=120s", timeout=150)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="rolling", description="Rolling restarts of three pods under load.")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="restarts of each kind; default: 3")
    parser.add_argument("--rate", type=int, default=100, metavar="N", help="lines of four words a second; default: 100")
    parser.add_argument("--words", type=int, default=200_000, metavar="N", help="different words in the state before")
    parser.add_argument("--only", choices=(WORDCOUNT, SNAPSHOTS))
    options = parser.parse_args()
    results: list[Result] = []
    with cluster_for_tests() as layout, World(layout, _NAMESPACE) as world:
        world.install()
        for example in [options.only] if options.only else [WORDCOUNT, SNAPSHOTS]:
            results += run(world, example, options)
    kept = json.loads(RESULTS.read_text("utf-8")) if options.only and RESULTS.exists() else []
    kept = [it for it in kept if it["workload"] != options.only]
    RESULTS.write_text(json.dumps([*kept, *map(asdict, results)], indent=1) + "\n", encoding="utf-8")
    print(f"{'workload':22} {'gate':5} {'median gap':>10} {'longest gap':>11} {'all pods':>9} {'predicted':>9} unsafe")
    for it in results:
        told = max((each for each in it.predicted if each is not None), default=None)
        print(f"{it.workload:22} {'on' if it.gate else 'off':5} {median(it.gaps):8.2f} s {max(it.gaps):9.2f} s "
              f"{median(it.seconds):7.1f} s {told if told is not None else '-':>9} {it.unsafe}")  # fmt: skip


if __name__ == "__main__":
    main()
