"""Arguments that several commands share. Pure but for looking for a folder."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import msgspec

from streamsapp.cli.local_folder import LocalFolder
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import UserInputError
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.model import RemoteStateSpec
from streamsapp.manifest.to_config import to_remote_state

#: As many as fit a number of Kubernetes'.
_MOST_SECONDS = float((1 << 31) - 1)


def port(text: str) -> int:
    """The value of an option that is a port; 0 is any free one."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r:.60}")
    return int(text)


def shutdown_seconds(text: str) -> float:
    """The value of an option that is a time."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to {_MOST_SECONDS:.0f}, got {text!r:.60}")
    return seconds


def new_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, details: str, examples: str
) -> argparse.ArgumentParser:
    """A command whose ``--help`` says what it does and how it is used."""
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_manifest(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "-f", "--file", type=Path, required=required, metavar="app.yaml", help="the StreamsApp manifest"
    )


def refuse_what_is_read_once(manifest: Path, reader: str, instead: str) -> None:
    """Raises ``UserInputError`` for a manifest that is no file, such as a pipe, where other processes read it again."""
    stream = manifest == Path("/dev/stdin") or manifest.parent.resolve().is_relative_to("/proc")
    if stream or not os.path.isfile(manifest):  # noqa: PTH113  # that of Path raises where one may not look
        raise UserInputError(f"--file: can be read once, and {reader} reads it again: give a file, or {instead}")


def add_instance_options(parser: argparse.ArgumentParser, *, http_port: int) -> None:
    """Adds the options by which ``run`` and ``local`` override the manifest."""
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="the folder of the state stores; default: a fixed one among the temporary ones, `local` has its own",
    )
    parser.add_argument(
        "--http-port",
        type=port,
        default=http_port,
        metavar="PORT",
        help=f"the port of /healthz, /readyz, /metrics and /status; default: {http_port}; 0 takes any free one",
    )
    parser.add_argument(
        "--shutdown-timeout",
        type=shutdown_seconds,
        default=25.0,
        metavar="SECONDS",
        help="the seconds that the instance has for its last commit after a signal; default: 25",
    )


def add_data_dir(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=help)


def snapshots_of(app: StreamsApp, manifest: Path, data_dir: Path | None) -> RemoteStateConfig | None:
    """Returns the place of the application's snapshots: the one that the manifest names, or the one that
    ``streamsapp local`` has left in the folder of its state."""
    if data_dir is None and app.spec.remote_state is not None:
        return to_remote_state(app)
    folder = LocalFolder(manifest, app.application_id, data_dir).snapshots
    there = os.path.isdir(folder)  # noqa: PTH112  # that of Path raises where one may not look
    return RemoteStateConfig(url=folder.as_uri()) if there else None


def with_remote_state(app: StreamsApp, url: str | None) -> StreamsApp:
    """Returns the manifest with its snapshots in that place; ``None`` leaves it as it is."""
    if url is None:
        return app
    return msgspec.structs.replace(app, spec=msgspec.structs.replace(app.spec, remote_state=RemoteStateSpec(url=url)))
