"""Decides the number of instances in a pod: one for each whole core, as an interpreter fills little more.

Called by the command line before anything is started; pure but for reading the control group.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Literal

from streamsapp.config.memory import MIB, MINIMUM_BYTES, control_group_folders
from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.quantity import parse_quantity


def instances_of(
    asked: int | Literal["auto"],
    cores: Decimal | None,
    memory_bytes: int,
    field: str = "spec.processing.instances",
) -> int:
    """The number of instances; ``auto`` takes no more than there is memory for."""
    affordable = max(1, memory_bytes // MINIMUM_BYTES)
    if asked == "auto":
        return max(1, min(int(cores or 1), affordable))
    if asked > affordable:
        fault = (
            f"{field}: {asked} instances leave {memory_bytes // asked // MIB} MiB of memory to each, and each needs "
            f"{MINIMUM_BYTES // MIB}; use fewer or raise spec.resources.limits.memory"
        )
        raise ManifestError([fault])
    return asked


def cpu_limit(app: StreamsApp, root: Path = Path("/")) -> Decimal | None:
    """The cores this process may use: the control group's limit, or the manifest's where none is enforced."""
    limits = [limit for folder in control_group_folders(root, "cpu") for limit in _limits(folder)]
    if limits:
        return min(limits)
    named = app.spec.resources.limits.get("cpu")
    return None if named is None else parse_quantity(named)


def _limits(folder: Path) -> list[Decimal]:
    """Version 2 has ``150000 100000`` or ``max 100000`` in one file, version 1 two files and -1."""
    fields = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(fields) != 2 or not all(field.isdecimal() for field in fields):
        return []
    quota, period = fields
    return [Decimal(quota) / Decimal(period)] if int(period) else []


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
