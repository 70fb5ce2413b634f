"""The node: etcd, API server, controller manager, scheduler, kubelet, kube-proxy, containerd and CoreDNS.

Called by the command line of the cluster, on its thread; the programs go on after it has ended. Everything here may be
repeated: what runs is left alone, what is gone is not stopped again.
"""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from cluster import binaries, configuration, network
from cluster.layout import (
    API_URL,
    ETCD_PEER_URL,
    ETCD_URL,
    NODE_ADDRESS,
    NODE_NAME,
    NODE_ZONE,
    SERVICE_RANGE,
    ClusterLayout,
)
from cluster.pki import Authority
from cluster.processes import Daemon

_ISSUER = "https://kubernetes.default.svc.cluster.local"


class Node:
    """One node on this machine."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self._authority = Authority(layout.certificates)
        self.containerd = self._daemon("containerd", "--config", str(layout.configuration / "containerd.toml"))
        self._etcd = self._daemon("etcd", *_etcd_options(layout))
        self._api_server = self._daemon("kube-apiserver", *_api_server_options(self._authority))
        self._controllers = self._daemon("kube-controller-manager", *_controller_options(layout, self._authority))
        self._scheduler = self._daemon(
            "kube-scheduler", *_logins(layout, "kube-scheduler"), "--bind-address=127.0.0.1", "--leader-elect=false"
        )
        self._kubelet = self._daemon("kubelet", *_kubelet_options(layout))
        self._proxy = self._daemon("kube-proxy", f"--config={layout.configuration / 'kube-proxy.json'}")
        self._names = self._daemon("coredns", "-conf", str(layout.configuration / "Corefile"))

    def is_up(self) -> bool:
        """Says whether every one of its programs runs."""
        return all(daemon.pid() is not None for daemon in self._daemons())

    def is_down(self) -> bool:
        """Says whether none of them does."""
        return all(daemon.pid() is None for daemon in self._daemons())

    def start_containers(self) -> None:
        """The part that images are imported into."""
        network.set_up(self._layout)
        configuration.write(self._layout, self._authority)
        self._start_containerd()

    def start(self) -> None:
        """Returns when a pod can be created, and runs."""
        self._etcd.start()
        self._etcd.wait(_answers(ETCD_URL, "/health"), 30)
        self._api_server.start()
        trusted = ssl.create_default_context(cafile=str(self._authority.certificate))
        admin = self._authority.issued("admin")
        trusted.load_cert_chain(admin.certificate, admin.key)
        self._api_server.wait(_answers(API_URL, "/readyz", trusted), 90)
        for daemon in (self._controllers, self._scheduler, self._kubelet, self._proxy, self._names):
            daemon.start()
        self._kubelet.wait(_answers("http://127.0.0.1:10248", "/healthz"), 60)
        self._kubelet.wait(self._is_ready, 120)
        self._controllers.wait(lambda: self._kubectl("get", "serviceaccount", "default") is not None, 60)

    def stop(self) -> None:
        """Ends every pod and program of the node, and takes back what they did to the host; also after a crash."""
        for daemon in (self._kubelet, self._proxy, self._names):
            daemon.stop()
        self._end_containers()
        for daemon in (self._scheduler, self._controllers):
            daemon.stop()
        self._api_server.stop(signal.SIGKILL)  # in good order it takes its time for clients that are gone already
        self._etcd.stop()
        self.containerd.stop()
        _unmount_below(self._layout.root)
        _remove_log_links(self._layout)
        if not network.is_used():  # by a cluster that has its files elsewhere
            network.tear_down(self._layout)
            _remove_cgroups()

    def _daemons(self) -> list[Daemon]:
        control = [self._etcd, self._api_server, self._controllers, self._scheduler]
        return [self.containerd, *control, self._kubelet, self._proxy, self._names]

    def _daemon(self, name: str, *options: str) -> Daemon:
        program = name if name == "containerd" else str(binaries.path(name))
        return Daemon(name, [program, *options], run=self._layout.run, logs=self._layout.logs)

    def _start_containerd(self) -> None:
        self.containerd.start()
        self.containerd.wait(lambda: self._ctr("version").returncode == 0, 60)

    def _end_containers(self) -> None:
        """As a crash of the machine would, but leaving no mount, process or network namespace behind."""
        if self.containerd.pid() is None:
            tasks = self._layout.run / "containerd" / "io.containerd.runtime.v2.task" / "k8s.io"
            if not tasks.is_dir() or not any(tasks.iterdir()):
                return
            self._start_containerd()  # containers outlive a containerd that was killed, and only it knows them
        for container in self._ctr("tasks", "list", "--quiet").stdout.split():
            self._ctr("tasks", "kill", "--all", "--signal", "SIGKILL", container)
        deadline = time.monotonic() + 10
        while " RUNNING" in self._ctr("tasks", "list").stdout and time.monotonic() < deadline:
            time.sleep(0.05)
        for container in self._ctr("containers", "list", "--quiet").stdout.split():
            network_namespace = _network_namespace(json.loads(self._ctr("containers", "info", container).stdout))
            self._ctr("tasks", "delete", "--force", container)
            self._ctr("containers", "delete", container)
            if network_namespace is not None:
                subprocess.run(["umount", "--lazy", str(network_namespace)], capture_output=True, check=False)
                network_namespace.unlink(missing_ok=True)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return ctr(self._layout, *arguments)

    def _is_ready(self) -> bool:
        condition = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self._kubectl("get", "node", NODE_NAME, condition) == "True"

    def _kubectl(self, *arguments: str) -> str | None:
        command = [str(binaries.path("kubectl")), f"--kubeconfig={self._layout.kubeconfig}", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return answer.stdout if answer.returncode == 0 else None


def ctr(layout: ClusterLayout, *arguments: str) -> subprocess.CompletedProcess[str]:
    """containerd's own client, in the namespace in which Kubernetes keeps its containers and images."""
    command = ["ctr", "--address", str(layout.socket), "--namespace", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _etcd_options(layout: ClusterLayout) -> list[str]:
    return [
        f"--data-dir={layout.state / 'etcd'}",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={ETCD_PEER_URL}",
        f"--initial-advertise-peer-urls={ETCD_PEER_URL}",
        f"--initial-cluster=default={ETCD_PEER_URL}",
        "--unsafe-no-fsync",  # nothing in it outlives `make cluster-down`
        "--log-level=warn",
    ]


def _api_server_options(authority: Authority) -> list[str]:
    server = authority.issued("api-server")
    to_kubelet = authority.issued("api-server-to-kubelet")
    return [
        f"--etcd-servers={ETCD_URL}",
        f"--bind-address={NODE_ADDRESS}",
        f"--advertise-address={NODE_ADDRESS}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--endpoint-reconciler-type=lease",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--feature-gates=PodTopologyLabelsAdmission=true",  # pods learn their zone, as by default from 1.35 on
        f"--client-ca-file={authority.certificate}",
        f"--tls-cert-file={server.certificate}",
        f"--tls-private-key-file={server.key}",
        f"--kubelet-certificate-authority={authority.certificate}",
        f"--kubelet-client-certificate={to_kubelet.certificate}",
        f"--kubelet-client-key={to_kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={authority.key}",
        f"--service-account-signing-key-file={authority.key}",
    ]


def _controller_options(layout: ClusterLayout, authority: Authority) -> list[str]:
    return [
        *_logins(layout, "kube-controller-manager"),
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={authority.key}",
        f"--root-ca-file={authority.certificate}",
        f"--cluster-signing-cert-file={authority.certificate}",
        f"--cluster-signing-key-file={authority.key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--node-monitor-grace-period=20s",
    ]


def _kubelet_options(layout: ClusterLayout) -> list[str]:
    return [
        f"--config={layout.configuration / 'kubelet.json'}",
        f"--kubeconfig={configuration.login_of(layout, 'kubelet')}",
        f"--root-dir={layout.state / 'kubelet'}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--node-labels=topology.kubernetes.io/zone={NODE_ZONE}",
    ]


def _logins(layout: ClusterLayout, program: str) -> list[str]:
    login = configuration.login_of(layout, program)
    return [f"--{name}={login}" for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]


def _answers(url: str, path: str, trusted: ssl.SSLContext | None = None) -> Callable[[], bool]:
    def ready() -> bool:
        host = url.partition("://")[2]
        connection = (
            http.client.HTTPConnection(host, timeout=5)
            if trusted is None
            else http.client.HTTPSConnection(host, timeout=5, context=trusted)
        )
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        return False

    return ready


def _network_namespace(container: dict[str, Any]) -> Path | None:
    """Returns the file in which the network plugins keep the network namespace of a pod."""
    namespaces = container["Spec"]["linux"]["namespaces"]
    paths = [Path(each["path"]) for each in namespaces if each["type"] == "network" and "path" in each]
    return next((path for path in paths if path.name.startswith("cni-")), None)


def _unmount_below(folder: Path) -> None:
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    for point in sorted((each for each in points if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)


def _remove_cgroups() -> None:
    """The kubelet's own, in every hierarchy; a group that still has a process stays."""
    groups = Path("/sys/fs/cgroup")
    for top in [*groups.glob("kubepods"), *groups.glob("*/kubepods")]:
        for group in sorted((each for each in top.rglob("*") if each.is_dir()), reverse=True):
            with suppress(OSError):
                group.rmdir()
        with suppress(OSError):
            top.rmdir()


def _remove_log_links(layout: ClusterLayout) -> None:
    """The kubelet links the logs of containers at a fixed place, for log collectors."""
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and layout.root in link.readlink().parents:
            link.unlink()
