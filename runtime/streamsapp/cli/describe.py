"""``streamsapp describe``: shows the topology as Kafka Streams writes it, as a diagram, or as data. Runs on the main
thread."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import UserCode, checked, load_entrypoint, read_app
from streamsapp.topology.builder import Topology
from streamsapp.topology.description import TopologyDescription

_WRITERS = {
    "text": TopologyDescription.to_text,
    "mermaid": TopologyDescription.to_mermaid,
    "json": TopologyDescription.to_json,
}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "describe",
        "print the topology",
        "The command starts nothing and asks no broker. The text is byte for byte that of Kafka Streams.",
        "  streamsapp describe -f app.yaml\n"
        "  streamsapp describe wordcount:topology --format mermaid\n"
        "  streamsapp describe -f app.yaml -o json | jq .",
    )
    add_manifest(parser, required=False)
    parser.add_argument(
        "entrypoint", nargs="?", metavar="module:attribute", help="a topology in Python, instead of a manifest"
    )
    parser.add_argument("--format", "-o", choices=tuple(_WRITERS), default="text", help="default: text")
    parser.set_defaults(run=describe)


def describe(options: argparse.Namespace) -> int:
    topology = _topology(options.file, options.entrypoint)
    sys.stdout.write(_WRITERS[options.format](topology.describe()))
    return 0


def _topology(file: Path | None, entrypoint: str | None) -> Topology:
    if (file is None) == (entrypoint is None):
        raise ManifestError(["--file: give either -f app.yaml or module:attribute"])
    if file is not None:
        return read_app(file)[1]
    return checked(load_entrypoint(str(entrypoint), UserCode([Path.cwd()]), str(entrypoint)), str(entrypoint))
