"""``streamsapp local``: the whole application on this machine, with a broker and an object store of its own.

The main thread waits; broker, instance and HTTP server are closed in the reverse order of their start.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from streamsapp.cli.arguments import (
    add_data_dir,
    add_instance_options,
    add_manifest,
    new_command,
    port,
    refuse_what_is_read_once,
    with_remote_state,
)
from streamsapp.cli.away_page import AwayPage
from streamsapp.cli.banner import Banner
from streamsapp.cli.console_form import form_routes
from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.local_folder import LocalFolder
from streamsapp.cli.output import add_output, print_json
from streamsapp.cli.own_broker import on_own_broker, starts_broker
from streamsapp.cli.pod import LOOPBACK, InstanceIdentity, PodSettings, follow_supervisor, run_pod
from streamsapp.cli.progress import ByteBar
from streamsapp.cli.run import run_instance
from streamsapp.cli.samples import samples_of
from streamsapp.cli.source_files import SourceFiles
from streamsapp.cli.topology_topics import TopologyTopics, topics_of
from streamsapp.cli.watch import WatchedApplication, look_at, run_watched
from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError, UserInputError
from streamsapp.local.broker import EmbeddedBroker, free_port, is_free
from streamsapp.local.jars import KAFKA, KAFKA_VERSION
from streamsapp.local.kept_running import kept_running
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.manifest.to_config import to_config
from streamsapp.supervisor.instance_count import instances_of
from streamsapp.supervisor.pod_supervisor import time_of_instances
from streamsapp.topology.application_shape import application_shape
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import FOR_EVER
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import Routes

log = logging.getLogger(__name__)

#: Topics keep all records, including topics of earlier versions and of users: the records of an archive are old.
_BROKER = {"log.retention.ms": FOR_EVER}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "local",
        "run the whole application on this machine",
        "The command starts a real Apache Kafka unless the manifest names one, creates missing topics, and runs the\n"
        "application. Snapshots of its stores go to a folder unless the manifest names an object store. Topics, state\n"
        "and snapshots are kept: the next `local` goes on where this one stopped, unless --fresh forgets them.",
        "  streamsapp local -f app.yaml --watch\n  streamsapp local -f app.yaml --fresh\n"
        "  streamsapp local -f app.yaml --embedded --broker-port 9092 --partitions 8",
    )
    add_manifest(parser)
    _add_instances(parser)
    _add_broker(parser)
    add_data_dir(
        parser,
        "where topics, state and snapshots are kept, by one `local` at a time; default: .streamsapp/<application id> "
        "beside the manifest",
    )
    add_instance_options(parser, http_port=8080)
    add_output(parser, "json has where everything is, once, when it begins")
    # The process that runs the application for --watch gets these: the broker and the folder are its parent's.
    parser.add_argument("--lifeline", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--broker", help=argparse.SUPPRESS)
    parser.set_defaults(run=run_locally)


def _add_instances(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas",
        type=int,
        default=1,
        metavar="N",
        help="the number of instances, each a process of its own; default: 1",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="start the application again whenever its manifest or a Python file beside it is saved; topics and state "
        "stay, and what cannot go on with them is told, while the application goes on as it was",
    )


def _add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="start a broker, and keep snapshots in a folder, although the manifest names others; the broker "
        "knows no TLS and SASL, so the manifest's are left out",
    )
    parser.add_argument(
        "--broker-port",
        type=port,
        metavar="PORT",
        help="the port of the broker; default: a free one, the same one every time",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="forget topics, state and snapshots of earlier runs; everything in a broker or an object store that the "
        "manifest names stays (`streamsapp reset`)",
    )
    parser.add_argument(
        "--partitions",
        type=int,
        default=4,
        metavar="N",
        help="the number of partitions of the topics that it creates; default: 4",
    )


def run_locally(options: argparse.Namespace) -> int:
    # Before anything is read: files saved from now on are edits.
    there = os.path.exists(options.file)  # noqa: PTH110  # that of Path raises where one may not look
    files = SourceFiles(options.file) if options.watch and there else None
    app, topology = read_app(options.file)
    folder = LocalFolder(options.file, app.application_id, options.data_dir)
    if options.lifeline is not None:
        follow_supervisor(options.lifeline, options.http_port)
        return _run(options, app, topology, _prepared(options, app, topology, folder), folder)
    for name in ("replicas", "partitions"):
        if getattr(options, name) < 1:
            raise ManifestError([f"--{name}: expected an integer ≥ 1, got {getattr(options, name)}"])
    if options.replicas > 1 or options.watch:
        refuse_what_is_read_once(options.file, "every process", "leave --replicas and --watch out")
    if options.http_port and not is_free(options.http_port):
        raise UserInputError(f"--http-port: {options.http_port} is taken by another program; 0 takes any free one")
    with folder.in_use():
        if options.fresh:
            _forget(folder, options.state_dir, app.application_id)
        with _broker(app, options.embedded, folder, options.broker_port) as options.broker:
            options.http_port = options.http_port or free_port()
            config = _prepared(options, app, topology, folder)
            _tell(_banner(options, topology, config, folder), options)
            if files is None:
                return _run(options, app, topology, config, folder)
            shape = application_shape(app.application_id, app.spec.kafka.bootstrap_servers, topology)
            look = partial(look_at, options.file)
            away = AwayPage(app.application_id, LOOPBACK, options.http_port)
            watched = WatchedApplication(_again(options), files, look, shape, options.shutdown_timeout, away)
            return run_watched(watched, options.shutdown_timeout)


def _run(
    options: argparse.Namespace, app: StreamsApp, topology: Topology, config: StreamsConfig, folder: LocalFolder
) -> int:
    if options.replicas > 1:
        remote_state_url = own_remote_state(app, options.embedded, folder)
        settings = _replicas(config, options.replicas, remote_state_url, starts_broker(app, options.embedded))
        return run_pod(options, settings, _form(options, topology, config))
    return _run_one(options, topology, config)


def _again(options: argparse.Namespace) -> list[str]:
    """The command that runs the application beside the broker of this one."""
    given = {
        "--file": options.file,
        "--broker": options.broker,
        "--http-port": options.http_port,
        "--replicas": options.replicas,
        "--partitions": options.partitions,
        "--shutdown-timeout": time_of_instances(options.shutdown_timeout),
        "--state-dir": options.state_dir,
        "--data-dir": options.data_dir,
    }
    program = [sys.executable, "-m", "streamsapp.cli.main"]
    logs = ["--log-level", options.log_level, "--log-format", options.log_format]
    embedded = ["--embedded"] if options.embedded else []
    named = [str(part) for option in given.items() if option[1] is not None for part in option]
    return [*program, *logs, "local", *embedded, *named]


def _prepared(options: argparse.Namespace, app: StreamsApp, topology: Topology, folder: LocalFolder) -> StreamsConfig:
    """The settings of an application on the broker that the options name, which has its topics."""
    reached = on_own_broker(app) if starts_broker(app, options.embedded) else app
    config = to_config(
        with_remote_state(reached, own_remote_state(app, options.embedded, folder)),
        code=user_code(app, options.file.parent),
        bootstrap_servers=options.broker,
        state_dir=options.state_dir or folder.state,
    )
    _create_missing(config, topics_of(topology, config.application_id), options.partitions)
    return config


def _banner(options: argparse.Namespace, topology: Topology, config: StreamsConfig, folder: LocalFolder) -> Banner:
    topics = topics_of(topology, config.application_id)
    return Banner(
        config.application_id,
        servers=config.bootstrap_servers,
        topics=topics,
        stores=sorted(store.name for sub in topology.sub_topologies(()) for store in sub.stores),
        url=f"http://{LOOPBACK}:{options.http_port}",
        folder=folder.path,
        application=_as_named(options),
        samples=samples_of(topology, config, options.file.parent),
    )


def _form(options: argparse.Namespace, topology: Topology, config: StreamsConfig) -> Routes:
    return form_routes(topology, config, samples_of(topology, config, options.file.parent))


def _tell(banner: Banner, options: argparse.Namespace) -> None:
    if options.output == "json":
        print_json(banner.as_data())
    else:
        print(banner.text())
    sys.stdout.flush()


def _as_named(options: argparse.Namespace) -> list[str]:
    """The options by which other commands find this application and its broker."""
    data_dir = [] if options.data_dir is None else ["--data-dir", str(options.data_dir)]
    return ["-f", str(options.file), *(["--embedded"] if options.embedded else []), *data_dir]


def _run_one(options: argparse.Namespace, topology: Topology, config: StreamsConfig) -> int:
    with closing(HttpServer(options.http_port, host=LOOPBACK, token_file=HTTP_TOKEN_FILE)) as server:
        named = replace(config, application_server=f"{LOOPBACK}:{server.port}")
        more = _form(options, topology, config)
        return run_instance(topology, named, server, shutdown_timeout=options.shutdown_timeout, more=more)


def _replicas(config: StreamsConfig, count: int, remote_state_url: str | None, own_broker: bool) -> PodSettings:
    """Each stands for a pod of its own, on a host of its own."""
    names = [f"{config.application_id}-{index}" for index in range(count)]
    return PodSettings(
        application_id=config.application_id,
        name=config.application_id,
        seats=tuple(InstanceIdentity(name, host_id=name) for name in names),
        memory_bytes=config.memory_bytes // instances_of(count, None, config.memory_bytes, "--replicas"),
        state_dir=config.state_dir,
        bootstrap_servers=config.bootstrap_servers,
        http_host=LOOPBACK,
        application_server=None,
        remote_state_url=remote_state_url,
        own_broker=own_broker,
    )


def own_remote_state(app: StreamsApp, embedded: bool, folder: LocalFolder) -> str | None:
    """A folder for snapshots, shared by all replicas; ``None`` where the manifest names an object store."""
    if app.spec.remote_state is not None and not embedded:
        return None
    return folder.snapshots.as_uri()


@contextmanager
def _broker(app: StreamsApp, embedded: bool, folder: LocalFolder, port: int | None) -> Iterator[str]:
    """The address of the manifest's broker, or of a broker that lives as long as the command."""
    named = app.spec.kafka.bootstrap_servers
    if named is not None and not starts_broker(app, embedded):
        yield named
        return
    with ByteBar(f"fetching Apache Kafka {KAFKA_VERSION}", KAFKA.size) as bar:
        KAFKA.folder(bar)
    log.info("starting Kafka in %s", folder.kafka)
    with EmbeddedBroker(folder.kafka, folder.broker_port(port), properties=_BROKER) as broker, kept_running(broker):
        yield broker.bootstrap_servers


def _create_missing(config: StreamsConfig, topics: TopologyTopics, partitions: int) -> None:
    """Create sources and sinks that do not exist; internal topics are the runtime's own business."""
    cluster = KafkaCluster(config)
    dead_letters = {config.dead_letter_queue_topic} if config.dead_letter_queue_topic else set()
    missing = sorted((topics.sources | topics.sinks | dead_letters) - cluster.partitions().keys())
    if missing:
        cluster.create_topics(missing, partitions)
        log.info("created topics with %d partitions each: %s", partitions, ", ".join(missing))


def _forget(folder: LocalFolder, state_dir: Path | None, application_id: str) -> None:
    """Deletes everything that earlier runs left here; state in a folder of the user's, too."""
    folder.forget()
    if state_dir is not None and os.path.exists(state_dir / application_id):  # noqa: PTH110  # as above
        shutil.rmtree(state_dir / application_id)
