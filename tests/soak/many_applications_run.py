"""``PYTHONPATH=tests/support:tools python tests/soak/many_applications_run.py [COUNT] [SECONDS]``: the cost of one
operator for so many applications at rest.

On a real API server, which counts the requests. Prints one line of JSON; 1: more than is promised in docs/operator.md.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from api_server import ApiServer
from many_applications import create, measure
from operator_process import OperatorProcess, admin, prepare
from operator_world import World
from simulated_node import SimulatedNode

REQUESTS_PER_SECOND, RESIDENT_MB = 20, 300


def main(count: int, seconds: float) -> int:
    with tempfile.TemporaryDirectory() as folder, ApiServer(Path(folder) / "api-server") as api:
        namespace, client = prepare(api), admin(api)
        with (
            SimulatedNode(client, namespace, period=0.5) as node,
            OperatorProcess(api, namespace, Path(folder), lease_seconds=120) as operator,
        ):
            world = World(api, namespace, client, node, operator, Path(folder))
            create(world, count)
            cost = measure(world, count, seconds)
    print(json.dumps(dataclasses.asdict(cost)))
    return int(cost.requests_per_second >= REQUESTS_PER_SECOND or cost.resident_mb >= RESIDENT_MB)


if __name__ == "__main__":
    count, seconds = (*map(float, sys.argv[1:]), *(1000.0, 60.0)[len(sys.argv) - 1 :])
    sys.exit(main(int(count), seconds))
