"""``-o json``: the output of a command, for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsapp.cli.banner import Banner
from streamsapp.cli.main import main, make_parser
from streamsapp.cli.topology_topics import TopologyTopics

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "wordcount" / "streamsapp.yaml"
#: It logs and prints nothing; it prints JSON anyway; it prints a script; it is the operator's.
WITHOUT = {"run", "consume", "completion", "check"}


def commands(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that can be run, actions of commands included."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        yield name, parser
    for each in inner:
        for word, below in each.choices.items():
            yield from commands(below, f"{name} {word}".strip())


@pytest.mark.parametrize(("name", "parser"), [it for it in commands(make_parser()) if it[0] not in WITHOUT])
def test_every_command_that_tells_something_tells_it_to_programs(name: str, parser: argparse.ArgumentParser) -> None:
    (option,) = [each for each in parser._actions if "-o" in each.option_strings]
    assert option.choices is not None
    assert "json" in option.choices, name


def test_a_topology_is_described_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "-f", str(EXAMPLE), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_local_tells_programs_what_it_tells_people() -> None:
    banner = Banner(
        name="app",
        servers="127.0.0.1:1",
        topics=TopologyTopics(frozenset({"in"}), frozenset({"out"}), frozenset()),
        stores=["counts"],
        url="http://127.0.0.1:2",
        folder=Path("/folder"),
        application=["-f", "app.yaml"],
        samples={"in": '{"value": "hello"}', "more": '{"value": 1}'},
    )
    assert banner.as_data() == {
        "applicationId": "app",
        "bootstrapServers": "127.0.0.1:1",
        "reads": ["in"],
        "writes": ["out"],
        "stores": ["counts"],
        "url": "http://127.0.0.1:2",
        "folder": "/folder",
    }
    text = banner.text()
    assert "to write records, in this order:" in text
    assert """echo '{"value": "hello"}' | streamsapp produce in -f app.yaml""" in text
    assert """echo '{"value": 1}' | streamsapp produce more -f app.yaml""" in text
    assert all(each in text for each in ("127.0.0.1:1", "http://127.0.0.1:2/state/counts/KEY", "/folder"))
