"""Prints the topics that a manifest's application reads and writes and that users have to create, as a JSON list.

Run by the cluster's host services, in a process per manifest: it imports the user's code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from streamsapp.cli.topology_topics import topics_of
from streamsapp.manifest.entrypoint import read_app


def main() -> int:
    app, topology = read_app(Path(sys.argv[1]))
    topics = topics_of(topology, app.application_id)
    print(json.dumps(sorted(topics.sources | topics.sinks)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
