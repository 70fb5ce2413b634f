"""Reading manifests: every fault at once, each with the path of its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli.main import main
from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode, load
from streamsapp.manifest.quantity import parse_quantity
from streamsapp.manifest.yaml_text import parse_yaml

FULL = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: wordcount, resourceVersion: "7"}
spec:
  applicationId: words
  engine: threads
  replicas: 3
  autoscaling: {minReplicas: 2, maxReplicas: 8, targetInputLag: 10000}
  topology: {entrypoint: "wordcount:topology"}
  code: {configMapRef: {name: wordcount-code}}
  image: registry.example/streamsapp-runtime:1.0
  kafka:
    bootstrapServers: "kafka:9092"
    properties: {ssl.ca.location: eu, socket.keepalive.enable: true}
    secretRef: {name: kafka-credentials}
  processing:
    guarantee: exactly_once
    threads: 2
    instances: auto
    commitIntervalMs: 100
    standbyReplicas: 1
    acceptableRecoveryLag: 10000
    maxWarmupReplicas: 2
  remoteState:
    url: s3://bucket/prefix
    endpoint: http://minio:9000
    secretRef: {name: s3-credentials}
    snapshotIntervalSeconds: 60
  rollout: {maxStandbyLag: 1000, maxObservationAgeSeconds: 10, maxRestoreSeconds: 60, timeoutSeconds: 3600}
  resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 2Gi}}
  podTemplate: {spec: {nodeSelector: {a: b}}}
status: {phase: Running}
"""


def minimal(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "wordcount"},
        "spec": {"topology": {"entrypoint": "wordcount:topology"}} | spec,
    }


def faults(document: object) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        decode(document)
    return raised.value.faults


def test_reads_every_field_of_the_contract() -> None:
    app = decode(parse_yaml(FULL))
    assert app.application_id == "words"
    assert app.spec.autoscaling is not None
    assert app.spec.autoscaling.max_replicas == 8
    assert app.spec.remote_state is not None
    assert app.spec.remote_state.snapshot_interval_seconds == 60
    assert app.spec.resources.limits == {"memory": "2Gi"}


def test_what_is_left_out_has_defaults() -> None:
    app = decode(minimal())
    assert app.application_id == "wordcount"
    assert (app.spec.engine, app.spec.replicas, app.spec.processing.guarantee) == ("threads", 1, "exactly_once")


def test_all_faults_are_told_at_once() -> None:
    document = minimal(
        engin="threads",
        replicas=-1,
        processing={"threads": "two", "guarantee": "maybe", "instances": 0},
        kafka={"properties": {"group.id": "mine", "acks": 0}},
        topology={"entrypoint": "wordcount"},
    )
    document["metadata"] = {}
    assert [line.partition(": ")[0] for line in faults(document)] == [
        "metadata.name",
        "spec.engin",
        "spec.replicas",
        "spec.processing.threads",
        "spec.processing.guarantee",
        "spec.processing.instances",
        "spec.topology.entrypoint",
        "spec.kafka.properties.group.id",
        "spec.kafka.properties.acks",
    ]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"processing": {"threads": "two"}}, "spec.processing.threads: expected an integer ≥ 1, got 'two'"),
        ({"processing": {"threads": True}}, "spec.processing.threads: expected an integer ≥ 1, got True"),
        ({"processing": {"thread": 2}}, "spec.processing.thread: unknown field; did you mean 'threads'?"),
        ({"processing": 3}, "spec.processing: expected a mapping, got 3"),
        ({"kafka": None}, "spec.kafka: expected a mapping, got nothing"),
        ({"engine": "flink"}, "spec.engine: expected 'spark' or 'threads', got 'flink'"),
        ({"spark": {"trigger": "soon"}}, "spec.spark.trigger: expected 1s, 500ms, availableNow, got 'soon'"),
        (
            {"rollout": {"maxGap": "0.2s"}},
            "spec.rollout.maxGap: expected a duration in whole ms, s or m, such as 200ms or 2s, got '0.2s'",
        ),
        (
            {"rollout": {"maxGap": 200}},
            "spec.rollout.maxGap: expected a duration in whole ms, s or m, such as 200ms or 2s, got 200 without a unit",
        ),
        (
            {"rollout": {"maxGap": "200ms\n"}},
            "spec.rollout.maxGap: expected a duration in whole ms, s or m, such as 200ms or 2s, got '200ms\\n'",
        ),
        (
            {"rollout": {"maxGap": "200ms"}, "engine": "spark"},
            (
                "spec.rollout.maxGap: a query of spec.engine spark stands still whenever its driver is replaced; "
                "remove this, or run the application by spec.engine threads"
            ),
        ),
        ({"spark": {"maxRecordsPerBatch": 0}}, "spec.spark.maxRecordsPerBatch: expected an integer ≥ 1, got 0"),
        (
            {"code": {"files": {"../x.py": ""}}},
            ("spec.code.files.../x.py: expected a relative path without '..', such as wordcount.py"),
        ),
        (
            {"remoteState": {"url": "ftp://x"}},
            ("spec.remoteState.url: expected s3://bucket/prefix or file:///folder, got 'ftp://x'"),
        ),
        (
            {"resources": {"limits": {"memory": "2 GB"}}},
            ("spec.resources.limits.memory: expected a quantity such as 2Gi, 500m or 1, got '2 GB'"),
        ),
        ({"topology": {}}, "spec.topology: expected exactly one of entrypoint, graph and steps, got none"),
        ({"topology": {"steps": []}}, "spec.topology.steps: reads nothing; begin with stream or table"),
        ({"topology": {"graph": {}}}, "spec.topology.graph.sources: the topology reads nothing; add a source"),
        (
            {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}},
            ("spec.autoscaling.minReplicas: 3 is more than maxReplicas (2); lower it or raise maxReplicas"),
        ),
    ],
)
def test_a_fault_names_field_and_remedy(spec: dict[str, Any], fault: str) -> None:
    assert faults(minimal(**spec)) == [fault]


def test_a_topology_has_one_origin() -> None:
    lines = faults(minimal(topology={"entrypoint": "a:b", "graph": {}}))
    assert lines[0].endswith("got entrypoint and graph")


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_anything_else_than_a_mapping_is_refused(document: object) -> None:
    assert faults(document)[0].startswith("the document: expected a mapping")


def test_a_key_given_twice_is_a_fault_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text("kind: StreamsApp\nspec:\n  replicas: 1\n  replicas: 2\n")
    with pytest.raises(ManifestError, match="line 4: the key 'replicas' is given twice"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere.yaml"
    assert main(["validate", "-f", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: cannot be read: No such file or directory\n"


def test_every_fault_is_told_with_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.yaml"
    path.write_text("kind: StreamsApp\nspec: {replicas: -1, topology: {}}\n")
    assert main(["validate", "-f", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert f"{path}: spec.replicas: expected an integer ≥ 0, got -1" in lines
    assert all(line.startswith(f"{path}: ") for line in lines)


def test_yaml_that_is_none_tells_the_line() -> None:
    with pytest.raises(ManifestError, match=r"^line 2: "):
        parse_yaml("a: 1\nb: ]\n")


def test_two_documents_are_one_too_many() -> None:
    with pytest.raises(ManifestError, match="found 2 documents"):
        parse_yaml("a: 1\n---\nb: 2\n")


def test_an_object_of_the_api_server_is_a_manifest() -> None:
    document = minimal() | {"status": {"phase": "Running"}}
    document["metadata"] |= {"managedFields": [], "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 4}
    assert isinstance(decode(document), StreamsApp)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("2Gi", 2 << 30), ("500m", 0.5), ("1", 1), (2, 2), ("1.5M", 1_500_000), ("1e3", 1000), ("1E", 10**18)],
)
def test_reads_kubernetes_quantities(quantity: str | int, value: float) -> None:
    assert parse_quantity(quantity) == value


@pytest.mark.parametrize("quantity", ["", "Gi", "2GB", "-1", "1 Gi", "2gi"])
def test_other_text_is_no_quantity(quantity: str) -> None:
    assert parse_quantity(quantity) is None


def test_numbers_to_the_base_60_are_text_as_they_are_for_kubectl() -> None:
    text = FULL.replace("ssl.ca.location: eu", "ssl.ca.location: 1:20, sasl.username: 1:20.5").replace(
        "timeoutSeconds: 3600}", "maintenanceWindows: [{start: 22:00, end: 04:30}]}"
    )
    document: Any = parse_yaml(text)
    assert document["spec"]["kafka"]["properties"]["ssl.ca.location"] == "1:20"
    assert document["spec"]["kafka"]["properties"]["sasl.username"] == "1:20.5"
    (window,) = decode(document).spec.rollout.maintenance_windows
    assert (window.start, window.end) == ("22:00", "04:30")


@pytest.mark.parametrize("application_id", ["../x", "..", "", "a\0b", "a b", "x" * 250])
def test_an_application_id_that_is_no_name_of_a_folder_or_topic_is_refused(application_id: str) -> None:
    (line,) = faults(minimal(applicationId=application_id))
    assert line.startswith(f"spec.applicationId: {application_id!r} ")


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("spec.spark.trigger", {"spark": {"trigger": "1s\n"}}),
        (
            "spec.rollout.maintenanceWindows[0].start",
            {"rollout": {"maintenanceWindows": [{"start": "22:00\n", "end": "04:00"}]}},
        ),
    ],
)
def test_a_line_break_at_the_end_is_no_part_of_a_value(field: str, spec: dict[str, Any]) -> None:
    (line,) = faults(minimal(**spec))
    assert line.startswith(f"{field}: expected ")


def test_a_file_of_code_has_a_name_that_a_file_system_takes() -> None:
    (line,) = faults(minimal(code={"files": {"ä" * 127 + ".py": ""}}))
    assert line.endswith(".py: a name in it has more than 255 bytes; shorten it")


def test_a_file_of_code_is_given_once() -> None:
    (line,) = faults(minimal(code={"files": {"a.py": "x = 1", "./a.py": "x = 2"}}))
    assert line == "spec.code.files../a.py: is the same file as a.py; remove one of them"
