"""Everything that can be set has its field in the manifest, or a reason why it has none."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from manifests import app
from streamsapp.cli.main import main
from streamsapp.config import StreamsConfig
from streamsapp.config.setting import defined_settings
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.errors import ConfigError, ManifestError, TopologyError
from streamsapp.manifest.entrypoint import load_topology, user_code
from streamsapp.manifest.model import Spec
from streamsapp.manifest.settings import FIELDS
from streamsapp.manifest.to_config import to_config
from streamsapp.processor import handlers, timestamps
from streamsapp.runtime.instance import StreamsRuntime
from streamsapp.serdes.serdes import Serdes
from streamsapp.topology.builder import Topology

CODE = """
from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder
from streamsapp.processor.handlers import Response

def tolerant(context, exception):
    return Response.CONTINUE

def extractor(record, key, value, partition_time_ms):
    return 7

def grouper(sources, partitions):
    return {}

def wrapper(node_name, processor):
    return processor

def takes_one(value):
    return value

serde = Serdes.of(str.encode, bytes.decode)
text = Consumed(Serdes.string(), Serdes.string())

def builder():
    made = StreamsBuilder()
    made.table("rows", text, Materialized("kept")).to_stream().to("out")
    return made

def topology():
    return builder().build()
"""


def test_every_setting_has_a_field_or_says_how_else_it_is_set() -> None:
    neither = [
        each.name
        for each, defined in defined_settings(StreamsConfig)
        if (defined.field is None) != bool(defined.instead)
    ]

    assert neither == []


@pytest.mark.parametrize("path", sorted(set(FIELDS.values()) - {"resources.limits.memory"}))
def test_every_such_field_is_one_of_the_manifest(path: str) -> None:
    found: Any = inspect.type_info(Spec)
    for name in path.split("."):
        members = found.types if isinstance(found, inspect.UnionType) else [found]
        (struct,) = [each for each in members if isinstance(each, inspect.StructType)]
        found = {field.encode_name: field.type for field in struct.fields}[name]


@pytest.fixture
def code(request: pytest.FixtureRequest) -> str:
    """A module of its own name: Python imports a name once."""
    return f"settings_code_{abs(hash(request.node.nodeid))}"


def config(folder: Path, code: str, **spec: Any) -> StreamsConfig:
    manifest = app(code={"files": {f"{code}.py": CODE}}, **spec)
    return to_config(manifest, code=user_code(manifest, folder))


def test_what_is_named_of_the_users_code_is_looked_up(tmp_path: Path, code: str) -> None:
    made = config(
        tmp_path,
        code,
        processing={
            "defaultKeySerde": "string",
            "defaultValueSerde": f"{code}:serde",
            "defaultTimestampExtractor": f"{code}:extractor",
            "partitionGrouper": f"{code}:grouper",
            "processorWrapper": f"{code}:wrapper",
            "maxTaskIdleMs": -1,
            "maxPollIntervalMs": 1000,
            "probingRebalanceIntervalMs": 60_000,
        },
        errors={"deserialization": f"{code}:tolerant", "processing": "dead_letter", "deadLetterTopic": "dead"},
        topics={"replicationFactor": 3, "properties": {"segment.bytes": 1000, "preallocate": True}},
    )

    assert made.default_key_serde is Serdes.string()
    assert made.default_value_serde.name == "custom"
    assert made.default_timestamp_extractor(None, None, None, 0) == 7  # type: ignore[arg-type]
    assert made.partition_grouper is not None
    assert made.partition_grouper((), {}) == {}  # type: ignore[arg-type]
    assert made.processor_wrapper is not None
    assert made.processor_wrapper("node", "p") == "p"  # type: ignore[arg-type,comparison-overlap]
    assert (made.max_task_idle_ms, made.max_poll_interval_ms) == (-1, 1000)
    assert made.probing_rebalance_interval_ms == 60_000
    assert made.on_deserialization_error.__name__ == "tolerant"
    assert made.on_processing_error is handlers.dead_letter
    assert made.on_production_error is handlers.fail
    assert made.dead_letter_queue_topic == "dead"
    assert made.replication_factor == 3
    assert dict(made.topic_properties) == {"segment.bytes": "1000", "preallocate": "true"}


def test_what_is_left_out_means_what_it_means_in_python(tmp_path: Path, code: str) -> None:
    made = config(tmp_path, code, processing={"standbyReplicas": 0})
    plain = StreamsConfig(application_id=made.application_id, bootstrap_servers=made.bootstrap_servers)

    differing = {each.name for each in fields(plain) if getattr(made, each.name) != getattr(plain, each.name)}
    # Functions take the place of their names.
    assert differing == {f"{kind}_exception_handler" for kind in ("deserialization", "processing", "production")}
    assert made.default_timestamp_extractor is timestamps.fail_on_invalid_timestamp


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"errors": {"processing": "dead_letter"}},
            "spec.errors.processing: 'dead_letter' needs a topic to write to; set spec.errors.deadLetterTopic",
        ),
        ({"errors": {"processing": "ignore"}}, "spec.errors.processing: expected an exception handler as module:attr"),
        ({"errors": {"processing": "a:takes_one"}}, "spec.errors.processing: the runtime calls its function with (con"),
        ({"errors": {"deadLetterTopic": "a b"}}, "spec.errors.deadLetterTopic: expected a name of ASCII letters, dig"),
        ({"errors": {"deadLetterTopic": "dead\n"}}, "spec.errors.deadLetterTopic: expected a name of ASCII letters, "),
        ({"errors": {"deadLetterTopic": ".."}}, "spec.errors.deadLetterTopic: expected a name of ASCII letters, digit"),
        ({"processing": {"defaultKeySerde": "text"}}, "spec.processing.defaultKeySerde: expected a serde as module:a"),
        ({"processing": {"defaultKeySerde": "a:absent"}}, "spec.processing.defaultKeySerde: module "),
        ({"processing": {"maxTaskIdleMs": -2}}, "spec.processing.maxTaskIdleMs: expected an integer ≥ -1, got -2"),
        ({"processing": {"clientTags": {"zone": "$(NOWHERE)"}}}, "spec.processing.clientTags.zone: there is no variab"),
        ({"topics": {"replicationFactor": 0}}, "spec.topics.replicationFactor: expected an integer ≥ 1, got 0"),
        ({"topics": {"properties": {"Retention": 1}}}, "spec.topics.properties.Retention: expected a topic's setting"),
    ],
    ids=range(12),
)
def test_a_setting_that_cannot_be_is_a_fault_of_its_field(
    tmp_path: Path, code: str, spec: dict[str, Any], fault: str
) -> None:
    named = msgspec.json.decode(msgspec.json.encode(spec).replace(b'"a:', f'"{code}:'.encode()))
    with pytest.raises(ManifestError) as raised:
        config(tmp_path, code, **named)

    (told,) = raised.value.faults
    assert told.startswith(fault)


def test_a_tag_takes_a_variable_of_the_pod(tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "eu-1")

    assert config(tmp_path, code, processing={"clientTags": {"zone": "z-$(ZONE)"}}).client_tags == {"zone": "z-eu-1"}


def test_a_pod_has_the_zone_of_its_node_as_a_tag_unless_the_manifest_says_another(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_ZONE", "eu-1a")
    assert config(tmp_path, code).client_tags == {"zone": "eu-1a"}
    assert config(tmp_path, code, processing={"clientTags": {"rack": "r1"}}).client_tags == {
        "zone": "eu-1a",
        "rack": "r1",
    }
    assert config(tmp_path, code, processing={"clientTags": {"zone": "mine"}}).client_tags == {"zone": "mine"}

    monkeypatch.setenv("NODE_ZONE", "")  # as Kubernetes before 1.35 leaves it
    assert config(tmp_path, code).client_tags == {}


@pytest.mark.parametrize(
    "optimization", ["none", "all", "reuse.ktable.source.topics", "merge.repartition.topics,single.store.self.join"]
)
def test_an_optimised_table_needs_no_changelog(tmp_path: Path, code: str, optimization: str) -> None:
    manifest = app(
        code={"files": {f"{code}.py": CODE}},
        topology={"entrypoint": f"{code}:builder"},
        processing={"topologyOptimization": optimization},
    )

    (part,) = load_topology(manifest, tmp_path).sub_topologies()
    reused = "rows" if optimization in ("all", "reuse.ktable.source.topics") else None
    assert [store.changelog_topic for store in part.stores] == [reused]


@pytest.mark.parametrize("given", ["some", "none,all", "", "reuse.ktable.source.topics,all", 1])
def test_an_optimisation_that_is_none_is_refused_with_the_names_of_those_that_are(given: object) -> None:
    with pytest.raises(ManifestError) as raised:
        app(topology={"entrypoint": "app:builder"}, processing={"topologyOptimization": given})

    (fault,) = raised.value.faults
    assert fault.startswith("spec.processing.topologyOptimization: expected 'none', 'all', or some of reuse.ktable")
    with pytest.raises(TopologyError, match=r"^build\(optimize=\.\.\.\): expected 'none', 'all', or some of"):
        StreamsBuilder().build(optimize=given)  # type: ignore[arg-type]


def test_optimising_a_topology_that_is_built_is_refused(tmp_path: Path, code: str) -> None:
    manifest = app(
        code={"files": {f"{code}.py": CODE}},
        topology={"entrypoint": f"{code}:topology"},
        processing={"topologyOptimization": "all"},
    )

    with pytest.raises(
        ManifestError, match=r"^spec\.processing\.topologyOptimization: .* without merge.*, or let .* return"
    ):
        load_topology(manifest, tmp_path)


def test_the_runtime_refuses_an_optimisation_that_was_not_made(tmp_path: Path, code: str) -> None:
    topology = load_topology(
        app(code={"files": {f"{code}.py": CODE}}, topology={"entrypoint": f"{code}:topology"}), tmp_path
    )
    asked = StreamsConfig(application_id="a", bootstrap_servers="b:1", topology_optimization="all")

    with pytest.raises(ConfigError, match=r"^topology_optimization: .*build\(optimize='all'\)"):
        StreamsRuntime(topology, asked)


def test_generated_names_are_refused_by_the_manifest_that_asks_for_given_ones(tmp_path: Path) -> None:
    steps = [{"stream": "a"}, {"groupByKey": {}}, {"count": {}}]

    def load(**count: object) -> Topology:
        given = [*steps[:2], {"count": count}]
        naming = {"ensureExplicitInternalResourceNaming": True}
        return load_topology(app(topology={"steps": given}, processing=naming), tmp_path)

    with pytest.raises(ManifestError) as raised:
        load()
    (fault,) = raised.value.faults
    assert fault.startswith(
        "spec.processing.ensureExplicitInternalResourceNaming: generated names: state store "
        "KSTREAM-AGGREGATE-STATE-STORE-0000000001 (added at spec.topology.steps[2].count)"
    )
    load(store="counts")


def test_validate_looks_the_code_up(tmp_path: Path, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"{code}.py").write_text(CODE)
    manifest = tmp_path / "app.yaml"
    manifest.write_text(
        "apiVersion: streamsapp.dev/v1alpha1\nkind: StreamsApp\nmetadata: {name: app}\n"
        f"spec: {{topology: {{entrypoint: '{code}:builder'}}, errors: {{processing: '{code}:takes_one'}}}}\n"
    )

    assert main(["validate", "-f", str(manifest)]) == 2
    assert capsys.readouterr().err.startswith(f"{manifest}: spec.errors.processing: the runtime calls its function")
