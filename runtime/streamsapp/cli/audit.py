"""``streamsapp audit``: is what snapshots hold what the topics give? With Spark."""

from __future__ import annotations

import argparse

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.spark_commands import add_spark_options, in_spark_package


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "audit",
        "recompute state from the topics and compare it with the snapshots",
        "Runs the application's own code over its source topics, up to where each snapshot stands, and tells every\n"
        "key for which a snapshot has something else. Writes nothing. Exit code 1 if there is any, or if tasks could\n"
        "not be compared. Behind a repartition topic the application has to stand still meanwhile.",
        "  streamsapp audit -f app.yaml\n  streamsapp audit -f app.yaml --store counts -o json",
    )
    add_manifest(parser)
    parser.add_argument("--store", metavar="NAME", help="only this store")
    parser.add_argument(
        "-o", "--output", choices=["text", "json"], default="text", help="json: one object per line; default: text"
    )
    add_spark_options(parser)
    parser.set_defaults(run=in_spark_package("audit", "run"))
