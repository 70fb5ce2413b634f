"""``-o text|json``, as every command with a result has it. Called on the main thread."""

from __future__ import annotations

import argparse
import sys

import orjson


def add_output(parser: argparse.ArgumentParser, json_is: str = "") -> None:
    """Adds the option; ``json_is`` says what is special about the JSON."""
    parser.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help=f"{json_is}; default: text" if json_is else "default: text",
    )


def print_json(data: object) -> None:
    """Prints a document for people and programs."""
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
