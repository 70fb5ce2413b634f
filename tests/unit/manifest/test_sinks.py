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
URL = "jdbc:postgresql://db:5432/lake"
IN_DATABASE = {**SINK, "format": "jdbc", "table": "results.upper", "options": {"url": URL}}


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


def in_database(**options: str) -> dict[str, Any]:
    return {**IN_DATABASE, "options": {"url": URL, **options}}


def without(name: str) -> dict[str, Any]:
    return {field: of for field, of in SINK.items() if field != name}


def test_a_sink_is_valid(tmp_path: Path) -> None:
    other = {**SINK, "name": "table", "format": "delta", "path": "/lake/upper", "trigger": "10s"}
    iceberg = {**ICEBERG, "name": "iceberg", "path": "/iceberg"}
    assert validated(tmp_path, SINK, {**other, "options": {"mergeSchema": True}}, iceberg) == 0
    assert validated(tmp_path, {**IN_DATABASE, "secretRef": {"name": "login"}}) == 0
    assert validated(tmp_path, engine="threads") == 0


@pytest.mark.parametrize(
    ("sinks", "fault"),
    [
        (
            [{**SINK, "format": "csv"}],
            "spec.spark.sinks[0].format: expected 'delta' or 'iceberg' or 'jdbc' or 'parquet', got 'csv'",
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
            "spec.spark.sinks[0].table: is for iceberg and jdbc alone; remove it, as parquet has a folder, path",
        ),
        (
            [{**SINK, "secretRef": {"name": "login"}}],
            "spec.spark.sinks[0].secretRef: is for jdbc alone; remove it",
        ),
        (
            [{**IN_DATABASE, "table": "results.upper; DROP TABLE x"}],
            "spec.spark.sinks[0].table: expected table or schema.table, got 'results.upper; DROP TABLE x'",
        ),
        (
            [IN_DATABASE, {**IN_DATABASE, "name": "other", "path": "/other"}],
            "spec.spark.sinks[1].table: sink lake has the same table; give each sink its own",
        ),
        (
            [{**IN_DATABASE, "options": {}}],
            "spec.spark.sinks[0].options.url: is required with format: jdbc; set the database's address, such as",
        ),
        (
            [in_database(url="postgresql://db/lake")],
            "spec.spark.sinks[0].options.url: expected the address of a database, such as jdbc:postgresql://host",
        ),
        (
            [in_database(dbTable="others")],
            "spec.spark.sinks[0].options.dbTable: is set by the sink itself; remove it, and name the table in spec.",
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


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db/lake?ssl=true&password=hunter2",
        "jdbc:postgresql://db/lake?user=hunter2",
        "jdbc:postgresql://me:hunter2@db/lake",
        "jdbc:oracle:thin:me/hunter2@//db:1521/lake",
        "jdbc:sqlserver://db;databaseName=lake;user=me;password=hunter2",
        "jdbc:mysql://(host=db,user=me,password=hunter2)/lake",
    ],
)
def test_a_login_in_an_address_is_refused_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert validated(tmp_path, in_database(url=url)) == 2
    told = capsys.readouterr().err
    assert "spec.spark.sinks[0].options.url: all who may read the resource can read the login in it; remove it" in told
    assert "make username and password files of the Secret of secretRef" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://db,other:5433/lake?ssl=true&sslrootcert=/etc/ca.crt",
        "jdbc:sqlserver://db:1433;databaseName=lake",
        "jdbc:oracle:thin:@//db:1521/lake",
        "jdbc:mysql://db/lake",
        "jdbc:h2:tcp://db/~/lake",
    ],
)
def test_an_address_without_a_login_is_valid(tmp_path: Path, url: str) -> None:
    assert validated(tmp_path, in_database(url=url)) == 0


@pytest.mark.parametrize("option", ["user", "PASSWORD", "sslpassword", "trustStorePassword"])
def test_a_login_in_options_is_refused_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert validated(tmp_path, in_database(**{option: "hunter2"})) == 2
    told = capsys.readouterr().err
    assert f"spec.spark.sinks[0].options.{option}: all who may read the resource can read it; remove it" in told
    assert "hunter2" not in told


def test_sinks_need_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(tmp_path, SINK, engine="threads") == 2
    assert "spec.spark.sinks: needs spec.engine: spark, as Spark writes the tables; set that" in capsys.readouterr().err
