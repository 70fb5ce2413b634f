"""``streamsapp run``: one runtime instance until a signal or an error ends it. What a pod runs.

The main thread waits; the instance's own threads work.
"""

from __future__ import annotations

import argparse
import logging
from contextlib import closing

from streamsapp.cli.arguments import add_instance_options, add_manifest, new_command, read_app
from streamsapp.cli.progress import RestoreProgress
from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.config import StreamsConfig
from streamsapp.errors import UserInputError
from streamsapp.http import HttpServer
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.manifest.to_config import to_config
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

_ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - the kubelet and Prometheus come from outside the pod


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "run",
        "run one instance of an application",
        "Runs until SIGTERM or Ctrl-C, which commits and closes; a second signal leaves at once.\n"
        "Instances of one application share its work: start as many as there are cores to fill.",
        "  streamsapp run -f app.yaml\n  streamsapp run -f app.yaml --bootstrap-servers localhost:9092 --http-port 0",
    )
    add_manifest(parser)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="instead of spec.kafka.bootstrapServers")
    add_instance_options(parser, http_port=8080)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    app, topology = read_app(options.file)
    config = to_config(
        app,
        bootstrap_servers=options.bootstrap_servers,
        state_dir=options.state_dir,
        http_port=options.http_port,
    )
    return run_instance(topology, config, host=_ALL_INTERFACES, shutdown_timeout=options.shutdown_timeout)


def run_instance(topology: Topology, config: StreamsConfig, *, host: str, shutdown_timeout: float) -> int:
    """Run until closed; returns the exit code."""
    # Late: Kafka's client and RocksDB are loaded by the commands that use them only.
    from streamsapp.runtime.instance import StreamsRuntime

    log.debug("%r", config)
    runtime = StreamsRuntime(topology, config)
    runtime.set_global_state_restore_listener(RestoreProgress())
    with closing(HttpServer(runtime, config.http_port or 0, host=host, token_file=HTTP_TOKEN_FILE)) as server:
        server.start()
        log.info("status on http://%s:%d/status", host, server.port)
        with closing_on_signals(lambda: runtime.close(shutdown_timeout)):
            runtime.start()
            error = runtime.wait()
    if error is None:
        return 0
    if isinstance(error, UserInputError):
        raise error
    # The runtime has logged where it happened.
    log.error("%s failed: %s", config.application_id, error)
    return 1
