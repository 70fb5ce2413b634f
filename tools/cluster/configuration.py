"""The configuration files of the node's programs, as data. Written by the node before it starts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cluster import dns, network
from cluster.layout import (
    API_SERVICE_ADDRESS,
    API_URL,
    CLUSTER_DOMAIN,
    NODE_ADDRESS,
    NODE_NAME,
    POD_RANGE,
    ClusterLayout,
)
from cluster.pki import ADMINISTRATORS, Authority

#: Program → the user it logs in as, and the user's group. Kubernetes has a role for each of these users.
_LOGINS = {
    "kube-controller-manager": ("system:kube-controller-manager", "streamsapp"),
    "kube-scheduler": ("system:kube-scheduler", "streamsapp"),
    "kube-proxy": ("system:kube-proxy", "streamsapp"),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "coredns": ("coredns", ADMINISTRATORS),
}
PAUSE_IMAGE = "localhost/streamsapp-pause:1"


def write(layout: ClusterLayout, authority: Authority) -> None:
    """All of them, anew each time: they follow the code."""
    admin = authority.issue("admin", user="admin", group=ADMINISTRATORS)
    authority.kubeconfig(layout.kubeconfig, API_URL, admin)
    for program, (user, group) in _LOGINS.items():
        authority.kubeconfig(login_of(layout, program), API_URL, authority.issue(program, user=user, group=group))
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{CLUSTER_DOMAIN}")
    hosts = (*names, "localhost", "127.0.0.1", NODE_ADDRESS, API_SERVICE_ADDRESS)
    authority.issue("api-server", user="kube-apiserver", hosts=hosts)
    authority.issue("api-server-to-kubelet", user="kube-apiserver-kubelet-client", group=ADMINISTRATORS)
    authority.issue("kubelet-server", user=NODE_NAME, hosts=(NODE_NAME, NODE_ADDRESS))
    _write_json(layout.configuration / "kubelet.json", _kubelet(layout, authority))
    _write_json(layout.configuration / "kube-proxy.json", _proxy(layout))
    _write_json(layout.network / "10-streamsapp.conflist", network.plugin_configuration(layout))
    (layout.configuration / "resolv.conf").write_text("", encoding="utf-8")
    (layout.configuration / "containerd.toml").write_text(_containerd(layout), encoding="utf-8")
    (layout.configuration / "Corefile").write_text(dns.corefile(login_of(layout, "coredns")), encoding="utf-8")


def login_of(layout: ClusterLayout, program: str) -> Path:
    return layout.configuration / f"{program}.kubeconfig"


def _kubelet(layout: ClusterLayout, authority: Authority) -> dict[str, Any]:
    own = authority.issued("kubelet-server")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(own.certificate),
        "tlsPrivateKeyFile": str(own.key),
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "cgroupDriver": "cgroupfs",  # there may be no systemd
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [NODE_ADDRESS],
        "resolvConf": str(layout.configuration / "resolv.conf"),  # the host's search list is not the pods'
        "podLogsDir": str(layout.state / "pod-logs"),
        "volumePluginDir": str(layout.state / "volume-plugins"),
        "healthzBindAddress": "127.0.0.1",
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        # Images are imported here and can be pulled from nowhere: they must never be cleaned away.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "30s",
        "maxPods": 100,
    }


def _proxy(layout: ClusterLayout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(login_of(layout, "kube-proxy"))},
        "bindAddress": NODE_ADDRESS,
        "hostnameOverride": NODE_NAME,
        "mode": "iptables",
        "clusterCIDR": POD_RANGE,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The host's limits stay as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    }


def _containerd(layout: ClusterLayout) -> str:
    """Without CAP_SYS_RESOURCE runc may not lower oom_score_adj and no pod would start, hence the restriction."""
    snapshotter = "native" if is_overlay(layout.containers) else "overlayfs"
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in ("aufs", "btrfs", "devmapper", "zfs"))
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "{layout.containers}"
state = "{layout.run / "containerd"}"
oom_score = 0
disabled_plugins = [{unused}]
[grpc]
  address = "{layout.socket}"
[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
[{cri}.cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{layout.network}"
[{cri}.containerd]
  snapshotter = "{snapshotter}"
  default_runtime_name = "runc"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def is_overlay(folder: Path) -> bool:
    """Says whether the folder lies on an overlay, as in a container: another one cannot be mounted on top."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    above = [(len(point), kind) for _, point, kind, *_ in mounts if folder.is_relative_to(point)]
    return max(above)[1] == "overlay"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
