"""The command line as a user meets it: output, messages and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp.cli import local
from streamsapp.cli.main import main

TOPOLOGY = """
from streamsapp.topology.builder import Topology
topology = Topology().add_source("in", "words").add_sink("out", "counts", "in")
empty = Topology()
"""

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: wordcount}
spec:
  topology: {entrypoint: "inline_topology:topology"}
  code:
    files:
      inline_topology.py: |
"""

TEXT = """Topologies:
   Sub-topology: 0
    Source: in (topics: [words])
      --> out
    Sink: out (topic: counts)
      <-- in

"""


@pytest.fixture(autouse=True)
def _imports_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "inline_topology", raising=False)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(MANIFEST + "".join(f"        {line}\n" for line in TOPOLOGY.splitlines()))
    return path


def edit(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_describe_writes_kafkas_text_and_nothing_else(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "-f", str(manifest)]) == 0
    assert capsys.readouterr().out == TEXT


def test_describe_writes_json_and_mermaid(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "-f", str(manifest), "--format", "json"]) == 0
    assert "words" in json.dumps(json.loads(capsys.readouterr().out))
    assert main(["describe", "-f", str(manifest), "--format", "mermaid"]) == 0
    assert "words" in capsys.readouterr().out


def test_describe_takes_an_entrypoint_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(TOPOLOGY)
    command = [sys.executable, "-m", "streamsapp.cli.main", "describe", "beside:topology"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, TEXT, "")


@pytest.mark.parametrize("arguments", [["describe"], ["describe", "a:b", "-f", "x.yaml"]])
def test_describe_wants_one_topology(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == "--file: give either -f app.yaml or module:attribute\n"


def test_validate_says_ok(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-f", str(manifest)]) == 0
    assert capsys.readouterr().out == f"{manifest}: OK: wordcount, 1 sub-topology\n"


def test_validate_tells_every_fault_on_a_line_of_its_own(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(manifest, "spec:\n", "spec:\n  topics: {properties: {X: 1}}\n  replicas: x\n")
    assert main(["validate", "-f", str(manifest)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{manifest}: spec.replicas: expected an integer ≥ 0, got 'x'",
        f"{manifest}: spec.topics.properties.X: expected a topic's setting such as retention.ms",
    ]


def test_validate_asks_the_client_which_properties_it_takes(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    properties = "{linger.ms: 5, bootstrap.serverss: 'a:1', consumer.fetch.min.bites: 1, producer.linger.ms: soon, "
    properties += "default.topic.config: x}"
    edit(manifest, "spec:\n", f"spec:\n  kafka: {{properties: {properties}}}\n")
    assert main(["validate", "-f", str(manifest)]) == 2
    faults = capsys.readouterr().err.splitlines()
    at = f"{manifest}: spec.kafka.properties."
    assert [fault.partition(": kafka property")[0] for fault in faults] == [
        f"{at}bootstrap.serverss",
        f"{at}consumer.fetch.min.bites",
        f"{at}producer.linger.ms",
        f"{at}default.topic.config",
    ]
    assert "'bootstrap.serverss' is not known to the client: did you mean 'bootstrap.servers'?" in faults[0]
    assert "'fetch.min.bites' is not known to the client: did you mean 'fetch.min.bytes'?" in faults[1]
    assert "was refused by the client" in faults[2]
    assert "was refused by the client" in faults[3]


def test_validate_refuses_what_no_cluster_would_take(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(manifest, "spec:\n", "spec:\n  kafka: {bootstrapServers: kafka}\n")
    edit(manifest, "name: wordcount", "name: Hello_World")
    assert main(["validate", "-f", str(manifest)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            f"{manifest}: metadata.name: 'Hello_World' becomes part of the names of pods and services: expected at "
            "most 52 small letters, digits and '-', a letter first and no '-' last; choose another name, and keep this "
            "one as spec.applicationId if the application has run by it"
        ),
        (
            f"{manifest}: spec.kafka.bootstrapServers: expected host:port, separated by commas, such as kafka:9092, "
            "got 'kafka'"
        ),
    ]


def test_a_topology_that_reads_nothing_is_a_fault_of_its_entrypoint(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(manifest, "inline_topology:topology", "inline_topology:empty")
    assert main(["validate", "-f", str(manifest)]) == 2
    assert capsys.readouterr().err.startswith(f"{manifest}: spec.topology.entrypoint: the topology reads nothing")


def test_run_without_a_broker_is_the_users_to_mend(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "-f", str(manifest)]) == 2
    assert capsys.readouterr().err.startswith(f"{manifest}: spec.kafka.bootstrapServers: is required")


@pytest.mark.parametrize("option", ["--replicas", "--partitions"])
def test_local_refuses_less_than_one_by_name(manifest: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["local", "-f", str(manifest), option, "0"]) == 2
    assert capsys.readouterr().err == f"{option}: expected an integer ≥ 1, got 0\n"


@pytest.mark.parametrize("watch", [[], ["--watch"]])
def test_local_walks_through_no_folder_for_a_manifest_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], watch: list[str]
) -> None:
    def walk(manifest: Path) -> None:
        raise AssertionError(f"it walks through {manifest.parent}, which may be large")

    monkeypatch.setattr(local, "SourceFiles", walk)

    assert main(["local", "-f", str(tmp_path / "none.yaml"), *watch]) == 2
    assert "none.yaml: cannot be read: No such file or directory" in capsys.readouterr().err


def test_more_instances_than_there_is_memory_for_are_refused(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = manifest.read_text().replace("spec:\n", "spec:\n  processing: {instances: 100000}\n", 1)
    manifest.write_text(text)
    assert main(["run", "-f", str(manifest), "--bootstrap-servers", "none:9092"]) == 2
    assert capsys.readouterr().err.startswith(f"{manifest}: spec.processing.instances: 100000 instances leave")


def test_a_reader_that_has_seen_enough_is_no_error(manifest: Path) -> None:
    script = f"{sys.executable} -m streamsapp.cli.main describe -f {manifest} | true"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.stderr == ""


@pytest.mark.parametrize("command", ["run", "local", "describe", "validate", "reset"])
def test_every_command_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert f"examples:\n  streamsapp {command} " in capsys.readouterr().out


def test_an_unknown_command_is_wrong_input() -> None:
    with pytest.raises(SystemExit) as left:
        main(["fly"])
    assert left.value.code == 2


def test_validate_tells_programs_what_is_there_or_what_is_wrong(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "-f", str(manifest), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "valid": True,
        "faults": [],
        "applicationId": "wordcount",
        "bootstrapServers": None,
        "subTopologies": {"0": {"reads": ["words"], "stores": {}}},
    }
    edit(manifest, "inline_topology:topology", "inline_topology:empty")
    assert main(["validate", "-f", str(manifest), "-o", "json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["valid"] is False
    assert [fault.split(":")[0] for fault in told["faults"]] == ["spec.topology.entrypoint"]
