"""``streamsapp reset`` on a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition as KafkaPartition

from instances import TIMEOUT, eventually
from kafka_cluster import Kafka
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.main import main
from streamsapp.config import StreamsConfig
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.remote.directory_store import DirectoryStore

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "{module}:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  remoteState: {{url: "file://{snapshots}"}}
  code:
    files:
      {module}.py: |
        from streamsapp import Topology
        from streamsapp.processor.api import Processor
        from streamsapp.state.api import StoreBuilder
        from streamsapp.state.kinds.key_value import KEY_VALUE
        class Count(Processor):
            def process(self, record): ...
        topology = Topology().add_source("in", "{topic}").add_processor("count", Count, "in")
        topology.add_state_store(StoreBuilder("counts", KEY_VALUE), "count")
"""


class Application:
    """An application that has run: its input, its internal topics, and the folders of the manifest and the state."""

    def __init__(self, name: str, broker: EmbeddedBroker, kafka: Kafka, folder: Path) -> None:
        self.name = name
        self.kafka = kafka
        self.cluster = KafkaCluster(StreamsConfig(application_id=name, bootstrap_servers=broker.bootstrap_servers))
        self.topic = kafka.create_topic("words", 2)
        for partition in (0, 1):
            kafka.produce(self.topic, [(None, b"x")] * 5, partition)
        self.cluster.create_topics([f"{name}-counts-changelog", f"{name}-old-changelog"], 1)
        eventually(lambda: len(self.internal_topics()) == 2, "the topics")  # a busy broker hears of them later
        self.state = folder / "state" / name
        self.state.mkdir(parents=True)
        self.manifest = folder / "app.yaml"
        self.snapshots = folder / "snapshots"
        self.snapshots.mkdir()
        text = MANIFEST.format(
            name=name,
            module=name.replace("-", "_"),
            servers=broker.bootstrap_servers,
            topic=self.topic,
            snapshots=self.snapshots,
        )
        self.manifest.write_text(text)

    def reset(self, *arguments: str) -> int:
        return main(["reset", "-f", str(self.manifest), "--state-dir", str(self.state.parent), *arguments])

    def committed(self) -> dict[int, int]:
        with closing_consumer(self) as consumer:
            asked = consumer.committed([KafkaPartition(self.topic, number) for number in (0, 1)], timeout=TIMEOUT)
            return {partition.partition: partition.offset for partition in asked}

    def internal_topics(self) -> list[str]:
        found = self.kafka.admin.list_topics(timeout=60).topics
        return sorted(topic for topic in found if topic.startswith(f"{self.name}-"))


@contextmanager
def closing_consumer(application: Application) -> Iterator[Consumer]:
    consumer = Consumer({
        "bootstrap.servers": application.kafka.bootstrap_servers,
        "group.id": application.name,
        "enable.auto.commit": False,
    })  # fmt: skip
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def application(broker: EmbeddedBroker, kafka: Kafka, tmp_path: Path) -> Application:
    return Application(kafka.unique("reset"), broker, kafka, tmp_path)


def test_a_dry_run_tells_the_plan_and_changes_nothing(
    application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    before = application.internal_topics()
    assert application.reset("--dry-run") == 0
    assert f"delete internal topic {application.name}-counts-changelog" in capsys.readouterr().out
    assert application.reset("--dry-run", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["dryRun"], told["deleteTopics"]) == (True, [f"{application.name}-counts-changelog"])
    assert application.internal_topics() == before
    assert application.state.exists()


def test_a_reset_deletes_what_the_topology_owns_and_rewinds_its_input(application: Application) -> None:
    with closing_consumer(application) as consumer:
        consumer.commit(offsets=[KafkaPartition(application.topic, 0, 4)], asynchronous=False)
    assert application.reset("--to-offset", "1") == 0
    assert application.committed() == {0: 1, 1: 1}
    old = f"{application.name}-old-changelog"
    eventually(lambda: application.internal_topics() == [old], "the end of the other one")  # as above
    assert not application.state.exists()


def test_a_reset_deletes_the_applications_snapshots_and_no_others(
    application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = DirectoryStore(application.snapshots)
    neighbours = [f"{application.name}/notes/a.txt", f"{application.name}-audit/0_0/manifests/0000000000000001.json"]
    own = [f"{application.name}/0_0/manifests/0000000000000001.json", f"{application.name}/0_1/files/1-ab/x"]
    for key in (*neighbours, *own):
        objects.put_new(key, b"")

    assert application.reset("--dry-run") == 0
    assert (
        f"delete snapshots in file://{application.snapshots}/{application.name}: 2 objects" in capsys.readouterr().out
    )
    assert len(list(objects.list(""))) == 4
    assert application.reset() == 0

    assert sorted(info.key for info in objects.list("")) == sorted(neighbours)


def test_a_reset_deletes_the_rows_of_a_table_whose_write_failed_and_says_so(
    application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = DirectoryStore(application.snapshots)
    rows, other = f"{application.name}/seed/{'a' * 32}/0-{'b' * 32}", f"{application.name}/seed/notes.txt"
    for key in (rows, other):
        objects.put_new(key, b"")

    assert application.reset("--dry-run") == 0
    folder = f"file://{application.snapshots}/{application.name}/seed"
    assert f"delete rows that writes of tables left in {folder}: 1 objects" in capsys.readouterr().out
    assert application.reset("-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["snapshots"]["objectsOfTables"] == 1
    assert [info.key for info in objects.list("")] == [other]


def test_a_topic_of_an_earlier_topology_goes_when_it_is_named(application: Application) -> None:
    assert application.reset("--internal-topics", f"{application.name}-old-changelog") == 0
    eventually(lambda: application.internal_topics() == [], "their end")


def test_a_group_with_members_is_not_reset(application: Application, capsys: pytest.CaptureFixture[str]) -> None:
    with closing_consumer(application) as consumer:
        assigned = threading.Event()
        consumer.subscribe([application.topic], on_assign=lambda *_: assigned.set())
        while not assigned.is_set():
            consumer.poll(0.1)
        assert application.reset() == 2
    assert "its consumer group has members" in capsys.readouterr().err
    assert application.state.exists()


def test_who_joins_the_group_before_anything_was_changed_keeps_its_state(
    application: Application, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = application.snapshots / application.name / "0_0" / "manifests" / "1"
    snapshot.parent.mkdir(parents=True)
    snapshot.touch()
    with closing_consumer(application) as consumer:
        assigned = threading.Event()

        def join(*_: object) -> None:
            consumer.subscribe([application.topic], on_assign=lambda *_: assigned.set())
            while not assigned.is_set():
                consumer.poll(0.1)

        monkeypatch.setattr("streamsapp.cli.reset._tell", join)
        assert application.reset() == 1
    assert "cannot set the offset" in capsys.readouterr().err
    assert application.state.exists()
    assert snapshot.exists()
    assert f"{application.name}-counts-changelog" in application.internal_topics()


def test_what_fails_after_the_offsets_are_set_is_told_with_the_remedy(
    application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = application.state.rename(application.state.with_name("elsewhere"))
    application.state.symlink_to(elsewhere)
    assert application.reset() == 1
    told = capsys.readouterr().err
    assert "symbolic link; the offsets are set, and not all state is deleted: run reset again before" in told
    assert application.committed() == {0: 0, 1: 0}

    application.state.unlink()
    elsewhere.rename(application.state)
    assert application.reset() == 0
    assert not application.state.exists()


def test_an_instance_that_is_no_group_member_shows_itself_by_its_commits(
    application: Application, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing_consumer(application) as consumer:
        offsets = iter(range(1000))

        def commit(_seconds: float = 0.0) -> None:
            consumer.commit(offsets=[KafkaPartition(application.topic, 0, next(offsets))], asynchronous=False)

        commit()
        # While the command watches, however long a commit takes.
        monkeypatch.setattr("streamsapp.cli.reset.GroupAdmin", partial(GroupAdmin, sleep=commit))
        assert application.reset() == 2
    assert "its committed offsets move" in capsys.readouterr().err
