"""``streamsapp reset``: makes an application start over. It reads the cluster, shows the plan and carries it out, on
the main thread."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from streamsapp.cli.arguments import add_data_dir, add_manifest, new_command, snapshots_of
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.output import add_output, print_json
from streamsapp.cli.record_lines import milliseconds
from streamsapp.cli.reset_plan import ResetPlan, ResetTarget, SnapshotsToDelete, internal_topics, new_offset
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError, StreamsAppError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.remote.bootstraps import bootstrap_objects, seed_objects
from streamsapp.remote.manifest_chain import objects_of
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.topology.builder import Topology


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "reset",
        "make an application start over",
        "Stop every instance first. The command deletes the application's snapshots in remote state, its internal\n"
        "topics and the local state, and sets the committed offsets of its input topics. Output topics keep their\n"
        "records; delete them yourself if need be. Topics of time markers stay, so that results are the same again.",
        "  streamsapp reset -f app.yaml --dry-run\n  streamsapp reset -f app.yaml --to-datetime 2026-01-31T00:00:00Z",
    )
    add_manifest(parser)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="instead of spec.kafka.bootstrapServers")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="the folder that was given to `run`")
    add_data_dir(
        parser, "the folder that was given to `local`: its snapshots are deleted, instead of those in spec.remoteState"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    parser.add_argument(
        "--internal-topics",
        default="",
        metavar="A,B",
        help="delete these topics as well, which an earlier version of the topology left behind",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to-earliest", action="store_true", help="read input topics from their start (default)")
    where.add_argument("--to-latest", action="store_true", help="skip all records that are in the input topics")
    where.add_argument("--to-offset", type=int, metavar="N", help="read every partition from this offset")
    where.add_argument(
        "--to-datetime",
        type=_datetime,
        metavar="TIME",
        help="read from the first record of this time on (ISO 8601; UTC unless it has a zone)",
    )
    where.add_argument("--shift-by", type=int, metavar="N", help="move so many records forward, or back if negative")
    add_output(parser, "json has the plan, which exit code 0 says was carried out")
    parser.set_defaults(run=reset)


def reset(options: argparse.Namespace) -> int:
    app, topology = read_app(options.file)
    config = to_config(
        app,
        code=user_code(app, options.file.parent),
        bootstrap_servers=options.bootstrap_servers,
        state_dir=options.state_dir,
    )
    cluster, group = KafkaCluster(config), GroupAdmin(config)
    _refuse_while_running(group, config.application_id)
    remote_state = snapshots_of(app, options.file, options.data_dir)
    objects, snapshots = None, None
    if remote_state is not None:
        objects = open_store(remote_state)
        snapshots = _snapshots(objects, config.application_id, remote_state.url)
    plan = replace(_make_plan(cluster, group, topology, config, options), snapshots=snapshots)
    _tell(plan, options)
    if options.dry_run:
        return 0
    # First of all: the broker refuses it if a member has joined the group meanwhile, and nothing is changed then.
    group.commit(plan.offsets)
    _delete(plan, cluster, objects)
    if options.output == "text":
        print("done")
    return 0


def _delete(plan: ResetPlan, cluster: KafkaCluster, objects: ObjectStore | None) -> None:
    try:
        if objects is not None and plan.snapshots is not None:
            objects.delete((*plan.snapshots.keys, *plan.snapshots.rows))
        cluster.delete_topics(plan.delete_topics)
        if plan.state_dir is not None:
            shutil.rmtree(plan.state_dir)
    except (StreamsAppError, OSError) as error:
        raise StreamsError(
            f"{error}; the offsets are set, and not all state is deleted: run reset again before the application starts"
        ) from error


def _tell(plan: ResetPlan, options: argparse.Namespace) -> None:
    if options.output == "json":
        print_json({**plan.as_data(), "dryRun": options.dry_run})
        return
    print("\n".join(plan.lines()) or "nothing to do")
    if options.dry_run:
        print("dry run: nothing was changed")


def _make_plan(
    cluster: KafkaCluster, group: GroupAdmin, topology: Topology, config: StreamsConfig, options: argparse.Namespace
) -> ResetPlan:
    existing = cluster.partitions()
    topics = topics_of(topology, config.application_id, existing)
    asked_for = [name for name in options.internal_topics.split(",") if name]
    own = topics.internal - topics.time_markers
    delete, unsure = internal_topics(config.application_id, own, asked_for, existing)
    kept = topics.time_markers.intersection(existing).difference(delete)
    target, amount = _target(options)
    inputs = {topic: existing[topic] for topic in topics.sources if topic in existing}
    bounds = cluster.bounds(inputs, group.committed(), amount if target is ResetTarget.DATETIME else None)
    state_dir = config.state_dir / config.application_id
    return ResetPlan(
        application_id=config.application_id,
        delete_topics=delete,
        offsets={partition: new_offset(target, known, amount) for partition, known in bounds.items()},
        state_dir=state_dir if state_dir.is_dir() else None,
        unsure=tuple(each for each in unsure if each not in kept),
        kept=tuple(sorted(kept)),
    )


def _snapshots(objects: ObjectStore, application_id: str, url: str) -> SnapshotsToDelete | None:
    found = list(objects_of(objects, application_id))
    bootstraps = [info.key for info, *_ in bootstrap_objects(objects, application_id)]
    rows = [info.key for info in seed_objects(objects, application_id)]
    if not found and not bootstraps and not rows:
        return None
    where = f"{url.rstrip('/')}/{application_id}"
    keys = sorted((info.key for _, info in found), key=lambda key: "/files/" in key)  # what refers to files goes first
    return SnapshotsToDelete(where, (*keys, *bootstraps), len({task_id for task_id, _ in found}), tuple(rows))


def _target(options: argparse.Namespace) -> tuple[ResetTarget, int]:
    if options.to_latest:
        return ResetTarget.LATEST, 0
    if options.to_offset is not None:
        return ResetTarget.OFFSET, options.to_offset
    if options.to_datetime is not None:
        return ResetTarget.DATETIME, options.to_datetime
    if options.shift_by is not None:
        return ResetTarget.SHIFT, options.shift_by
    return ResetTarget.EARLIEST, 0


def _refuse_while_running(group: GroupAdmin, application_id: str) -> None:
    reason = group.activity()
    if reason is not None:
        raise ManifestError([f"{application_id} is running: {reason}; stop every instance, then reset"])


def _datetime(text: str) -> int:
    """Milliseconds since the epoch."""
    try:
        return milliseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
