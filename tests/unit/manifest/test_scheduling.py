"""``spec.processing.scheduling`` becomes entries of the configuration, and names that nothing has are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import app
from streamsapp import Scheduling
from streamsapp.cli.main import main
from streamsapp.errors import ManifestError
from streamsapp.manifest.to_config import to_config

TEXT = {"keySerde": "string", "valueSerde": "string"}
STEPS = [
    {"stream": {"topic": "alerts", **TEXT}, "as": "alerts"},
    {"to": {"topic": "alerts-out", **TEXT}, "from": "alerts"},
    {"stream": {"topic": "clicks", **TEXT}, "as": "clicks"},
    {"to": {"topic": "clicks-out", **TEXT}, "from": "clicks"},
]


def validated(folder: Path, entries: list[dict[str, Any]], **spec: Any) -> int:
    manifest = folder / "app.yaml"
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "queries"},
        "spec": {"topology": {"steps": STEPS}, "processing": {"scheduling": entries}} | spec,
    }
    manifest.write_text(yaml.safe_dump(document))
    return main(["validate", "-f", str(manifest)])


def test_entries_are_those_of_the_configuration() -> None:
    entries = [
        {"source": "alerts", "class": "latency", "weight": 10},
        {"subTopology": 1, "class": "bulk", "onFailure": "pause"},
    ]

    made = to_config(app(processing={"scheduling": entries}))

    assert made.scheduling == (
        Scheduling(source="alerts", scheduling_class="latency", weight=10),
        Scheduling(sub_topology=1, scheduling_class="bulk", on_failure="pause"),
    )


def test_an_entry_names_one_sub_topology() -> None:
    manifest = app(processing={"scheduling": [{"source": "a"}, {"source": "a", "subTopology": 1}]})

    with pytest.raises(
        ManifestError, match=r"spec.processing.scheduling\[1\]: give an entry either subTopology or sou"
    ):
        to_config(manifest)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [({"source": "a", "class": "fast"}, "class"), ({"source": "a", "weight": 0}, "weight"), ({"topic": "a"}, "topic")],
)
def test_a_field_at_fault_is_named(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ManifestError, match=rf"spec.processing.scheduling\[0\].{fault}"):
        app(processing={"scheduling": [entry]})


def test_names_that_the_topology_has_are_right(tmp_path: Path) -> None:
    assert validated(tmp_path, [{"source": "alerts", "class": "latency"}, {"subTopology": 1}]) == 0


def test_an_unknown_name_is_refused_with_the_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(tmp_path, [{"source": "alerts"}, {"source": "orders", "class": "bulk"}]) == 2

    fault = "spec.processing.scheduling[1]: there is no sub-topology 'orders', nor one that reads a topic of this name"
    assert f"{fault}: 0 reads alerts; 1 reads clicks" in capsys.readouterr().err


def test_spark_schedules_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remote = {"url": "s3://bucket/prefix"}
    assert validated(tmp_path, [{"source": "alerts"}], engine="spark", remoteState=remote) == 2

    assert (
        "spec.processing.scheduling: Spark schedules the tasks of a batch itself; leave this" in capsys.readouterr().err
    )
