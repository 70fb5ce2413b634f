"""The places of history that the command line names. Pure."""

from __future__ import annotations

import pytest

from streamsapp.errors import ManifestError
from streamsapp_spark.history.places import tables_of


def test_tables_without_a_version_go_on_with_the_one_that_a_bootstrap_began_with() -> None:
    sources = [
        "a=delta:/lake/a",
        "b=delta:s3a://lake/b@v7",
        "c=delta:/lake/c@2026-11-01 10:00",
        "parquet:/files/{d,e}, f",
        "g=iceberg:lake.g",
        "iceberg:s3a://lake/h@v9223372036854775807",
    ]
    tables = tables_of(sources, accepts_gaps=False)
    assert tables is not None
    assert tables.name == ", ".join(sources)
    assert tables.topics == {"a", "b", "c", "g"}

    begun = ", ".join([f"{sources[0]}@v12", *sources[1:4], f"{sources[4]}@v7512345678901234567", sources[5]])
    fixed = tables.as_begun(begun)
    assert fixed is not None
    assert fixed.name == begun
    assert [(each.path, each.version, each.time) for each in fixed.tables] == [
        ("/lake/a", "12", None),
        ("s3a://lake/b", "7", None),
        ("/lake/c", None, "2026-11-01 10:00"),
        ("/files/{d,e}, f", None, None),
        ("lake.g", "7512345678901234567", None),
        ("s3a://lake/h", "9223372036854775807", None),
    ]
    for other in ("kafka", begun.replace("@v7", "@v8"), begun.replace("/lake/a@", "/lake/b@"), tables.name):
        assert tables.as_begun(other) is None


def test_files_have_no_versions_and_only_delta_lake_needs_settings() -> None:
    files = tables_of(["parquet:/a@v12"], accepts_gaps=True)
    assert files is not None
    assert (files.tables[0].path, files.settings) == ("/a@v12", ())
    lake = tables_of(["delta:/a"], accepts_gaps=True)
    assert lake is not None
    assert [each.partition("=")[0] for each in lake.settings] == [
        "spark.sql.extensions",
        "spark.sql.catalog.spark_catalog",
    ]
    iceberg = tables_of(["iceberg:/a@v3"], accepts_gaps=True)
    assert iceberg is not None
    assert (iceberg.tables[0].version, iceberg.settings) == ("3", ())


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        (["hudi:/a"], "--from: expected kafka, or .*; got 'hudi:/a'"),
        (["parquet:"], "got 'parquet:'"),
        (["a b=delta:/a"], "got 'a b=delta:/a'"),
        (["kafka", "delta:/a"], "kafka has all topics"),
    ],
)
def test_what_is_no_place_is_named(sources: list[str], fault: str) -> None:
    with pytest.raises(ManifestError, match=fault):
        tables_of(sources, accepts_gaps=False)


def test_gaps_of_kafka_itself_cannot_be_accepted() -> None:
    assert tables_of(["kafka"], accepts_gaps=False) is None
    with pytest.raises(ManifestError, match="--accept-missing-offsets: is about tables"):
        tables_of(["kafka"], accepts_gaps=True)
