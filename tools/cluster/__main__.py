"""``make cluster-up`` and ``make cluster-down``: the node, its images, Kafka and the S3 server, in one go each.

The work in progress is reported on stderr; stdout has nothing but the two lines that a shell takes over: ``export
$(make cluster-up)``. Exit codes: 0 done, 1 failed, 2 this machine cannot run a node, and why.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from cluster import binaries, network, packages
from cluster.host_services import KAFKA, S3, HostServices
from cluster.images import SPARK, Images
from cluster.layout import ClusterLayout
from cluster.node import Node
from set_up import SetupError
from streamsapp.errors import StreamsAppError, UserInputError
from terminal import step

#: The exit code where this machine cannot run a node.
CANNOT = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster", description="a real single-node Kubernetes on this machine")
    parser.add_argument(
        "action",
        choices=["up", "spark", "down"],
        help="spark: the image of bootstraps, once the node is up",
    )
    action = parser.parse_args().action
    try:
        with redirect_stdout(sys.stderr):
            packages.ensure()
            layout = ClusterLayout.of_this_machine()
            with _alone(layout):
                {"up": bring_up, "spark": bring_in_spark, "down": bring_down}[action](layout)
    except (StreamsAppError, SetupError) as error:
        print(f"\ncluster-{action} failed: {error}", file=sys.stderr)
        return CANNOT if isinstance(error, UserInputError | SetupError) else 1
    except KeyboardInterrupt:
        print(f"\ninterrupted; `make cluster-{action}` goes on from here", file=sys.stderr)
        return 130
    if action == "up":
        print(f"KUBECONFIG={layout.kubeconfig}")
        print(f"PATH={layout.programs}{os.pathsep}{os.environ['PATH']}")
    return 0


def bring_up(layout: ClusterLayout) -> None:
    """Everything; what runs already stays as it is, but for images that the tree has newer."""
    machine, services = Node(layout), HostServices(layout)
    if machine.is_down():
        bring_down(layout)  # this machine, or the last cluster, may have ended without it
        network.check_room()
        layout.start_anew()
    binaries.build(binaries.NODE)
    binaries.link(layout.programs)
    images = Images(layout)
    images.build()
    if not machine.is_up():
        with step("containers and network"):
            machine.start_containers()
    images.bring_in()
    with step("Kubernetes"):
        machine.start()
    with step("Kafka and the S3 server"):
        services.start()
        _apply(layout, json.dumps(services.credentials("default")))
    print(f"  pods say kafka:9092 and http://s3:9000; this machine says {KAFKA} and {S3}", flush=True)


def bring_in_spark(layout: ClusterLayout) -> None:
    """The image that bootstraps run in, into the node that runs."""
    images = Images(layout)
    images.build([SPARK])
    images.bring_in([SPARK])


def bring_down(layout: ClusterLayout) -> None:
    """Stops the cluster and deletes everything in it; images, certificates and programs stay for the next one."""
    with step("stopping what runs of the cluster"):
        HostServices(layout).stop()
        Node(layout).stop()
        layout.wipe()


def _apply(layout: ClusterLayout, manifest: str) -> None:
    command = [str(binaries.path("kubectl")), f"--kubeconfig={layout.kubeconfig}", "apply", "--filename=-"]
    subprocess.run(command, input=manifest, text=True, capture_output=True, check=True)


@contextmanager
def _alone(layout: ClusterLayout) -> Iterator[None]:
    """One command at a time; another one waits."""
    with (layout.root / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
