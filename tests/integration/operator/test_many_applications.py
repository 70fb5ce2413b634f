"""The cost of many applications is counted by the API server; and what changes is seen all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from many_applications import ONE_OF, create, measure
from operator_process import OperatorProcess, until
from operator_world import World
from streamsapp_operator.kube.kinds import BUDGET, SERVICE, STATEFUL_SET

SECONDS = 20.0


@pytest.fixture
def busy_world(own_world: World) -> Iterator[World]:
    """With a Lease that is not lost while the machine has much to do."""
    own_world.operator.terminate()  # and gives its Lease back, which the next one would have to wait out
    api, namespace, folder = own_world.api, own_world.namespace, own_world.directory
    with OperatorProcess(api, namespace, folder, "patient", lease_seconds=120) as operator:
        own_world.operator = operator
        yield own_world


@pytest.mark.parametrize("count", [pytest.param(each, marks=pytest.mark.long) for each in (60, 200)])
def test_applications_at_rest_ask_the_api_server_for_next_to_nothing(busy_world: World, count: int) -> None:
    world = busy_world
    create(world, count)
    cost = measure(world, count, SECONDS)
    # An operator that asked once a second for each would ask twenty times as often.
    assert cost.requests_per_second * SECONDS < count, cost
    assert cost.resident_mb < 300, cost


@pytest.mark.long
def test_what_is_changed_of_an_application_at_rest_is_mended_at_once(busy_world: World) -> None:
    world = busy_world
    create(world, ONE_OF)
    name = "app-0"
    world.api.kubectl("delete", "service", name, "-n", world.namespace)
    until(lambda: world.client.get(SERVICE, world.namespace, name), "the service is back")
    world.api.kubectl("delete", "pdb", name, "-n", world.namespace)
    until(lambda: world.client.get(BUDGET, world.namespace, name), "the budget is back")


@pytest.mark.long
def test_a_watch_that_breaks_goes_on_and_misses_nothing(busy_world: World) -> None:
    world = busy_world
    create(world, ONE_OF)
    world.api.stop()
    world.api.start()
    patch = json.dumps({"spec": {"replicas": 5}})
    world.api.kubectl("patch", "statefulset", "app-0", "-n", world.namespace, "--type=merge", "-p", patch)
    until(lambda: _replicas(world, "app-0") == 1, "the number of pods is mended")


def _replicas(world: World, name: str) -> int | None:
    found = world.client.get(STATEFUL_SET, world.namespace, name)
    return None if found is None else int(found["spec"]["replicas"])
