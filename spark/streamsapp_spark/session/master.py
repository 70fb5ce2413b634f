"""Checks ``--master``: whether Spark knows such an address, and whether anything answers there.

Called on the driver's main thread, before Java is started: Spark itself would try a dead address for a minute.
"""

from __future__ import annotations

import re
import socket

from streamsapp.errors import ManifestError, StreamsError
from streamsapp.web.endpoint import bracketed

_LOCAL = re.compile(r"local(\[([1-9][0-9]*|\*)(,[1-9][0-9]*)?\])?")
#: As Spark reads it: workers, cores of each and MiB of each.
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*([1-9][0-9]*)\s*,\s*([1-9][0-9]*)\s*,\s*[1-9][0-9]*\s*\]")
_REMOTE = re.compile(r"(spark|k8s)://(?:https?://)?(.+)")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^:/\[\]]+)(?::([0-9]{1,5}))?/?")
#: Ports where an address names none.
_PORTS = {"spark": 7077, "k8s": 443}
_SECONDS = 5.0


def is_local(master: str) -> bool:
    """Says whether Spark runs on this machine."""
    return _LOCAL.fullmatch(master) is not None or local_cluster(master) is not None


def local_cluster(master: str) -> tuple[int, int] | None:
    """The number of workers of Spark's own ``local-cluster``, and of the cores of each; ``None`` of another master."""
    found = _LOCAL_CLUSTER.fullmatch(master)
    return None if found is None else (int(found[1]), int(found[2]))


def is_standalone(master: str) -> bool:
    """Says whether the master is Spark's own, whose executors have homes of their own."""
    return master.startswith("spark://")


def has_executors(master: str) -> bool:
    """Says whether tasks run in processes beside the driver's, as they do in Spark's own ``local-cluster`` too."""
    return not is_local(master) or local_cluster(master) is not None


def bracketed_master(master: str) -> str:
    """Returns the address with the brackets that IPv6 addresses of a standalone master need: pods' own have none."""
    scheme, separator, servers = master.partition("://")
    if scheme != "spark":
        return master
    return scheme + separator + ",".join(map(bracketed, servers.split(",")))


def check_master(master: str) -> None:
    """Raises ``ManifestError`` for an address that Spark does not know, ``StreamsError`` for a dead one."""
    if is_local(master) or master == "yarn":
        return
    remote = _REMOTE.fullmatch(master)
    found = [_ADDRESS.fullmatch(each) for each in remote[2].split(",")] if remote else []
    if remote is None or not all(found):
        known = "local[*], local[N], spark://host:port, k8s://https://host:port or yarn"
        raise ManifestError([f"--master: expected {known}, got {master!r}"])
    faults = []
    for address in filter(None, found):
        host, port = address[1].strip("[]"), int(address[2] or _PORTS[remote[1]])
        try:
            socket.create_connection((host, port), _SECONDS).close()
        except (OSError, OverflowError) as error:
            faults.append(f"{host}:{port} ({error})")
        else:
            return
    raise StreamsError(f"--master {master}: nothing answers at {', '.join(faults)}; is Spark's master running there?")
