"""``streamsapp validate``: checks that the manifest is right, and that its topology builds. Runs on the main thread."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from streamsapp.cli.arguments import add_manifest, new_command
from streamsapp.cli.output import add_output, print_json
from streamsapp.errors import ManifestError
from streamsapp.kafka.property_check import refused_properties
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.topology.application_shape import ApplicationShape, application_shape


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "validate",
        "check a manifest and its topology",
        "The command prints one line per fault, each with the path of its field, and exits with 2. It starts nothing.",
        "  streamsapp validate -f app.yaml\n  streamsapp validate -f app.yaml -o json | jq .faults",
    )
    add_manifest(parser)
    add_output(parser, "json has the faults, or what each sub-topology reads and keeps")
    parser.set_defaults(run=validate)


def validate(options: argparse.Namespace) -> int:
    try:
        shape = _shape(options.file)
    except ManifestError as error:
        if options.output == "json":
            print_json({"valid": False, "faults": list(error.faults)})
        raise
    if options.output == "json":
        print_json({"valid": True, "faults": [], **msgspec.to_builtins(shape)})
    else:
        count = len(shape.sub_topologies)
        print(f"{options.file}: OK: {shape.application_id}, {count} sub-topolog{'y' if count == 1 else 'ies'}")
    return 0


def _shape(path: Path) -> ApplicationShape:
    app, topology = read_app(path)
    # A file without a broker is right too: `local` brings one. Secrets are mounted where the application runs.
    servers = app.spec.kafka.bootstrap_servers or "localhost:9092"
    config = to_config(app, code=user_code(app, path.parent), secret_dir=None, bootstrap_servers=servers)
    refused = [f"spec.kafka.properties.{key}: {fault}" for key, fault in refused_properties(config.kafka)]
    if refused:
        raise ManifestError(refused)
    return application_shape(app.application_id, app.spec.kafka.bootstrap_servers, topology)
