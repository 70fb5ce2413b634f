"""The cluster that tests run on: the node of ``make cluster-up``, brought up for the tests unless it is up already.

With ``USE_KUBECONFIG`` it is the cluster that ``KUBECONFIG`` names; docs/cluster.md says what such a cluster must have.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cluster import binaries
from cluster.__main__ import CANNOT
from cluster.layout import ClusterLayout
from cluster.node import Node
from isolated_home import users_environment

ROOT = Path(__file__).resolve().parents[2]
_LINES_OF_A_FAILURE = 30


class NoClusterError(Exception):
    """There is no cluster for the tests; the text says what is needed."""


class NoNodeHereError(Exception):
    """This machine or this user cannot run a node; the text says why, in one line."""


@contextmanager
def cluster_for_tests() -> Iterator[ClusterLayout]:
    """The node with the images of this tree, which stays up if it was; or the cluster that the user gives for this.

    One process of tests at a time uses it, others wait: tests stop its API server, drain the node and kill pods.
    """
    layout = ClusterLayout.of_this_machine()
    if os.environ.get("USE_KUBECONFIG"):
        yield _given(layout)
        return
    with (layout.root / "tests.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  waiting for other tests that use the cluster of this machine", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        was_up = Node(layout).is_up()
        _bring_up()
        try:
            yield layout
        finally:
            if not was_up:
                _cluster("down")


def _bring_up() -> None:
    """Tries twice, the second time from the beginning: the tests begin once the cluster is there."""
    try:
        _cluster("up")
    except NoClusterError as error:
        print(f"  {error}\n  once more, from the beginning", file=sys.stderr, flush=True)
        _cluster("down")
        _cluster("up")


def bring_in_spark() -> None:
    """The image of bootstraps, into the node that is up; a cluster of the user's own has it."""
    if not os.environ.get("USE_KUBECONFIG"):
        _cluster("spark")


def wait_until(happened: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Looks several times a second; ``what`` completes "timed out waiting until"."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out waiting until {what}: not within {seconds:g} s")
        time.sleep(0.1)


def _given(layout: ClusterLayout) -> ClusterLayout:
    named = os.environ.get("KUBECONFIG")
    if not named:
        raise NoClusterError("USE_KUBECONFIG asks for the cluster that KUBECONFIG names, and KUBECONFIG is not set")
    binaries.link(layout.programs)
    return replace(layout, given=Path(named))


def _cluster(action: str) -> None:
    """Set-up, as the user would start it. Its progress goes to this process' stderr; stdout is for shells."""
    command = [sys.executable, "-m", "cluster", action]
    said = ""
    with subprocess.Popen(
        command,
        cwd=ROOT / "tools",
        env=users_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            said += line
    if process.returncode == CANNOT:
        raise NoNodeHereError(" ".join(said.strip().rpartition("failed: ")[2].split()))
    if process.returncode != 0:
        why = "\n".join(said.strip().splitlines()[-_LINES_OF_A_FAILURE:])
        raise NoClusterError(f"cluster-{action} failed with exit code {process.returncode}:\n{why}")
