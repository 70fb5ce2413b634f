"""One operator and one word count that all scenarios share, with load running and the observer looking on throughout.

A scenario begins with an application that is as the example says, and is over when the application is so again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.layout import ClusterLayout
from cluster_world import SNAPSHOTS, WORDCOUNT, Running, World


@pytest.fixture(scope="session")
def world(cluster: ClusterLayout) -> Iterator[World]:
    """A namespace that enforces the restricted Pod Security Standard, with the operator in it."""
    with World(cluster, "scenarios", commit_interval_ms=500) as made:
        made.install()
        yield made


@pytest.fixture(scope="session")
def shared(world: World) -> Iterator[Running]:
    """The example as it is, three pods with standbys."""
    app = world.app(WORDCOUNT)
    with world.load(rate=25) as load, world.observer(WORDCOUNT) as observer:
        app.apply(world.manifest(WORDCOUNT))
        app.wait_settled()
        load.wait_for_counts()
        yield Running(world, app, load, observer)


@pytest.fixture
def wordcount(shared: Running) -> Iterator[Running]:
    """For one scenario."""
    yield from _scenario(shared, WORDCOUNT)


@pytest.fixture(scope="module")
def shared_snapshots(world: World) -> Iterator[Running]:
    """The example without standbys, on topics of its own; one pod."""
    app = world.app(SNAPSHOTS)
    with world.load(topics=SNAPSHOTS, rate=25) as load, world.observer(SNAPSHOTS) as observer:
        app.apply(world.snapshots_manifest())
        app.wait_settled()
        load.wait_for_counts()
        yield Running(world, app, load, observer)


@pytest.fixture
def snapshots(shared_snapshots: Running) -> Iterator[Running]:
    """For one scenario."""
    shared_snapshots.app.wait_settled()
    shared_snapshots.observer.begin()
    yield shared_snapshots
    _assert_clean(shared_snapshots)


def _scenario(running: Running, example: str) -> Iterator[Running]:
    running.app.apply(running.world.manifest(example))
    running.app.wait_settled()
    running.observer.begin()
    yield running
    _assert_clean(running)


def _assert_clean(running: Running) -> None:
    """Checked after every scenario."""
    found, running.observer.findings = running.observer.findings, []
    assert found == []
    assert running.load.findings == []
