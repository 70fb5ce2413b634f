"""``spec.spark.sinks``: a fault names the field and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamsapp.cli.main import main

STEPS = [
    {"stream": {"topic": "words", "keySerde": "string", "valueSerde": "string"}, "as": "words"},
    {"to": {"topic": "upper", "keySerde": "string", "valueSerde": "string"}, "from": "words"},
]
SINK = {"name": "lake", "topic": "upper", "format": "parquet", "path": "s3a://lake/upper"}
ICEBERG = {**SINK, "format": "iceberg", "table": "lake.db.upper"}


def validated(folder: Path, *sinks: dict[str, Any], engine: str = "spark") -> int:
    manifest = folder / "app.yaml"
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "upper"},
        "spec": {"engine": engine, "topology": {"steps": STEPS}, "spark": {"sinks": list(sinks)}},
    }
    manifest.write_text(yaml.safe_dump(document))
    return main(["validate", "-f", str(manifest)])


def without(name: str) -> dict[str, Any]:
    return {field: of for field, of in SINK.items() if field != name}


def test_a_sink_is_valid(tmp_path: Path) -> None:
    other = {**SINK, "name": "table", "format": "delta", "path": "/lake/upper", "trigger": "10s"}
    iceberg = {**ICEBERG, "name": "iceberg", "path": "/iceberg"}
    assert validated(tmp_path, SINK, {**other, "options": {"mergeSchema": True}}, iceberg) == 0
    assert validated(tmp_path, engine="threads") == 0


@pytest.mark.parametrize(
    ("sinks", "fault"),
    [
        (
            [{**SINK, "format": "csv"}],
            "spec.spark.sinks[0].format: expected 'delta' or 'iceberg' or 'parquet', got 'csv'",
        ),
        ([without("path")], "spec.spark.sinks[0].path: is required"),
        ([without("topic")], "spec.spark.sinks[0].topic: is required"),
        (
            [{**SINK, "path": "lake/upper"}],
            "spec.spark.sinks[0].path: expected a folder such as s3a://bucket/folder or /folder, which all executors",
        ),
        (
            [SINK, {**SINK, "path": "/other"}],
            "spec.spark.sinks[1].name: another sink is called lake, too; rename one of them",
        ),
        (
            [SINK, {**SINK, "name": "other", "path": "s3a://lake/upper/"}],
            "spec.spark.sinks[1].path: sink lake has the same folder; give each sink its own",
        ),
        (
            [SINK, {**SINK, "name": "other", "path": "s3a://lake/upper/more"}],
            "spec.spark.sinks[1].path: lies in the folder of sink lake; give each sink its own",
        ),
        (
            [{**SINK, "options": {"txnVersion": 1}}],
            "spec.spark.sinks[0].options.txnVersion: is set by the sink itself, as it makes rows exact; remove it",
        ),
        (
            [{**SINK, "topic": "lower"}],
            "spec.spark.sinks[0].topic: the topology writes no topic 'lower'; it writes: upper",
        ),
        (
            [{**SINK, "trigger": "soon"}],
            "spec.spark.sinks[0].trigger: expected a duration in whole ms, s or m, such as 200ms or 2s, got 'soon'",
        ),
        (
            [{**SINK, "table": "x"}],
            "spec.spark.sinks[0].table: is for iceberg alone; remove it, as parquet has a folder, path",
        ),
        (
            [{**SINK, "format": "iceberg"}],
            "spec.spark.sinks[0].table: is required, as a table of iceberg has a name; path is the folder of its",
        ),
        (
            [{**SINK, "format": "iceberg", "table": "upper"}],
            "spec.spark.sinks[0].table: expected catalog.database.table, with a catalog of spec.spark.conf",
        ),
        (
            [ICEBERG, {**ICEBERG, "name": "other", "path": "/other"}],
            "spec.spark.sinks[1].table: sink lake has the same table; give each sink its own",
        ),
    ],
)
def test_a_fault_names_field_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sinks: list[dict[str, Any]], fault: str
) -> None:
    assert validated(tmp_path, *sinks) == 2
    assert fault in capsys.readouterr().err


def test_sinks_need_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(tmp_path, SINK, engine="threads") == 2
    assert "spec.spark.sinks: needs spec.engine: spark, as Spark writes the tables; set that" in capsys.readouterr().err
