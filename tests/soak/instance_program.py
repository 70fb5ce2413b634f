"""One instance of the soak application in a process of its own: ``instance_program.py SETTINGS`` (JSON).

Started by the soak driver. Runs as ``streamsapp run`` does: until SIGTERM, which closes in good order (exit code 0), or
a failure (1).
"""

from __future__ import annotations

import faulthandler
import json
import logging
import sys
from contextlib import closing
from pathlib import Path

import application
from streamsapp import StreamsConfig
from streamsapp.cli.run import run_instance
from streamsapp.config import RemoteStateConfig
from streamsapp.web import HttpServer


def main(settings: str) -> int:
    faulthandler.enable()  # a process that does not end is aborted, and the log shows where it was
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s %(threadName)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )  # fmt: skip
    given = json.loads(settings)
    settings_of = given["config"]
    http_port = settings_of.pop("http_port")
    if (remote := settings_of["remote_state"]) is not None:
        remote = RemoteStateConfig(**{**remote, "credentials_dir": Path(remote["credentials_dir"])})
    config = StreamsConfig(**{**settings_of, "state_dir": Path(settings_of["state_dir"]), "remote_state": remote})
    topology = application.build(config.application_id, given["start"], given["partitions"])
    with closing(HttpServer(http_port, host="127.0.0.1")) as server:
        return run_instance(topology, config, server, shutdown_timeout=given["shutdown_timeout"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
