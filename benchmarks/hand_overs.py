"""Measures how long results stay away when instances are restarted one after the other, and if each came once.

``python -m benchmarks.hand_overs`` with tests/support on PYTHONPATH, on a broker of its own. An application of several
pods with standbys counts words that come all the time. Each pod is ended in good order (SIGTERM), and started again in
its directory once it has handed its tasks over. The figure is the longest time without a result of some partition of
the input, from the signal until all tasks have caught up again. ``quiet`` is the same without a restart. ``slowest``
are the hand-overs that pods report as the longest, with the seconds that had passed at each step. ``latency`` is the
time from when a word is written until a reader of committed results has its count: of the words of the quiet time, and
of those written between a signal and the moment when all tasks are spread evenly again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks.kills import MANIFEST, Load, Results

from instances import eventually
from kafka_cluster import START_TIMEOUT, Kafka
from pods import RunningPod
from streamsapp.local.broker import EmbeddedBroker

PODS, PARTITIONS = 3, 4
#: Seconds of input before the first restart, and after each.
BEFORE, AFTER = 3.0, 3.0
QUIET = "quiet"


class Restarts:
    """An application whose pods are restarted under load."""

    def __init__(self, kafka: Kafka, guarantee: str, rate: int, folder: Path) -> None:
        source, sink = (kafka.create_topic(each, PARTITIONS) for each in ("words", "counts"))
        settings = {"servers": kafka.bootstrap_servers, "source": source, "sink": sink, "guarantee": guarantee}
        self._manifest, self._folder = folder / "app.yaml", folder
        self._manifest.write_text(MANIFEST.format(name=kafka.unique("hand-overs"), instances=1, **settings))
        self.load, self.results = Load(kafka.bootstrap_servers, source, rate), Results(kafka.bootstrap_servers, sink)
        self.pods = [self._pod(number) for number in range(PODS)]
        #: From when to when each of the times lasted, in seconds of the wall clock.
        self.times: dict[str, tuple[float, float]] = {}

    def _pod(self, number: int) -> RunningPod:
        return RunningPod(self._manifest, self._folder / f"pod-{number}")

    def settle(self) -> None:
        """Wait until all are back and the tasks are spread evenly."""
        for pod in self.pods:
            pod.wait_ready()
        every = [f"0_{partition}" for partition in range(PARTITIONS)]
        eventually(lambda: sorted(task for pod in self.pods for task in pod.active()) == every)
        eventually(lambda: all(pod.active() for pod in self.pods), "a task each")

    def run(self) -> dict[str, float]:
        """The longest gap of each restart, and of a quiet time before."""
        self.load.start()
        self.results.start()
        self.settle()
        time.sleep(BEFORE)
        gaps = {}
        for name in (QUIET, *(f"pod {number}" for number in range(PODS))):
            began, began_at = time.monotonic(), time.time()
            if name != QUIET:
                number = int(name.removeprefix("pod "))
                self.pods[number].terminate()
                self.pods[number] = self._pod(number)
                self.settle()
                self.times[name] = began_at, time.time()
            time.sleep(AFTER)
            self.times.setdefault(name, (began_at, time.time()))
            gaps[name] = self.results.longest_gap(began)
        return gaps

    def latencies(self, *, quiet: bool) -> list[float]:
        """In seconds; once all results are here."""
        times = [time for name, time in self.times.items() if (name == QUIET) == quiet]
        return [took for at, took in self.results.latencies if any(begin <= at <= end for begin, end in times)]

    def slowest(self, most: int = 3) -> list[str]:
        """The longest hand-overs that the pods report, those of pods that have ended left out."""
        documents = [document for pod in self.pods if (document := pod.ask("/status")[1]) is not None]
        found = [each for document in documents for each in document["handOvers"] if each["kind"] == "planned"]
        found.sort(key=lambda each: -each["gapSeconds"])
        return [f"{each['task']} {each['gapSeconds']:.3f} s {each['steps']}" for each in found[:most]]

    def end(self) -> int:
        """Stop; returns how many results came too often."""
        self.load.stop()
        written = self.load.written
        eventually(lambda: all(self.results.counts[key] >= written[key] for key in written), "all results")
        return self.results.results.total() - written.total()

    def close(self) -> None:
        self.results.stop()
        for pod in self.pods:
            pod.close()


def _described(latencies: list[float]) -> str:
    """The median and the 99th percentile."""
    cuts = quantiles(latencies, n=100)
    return f"p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(prog="hand_overs", description="The gap when instances are restarted in order.")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="applications of each guarantee; default: 3")
    parser.add_argument("--rate", type=int, default=400, metavar="N", help="words a second; default: 400")
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"))
    options = parser.parse_args()
    guarantees = [options.guarantee] if options.guarantee else ["exactly_once", "at_least_once"]
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(Path(folder) / "kafka", start_timeout=START_TIMEOUT) as broker,
    ):
        for guarantee in guarantees:
            found: dict[bool, list[float]] = {True: [], False: []}
            latencies: dict[bool, list[float]] = {True: [], False: []}
            for run in range(options.runs):
                place = Path(folder) / f"{guarantee}-{run}"
                place.mkdir()
                it = Restarts(Kafka(broker.bootstrap_servers), guarantee, options.rate, place)
                try:
                    gaps = it.run()
                    slowest = it.slowest()
                    doubled = it.end()
                finally:
                    it.close()
                for name, gap in gaps.items():
                    found[name == QUIET].append(gap)
                for quiet in latencies:
                    latencies[quiet] += it.latencies(quiet=quiet)
                told = ", ".join(f"{name} {gap:.3f} s" for name, gap in gaps.items())
                print(f"  {guarantee}: {told}; {doubled} results too many", flush=True)
                print(f"    slowest: {'; '.join(slowest)}", flush=True)
            print(f"{guarantee:14} restarts: median {median(found[False]):.3f} s, longest {max(found[False]):.3f} s; "
                  f"quiet: {median(found[True]):.3f} s")  # fmt: skip
            print(
                f"{guarantee:14} latency: restarts {_described(latencies[False])}; quiet {_described(latencies[True])}"
            )


if __name__ == "__main__":
    main()
