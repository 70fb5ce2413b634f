"""The host's side of the cluster's network: bridges, forwarding, rules; and whether there is room for it.

Called by the node before its first process starts and after its last one ended, on the caller's thread. As root.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import re
import shlex
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.layout import NODE_ADDRESS, NODE_BRIDGE, POD_BRIDGE, POD_RANGE, SERVICE_RANGE, ClusterLayout
from streamsapp.errors import UserInputError

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
#: A route to more addresses than this gives way to the cluster's, which are more specific.
_WIDEST = 16
_BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
#: The addresses at which the cluster listens; a process that listens at one of these already would be mistaken for a
#: part of it.
_LISTENERS = (
    *((NODE_ADDRESS, port) for port in (53, 6443, 9000, 9092, 10250, 19092, 19093)),
    *(("127.0.0.1", port) for port in (10248, 10249, 10256, 10257, 10259, 12379, 12380)),
)


def check_room() -> None:
    """Raises when something else uses the addresses or ports of the cluster. Only while the node does not run."""
    routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all") or "[]")
    listening = [
        f"{address}:{port}: a process listens there" for address, port in _LISTENERS if is_taken(address, port)
    ]
    taken = [*overlaps(routes), *listening]
    if taken:
        raise UserInputError(
            "the cluster needs addresses and ports that something else on this machine uses:\n"
            + "\n".join(f"  {each}" for each in taken)
            + "\nstop or move that, then try again; what an earlier cluster left behind, `make cluster-down` removes"
        )


def is_used() -> bool:
    """Says whether a process listens at the node's address."""
    return any(is_taken(address, port) for address, port in _LISTENERS if address == NODE_ADDRESS)


def set_up(layout: ClusterLayout) -> None:
    """The bridge that carries the node's address, and forwarding between pods and the rest."""
    try:
        _set_up(layout)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise UserInputError(
            f"the node's network cannot be set up: {why}; bring it up on a machine or in a privileged container"
        ) from error


def _set_up(layout: ClusterLayout) -> None:
    if not _links(NODE_BRIDGE):
        _ip("link", "add", NODE_BRIDGE, "type", "bridge")
    _ip("addr", "replace", f"{NODE_ADDRESS}/32", "dev", NODE_BRIDGE)
    _ip("link", "set", NODE_BRIDGE, "up")
    before = _forwarding_before(layout)
    if not before.exists():
        before.write_text(_FORWARDING.read_text("utf-8"), encoding="utf-8")
    _FORWARDING.write_text("1", encoding="utf-8")
    if _BRIDGE_FILTER.exists():
        _BRIDGE_FILTER.write_text("1", encoding="utf-8")


def tear_down(layout: ClusterLayout) -> None:
    """Everything :func:`set_up`, kube-proxy, the kubelet and the network plugins made."""
    for table in ("nat", "filter", "mangle"):
        _remove_chains(table)
    for bridge in (NODE_BRIDGE, POD_BRIDGE):
        if _links(bridge):
            _ip("link", "del", bridge)
    before = _forwarding_before(layout)
    if before.exists():
        _FORWARDING.write_text(before.read_text("utf-8"), encoding="utf-8")
        before.unlink()


def plugin_configuration(layout: ClusterLayout) -> dict[str, Any]:
    """Returns containerd's configuration to connect a pod: a bridge with addresses of the pod range, and host ports."""
    addresses = {
        "type": "host-local",
        "dataDir": str(layout.state / "addresses"),
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    # In hairpin mode a pod reaches itself through its own Service.
    bridge = {"type": "bridge", "bridge": POD_BRIDGE, "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "streamsapp", "plugins": [{**bridge, "ipam": addresses}, ports]}


def overlaps(routes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns those of the cluster's ranges that have addresses which one of these routes of the kernel leads
    elsewhere."""
    wanted = [ipaddress.ip_network(each) for each in (f"{NODE_ADDRESS}/32", POD_RANGE, SERVICE_RANGE)]
    found = []
    for route in routes:
        if route["dst"] == "default" or route.get("dev") in {NODE_BRIDGE, POD_BRIDGE}:
            continue
        there = ipaddress.ip_network(route["dst"], strict=False)
        if there.prefixlen >= _WIDEST:
            found += [f"{mine}: a route to {there} by {route.get('dev')}" for mine in wanted if mine.overlaps(there)]
    return found


def is_taken(address: str, port: int) -> bool:
    """Says whether a process listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE  # the node's address may not exist yet: no program can listen on it
    return False


def _remove_chains(table: str) -> None:
    rules = subprocess.run(["iptables-save", "-t", table], capture_output=True, text=True, check=False).stdout
    for rule in re.findall(r"^-A (.*\b(?:KUBE|CNI)-.*)$", rules, re.MULTILINE):
        _iptables(table, "-D", *shlex.split(rule))
    chains = re.findall(r"^:((?:KUBE|CNI)-\S+)", rules, re.MULTILINE)
    for action in ("-F", "-X"):
        for chain in chains:
            _iptables(table, action, chain)


def _iptables(table: str, *arguments: str) -> None:
    """Calls iptables; a rule that is gone already counts as removed."""
    subprocess.run(["iptables", "-w", "-t", table, *arguments], capture_output=True, check=False)


def _links(name: str) -> bool:
    return Path("/sys/class/net", name).exists()


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


def _forwarding_before(layout: ClusterLayout) -> Path:
    return layout.run / "ip_forward.before"
