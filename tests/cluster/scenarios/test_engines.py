"""One application on two engines: pods, then Spark, then pods again, under load, and every count comes once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.layout import ClusterLayout
from cluster_app import App, kill
from cluster_load import ExactLoad
from cluster_world import WORDCOUNT, World
from kube_cluster import bring_in_spark

NAME = "engines"
#: Spark's Java processes start one after the other, on a machine that has other things to do.
TIMEOUT = 420.0


@pytest.fixture(scope="module")
def spark_image(cluster: ClusterLayout) -> None:
    bring_in_spark()


@pytest.fixture
def load(world: World) -> Iterator[ExactLoad]:
    with world.load(topics=NAME, rate=20) as made:
        yield made


@pytest.fixture
def app(world: World) -> Iterator[App]:
    made = world.app(NAME)
    yield made
    where = f"--namespace={world.namespace}"
    world.kubectl("delete", "streamsapp", NAME, where, "--ignore-not-found", "--timeout=120s")


def manifest(world: World, engine: str) -> dict[str, Any]:
    made = world.manifest(
        WORDCOUNT, topics=NAME, applicationId=NAME, engine=engine, replicas=1, resources={},
        rollout={"soakSeconds": 0, "maxRestoreSeconds": 600},
    )  # fmt: skip
    made["spec"]["processing"]["standbyReplicas"] = 0
    return made


def switched(app: App, engine: str) -> dict[str, Any]:
    """Returns the switch once the application runs on the engine."""

    def over() -> Any:
        status = app.status()
        found = status.get("switch") or {}
        arrived = status.get("engine") == engine and found.get("toEngine") == engine
        return found if arrived and found.get("observedSeconds") is not None else None

    return dict(app.wait(over, f"the application on {engine}", TIMEOUT))


def ready(app: App) -> bool:
    return bool(app.condition("Ready").get("status") == "True")


def restarts(app: App) -> int:
    """Returns how often containers of the driver were started again."""
    statuses = app.pods()[f"{NAME}-driver-0"]["status"].get("containerStatuses", ())
    return sum(each["restartCount"] for each in statuses)


def tokens(app: App) -> list[str]:
    """Returns the containers that have a token of the API server."""
    return [
        f"{name}/{container['name']}"
        for name, pod in app.pods().items()
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
        for mount in container.get("volumeMounts", ())
        if mount["mountPath"].startswith("/var/run/secrets/kubernetes.io")
    ]


def reads_archived_classes(app: App) -> bool:
    """Returns whether the driver's Java uses the archive of the image: Java maps no other."""
    where = ("exec", f"{NAME}-driver-0", f"--namespace={app.namespace}", "--container=runtime", "--")
    return "/opt/streamsapp/cache/" in app.kubectl(*where, "sh", "-c", "cat /proc/[0-9]*/maps")


@pytest.mark.long
@pytest.mark.timeout(1800, func_only=True)
def test_an_application_goes_from_pods_to_spark_and_back_under_load_and_every_count_comes_once(
    world: World, app: App, load: ExactLoad, spark_image: None
) -> None:
    app.apply(manifest(world, "threads"))
    app.wait(lambda: ready(app), "an application in pods")
    load.wait_for_counts()

    app.apply(manifest(world, "spark"))
    to_spark = switched(app, "spark")
    load.check()
    assert sorted(app.pods()) == [f"{NAME}-0", f"{NAME}-driver-0"]
    assert tokens(app) == []
    assert reads_archived_classes(app)
    assert app.status()["query"]["batches"] > 0

    kill(app.pods()[f"{NAME}-driver-0"])
    app.wait(lambda: restarts(app) > 0 and ready(app), "a driver that came back", TIMEOUT)
    load.wait_for_counts()
    load.check()

    app.apply(manifest(world, "threads"))
    back = switched(app, "threads")
    load.check()
    app.wait(lambda: sorted(app.pods()) == [f"{NAME}-0"], "pods only")
    assert load.findings == []
    assert to_spark["predictedSeconds"] > 0
    assert back["predictedSeconds"] > 0
