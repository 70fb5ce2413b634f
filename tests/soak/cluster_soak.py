"""Rolling restarts on a real cluster with random faults: ``python -m cluster_soak``, which ``make soak-cluster`` calls.

Each seed restarts every pod of the word count while words are counted and things go wrong. Every word must be counted
once, and the restart must come to its end. No pod may ever be taken away while the rule of restart safety, worked out
from the truth, says no. All seeds share one application. The last line is ``N passed, N failed``.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster_app import AWAY, KubectlError, frozen, kill
from cluster_world import WORDCOUNT, Running, World
from kube_cluster import cluster_for_tests

_NAMESPACE = _TOPICS = "soak"
_PODS = 3
#: Faults begin within so many seconds after the restart was asked for: it takes about as long without any.
_WINDOW = 30.0
_TIMEOUT = 240.0


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, its time, its pod, and how long it lasts."""

    at: float
    kind: str
    pod: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} {self.pod} at {self.at:.1f} for {self.seconds:.0f} s"


@dataclass(frozen=True)
class Plan:
    """All that is decided by a seed."""

    seed: int
    max_standby_lag: int
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return f"maxStandbyLag {self.max_standby_lag}; {'; '.join(map(str, self.faults))}"


def make_plan(seed: int) -> Plan:
    """The same for the same seed."""
    dice = random.Random(seed)
    faults = [
        Fault(dice.uniform(0, _WINDOW), dice.choice(list(_ACTS)), dice.randrange(_PODS), dice.uniform(2, 12))
        for _ in range(dice.randint(1, 4))
    ]
    return Plan(seed, dice.choice([20, 200, 1000]), tuple(sorted(faults, key=lambda fault: fault.at)))


def kill_pod(running: Running, fault: Fault) -> None:
    kill(running.app.pods()[f"{WORDCOUNT}-{fault.pod}"])


def freeze_pod(running: Running, fault: Fault) -> None:
    with frozen(running.app.pods()[f"{WORDCOUNT}-{fault.pod}"]):
        time.sleep(fault.seconds)


def delete_pod(running: Running, fault: Fault) -> None:
    """As a user who deletes it without asking the operator."""
    name = f"{WORDCOUNT}-{fault.pod}"
    with running.observer.excused(name):
        running.world.kubectl("delete", "pod", name, f"--namespace={running.app.namespace}", "--wait=false")


def kill_operator(running: Running, fault: Fault) -> None:
    where = (f"--namespace={running.app.namespace}", "--grace-period=0", "--force", "--wait=false")
    running.world.kubectl("delete", "pod", *running.world.operator_pods(), *where)


def stop_api_server(running: Running, fault: Fault) -> None:
    with running.world.api_server_away():
        time.sleep(fault.seconds)


_ACTS: dict[str, Callable[[Running, Fault], None]] = {
    "kill": kill_pod,
    "freeze": freeze_pod,
    "delete": delete_pod,
    "operator": kill_operator,
    "api server": stop_api_server,
}


@dataclass
class Report:
    """The report of a run."""

    #: The faults that were found.
    findings: list[str] = field(default_factory=list)
    #: Faults that did not happen: the pod was away just then, or the API server.
    missed: list[Fault] = field(default_factory=list)


def run_plan(running: Running, plan: Plan, report: Report) -> None:
    """Raises what breaks the run off."""
    app = running.app
    app.patch({"rollout": {"maxStandbyLag": plan.max_standby_lag}})
    app.wait_settled(_TIMEOUT)
    running.observer.begin()
    before = app.uids()
    app.ask_for_restart()
    began = time.monotonic()
    hands = [threading.Thread(target=_act, args=(running, fault, began, report), daemon=True) for fault in plan.faults]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    try:
        app.wait_replaced(before, _TIMEOUT)
        running.load.check()
    except AssertionError as error:
        report.findings.append(str(error))


def _act(running: Running, fault: Fault, began: float, report: Report) -> None:
    time.sleep(max(0.0, began + fault.at - time.monotonic()))
    try:
        _ACTS[fault.kind](running, fault)
    except (KubectlError, KeyError, AssertionError, *AWAY):
        report.missed.append(fault)


def main() -> int:
    options = _parse(sys.argv[1:])
    failed = 0
    with cluster_for_tests() as layout, World(layout, _NAMESPACE) as world:
        world.install()
        app = world.app(WORDCOUNT)
        with world.load(topics=_TOPICS) as load, world.observer(WORDCOUNT) as observer:
            app.apply(world.manifest(WORDCOUNT, topics=_TOPICS, applicationId=f"{_TOPICS}-{WORDCOUNT}"))
            app.wait_settled()
            running = Running(world, app, load, observer)
            for seed in range(options.seed, options.seed + options.runs):
                failed += not _run(running, make_plan(seed))
    print(f"{options.runs - failed} passed, {failed} failed")
    return 1 if failed else 0


def _run(running: Running, plan: Plan) -> bool:
    began, report = time.monotonic(), Report()
    try:
        run_plan(running, plan, report)
    except Exception:
        report.findings.append(f"the run itself broke off:\n{traceback.format_exc()}")
    broken, running.observer.findings = running.observer.findings, []
    report.findings += broken
    took, counted = time.monotonic() - began, running.load.ledger.last.total()
    gap = running.load.longest_gap(began)
    judged = len(running.observer.removals)
    verdict = "FAILED" if report.findings else "ok"
    print(f"seed {plan.seed} {verdict} {took:.1f} s ({counted} words counted, {judged} removals judged, longest gap "
          f"{gap.seconds:.1f} s) {plan}", flush=True)  # fmt: skip
    if report.missed:
        print(f"    did not happen: {'; '.join(map(str, report.missed))}", flush=True)
    for finding in report.findings:
        print(f"    {finding}", flush=True)
    return not report.findings


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="cluster_soak", description="Rolling restarts on a real cluster, with faults."
    )
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="seeds to run; default: 20")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first of them; default: 1")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs: expected an integer of at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
