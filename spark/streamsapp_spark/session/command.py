"""Starts a command that uses Spark: it reads everything before anything is touched. Runs on the driver's main
thread."""

from __future__ import annotations

import argparse

from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.remote.object_store_factory import open_store
from streamsapp.topology.async_calls import refuse_calls
from streamsapp_spark.programs.manifest import ManifestProgram
from streamsapp_spark.session.session import start_java


class Command:
    """One call of a command. From its beginning Java starts in the background."""

    def __init__(self, options: argparse.Namespace, name: str, without_remote_state: str) -> None:
        """Takes in ``without_remote_state`` the fault of a manifest that has none; raises ``ManifestError``."""
        self._options = options
        self._app, self._topology = read_app(options.file)
        refuse_calls(self._topology)
        self._config = to_config(self._app, code=user_code(self._app, options.file.parent))
        self._program = ManifestProgram.of(self._app, options.file.parent)
        self._id = self._config.application_id
        if self._config.remote_state is None:
            raise ManifestError([f"spec.remoteState: {without_remote_state}"])
        self._java = start_java(f"streamsapp {name} {self._id}", options.master, options.conf)
        self._objects = open_store(self._config.remote_state)
