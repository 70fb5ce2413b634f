"""An application that begins with what its topic has already: a Job makes state of it before there are pods."""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from cluster.layout import ClusterLayout
from cluster_app import App
from cluster_world import World
from kafka_cluster import Kafka
from kube_cluster import bring_in_spark

EXAMPLE = "bootstrap-wordcount"
HISTORY, LATER = 12_000, 3_000
#: Java, Spark, and a pod on a machine that has other things to do.
TIMEOUT = 600.0


@pytest.fixture(scope="module", autouse=True)
def spark_image(cluster: ClusterLayout) -> None:
    bring_in_spark()


class Beginner:
    """One application of its own, its topics, and what was written to them."""

    def __init__(self, world: World, kafka: Kafka) -> None:
        self.world, self.kafka = world, kafka
        self.topics = f"{EXAMPLE}-{uuid.uuid4().hex[:8]}"
        self.app = App(world.kubectl, world.namespace, self.topics)
        self.sent: Counter[str] = Counter()
        world.create_topics(f"{self.topics}-lines", f"{self.topics}-counts")

    def manifest(self, **spec: Any) -> dict[str, Any]:
        return self.world.manifest(EXAMPLE, topics=self.topics, applicationId=self.topics, replicas=2, **spec)

    def write(self, count: int) -> None:
        """Lines of two words each, over all partitions."""
        lines = [f"word{number % 50} line{number % 7}" for number in range(count)]
        self.sent.update(word for line in lines for word in line.split())
        for partition in range(4):
            self.kafka.produce(
                f"{self.topics}-lines", ((None, line.encode()) for line in lines[partition::4]), partition
            )

    def counts(self) -> dict[str, list[int]]:
        """Returns the counts that came out, word by word in its order."""
        found: dict[str, list[int]] = defaultdict(list)
        for message in self.kafka.read(f"{self.topics}-counts"):
            found[(message.key() or b"").decode()].append(int.from_bytes(message.value() or b"", "big", signed=True))
        return found

    def phase(self) -> str | None:
        phase: str | None = (self.app.status().get("bootstrap") or {}).get("phase")
        return phase

    def wait_ready(self) -> list[str]:
        """Return when it is; and which pods there were while the bootstrap was not done."""
        early: list[str] = []
        give_up = time.monotonic() + TIMEOUT
        while (phase := self.phase()) != "Done":
            pods = list(self.app.pods())
            early += pods if self.phase() == phase else []
            assert time.monotonic() < give_up, f"no bootstrap within {TIMEOUT:g} s; {self.app.described()}"
            time.sleep(0.2)
        self.app.wait(lambda: self.app.condition("Ready").get("status") == "True", "a ready application")
        return early

    def job(self) -> str:
        where = f"--namespace={self.app.namespace}"
        return self.world.kubectl("get", "jobs", where, f"--selector=streamsapp.dev/bootstrap={self.topics}", "-oname")


@pytest.fixture
def beginner(world: World, kafka: Kafka) -> Iterator[Beginner]:
    made = Beginner(world, kafka)
    yield made
    where = f"--namespace={world.namespace}"
    world.kubectl("delete", "streamsapp", made.topics, where, "--ignore-not-found", "--timeout=240s")


@pytest.mark.long
@pytest.mark.timeout(1100, func_only=True)
def test_an_application_counts_on_from_its_history_which_a_job_counted_before_there_was_a_pod(
    beginner: Beginner,
) -> None:
    beginner.write(HISTORY)
    before = Counter(beginner.sent)

    beginner.app.apply(beginner.manifest())
    assert beginner.wait_ready() == []
    beginner.write(LATER)

    app, due = beginner.app, {word: list(range(before[word] + 1, n + 1)) for word, n in beginner.sent.items()}
    app.wait(lambda: sum(map(len, beginner.counts().values())) >= sum(map(len, due.values())), "every count")
    assert beginner.counts() == due
    done = datetime.fromisoformat(app.status()["bootstrap"]["finishedAt"]).replace(microsecond=0)
    assert all(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) >= done for pod in app.pods().values())
    app.wait(lambda: not beginner.job(), "no Job any more")


@pytest.mark.long
@pytest.mark.timeout(1100, func_only=True)
def test_a_bootstrap_that_fails_starts_no_pod_says_why_and_goes_on_when_the_spec_is_mended(beginner: Beginner) -> None:
    beginner.write(1_000)
    manifest = beginner.manifest()
    wrong = {str(partition): 5_000 for partition in range(4)}
    manifest["spec"]["bootstrap"]["until"] = {f"{beginner.topics}-lines": wrong}

    beginner.app.apply(manifest)

    beginner.app.wait(lambda: beginner.phase() == "Failed", "a bootstrap that failed", TIMEOUT)
    degraded = beginner.app.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "BootstrapFailed")
    assert f"5000 is not an offset of {beginner.topics}-lines-0, which has the offsets 0 to 250" in degraded["message"]
    assert beginner.app.pods() == {}
    assert beginner.job(), "its log can be read"

    manifest["spec"]["bootstrap"]["until"] = "latest"
    beginner.app.apply(manifest)
    assert beginner.wait_ready() == []
    assert beginner.counts() == {}, "history is not counted again"
