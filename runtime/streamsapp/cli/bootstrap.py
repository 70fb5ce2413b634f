"""``streamsapp bootstrap``: builds every task's state from topic history into remote state, with Spark."""

from __future__ import annotations

import argparse

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.spark import add_spark_options, in_spark_package


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "bootstrap",
        "build the state from the history of the topics, in parallel, before the application starts",
        "Runs the application's own code over the history of its source topics, one Spark task per stream task, and\n"
        "publishes snapshots; instances begin with them and go on where history ends. What was interrupted goes on\n"
        "when it is called again. Refused for an application that runs or has run.",
        "  streamsapp bootstrap -f app.yaml\n"
        "  streamsapp bootstrap -f app.yaml --until offsets.json --master 'local[4]'\n"
        "  streamsapp bootstrap -f app.yaml --from parquet:/archive/orders",
    )
    add_manifest(parser)
    parser.add_argument(
        "--until",
        default="latest",
        metavar="latest|OFFSETS.json",
        help='where history ends; a file has {"topic": {"0": 1200, "1": -1}}; default: latest, as of now',
    )
    parser.add_argument(
        "--from",
        dest="source",
        default="kafka",
        metavar="kafka|parquet:PATH",
        help="where the history of the source topics is; default: kafka",
    )
    parser.add_argument(
        "--emit",
        action="store_true",
        help="write the results of history, too, at least once; without it output topics get what comes afterwards",
    )
    add_spark_options(parser)
    parser.set_defaults(run=in_spark_package("bootstrap", "run"))
