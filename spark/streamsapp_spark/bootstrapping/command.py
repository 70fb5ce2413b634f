"""``streamsapp bootstrap``. Runs on the driver's main thread, called by the command line."""

from __future__ import annotations

import argparse
import json
import sys

from streamsapp_spark.bootstrapping.driver import Bootstrap, BootstrapOptions
from streamsapp_spark.history.places import tables_of
from streamsapp_spark.session.command import Command
from streamsapp_spark.session.session import session

_INTERRUPTED = (
    "interrupted: the same command goes on where it was, with the offsets that are fixed; until it is done no instance "
    "of the application starts; `streamsapp reset` gives the bootstrap up"
)


def run(options: argparse.Namespace) -> int:
    """Runs the command, and returns its exit code."""
    return _BootstrapCommand(options).run()


class _BootstrapCommand(Command):
    """One call of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        tables = tables_of(options.sources, accepts_gaps=options.accepts_gaps)
        options.conf = [*(() if tables is None else tables.settings), *options.conf]
        super().__init__(options, "bootstrap", "is required, for that is where a bootstrap puts its state; set its url")
        chosen = BootstrapOptions(options.until, options.emit, options.accepts_gaps)
        self._bootstrap = Bootstrap(self._program, self._topology, self._config, self._objects, tables, chosen)

    def run(self) -> int:
        try:
            outcome = self._bootstrap.run(session(self._java))
        except KeyboardInterrupt:
            print(_INTERRUPTED if self._bootstrap.has_begun else "interrupted: nothing was begun", file=sys.stderr)
            raise
        print(json.dumps(outcome.as_data()) if self._options.output == "json" else outcome.text())
        return 0
