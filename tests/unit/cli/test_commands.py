"""The command line as a user meets it: output, messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
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
    assert [fault.partition(": ")[2].partition(": ")[0] for fault in faults] == [
        f"spec.kafka.properties.{key}"
        for key in ("bootstrap.serverss", "consumer.fetch.min.bites", "producer.linger.ms", "default.topic.config")
    ]
    assert "did you mean 'bootstrap.servers'?" in faults[0]
    assert "did you mean 'fetch.min.bytes'?" in faults[1]
    assert "expected a number from 0 to 900000, got 'soon'" in faults[2]
    assert "set client: librdkafka" in faults[3]


def test_validate_asks_librdkafka_about_its_own_properties(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    properties = "{queuing.strategy: soonest, consumer.fetch.min.bites: 1, debug: broker}"
    edit(manifest, "spec:\n", f"spec:\n  kafka: {{client: librdkafka, properties: {properties}}}\n")
    assert main(["validate", "-f", str(manifest)]) == 2
    refused, unknown = capsys.readouterr().err.splitlines()
    assert "queuing.strategy" in refused
    assert "was refused by the client" in refused
    assert "'fetch.min.bites' is not known to the client: did you mean 'fetch.min.bytes'?" in unknown


def test_validate_refuses_times_in_the_wrong_order(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    properties = "{heartbeat.interval.ms: 6000, producer.linger.ms: 61000}"
    edit(
        manifest,
        "spec:\n",
        f"spec:\n  processing: {{commitIntervalMs: 600000}}\n  kafka: {{properties: {properties}}}\n",
    )
    assert main(["validate", "-f", str(manifest)]) == 2
    faults = capsys.readouterr().err.splitlines()
    assert [fault.partition(": spec.")[2].partition(" ")[0] for fault in faults] == [
        "processing.commitIntervalMs:",
        "kafka.properties.producer.linger.ms:",
        "kafka.properties.heartbeat.interval.ms:",
    ]
    assert faults[0].endswith("to 660000 or more, or lower spec.processing.commitIntervalMs")


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


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "--http-port", "70000"], "--http-port: expected a port from 0 to 65535, got '70000'"),
        (["local", "--http-port", "-1"], "--http-port: expected a port from 0 to 65535, got '-1'"),
        (["local", "--broker-port", "70000"], "--broker-port: expected a port from 0 to 65535, got '70000'"),
        *(
            ([command, "--shutdown-timeout", seconds], f"expected seconds from 0 to 2147483647, got '{seconds}'")
            for command in ("run", "local")
            for seconds in ("inf", "nan", "1e30", "-1", "soon")
        ),
    ],
)
def test_a_port_or_time_out_of_range_is_wrong_input(
    manifest: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*arguments, "-f", str(manifest)])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_a_port_that_may_not_be_used_is_wrong_input(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bind(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", bind)
    assert main(["local", "-f", str(manifest), "--http-port", "80"]) == 2
    told = "port 80 of 127.0.0.1 cannot be used: Permission denied; choose another port\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("-f {good} 2>&-", 0), ("-f {good} >&-", 0), ("-f none.yaml 2>&-", 2), ("-f none.yaml <&- >&- 2>&-", 2)],
)
def test_a_stream_that_the_shell_has_closed_is_no_error(manifest: Path, arguments: str, code: int) -> None:
    script = f"{sys.executable} -m streamsapp.cli.main validate {arguments.format(good=manifest)}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (code, "")


def test_wrong_input_is_told_by_the_exit_code_where_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "streamsapp.cli.main", "validate", "-f", "none.yaml"]
    try:
        assert subprocess.run(command, stdout=writing, stderr=writing, check=False).returncode == 2
    finally:
        os.close(writing)


def test_nothing_that_a_terminal_obeys_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "a\x1b[2Jb"]) == 2
    assert capsys.readouterr().err.startswith(r"a\x1b[2Jb: ")


@pytest.mark.parametrize("application_id", ["../x", '"a\\0b"'])
def test_local_makes_nothing_for_an_application_id_that_is_refused(
    manifest: Path, capsys: pytest.CaptureFixture[str], application_id: str
) -> None:
    edit(manifest, "spec:\n", f"spec:\n  applicationId: {application_id}\n")
    (manifest.parent / ".gitignore").write_text("mine\n")
    assert main(["local", "-f", str(manifest)]) == 2
    assert "is not usable; it becomes part of topic and directory names" in capsys.readouterr().err
    assert {each.name for each in manifest.parent.iterdir()} == {manifest.name, ".gitignore"}
    assert (manifest.parent / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["local", "--watch", "-f", "{locked}/x/app.yaml"], "cannot be read: Permission denied"),
        (["new", "{locked}/x/name"], "cannot be written: "),
    ],
)
def test_a_folder_that_may_not_be_looked_into_is_wrong_input(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    told: str,
) -> None:
    def denied(*given: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # As for anybody but root, who may run the tests.
    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, *given, **named: (denied if tmp_path in path.parents else opened)(path, *given, **named),
    )
    monkeypatch.setattr(Path, "exists", denied)
    monkeypatch.setattr(shutil, "copytree", denied)
    assert main([each.format(locked=tmp_path) for each in arguments]) == 2
    assert told in capsys.readouterr().err
