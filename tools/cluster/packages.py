"""Checks and installs the packages of the distribution that the node needs.

Called before a cluster is brought up, on the caller's thread. Debian and Ubuntu as root get what is missing; other
users are shown what to type.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import set_up
from streamsapp.errors import UserInputError
from terminal import step

#: A program or file, and the Debian package that has it.
_NEEDED = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
}
_ELSEWHERE = (
    "elsewhere, use a cluster you have: point KUBECONFIG at it, build images/*.Dockerfile with docker and push them "
    "where it can pull them"
)


def ensure() -> None:
    """Install missing packages; raises an error that says what would be needed if this machine cannot run a node."""
    if platform.system() != "Linux":
        raise UserInputError(f"a Kubernetes node needs Linux, this is {platform.system()}; {_ELSEWHERE}")
    if os.geteuid() != 0:
        raise UserInputError(
            f"a Kubernetes node is brought up by root: try again with sudo, or in a virtual machine; {_ELSEWHERE}"
        )
    wanted = sorted(package for program, package in _NEEDED.items() if not _exists(program))
    if wanted:
        _install(wanted)
    _check_cgroups()


def _install(packages: list[str]) -> None:
    if shutil.which("apt-get") is None:
        raise UserInputError(f"what Debian calls {', '.join(packages)} is needed: install it; {_ELSEWHERE}")
    with step(f"packages: {' '.join(packages)}"):
        set_up.refresh_package_lists(instead=f"apt-get install -y {' '.join(packages)}")
        set_up.install_packages(*packages)


def _exists(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


def _check_cgroups() -> None:
    """Version 1 has a folder per controller; version 2 lists in one file which ones may be used."""
    groups = Path("/sys/fs/cgroup")
    unified = groups / "cgroup.controllers"
    has = set(unified.read_text("utf-8").split()) if unified.exists() else {each.name for each in groups.glob("*")}
    without = {"cpu", "memory", "pids"} - has
    if without:
        raise UserInputError(
            f"the kubelet needs the cgroup controllers {', '.join(sorted(without))}, which {groups} does not offer: "
            f"run on a machine or in a privileged container that has them; {_ELSEWHERE}"
        )
