"""Divides one figure for memory among the parts of an instance.

Called once per instance, when its configuration is used; pure but for the two functions that read the machine's
limits.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024

#: Below this the interpreter and the clients alone do not fit.
MINIMUM_BYTES = 128 * MIB

#: cgroup v1 writes a number near 2**63 where there is no limit.
_UNLIMITED = 1 << 60

# Shares of the whole, in per cent. The rest, 30 %, is headroom: the interpreter, user code, fragmentation, and the
# objects around the bytes that are counted here.
_BLOCK_CACHE = 15
_WRITE_BUFFERS = 10
_READ_CACHE = 10
_UNCOMMITTED = 10
_INPUT_BUFFERS = 10
_OUTPUT_BUFFERS = 5
_CONSUMER_QUEUE = 5
_PRODUCER_QUEUE = 5

# Buffers on the way in and out only have to bridge a hiccup; beyond these sizes more memory buys latency, not speed.
_MAX_BUFFERS = 256 * MIB
_MAX_CONSUMER_QUEUE = 64 * MIB
_MAX_PRODUCER_QUEUE = 256 * MIB


@dataclass(frozen=True)
class MemoryBudget:
    """The number of bytes that each part of an instance may use; shared by all its tasks."""

    total: int
    #: RocksDB: blocks of committed data.
    block_cache: int
    #: RocksDB: memtables of all tasks together.
    write_buffers: int
    #: Deserialised committed entries kept for the next read.
    read_cache: int
    #: Writes of the running and of the freezing commit interval, and committed ones that wait for RocksDB; reaching it
    #: asks for an early commit.
    uncommitted: int
    #: Records fetched and not yet processed; a partition over its part of it is paused.
    input_buffers: int
    #: Records produced by tasks and not yet handed to the producer.
    output_buffers: int
    #: Inside the main consumer, and as much again inside the restore consumer while it restores.
    consumer_queue: int
    #: Inside the producer.
    producer_queue: int

    @classmethod
    def divide(cls, total: int) -> MemoryBudget:
        """Gives every part its documented share of ``total`` bytes."""
        per_cent = total // 100
        return cls(
            total=total,
            block_cache=per_cent * _BLOCK_CACHE,
            write_buffers=per_cent * _WRITE_BUFFERS,
            read_cache=per_cent * _READ_CACHE,
            uncommitted=per_cent * _UNCOMMITTED,
            input_buffers=min(per_cent * _INPUT_BUFFERS, _MAX_BUFFERS),
            output_buffers=min(per_cent * _OUTPUT_BUFFERS, _MAX_BUFFERS),
            consumer_queue=min(per_cent * _CONSUMER_QUEUE, _MAX_CONSUMER_QUEUE),
            producer_queue=min(per_cent * _PRODUCER_QUEUE, _MAX_PRODUCER_QUEUE),
        )


def available_memory(root: Path = Path("/")) -> int:
    """Returns the control group's limit in bytes, or 75 % of the machine's memory if there is none."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = cgroup_limit(root)
    return machine * 3 // 4 if limit is None or limit >= machine else limit


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """Returns the lowest memory limit of this process's control group and its parents (v2, then v1), or ``None``."""
    folders = control_group_folders(root, "memory")
    files = [folder / name for folder in folders for name in ("memory.max", "memory.limit_in_bytes")]
    limits = [limit for limit in map(_read_limit, files) if limit is not None]
    return min(limits, default=None)


def control_group_folders(root: Path, controller: str) -> list[Path]:
    """Yields the folders in which the limits of this process's control group and of its parents may be read."""
    groups = _groups_of_this_process(root)
    top = root / "sys/fs/cgroup"
    # Version 1 mounts a controller alone or together with others: ``cpu,cpuacct``.
    alone = [each for each in sorted(top.glob(f"*{controller}*")) if controller in each.name.split(",")]
    mounts = [("", top), *((controller, mount) for mount in alone)]
    # A container finds its own group where groups are mounted, whatever path the host knows it by.
    folders = [mount for _, mount in mounts]
    for name, mount in mounts:
        if name in groups:
            folders += _with_parents(mount, groups[name])
    return folders


def _groups_of_this_process(root: Path) -> dict[str, str]:
    """Returns the path of each controller; version 2 has the empty name. Lines look like ``4:memory:/a/b`` and
    ``0::/a/b``."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return {}
    groups = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _with_parents(mount: Path, path: str) -> list[Path]:
    own = mount / path.strip("/")
    return [folder for folder in (own, *own.parents) if folder.is_relative_to(mount)]


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    if not text.isdecimal() or int(text) >= _UNLIMITED:
        return None
    return int(text)
