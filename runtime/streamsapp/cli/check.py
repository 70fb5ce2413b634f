"""``streamsapp check``: checks an application in a pod of its own before the operator touches any of the others.

Runs on the main thread. It finds every fault that needs no broker, in the image, with the limits and the secrets of the
application's pods. The report is small enough for a termination message, from which the operator reads it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamsapp.cli.arguments import add_manifest
from streamsapp.errors import ManifestError, StreamsAppError
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.supervisor.instance_count import cpu_limit, instances_of
from streamsapp.topology.application_shape import shape_of
from streamsapp.topology.builder import Topology

#: The bytes that Kubernetes keeps of a termination message.
MAX_BYTES = 4096
_MAX_FAULT = 600

_DESCRIPTION = (
    "The operator runs this command in a pod of its own before it touches any pod of an application. "
    "People use validate."
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # Without a line in the list of commands: only the operator calls it.
    parser = commands.add_parser("check", description=_DESCRIPTION)
    add_manifest(parser)
    parser.add_argument("--report", type=Path, required=True, metavar="FILE", help="where the report goes")
    parser.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Writes the report; a fault is raised, too, and reported as by every command."""
    try:
        report = shape_report(shape_of(_checked_topology(options.file)))
    except StreamsAppError as error:
        options.report.write_bytes(fault_report(error.faults if isinstance(error, ManifestError) else [str(error)]))
        raise
    options.report.write_bytes(report)
    return 0


def _checked_topology(path: Path) -> Topology:
    app, topology = read_app(path)
    config = to_config(app, code=user_code(app, path.parent))
    instances_of(app.spec.processing.instances, cpu_limit(app), config.memory_bytes)
    return topology


def shape_report(shape: dict[str, Any]) -> bytes:
    """Packed where it would be too long."""
    plain = _encoded({"faults": [], "shape": shape})
    if len(plain) <= MAX_BYTES:
        return plain
    packed = base64.b64encode(gzip.compress(_encoded(shape), mtime=0)).decode("ascii")
    report = _encoded({"faults": [], "shapeGz": packed})
    if len(report) > MAX_BYTES:
        fault = f"its sources and stores take {len(report)} bytes to tell, and there is room for {MAX_BYTES}"
        raise ManifestError([f"spec.topology: {fault}; divide it between applications"])
    return report


def fault_report(faults: Sequence[str]) -> bytes:
    """Returns as many faults as there is room for, and the number of the others."""
    lines = [fault if len(fault) <= _MAX_FAULT else f"{fault[:_MAX_FAULT]}..." for fault in faults]
    shown = len(lines)
    while len(report := _encoded({"faults": [*lines[:shown], *_rest(len(lines) - shown)]})) > MAX_BYTES:
        shown -= 1
    return report


def _rest(count: int) -> list[str]:
    return [f"and {count} more; streamsapp validate tells all"] if count else []


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
