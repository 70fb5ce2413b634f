"""The folders and addresses of a cluster. There is one cluster on a machine.

Read by every part of the cluster. The addresses are from ranges that hardly any machine uses; what the node checks
before it starts is :mod:`cluster.network`'s.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError

NODE_NAME = "streamsapp"
#: The zone that the node says it is in.
NODE_ZONE = "here-1a"
#: On a bridge without ports: every process of the cluster that pods or people talk to listens here and nowhere else.
NODE_ADDRESS = "10.250.0.1"
POD_RANGE = "10.244.0.0/24"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
CLUSTER_DOMAIN = "cluster.local"
NODE_BRIDGE = "streamsapp-node"
POD_BRIDGE = "streamsapp-pods"

API_URL = f"https://{NODE_ADDRESS}:6443"
ETCD_URL = "http://127.0.0.1:12379"
ETCD_PEER_URL = "http://127.0.0.1:12380"


@dataclass(frozen=True)
class ClusterLayout:
    """The folders below one root. ``run`` and ``state`` are emptied with the cluster, the others outlive it."""

    root: Path
    #: Names another cluster, which is used in place of this machine's and neither started nor stopped.
    given: Path | None = None

    @classmethod
    def of_this_machine(cls) -> ClusterLayout:
        return cls(cache_dir() / "cluster").make()

    def make(self) -> ClusterLayout:
        for folder in (self.run, self.state, self.configuration, self.logs, self.programs, self.images, self.network):
            folder.mkdir(parents=True, exist_ok=True)
        return self

    def wipe(self) -> None:
        """Forget everything that was in the cluster; certificates, images and logs stay for the next one."""
        for folder in (self.run, self.state):
            try:
                shutil.rmtree(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StreamsError(f"{folder} could not be removed, something still uses it: {error}") from error

    def start_anew(self) -> None:
        """For a cluster in which nothing is yet: logs are its own, too."""
        for log in self.logs.glob("*.log"):
            log.unlink()
        self.make()

    @property
    def run(self) -> Path:
        """Process ids and sockets."""
        return self.root / "run"

    @property
    def state(self) -> Path:
        """etcd, the kubelet's volumes, Kafka's topics, the objects of the S3 server."""
        return self.root / "state"

    @property
    def configuration(self) -> Path:
        return self.root / "etc"

    @property
    def network(self) -> Path:
        """The folder that containerd reads to connect pods."""
        return self.configuration / "cni"

    @property
    def certificates(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def programs(self) -> Path:
        """Links to what a user of the cluster calls: one folder to put on PATH."""
        return self.root / "bin"

    @property
    def images(self) -> Path:
        """The folder of everything that builds images, and of built images."""
        return self.root / "images"

    @property
    def containers(self) -> Path:
        """Imported images, as containerd keeps them."""
        return self.root / "containerd"

    @property
    def socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def kubeconfig(self) -> Path:
        """Logs in as a user who may do everything."""
        return self.given or self.root / "kubeconfig"
