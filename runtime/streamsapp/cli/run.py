"""``streamsapp run``: what a pod runs: one runtime instance or a supervisor of several, until a signal or an error.

The main thread waits; the instance's own threads work.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
from contextlib import closing
from types import MappingProxyType

from streamsapp.cli.arguments import (
    add_instance_options,
    add_manifest,
    new_command,
    refuse_what_is_read_once,
    with_remote_state,
)
from streamsapp.cli.foreground import run_until_closed
from streamsapp.cli.own_broker import on_own_broker
from streamsapp.cli.pod import (
    InstanceIdentity,
    PodSettings,
    add_member_options,
    follow_supervisor,
    own_address,
    run_pod,
    tell_member,
    tell_supervisor,
)
from streamsapp.cli.progress import RestoreBar
from streamsapp.cli.secret_routes import secret_routes
from streamsapp.cli.spark_commands import add_report_option, add_spark_options, failure_reported
from streamsapp.cli.spark_engine import run_driver
from streamsapp.config import StreamsConfig
from streamsapp.errors import UserInputError
from streamsapp.manifest import StreamsApp, load
from streamsapp.manifest.entrypoint import read_topology, user_code
from streamsapp.manifest.kafka_secret import KafkaSecret, mounted_kafka_secret
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.manifest.to_config import to_config
from streamsapp.supervisor.instance_count import cpu_limit, instances_of
from streamsapp.topology.builder import Topology
from streamsapp.web import HttpServer
from streamsapp.web.endpoint import endpoint_of
from streamsapp.web.request_routing import Routes
from streamsapp.web.server import ALL_INTERFACES

log = logging.getLogger(__name__)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "run",
        "run one pod of an application",
        "The pod runs until SIGTERM or Ctrl-C: then it hands its work over, commits and closes. A second signal ends\n"
        "it at once. Instances of one application share its work. With spec.processing.instances above 1 the command\n"
        "starts as many processes behind one port; auto starts one for each whole core of the CPU limit.\n"
        "With spec.engine spark it starts the driver of a Structured Streaming query on --master, whose workers run\n"
        "the tasks.",
        "  streamsapp run -f app.yaml\n  streamsapp run -f app.yaml --bootstrap-servers localhost:9092 --http-port 0",
    )
    add_manifest(parser)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="instead of spec.kafka.bootstrapServers")
    parser.add_argument(
        "--application-server",
        metavar="HOST:PORT",
        help="the address at which others reach this port; default: this host's address and --http-port",
    )
    add_instance_options(parser, http_port=8080)
    add_member_options(parser)
    add_spark_options(parser)
    add_report_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    app = load(options.file)
    if options.lifeline is not None:
        return _run_one(options, app)
    if app.spec.engine == "spark":
        with failure_reported(options.report):
            return run_driver(app, options)
    code = user_code(app, options.file.parent)
    config = to_config(app, code=code, bootstrap_servers=options.bootstrap_servers, state_dir=options.state_dir)
    count = instances_of(app.spec.processing.instances, cpu_limit(app), config.memory_bytes)
    if count == 1:
        return _run_one(options, app)
    refuse_what_is_read_once(options.file, f"each of the {count} instances", "set spec.processing.instances to 1")
    name = os.environ.get("HOSTNAME") or socket.gethostname()  # in a pod, its name
    settings = PodSettings(
        application_id=config.application_id,
        name=name,
        seats=tuple(InstanceIdentity(f"{name}-{index}", host_id=name) for index in range(count)),
        memory_bytes=config.memory_bytes // count,
        state_dir=config.state_dir,
        bootstrap_servers=config.bootstrap_servers,
        http_host=ALL_INTERFACES,
        application_server=options.application_server,
    )
    return run_pod(options, settings)


def _run_one(options: argparse.Namespace, app: StreamsApp) -> int:
    topology = read_topology(app, options.file.parent)
    reached = on_own_broker(app) if options.own_broker else app
    with closing(HttpServer(options.http_port, host=options.http_host, token_file=HTTP_TOKEN_FILE)) as server:
        secret = mounted_kafka_secret(app)  # before the configuration: a change in between is found then
        config = to_config(
            with_remote_state(reached, options.remote_state_url),
            code=user_code(app, options.file.parent),
            bootstrap_servers=options.bootstrap_servers,
            state_dir=options.state_dir,
            client_id=options.client_id,
            host_id=options.host_id,
            memory_bytes=options.memory_bytes,
            application_server=options.application_server or endpoint_of(own_address(), server.port),
        )
        if options.lifeline is not None:
            follow_supervisor(options.lifeline, server.port)
        return run_instance(topology, config, server, shutdown_timeout=options.shutdown_timeout, secret=secret)


def run_instance(
    topology: Topology,
    config: StreamsConfig,
    server: HttpServer,
    *,
    shutdown_timeout: float,
    more: Routes = MappingProxyType({}),
    secret: KafkaSecret | None = None,
) -> int:
    """Run until closed, with ``more`` routes at the port; returns the exit code. ``secret`` is the one that ``config``
    was read with."""
    # Late: Kafka's client and RocksDB are loaded by the commands that use them only.
    from streamsapp.runtime.instance import StreamsRuntime

    log.debug("%r", config)
    runtime = StreamsRuntime(topology, config)
    runtime.set_global_state_restore_listener(RestoreBar())
    runtime.set_member_listener(tell_member)
    if secret is not None:
        more = {**more, **secret_routes(runtime, secret)}
    error = run_until_closed(runtime, server, config.application_server, shutdown_timeout, more)
    if error is None:
        return 0
    if isinstance(error, UserInputError):
        raise error
    # The runtime has logged where it happened.
    log.error("%s failed: %s", config.application_id, error)
    tell_supervisor(error)
    return 1
