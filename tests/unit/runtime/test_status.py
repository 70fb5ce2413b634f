"""An instance reports about itself: the status document, lags, health, metrics."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import ClientState, Serdes, Stores, TaskId, TopicPartition
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import TaskCorruptedError
from streamsapp.membership.api import Assignment, Peer
from streamsapp.metrics.samples import Histogram
from streamsapp.processor.operator import Tally
from streamsapp.runtime import status
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.corruptions import TIMES, Corruptions
from streamsapp.runtime.data_path import ENGINE
from streamsapp.runtime.global_stores.progress import GlobalPartition
from streamsapp.runtime.hand_overs import HandOver
from streamsapp.runtime.hang_detection import Hang
from streamsapp.state.engine.write_stalls import WriteStalls
from streamsapp.tasks.alignment import TimeAlignment
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from task_parts import config, feed, raw, task_of, through

CHANGELOG = TopicPartition("app-counts-changelog", 0)
AGREED = {"version": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384"}


def storing(*, running: bool = True) -> StreamTask:
    supplier = Stores.in_memory_key_value_store("counts")
    builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string())
    return task_of(through().add_state_store(builder, "node"), running=running)


@dataclass
class Parts:
    """The parts of a started instance that status reads."""

    running: list[StreamTask] = field(default_factory=list)
    restoring: dict[TopicPartition, ChangelogReader] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)
    processing: list[Any] = field(default_factory=list)
    longest: float = 0.0
    hanging: tuple[Hang, ...] = ()
    paused: bool = False
    safe_until: float = math.inf

    def __post_init__(self) -> None:
        self.tasks = SimpleNamespace(paused=self.paused, fair=None, is_paused=lambda task: self.paused)
        self.owned = SimpleNamespace(
            all={task.id: task for task in self.running}, active=self.running, alignment=TimeAlignment()
        )
        self.corruptions = Corruptions(MockClock())
        restoration = SimpleNamespace(
            reading=SimpleNamespace(readers=self.restoring, replicas_paused=self.paused),
            prepares=lambda task_id: False,
            corruptions=self.corruptions,
        )
        self.stores = SimpleNamespace(remote=None, restoration=restoration, global_thread=None)
        self.membership = SimpleNamespace(safe_until=self.safe_until, tls=None)
        ready = SimpleNamespace(complaint=None)
        self.life = SimpleNamespace(
            assignment=Assignment(frozenset(), generation=4),
            readiness=ready,
            outage=None,
            refused=False,
            hand_overs=SimpleNamespace(last=[]),
        )
        aside = SimpleNamespace(now={})
        self.hangs = SimpleNamespace(longest=self.longest, usual=7.25, hanging=self.hanging, set_aside=aside)
        self.polling = SimpleNamespace(name="app-polling")
        self.requests = SimpleNamespace(leaving=False)
        self.output = SimpleNamespace(commit_latency=Histogram(), buffered_records=0)
        self.feeder = SimpleNamespace(records_consumed=12, partitions_created_anew=1)
        self.statistics = SimpleNamespace(figures={TaskId(0, 0): {"counts": {"read_misses": 3}}})


def document(components: Parts | None) -> dict[str, Any]:
    return status.document(config(client_id="pod-1"), ClientState.RUNNING, cast(Any, components), MockClock(1_500))


def test_an_instance_that_was_not_started_has_no_tasks() -> None:
    assert document(None) == {
        "applicationId": "app",
        "instance": "pod-1",
        "state": "RUNNING",
        "generation": None,
        "tasks": [],
        "handOvers": [],
        "timeAlignment": [],
        "notes": [],
        "ready": False,
        "peers": [],
        "outages": [],
        "objectStore": None,
        "inProcessSeconds": None,
        "usualProcessSeconds": None,
        "hanging": [],
        "subTopologies": [],
        "globalStores": [],
        "client": {
            "name": "streamsapp",
            "security": "PLAINTEXT",
            "mechanism": None,
            "tls": None,
            "compression": "none",
            "engine": ENGINE,
        },
        "dataPath": f"client streamsapp over PLAINTEXT, compression none, engine {ENGINE}",
    }


def test_it_tells_for_how_long_tasks_stood_still_that_it_took_over() -> None:
    components = Parts()
    components.life.hand_overs.last.append(HandOver(TaskId(0, 1), 10_000, 0.08149, "planned", {"read": 0.05}))

    assert document(components)["handOvers"] == [
        {
            "task": "0_1",
            "at": "1970-01-01T00:00:10.000+00:00",
            "gapSeconds": 0.081,
            "kind": "planned",
            "steps": {"read": 0.05},
        }
    ]


def test_it_names_the_client_its_security_and_its_codec() -> None:
    kafka = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "producer.compression.type": "lz4",
    }
    told = status.document(config(client="librdkafka", kafka=kafka), ClientState.CREATED, None, MockClock())
    assert told["client"] == {
        "name": "librdkafka",
        "security": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "tls": None,
        "compression": "lz4",
        "engine": ENGINE,
    }
    assert told["dataPath"] == f"client librdkafka over SASL_SSL (SCRAM-SHA-512), compression lz4, engine {ENGINE}"


@pytest.mark.parametrize(("client", "agreed"), [("streamsapp", AGREED), ("librdkafka", None)])
def test_it_says_which_tls_the_own_clients_connections_have_agreed_on(
    client: str, agreed: dict[str, str] | None
) -> None:
    components = Parts()
    assert document(components)["client"]["tls"] is None
    components.membership.tls = tuple(AGREED.values())
    kafka = {"security.protocol": "ssl"}
    told = status.document(
        config(client=client, kafka=kafka), ClientState.RUNNING, cast(Any, components), MockClock(1_500)
    )

    assert told["client"]["tls"] == agreed
    how = " (TLSv1.3, TLS_AES_256_GCM_SHA384)" if agreed else ""
    assert told["dataPath"] == f"client {client} over SSL{how}, compression none, engine {ENGINE}"


def test_the_engine_is_named_by_the_file_that_was_loaded() -> None:
    assert [Path(each).name for each in _loaded() if "/compiled." in each] == [ENGINE]


def _loaded() -> set[str]:
    """The files of shared libraries in this process."""
    return {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(".so")}


def test_it_says_whether_it_is_ready_and_who_else_is_in_the_group() -> None:
    components = Parts()
    peers = {"a": Peer("10.0.0.2:8080"), "b": Peer("10.0.0.1:8080"), "c": Peer()}
    components.life.assignment = Assignment(frozenset(), generation=5, peers=peers)
    told = document(components)
    assert (told["ready"], told["peers"]) == (True, ["10.0.0.1:8080", "10.0.0.2:8080"])
    components.life.readiness.complaint = "standby task 0_3 is 81234 records behind"
    assert document(components)["ready"] is False


def test_what_cannot_be_reached_is_named_with_since_when_and_why() -> None:
    components = Parts()
    components.life.refused = True
    components.life.outage = (0.5, "no broker\nanswers " + "x" * 1_000)
    away, well = SimpleNamespace(outage=(1.0, "the bucket is away")), SimpleNamespace(outage=None)
    components.stores.remote = SimpleNamespace(snapshots=away, restores=well, requests=None)
    kafka, store = status.document(
        config(client_id="pod-1", remote_state=RemoteStateConfig(url="s3://bucket/prefix")),
        ClientState.RUNNING,
        cast(Any, components),
        MockClock(1_500),
    )["outages"]
    assert (kafka["name"], kafka["since"]) == ("kafka", "1970-01-01T00:00:00.500+00:00")
    assert kafka["refused"] is True
    assert kafka["message"].startswith("no broker answers xx")
    assert len(kafka["message"]) == 300
    assert store == {
        "name": "remoteState",
        "address": "s3://bucket/prefix",
        "since": "1970-01-01T00:00:01.000+00:00",
        "message": "the bucket is away",
    }


@pytest.mark.parametrize("snapshots", [None, (1.25, "no snapshot was written")])
def test_an_object_store_that_a_restore_cannot_reach_is_named_too(snapshots: tuple[float, str] | None) -> None:
    components = Parts()
    components.stores.remote = SimpleNamespace(
        snapshots=SimpleNamespace(outage=snapshots),
        restores=SimpleNamespace(outage=(1.0, "the bucket is away")),
        requests=None,
    )
    (store,) = status.document(
        config(client_id="pod-1", remote_state=RemoteStateConfig(url="s3://bucket/prefix")),
        ClientState.RUNNING,
        cast(Any, components),
        MockClock(1_500),
    )["outages"]
    assert (store["since"], store["message"]) == ("1970-01-01T00:00:01.000+00:00", "the bucket is away")


def test_what_the_group_does_not_give_this_instance_is_told() -> None:
    components = Parts()
    components.life.assignment = Assignment(frozenset(), generation=5, notes=("sub-topology 1: why",))

    assert document(components)["notes"] == ["sub-topology 1: why"]


def test_every_partition_that_fills_a_global_store_tells_how_far_behind_it_is() -> None:
    components = Parts([])
    partition = GlobalPartition("rates", 9, Observation(5, 7, 1_000))
    restored = threading.Event()
    components.stores.global_thread = SimpleNamespace(
        reading=SimpleNamespace(partitions={TopicPartition("rates-in", 1): partition}), restored=restored
    )
    told = {
        "name": "rates",
        "topic": "rates-in-1",
        "position": 5,
        "endOffset": 7,
        "lag": 2,
        "observedAt": "1970-01-01T00:00:01.000+00:00",
    }

    assert document(components)["globalStores"] == [{**told, "mode": "restoring"}]
    restored.set()
    assert document(components)["globalStores"] == [{**told, "mode": "updating"}]


def test_a_running_task_stands_at_the_end_of_its_changelog() -> None:
    task = storing()
    task.changelog_positions["counts"] = 41
    task.input_lag = 7
    task.processed_records, task.stores.commits = 3, 2

    (told,) = document(Parts([task]))["tasks"]

    assert told == {
        "id": "0_0",
        "role": "active",
        "state": "RUNNING",
        "stores": [
            {
                "name": "counts",
                "changelog": "app-counts-changelog-0",
                "position": 41,
                "endOffset": 41,
                "lag": 0,
                "observedAt": "1970-01-01T00:00:01.500+00:00",
                "mode": "processing",
                "snapshot": None,
            }
        ],
        "inputLag": 7,
        "processedRecords": 3,
        "waitingRecords": 0,
        "commits": 2,
        "paused": False,
        "writeStall": None,
        "restore": None,
    }


def test_a_task_whose_writes_wait_for_rocksdb_says_what_for_and_how_long() -> None:
    task = storing()
    stalls = WriteStalls()
    task.stores = cast(Any, SimpleNamespace(commits=0, write_stalls=stalls))

    def told() -> dict[str, Any] | None:
        (found,) = document(Parts([task]))["tasks"]
        return cast("dict[str, Any] | None", found["writeStall"])

    assert told() is None
    for lasts in (0.005, 2.5):
        stalls.goes_on("compaction", lasts)
    assert told() == {"waitsFor": "compaction", "seconds": 2.5, "longestSeconds": 2.5}
    stalls.ended()
    assert told() == {"waitsFor": None, "seconds": 2.5, "longestSeconds": 2.5}
    stalls.goes_on("flush", 0.5)
    assert told() == {"waitsFor": "flush", "seconds": 3.0, "longestSeconds": 2.5}


def test_an_active_task_stands_at_the_end_only_as_long_as_nobody_else_can_have_it() -> None:
    task = storing()
    task.changelog_positions["counts"] = 41

    def seen(safe_until: float) -> tuple[int | None, str | None]:
        (told,) = document(Parts([task], safe_until=safe_until))["tasks"]
        return told["stores"][0]["endOffset"], told["stores"][0]["observedAt"]

    assert seen(safe_until=0.7) == (41, "1970-01-01T00:00:00.700+00:00"), "the group has been silent since"
    assert seen(safe_until=-math.inf) == (None, None), "no member at all"


def test_a_replica_is_shown_as_it_was_seen_however_long_ago_that_is() -> None:
    task = storing()
    task.role = TaskRole.STANDBY
    seen = Observation(30, 100, observed_at_ms=1_000)
    reader = ChangelogReader(task, "counts", CHANGELOG, position=90, observed=seen)

    (told,) = document(Parts([task], {CHANGELOG: reader}))["tasks"]

    (store,) = told["stores"]
    assert (store["position"], store["endOffset"], store["lag"]) == (30, 100, 70), "at one moment, not at two"
    assert (store["observedAt"], store["mode"]) == ("1970-01-01T00:00:01.000+00:00", "updating")
    assert (told["inputLag"], told["processedRecords"]) == (None, None), "those are for the active one to tell"


def test_a_paused_application_says_so_of_every_store() -> None:
    (told,) = document(Parts([storing()], paused=True))["tasks"]

    assert [store["mode"] for store in told["stores"]] == ["paused"]


def test_a_restoring_store_tells_how_far_it_is() -> None:
    task = storing(running=False)
    restore = ChangelogReader(task, "counts", CHANGELOG, position=30, end=100, applied=30)

    (told,) = document(Parts([task], {CHANGELOG: restore}))["tasks"]

    (store,) = told["stores"]
    assert (store["position"], store["endOffset"], store["lag"], store["mode"]) == (30, 100, 70, "restoring")
    assert told["state"] == "CREATED"


def test_what_is_not_known_is_null_and_never_zero() -> None:
    (told,) = document(Parts([storing(running=False)]))["tasks"]

    (store,) = told["stores"]
    assert (store["position"], store["endOffset"], store["lag"]) == (None, None, None)
    assert told["inputLag"] is None


def test_lags_are_listed_by_store_and_partition() -> None:
    task = storing()
    task.changelog_positions["counts"] = 5

    lags = status.store_lags(document(Parts([task]))["tasks"])

    assert lags == {"counts": {0: {"position": 5, "endOffset": 5, "lag": 0}}}


@pytest.mark.parametrize("state", [ClientState.ERROR, ClientState.PENDING_ERROR])
def test_a_failed_instance_is_unhealthy(state: ClientState) -> None:
    assert status.health(state, None, 300) == (False, f"state is {state.value}")


def test_an_instance_whose_thread_died_is_unhealthy_and_names_it() -> None:
    dead = threading.Thread(target=lambda: None, name="app-restoration")
    dead.start()
    dead.join()

    healthy, why = status.health(ClientState.RUNNING, cast(Any, Parts(threads=[dead])), 300)

    assert (healthy, why) == (False, "threads died: app-restoration")


def test_threads_that_ended_because_the_instance_closes_are_fine() -> None:
    dead = threading.Thread(target=lambda: None)
    dead.start()
    dead.join()

    assert status.health(ClientState.PENDING_SHUTDOWN, cast(Any, Parts(threads=[dead])), 300)[0]


def test_an_instance_with_a_hanging_record_is_unhealthy() -> None:
    healthy, why = status.health(ClientState.RUNNING, cast(Any, Parts(longest=301.0)), 300)

    assert (healthy, why) == (False, "a record or punctuator has been in process for 301 s")


def test_an_instance_at_work_is_healthy() -> None:
    assert status.health(ClientState.RUNNING, cast(Any, Parts(longest=1.0)), 300) == (True, "state is RUNNING")


def test_an_instance_whose_state_is_damaged_again_and_again_is_not_healthy() -> None:
    components = Parts(longest=1.0)
    for _ in range(TIMES):
        components.corruptions.note(TaskId(0, 1), TaskCorruptedError("damaged"))

    healthy, why = status.health(ClientState.RUNNING, cast(Any, components), 300)

    assert not healthy
    assert "task 0_1 was found damaged" in why


def test_metrics_have_kafka_streams_names_and_the_tasks_figures() -> None:
    task = storing()
    feed(task, [raw(0), raw(1)])
    task.process(task.control, 1)
    task.input_lag = 9
    task.context.counts["KTABLE-SUPPRESS-0000000002", "suppression-emit"] = emitted = Tally()
    emitted.value = 4

    found = {
        sample.name: sample.value
        for sample in status.samples(config(), ClientState.RUNNING, cast(Any, Parts([task])), now_ms=0)
    }

    assert found["kafka_stream_task_process_total"] == 1
    assert found["kafka_stream_task_active_buffer_count"] == 1
    assert found["kafka_stream_task_input_lag"] == 9
    assert found["kafka_stream_thread_poll_records_total"] == 12
    assert found["kafka_stream_thread_partitions_created_anew_total"] == 1
    assert found["kafka_stream_state_read_misses"] == 3
    assert found["kafka_stream_processor_node_suppression_emit_total"] == 4


def test_an_input_lag_that_is_not_known_has_no_metric() -> None:
    samples = status.samples(config(), ClientState.RUNNING, cast(Any, Parts([storing()])), now_ms=0)

    assert "kafka_stream_task_input_lag" not in {sample.name for sample in samples}


def test_a_task_that_hangs_is_named_and_makes_the_instance_not_ready() -> None:
    hang = Hang(TaskId(0, 1), 31.4, "task 0_1 has had record orders-1@17 in process")
    parts = cast(Any, Parts(longest=31.4, hanging=(hang,)))

    told = document(parts)
    assert (told["inProcessSeconds"], told["usualProcessSeconds"]) == (31.4, 7.2)
    said = "task 0_1 has had record orders-1@17 in process for 31 s"
    assert told["hanging"] == [{"task": "0_1", "seconds": 31.4, "message": said}]
    assert told["ready"] is False
    assert status.readiness(ClientState.RUNNING, parts) == (False, f"{said}; commits wait for it")
