"""``streamsapp audit``: compares snapshots with what the topics give, with Spark. Runs on the main thread."""

from __future__ import annotations

import argparse

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.output import add_output
from streamsapp.cli.spark_commands import add_spark_options, in_spark_package


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "audit",
        "recompute state from the topics and compare it with the snapshots",
        "The command runs the application's own code over its source topics, up to where each snapshot stands, and\n"
        "tells every key for which a snapshot has something else. It writes nothing. It exits with 1 if there is such\n"
        "a key, or if tasks could not be compared. Behind a repartition topic the application must stand still\n"
        "meanwhile.",
        "  streamsapp audit -f app.yaml\n  streamsapp audit -f app.yaml --store counts -o json",
    )
    add_manifest(parser)
    parser.add_argument("--store", metavar="NAME", help="only this store")
    add_output(parser, "json writes one object per line")
    add_spark_options(parser)
    parser.set_defaults(run=in_spark_package("audit.command", "run"))
