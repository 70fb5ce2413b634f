"""An application with schemas in a real registry, over a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from instances import Instances, eventually
from kafka_cluster import Kafka
from protobuf_messages import order_class
from streamsapp import Consumed, Grouped, Materialized, Produced, SchemaRegistry, Serdes, StreamsBuilder
from streamsapp.cli.main import main
from streamsapp.declared.roles import REGISTRY
from streamsapp.serdes.api import AnySerde

pytestmark = pytest.mark.long

ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "string"}, {"name": "cents", "type": "long"}]}"""
JSON_ORDER = """{"title": "Order", "type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}"""
ORDER_SERDE = {"avro": "registered_shop:ORDER"}
TEXT = Serdes.string()
Message = order_class()


def kinds(registry: SchemaRegistry) -> dict[str, tuple[AnySerde, Any]]:
    return {
        "AVRO": (registry.avro(ORDER), {"id": "a", "cents": 5}),
        "JSON": (registry.json_schema(JSON_ORDER), {"id": "a", "cents": 5}),
        "PROTOBUF": (registry.protobuf(Message), Message(id="a", cents=5)),
    }


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_records_state_and_changelogs_have_their_schemas_in_the_registry(
    kind: str, registry_url: str, kafka: Kafka, instances: Instances
) -> None:
    registry, other = SchemaRegistry(registry_url), SchemaRegistry(registry_url)
    serde, value = kinds(registry)[kind]
    source, sink = kafka.create_topic("orders"), kafka.create_topic("last")
    builder = StreamsBuilder()
    orders = builder.stream(source, Consumed(TEXT, serde))
    last = orders.group_by(lambda key, _: key, Grouped("again", TEXT, serde)).reduce(
        lambda _, new: new, Materialized("last", TEXT, serde)
    )
    last.to_stream().to(sink, Produced(TEXT, serde))
    config = instances.config()
    kafka.produce(source, [(b"k", serde.bind(source, is_key=False).serialize(value))])
    instance = instances.start(builder.build(), config)
    eventually(lambda: len(kafka.read(sink)) == 1)
    assert instance.close()

    for topic in (sink, f"{config.application_id}-last-changelog", f"{config.application_id}-again-repartition"):
        with SchemaRegistryClient({"url": registry_url}) as client:
            found = client.get_latest_version(f"{topic}-value")
        assert (found.schema.schema_type or "AVRO") == kind
    [changelog] = kafka.read(f"{config.application_id}-last-changelog")
    reader = kinds(other)[kind][0]  # it knows nothing yet
    data = changelog.value()
    assert data is not None
    assert data[0] == 0
    assert reader.bind(changelog.topic() or "", is_key=False).deserialize(data) == value
    registry.close()
    other.close()


def test_a_declared_topology_and_the_command_line_take_the_registry_of_the_environment(
    registry_url: str, kafka: Kafka, instances: Instances, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry_url)
    monkeypatch.setattr("streamsapp.cli.main.set_up_logging", lambda level, form: None)
    monkeypatch.syspath_prepend(str(tmp_path))
    source = kafka.create_topic("declared-orders")
    (tmp_path / "registered_shop.py").write_text(f"ORDER = {ORDER!r}\n")
    (tmp_path / "app.yaml").write_text(
        json.dumps({
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "registered"},
            "spec": {
                "kafka": {"bootstrapServers": kafka.bootstrap_servers},
                "topology": {"steps": [
                    {"stream": {"topic": source, "keySerde": "string", "valueSerde": ORDER_SERDE}},
                    {"to": {"topic": "elsewhere", "keySerde": "string", "valueSerde": "avro"}},
                ]},
            },
        })
    )  # fmt: skip
    lines = tmp_path / "lines"
    lines.write_text('{"key": "k", "value": {"id": "a", "cents": 5}}\n{"key": "k", "value": {"id": "a"}}\n')
    assert main(["produce", source, str(lines), "-f", str(tmp_path / "app.yaml")]) == 2
    assert "line 2: value: " in capsys.readouterr().err
    options = ["--bootstrap-servers", kafka.bootstrap_servers, "--value-serde", "avro"]
    assert main(["consume", source, *options]) == 0
    assert [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()] == [{"id": "a", "cents": 5}]
    REGISTRY.close()
