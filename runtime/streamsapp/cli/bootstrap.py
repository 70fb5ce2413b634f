"""``streamsapp bootstrap``: builds every task's state from topic history into remote state, with Spark. Runs on the
main thread."""

from __future__ import annotations

import argparse

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.output import add_output
from streamsapp.cli.spark_commands import add_report_option, add_spark_options, failure_reported, in_spark_package
from streamsapp.errors import StreamsAppError
from streamsapp.manifest import StreamsApp, load
from streamsapp.manifest.history_end import LATEST, until_text
from streamsapp.manifest.to_config import to_remote_state
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.object_store_factory import open_store

_in_spark = in_spark_package("bootstrapping.command", "run")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "bootstrap",
        "build the state from the history of the topics, in parallel, before the application starts",
        "The command runs the application's own code over the history of its source topics, one Spark task per stream\n"
        "task, and publishes snapshots: instances begin with them and go on where history ends. A bootstrap that was\n"
        "interrupted goes on when it is called again. An application that runs or has run is refused.",
        "  streamsapp bootstrap -f app.yaml\n"
        "  streamsapp bootstrap -f app.yaml --until offsets.json --master 'local[4]'\n"
        "  streamsapp bootstrap -f app.yaml --from parquet:/archive/orders\n"
        "  streamsapp bootstrap -f app.yaml --from orders=delta:s3a://lake/orders@v12 --from payments=delta:s3a://lake/payments",
    )
    add_manifest(parser)
    parser.add_argument(
        "--until",
        metavar="latest|OFFSETS.json|JSON",
        help='where history ends; JSON, in a file or here, is {"topic": {"0": 1200, "1": -1}}; default: '
        "spec.bootstrap.until, else latest, as of now",
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        metavar="kafka|[TOPIC=]parquet:PATH|[TOPIC=]delta:PATH[@vN|@TIME]|[TOPIC=]iceberg:TABLE[@vID|@TIME]",
        help="the place of the source topics' history; default: kafka. Files and tables have a column topic, or are "
        "named once for each TOPIC",
    )
    parser.add_argument(
        "--accept-missing-offsets",
        dest="accepts_gaps",
        action="store_true",
        help="with tables as history: offsets without a row, and partitions without any, are no loss but left out by "
        "compaction, by transactions, or because there is no history of them",
    )
    parser.add_argument(
        "--emit",
        action="store_true",
        help="also write the results of history, at least once; without it output topics have later results only",
    )
    add_spark_options(parser)
    add_output(parser)
    add_report_option(parser)
    parser.set_defaults(run=_bootstrap)


def _bootstrap(options: argparse.Namespace) -> int:
    app = load(options.file)
    options.until = options.until or _until_of(app)
    options.sources = options.sources or ["kafka"]
    with failure_reported(options.report):
        return _in_spark(options) if options.report is None else _in_job(app, options)


def _in_job(app: StreamsApp, options: argparse.Namespace) -> int:
    """Even if something is wrong, pods can start if the state has been made before."""
    try:
        return _in_spark(options)
    except StreamsAppError as error:
        if not _was_done(app):
            raise
        print(f"{app.application_id}: the bootstrap was done before; {error}")
        return 0


def _was_done(app: StreamsApp) -> bool:
    try:
        remote = to_remote_state(app)
        newest = None if remote is None else Bootstraps(open_store(remote), app.application_id).newest()
    except StreamsAppError:
        return False  # the earlier fault is the one to report
    return newest is not None and newest.is_done


def _until_of(app: StreamsApp) -> str:
    return LATEST if app.spec.bootstrap is None else until_text(app.spec.bootstrap.until)
