"""Many applications of one operator, most of them at rest, and what that costs the API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from operator_process import TIMEOUT, until
from operator_world import World
from streamsapp_operator.kube import Object
from streamsapp_operator.kube.kinds import STREAMS_APP

#: Of so many applications one has pods; the others are suspended.
ONE_OF = 20


@dataclass(frozen=True)
class Cost:
    """Of applications at rest."""

    applications: int
    requests_per_second: float
    resident_mb: float
    cpu_cores: float


def create(world: World, count: int) -> None:
    """Applications, and wait until each is where it is to be."""

    def one(number: int) -> None:
        manifest = world.manifest(f"app-{number}", replicas=int(number % ONE_OF == 0), rollout={"maxStandbyLag": 0})
        world.client.create(manifest)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(count)))
    until(lambda: all(map(is_settled, _listed(world, count))), f"all {count} are settled", TIMEOUT + count)


def measure(world: World, count: int, seconds: float) -> Cost:
    """Without other clients: the node's part is played no more."""
    world.node.rest()
    _wait_for_rest(world.api.requests, count)
    settle = world.api.requests()
    pid = world.operator.pid
    cpu = _cpu_seconds(pid)
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    requests = world.api.requests() - settle - 1  # this look at the metrics
    cores = (_cpu_seconds(pid) - cpu) / passed
    return Cost(count, requests / passed, _resident_mb(pid), cores)


def is_settled(app: Object) -> bool:
    status = app.get("status") or {}
    current = status.get("observedGeneration") == app["metadata"]["generation"]
    phase = (status.get("rollout") or {}).get("phase")
    if app["spec"]["replicas"] == 0:
        return bool(current and phase == "Rolling" and status.get("phase") == "Suspended")
    return bool(current and phase == "Complete")


def _listed(world: World, count: int) -> list[Object]:
    time.sleep(1.0)
    assert world.operator.running, world.operator.ended
    found = world.client.list(STREAMS_APP, world.namespace)
    assert len(found) == count, json.dumps([app["metadata"]["name"] for app in found])
    return found


def _wait_for_rest(requests: Callable[[], float], count: int) -> None:
    """Until what was begun before is done: in a second not one application in ten asks for anything."""
    before = requests()

    def rests() -> bool:
        nonlocal before
        time.sleep(1.0)
        now = requests()
        asked, before = now - before, now
        return asked < count / 10

    until(rests, "nothing is being done any more")


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
