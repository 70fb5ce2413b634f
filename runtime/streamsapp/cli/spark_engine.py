"""``streamsapp run`` with ``engine: spark``: the driver of a Structured Streaming query, behind a pod's HTTP port.

The main thread runs the query; its package is reached by name, as it is not installed everywhere.
"""

from __future__ import annotations

import argparse
import logging
import threading
from contextlib import closing

import msgspec

from streamsapp.cli.arguments import with_remote_state
from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.cli.spark_commands import spark_module
from streamsapp.errors import StreamsError
from streamsapp.http.instance_routes import driver_routes
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.entrypoint import load_topology, user_code
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.manifest.to_config import to_config
from streamsapp.web import HttpServer

log = logging.getLogger(__name__)


def run_driver(app: StreamsApp, options: argparse.Namespace) -> int:
    """Until closed; returns the exit code."""
    engine_module, session = spark_module("streaming.engine"), spark_module("session.session")
    program = spark_module("programs.manifest").ManifestProgram
    folder = options.file.parent
    topology = load_topology(app, folder)
    app = with_remote_state(app, options.remote_state_url)
    overrides = {"bootstrap_servers": options.bootstrap_servers, "state_dir": options.state_dir}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    config = to_config(app, code=user_code(app, folder), **overrides)
    own = [f"{key}={value}" for key, value in spark_module("session.settings").BATCH_SETTINGS.items()]
    own += spark_module("sinks.tables").settings_of(app.spec.spark.sinks)
    settings = [*own, *(f"{key}={value}" for key, value in app.spec.spark.conf.items())]
    java = session.start_java(config.application_id, options.master, [*settings, *options.conf])
    engine = engine_module.SparkEngine(program.of(app, folder, overrides), topology, config, app.spec.spark)
    engine.when_running(java.ran)
    told_to_end = threading.Event()

    def close() -> None:
        told_to_end.set()
        engine.close()

    with closing(HttpServer(options.http_port, host=options.http_host, token_file=HTTP_TOKEN_FILE)) as server:
        server.start(driver_routes(engine), config.application_server)
        log.info("status on http://%s/status", server.address)
        with closing_on_signals(close, within=options.shutdown_timeout):
            code: int = engine.run(session.session(java))
            if options.report is not None:
                if told_to_end.is_set():  # by a node that is drained, say; the Job tries again
                    raise StreamsError("it was stopped before it had caught up; the next try continues where it was")
                tasks = engine.status()["tasks"]
                left = {"inputLag": sum(each["inputLag"] for each in tasks)}
                options.report.write_bytes(msgspec.json.encode(left))
            return code
