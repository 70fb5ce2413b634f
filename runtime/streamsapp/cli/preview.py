"""``streamsapp preview``: shows what another program would change, with Spark. Runs on the main thread."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.spark_commands import add_report_option, add_spark_options, failure_reported, in_spark_package

_DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")
_in_spark = in_spark_package("preview.command", "run")
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "preview",
        "show what another version of an application would change, before it runs",
        "The command runs both versions over the same input, each on a copy of the state that a snapshot of the\n"
        "application has, and puts results and state side by side: every key that differs, with the first pair of\n"
        "values that does. It writes nothing, to Kafka or anywhere else; the application may run meanwhile.\n\n"
        "It begins with the newest snapshots that leave as much input as is asked for, by default 10,000 records per\n"
        "task; if none does, with the first record, empty, where the topics still have it and are not too long. It\n"
        "ends where the topics end now. A note says where it was not as asked.\n\n"
        "exit codes: 0 nothing differs, 1 something does (or a version fails), 2 the input is wrong",
        "  streamsapp preview -f new.yaml --against app.yaml\n"
        "  streamsapp preview -f new.yaml --against app.yaml --last 1h\n"
        "  streamsapp preview -f new.yaml --against app.yaml --records 100000 -o json",
    )
    add_manifest(parser)
    parser.add_argument(
        "--against", type=Path, required=True, metavar="app.yaml", help="the manifest of what runs today"
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--last", type=_duration, metavar="DURATION", help="replay the input of at least so long: 90s, 10m, 1h, 2d"
    )
    amount.add_argument(
        "--records", type=_count, metavar="N", help="replay at least so many records of each task; default: 10000"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=["text", "json"],
        default="text",
        help="json writes one object per line, with every key that differs; default: text",
    )
    add_spark_options(parser)
    add_report_option(parser)
    parser.set_defaults(run=_preview)


def _preview(options: argparse.Namespace) -> int:
    with failure_reported(options.report):
        return _in_spark(options)


def _duration(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a duration such as 90s, 10m, 1h or 2d, got {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number of records, at least 1, got {text!r}")
    return int(text)
