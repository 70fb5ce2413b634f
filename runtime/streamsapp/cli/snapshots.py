"""``streamsapp snapshots list|show|verify``: shows what remote state holds of an application.

Runs on the main thread, and reads the object store; the application's code is not needed. ``list`` asks Kafka what is
committed, and goes on without an answer.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import KafkaException

from streamsapp.cli.arguments import (
    add_data_dir,
    add_manifest,
    new_command,
    snapshots_of,
)
from streamsapp.cli.local_folder import LocalFolder
from streamsapp.cli.output import add_output, print_json
from streamsapp.cli.progress import ByteBar
from streamsapp.cli.snapshots_text import Row, as_data, in_detail, summary, table
from streamsapp.clock import SystemClock
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ManifestError, StreamsAppError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.reachability import check_reachable
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest import StreamsApp, load
from streamsapp.manifest.to_config import to_cluster_config
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain, chains_of
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_verification import Verification, read_manifests, verify_files
from streamsapp.runtime.snapshot_lag import SnapshotLag, SnapshotTask, snapshot_lags
from streamsapp.units import size_text

log = logging.getLogger(__name__)

_NO_SNAPSHOTS = (
    "spec.remoteState: is not there, nor has `streamsapp local` left snapshots in {folder}; set its url, or pass "
    "--data-dir as to `local`"
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "snapshots",
        "show what remote state holds, and whether it is sound",
        "The command reads the object store of spec.remoteState, or without one the folder of `streamsapp local`. It\n"
        "may run beside the application.",
        "  streamsapp snapshots list -f app.yaml\n"
        "  streamsapp snapshots show -f app.yaml --task 0_3\n"
        "  streamsapp snapshots verify -f app.yaml --all",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_action(actions, "list", "show the newest snapshot of each task in one line", list_snapshots)
    show = _add_action(actions, "show", "show everything that the newest snapshot of each task holds", show_snapshots)
    show.add_argument("--number", type=int, metavar="N", help="this snapshot instead of the newest; needs --task")
    verify = _add_action(actions, "verify", "read and hash every file of the newest snapshots again", verify_snapshots)
    verify.add_argument("--all", action="store_true", help="also read the files of older snapshots")


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    add_manifest(parser)
    add_data_dir(parser, "the folder that was given to `local`, instead of spec.remoteState")
    parser.add_argument("--task", type=_task_id, metavar="TASK", help="only this task, such as 0_3")
    add_output(parser)
    parser.set_defaults(run=run)
    return parser


def list_snapshots(options: argparse.Namespace) -> int:
    app = load(options.file)
    chains, where = _open(app, options)
    rows = [(chain.task_id, *chain.newest()) for chain in chains]
    is_local = options.data_dir is not None or app.spec.remote_state is None
    lags = {} if is_local else _lags(app, rows)
    now = SystemClock().now_ms()
    if options.output == "json":
        print_json([summary(row, lags.get(row[0]), now) for row in rows])
    else:
        print("\n".join(table(rows, lags, now)) if rows else f"no snapshots in {where}")
    return 0


def _lags(app: StreamsApp, rows: Sequence[Row]) -> Mapping[TaskId, SnapshotLag]:
    """The distance of each snapshot from what is committed; of none, with the reason in a warning, if Kafka does not
    answer."""
    tasks = [_as_task(task_id, snapshot) for task_id, _, snapshot in rows if snapshot is not None]
    if not tasks or app.spec.kafka.bootstrap_servers is None:
        return {}
    try:
        return {lag.task.id: lag for lag in _asked(to_cluster_config(app), tasks)}
    except KafkaException as error:
        why = error.args[0].str()
    except (StreamsAppError, OSError) as error:
        why = str(error)
    log.warning("Kafka does not say whether snapshots have all that is committed: %s", why)
    return {}


def _as_task(task_id: TaskId, snapshot: Snapshot) -> SnapshotTask:
    points = snapshot.stores.items()
    return SnapshotTask(task_id, snapshot, {name: TopicPartition(at.changelog, at.partition) for name, at in points})


def _asked(config: StreamsConfig, tasks: Sequence[SnapshotTask]) -> list[SnapshotLag]:
    check_reachable(config.bootstrap_servers)
    with closing(TopicAdmin(client_properties.admin(config))) as admin:
        return snapshot_lags(config, admin, SystemClock(), tasks, GroupAdmin(config).committed())


def show_snapshots(options: argparse.Namespace) -> int:
    chains, where = _open(load(options.file), options)
    if options.number is not None and options.task is None:
        raise ManifestError(["--number: names a snapshot of one task; add --task"])
    shown = [found for chain in chains if (found := _wanted(chain, options.number)) is not None]
    now = SystemClock().now_ms()
    if options.output == "json":
        print_json([as_data(snapshot, now) for snapshot in shown])
    else:
        blocks = ["\n".join(in_detail(snapshot, now)) for snapshot in shown]
        print("\n\n".join(blocks) or f"no snapshots in {where}")
    return 0


def _wanted(chain: ManifestChain, number: int | None) -> Snapshot | None:
    return chain.newest()[1] if number is None else chain.read(number)


def verify_snapshots(options: argparse.Namespace) -> int:
    chains, where = _open(load(options.file), options)
    verifications = [read_manifests(chain, every=options.all) for chain in chains]
    total = sum(file.size for verification in verifications for file in verification.files)
    with ByteBar("verifying", total) as progress:
        verify_files(verifications, progress)
    faults = [fault for verification in verifications for fault in verification.faults]
    if options.output == "json":
        print_json({**_extent(verifications), "bytes": total, "faults": faults})
    else:
        extent = "{snapshots} snapshots of {tasks} tasks, {files} files".format(**_extent(verifications))
        verdict = f"{len(faults)} faults in" if faults else "all sound:"
        print("\n".join([*faults, f"{verdict} {extent}, {size_text(total)} in {where}"]))
    return 1 if faults else 0


def _extent(verifications: Iterable[Verification]) -> dict[str, int]:
    every = list(verifications)
    return {
        "tasks": len(every),
        "snapshots": sum(len(verification.snapshots) for verification in every),
        "files": sum(len(verification.files) for verification in every),
    }


def _open(app: StreamsApp, options: argparse.Namespace) -> tuple[list[ManifestChain], str]:
    """The chains that are asked for, and where they are."""
    config = snapshots_of(app, options.file, options.data_dir)
    if config is None:
        folder = LocalFolder(options.file, app.application_id, options.data_dir).snapshots
        raise ManifestError([_NO_SNAPSHOTS.format(folder=folder)])
    chains = chains_of(open_store(config), app.application_id)
    where = f"{config.url.rstrip('/')}/{app.application_id}"
    if options.task is None:
        return chains, where
    chosen = [chain for chain in chains if chain.task_id == options.task]
    if not chosen:
        raise StreamsError(
            f"task {options.task} has no snapshots in {where}; `streamsapp snapshots list` shows which have"
        )
    return chosen, where


def _task_id(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
