"""A query of Spark's on executors of a cluster: what happens to them, to the broker and to S3 changes no result."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, eventually
from kafka_cluster import Kafka
from s3_server import BUCKET, S3Server
from spark_apps import finished
from spark_counting import Counted, standalone, status_of
from streamsapp.local.broker import EmbeddedBroker, free_port

#: Each has sessions of Spark's.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

#: Spark runs a task a second time as soon as it has run for a moment longer than the other one.
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}
_OUTAGE = 30.0


@pytest.fixture
def there(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Instances]:
    """Instances on a broker that may be stopped."""
    made = Instances(Kafka(own_broker.bootstrap_servers), tmp_path)
    yield made
    made.close()


def test_speculation_a_lost_executor_and_outages_of_broker_and_s3_change_no_result(
    there: Instances, own_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with ExitStack() as running:
        s3 = running.enter_context(S3Server(tmp_path / "s3"))
        master = running.enter_context(standalone(tmp_path, 2))
        remote = {"url": f"s3://{BUCKET}/app", "endpoint": s3.endpoint}
        counted = Counted(there, "executors", "200ms", conf=_SPECULATION, remote_state=remote)
        counted.produce(200)
        port = free_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, (s3.credentials / name).read_text().strip())
        driver = counted.driver(master=master, port=port)
        running.callback(driver.communicate)
        running.callback(driver.kill)
        eventually(counted.done, "the first results", 300.0)

        counted.write(["slow"])
        eventually(lambda: len(list(counted.processes.glob("slow-*"))) == 2, "the task on another executor", 300.0)
        counted.produce(100)
        eventually(counted.done, "results after a task was run twice at a time", 300.0)
        counted.write(["deadly"])
        counted.produce(100)
        eventually(counted.done, "results after an executor was killed", 300.0)
        assert (counted.processes / "killed").exists()

        assert own_broker.pid is not None
        os.kill(own_broker.pid, signal.SIGSTOP)
        time.sleep(_OUTAGE)
        os.kill(own_broker.pid, signal.SIGCONT)
        counted.produce(100)
        eventually(counted.done, "results after the broker was away", 300.0)

        s3.stop()
        until = time.monotonic() + _OUTAGE
        counted.produce(100)

        def told() -> Any:
            return [each for each in status_of(port).get("outages", ()) if each["name"] == "remoteState"]

        eventually(told, "word of S3 at the driver", 300.0)
        assert re.match(r"on \S+:\S+/worker-\d+: cannot ", told()[0]["message"]), told()
        time.sleep(max(0.0, until - time.monotonic()))
        s3.start()
        counted.produce(100)
        eventually(counted.done, "results after S3 was away", 300.0)
        eventually(lambda: status_of(port)["outages"] == [], "the end of the outage", 300.0)

        driver.terminate()
        code, _, errors = finished(driver)
        assert code == 0, errors[-6000:]
        counted.check()


def test_three_processes_of_a_cluster_and_two_of_one_machine_make_the_same_state(instances: Instances) -> None:
    one = Counted(instances, "local", "availableNow")
    other = Counted(instances, "cluster", "availableNow", words=one.words)
    one.produce(2_000)
    other.expected, other.produced = one.expected, one.produced
    one.catch_up()
    other.catch_up("local-cluster[3,1,1024]")
    one.check()
    other.check()
    assert one.state() == other.state()
    assert len(one.state()) == len(one.expected)


def test_a_driver_that_hung_while_another_one_took_over_ends(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # each has its own Java
    counted = Counted(instances, "hung", "200ms")
    counted.produce(100)
    hung = counted.driver()
    with ExitStack() as running:
        running.callback(hung.communicate)
        running.callback(hung.kill)
        eventually(counted.done, "the first results", 300.0)
        os.kill(hung.pid, signal.SIGSTOP)
        heir = counted.driver(state=tmp_path / "heir")
        running.callback(heir.communicate)
        running.callback(heir.kill)
        counted.produce(100)
        eventually(counted.done, "results of the other one", 300.0)
        os.kill(hung.pid, signal.SIGCONT)
        counted.produce(100)
        code, _, errors = finished(hung)
        assert (code, "another driver of this application has started since" in errors) == (1, True), errors[-6000:]
        counted.produce(100)
        eventually(counted.done, "results of the one that is left", 300.0)
        heir.terminate()
        code, _, errors = finished(heir)
        assert code == 0, errors[-6000:]
        counted.check()


def test_a_disk_that_is_full_ends_the_driver_with_the_workers_name_and_loses_nothing(
    instances: Instances, small_disk: Path
) -> None:
    counted = Counted(instances, "full", "availableNow")
    counted.produce(200)
    with (small_disk / "filler").open("wb") as filler:
        filler.write(bytes(11 << 20))
    code, _, errors = finished(counted.driver(state=small_disk))
    assert code == 1, errors[-6000:]
    assert re.search(rf"on \S+:{re.escape(str(small_disk))}/\S+/worker-\d+: .*No space left on device", errors), errors[
        -6000:
    ]
    counted.catch_up()
    counted.check()
