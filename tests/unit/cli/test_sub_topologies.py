"""``streamsapp pause`` and ``resume`` ask the instances that are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamsapp.cli.main import main
from streamsapp.errors import UserInputError
from streamsapp.http.instance_routes import to_sub_topology
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import Route


class Instance:
    """An HTTP port that remembers what it was asked."""

    def __init__(self, token_file: Path) -> None:
        self.paused: list[str] = []
        self.server = HttpServer(0, host="127.0.0.1", token_file=token_file)
        self.server.start({
            "/pause": Route(lambda request: to_sub_topology(request, self.pause), method="POST"),
            "/resume": Route(lambda request: to_sub_topology(request, self.paused.remove), method="POST"),
        })  # fmt: skip

    def pause(self, name: str) -> None:
        if name == "orders":
            raise UserInputError("there is no sub-topology 'orders': 0 reads clicks")
        self.paused.append(name)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("geheimnis")
    return file


@pytest.fixture
def instance(token: Path) -> Iterator[Instance]:
    made = Instance(token)
    with closing(made.server):
        yield made


def command(name: str, instance: Instance, token: Path, sub_topology: str = "clicks", *more: str) -> int:
    return main([
        name, "--sub-topology", sub_topology, "--instance", instance.endpoint, "--token-file", str(token), *more
    ])  # fmt: skip


def test_a_sub_topology_is_paused_and_goes_on(
    instance: Instance, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("pause", instance, token) == 0
    assert instance.paused == ["clicks"]
    assert command("resume", instance, token) == 0
    assert instance.paused == []

    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"{instance.endpoint}: sub-topology clicks is paused",
        f"{instance.endpoint}: sub-topology clicks goes on",
    ]


def test_programs_are_told_as_json(instance: Instance, token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pause", instance, token, "clicks", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"subTopology": "clicks", "paused": True, "instances": [instance.endpoint]}


def test_an_unknown_name_is_wrong_input(instance: Instance, token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pause", instance, token, "orders") == 2

    assert "--sub-topology: there is no sub-topology 'orders': 0 reads clicks" in capsys.readouterr().err


def test_another_token_is_refused(instance: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_text("falsch")

    assert command("pause", instance, tmp_path / "other") == 1
    assert instance.paused == []
    assert instance.endpoint in capsys.readouterr().err


def test_an_instance_that_does_not_answer_is_named(token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["pause", "--sub-topology", "0", "--instance", "127.0.0.1:1", "--token-file", str(token)])

    assert code == 1
    assert "127.0.0.1:1: no instance answers" in capsys.readouterr().err


def test_an_address_is_a_host_and_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pause", "--sub-topology", "0", "--instance", "http://here"]) == 2

    assert "--instance: expected host:port" in capsys.readouterr().err
