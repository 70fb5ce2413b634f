"""``streamsapp validate``: checks that the manifest is right, and that its topology builds. Runs on the main thread."""

from __future__ import annotations

import argparse

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "validate",
        "check a manifest and its topology",
        "The command prints one line per fault, each with the path of its field, and exits with 2. It starts nothing.",
        "  streamsapp validate -f app.yaml",
    )
    add_manifest(parser)
    parser.set_defaults(run=validate)


def validate(options: argparse.Namespace) -> int:
    app, topology = read_app(options.file)
    # A file without a broker is right too: `local` brings one. Secrets are mounted where the application runs.
    servers = app.spec.kafka.bootstrap_servers or "localhost:9092"
    to_config(app, code=user_code(app, options.file.parent), secret_dir=None, bootstrap_servers=servers)
    count = len(topology.sub_topologies())
    print(f"{options.file}: OK: {app.application_id}, {count} sub-topolog{'y' if count == 1 else 'ies'}")
    return 0
