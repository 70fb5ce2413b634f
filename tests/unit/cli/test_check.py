"""``streamsapp check``: its answer about a topology, which the operator reads before it touches a pod."""

from __future__ import annotations

import base64
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli.check import MAX_BYTES, fault_report, shape_report
from streamsapp.cli.main import main
from streamsapp.errors import ManifestError

WORDS = """
from streamsapp import Materialized, StreamsBuilder

def topology():
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(str.split)
    words.group_by(lambda _, word: word).count(Materialized("counts")).to_stream().to("totals")
    return builder.build()

def pattern():
    from streamsapp import Topology
    return Topology().add_source("in", pattern="orders-.*").add_sink("out", "all", "in")

def leaves():
    raise SystemExit("done")

def raises():
    raise KeyError("BROKERS")
"""

MANIFEST: dict[str, Any] = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "words"},
    "spec": {
        "topology": {"entrypoint": "checked_words:topology"},
        "code": {"files": {"checked_words.py": WORDS}},
        "kafka": {"bootstrapServers": "kafka:9092"},
    },
}


@pytest.fixture(autouse=True)
def _imports_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "checked_words", raising=False)


def check(folder: Path, **spec: Any) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    manifest, report = folder / "app.yaml", folder / "report"
    manifest.write_text(json.dumps(MANIFEST | {"spec": MANIFEST["spec"] | spec}))
    code = main(["check", "-f", str(manifest), "--report", str(report)])
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return code, found


def test_tells_sources_and_stores_of_each_sub_topology(tmp_path: Path) -> None:
    code, report = check(tmp_path)

    assert code == 0
    assert report == {
        "faults": [],
        "shape": {
            "sources": {"0": ["lines"], "1": ["counts-repartition"]},
            "stores": {"0": {}, "1": {"counts": "timestamped_key_value"}},
        },
    }


def test_a_pattern_stands_for_the_topics_that_match_it(tmp_path: Path) -> None:
    _, report = check(tmp_path, topology={"entrypoint": "checked_words:pattern"})

    assert report["shape"]["sources"] == {"0": ["/orders-.*/"]}


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"topology": {"entrypoint": "checked_words:absent"}}, "has no attribute 'absent'"),
        ({"topology": {"entrypoint": "checked_words:raises"}}, "raised KeyError: 'BROKERS'"),
        ({"topology": {"entrypoint": "checked_words:leaves"}}, "ended Python with sys.exit('done')"),
        ({"kafka": {}}, "spec.kafka.bootstrapServers: is required to run"),
        ({"kafka": {"bootstrapServers": "k:1", "secretRef": {"name": "k"}}}, "'k' is not mounted at"),
        ({"processing": {"instances": 100_000}}, "spec.processing.instances: 100000 instances leave"),
    ],
)
def test_a_fault_is_reported_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: dict[str, Any], fault: str
) -> None:
    code, report = check(tmp_path, **spec)

    assert code == 2
    assert fault in report["faults"][0]
    assert capsys.readouterr().err == "".join(f"{tmp_path / 'app.yaml'}: {line}\n" for line in report["faults"])


def test_every_fault_of_a_manifest_is_reported(tmp_path: Path) -> None:
    _, report = check(tmp_path, engine="flink", replicas=-1)

    assert [line.partition(":")[0] for line in report["faults"]] == ["spec.engine", "spec.replicas"]


def test_a_long_shape_is_packed() -> None:
    shape = {"sources": {"0": [f"a-rather-long-name-{number}" for number in range(300)]}, "stores": {"0": {}}}

    report = shape_report(shape)

    packed = json.loads(report)
    assert len(report) <= MAX_BYTES
    assert packed["faults"] == []
    assert json.loads(gzip.decompress(base64.b64decode(packed["shapeGz"]))) == shape


def test_a_shape_without_room_is_a_fault() -> None:
    names = [base64.b85encode(number.to_bytes(4, "big") * 16).decode() for number in range(4000)]

    with pytest.raises(ManifestError, match="there is room for 4096; divide it"):
        shape_report({"sources": {"0": names}, "stores": {"0": {}}})


@pytest.mark.parametrize("length", [3, 300, 30_000])
def test_as_many_faults_are_reported_as_there_is_room_for(length: int) -> None:
    faults = [f"{number}: {'ü' * length}" for number in range(50)]

    report = fault_report(faults)

    told = json.loads(report)["faults"]
    assert len(report) <= MAX_BYTES
    assert told[0][:5] == faults[0][:5]
    if length > 3:
        assert told[-1] == f"and {50 - len(told) + 1} more; streamsapp validate tells all"
    else:
        assert told == faults


def test_people_are_not_shown_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "check a manifest" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "People use validate." in capsys.readouterr().out
