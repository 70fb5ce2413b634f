"""A real Kubernetes API server with its etcd, as processes of its own, which tests may stop, freeze and start again.

Objects are validated, stored and watched as in any cluster, but no controller acts on them: no pod runs, the objects of
a deleted owner stay, a deleted namespace stays. For those there is the node of tests/cluster. Needs no root.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config

from cluster import binaries
from cluster.pki import ADMINISTRATORS, Authority
from streamsapp.local.broker import free_port

_HOST = "127.0.0.1"
_START_SECONDS = 150.0
_numbers = itertools.count(1)


class ApiServer:
    """Keeps everything in one folder. As a context manager it runs on entry and is gone on exit."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(directory / "pki")
        #: Logs in as a user who may do everything.
        self.kubeconfig = self.kubeconfig_of("admin", group=ADMINISTRATORS)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self._port}"

    def __enter__(self) -> ApiServer:
        binaries.build(binaries.API_SERVER)
        self._etcd = self._launch("etcd", self._etcd_options())
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._etcd is not None:
            _end(self._etcd, signal.SIGKILL)
            self._etcd = None

    def start(self) -> None:
        """Returns when it is ready; a stopped server comes back with its address and all objects."""
        assert self._server is None
        self._server = self._launch("kube-apiserver", self._server_options())
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready():
            if self._server.poll() is not None or time.monotonic() > deadline:
                log = self._log_of("kube-apiserver").read_text()
                raise RuntimeError(f"the API server did not start: {log[-3000:]}")
            time.sleep(0.02)

    def stop(self, sign: int = signal.SIGKILL) -> None:
        """At once; a server that is stopped already stays so. Its watches break, what it stored stays."""
        if self._server is not None:
            _end(self._server, sign)
            self._server = None

    def freeze(self) -> None:
        """It keeps its connections and takes new ones, and answers nothing until it is thawed or stopped."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)
        os.waitpid(self._server.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """It goes on where it was; does nothing if it was stopped meanwhile."""
        if self._server is not None:
            self._server.send_signal(signal.SIGCONT)

    def requests(self) -> float:
        """Returns how many requests the server has answered so far, by its own count."""
        lines = self.kubectl("get", "--raw", "/metrics").splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("apiserver_request_total{"))

    def client(self) -> client.ApiClient:
        """A new client that may do everything; close it, or use it as a context manager."""
        made: client.ApiClient = config.new_client_from_config(str(self.kubeconfig))
        return made

    def kubeconfig_of(self, user: str, *, group: str = "tests") -> Path:
        """The login of a user who may only what the test's own role bindings allow."""
        login = self._authority.issue(user, user=user, group=group)
        return self._authority.kubeconfig(self._directory / f"{user}.kubeconfig", self.url, login)

    def namespace(self, name: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace of that name made unique; returns its name."""
        unique = f"{name}-{os.getpid()}-{next(_numbers)}"
        with self.client() as api:
            metadata = client.V1ObjectMeta(name=unique, labels=dict(labels or {}))
            client.CoreV1Api(api).create_namespace(client.V1Namespace(metadata=metadata))
        return unique

    def define(self, resource: Path) -> None:
        """Make a resource known, and wait until its objects can be made; ``kubectl wait`` and a path to its conditions
        fail while the definition has none yet."""
        self.kubectl("apply", "--server-side", "-f", str(resource))
        deadline = time.monotonic() + _START_SECONDS
        while not _is_established(json.loads(self.kubectl("get", "-f", str(resource), "-o=json"))):
            assert time.monotonic() < deadline, f"{resource.name} was not established"
            time.sleep(0.05)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Returns what ``kubectl`` prints; raises with its complaint when it fails."""
        command = [str(binaries.executable("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        # It waits until what it deletes is gone, which takes long on a busy machine.
        answer = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=180, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def _etcd_options(self) -> list[str]:
        url, peers = f"http://{_HOST}:{self._etcd_port}", f"http://{_HOST}:{self._peer_port}"
        return [
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _server_options(self) -> list[str]:
        server = self._authority.issue("server", user="kube-apiserver", hosts=(_HOST, "localhost"))
        return [
            f"--etcd-servers=http://{_HOST}:{self._etcd_port}",
            f"--bind-address={_HOST}",
            f"--advertise-address={_HOST}",
            f"--secure-port={self._port}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            # Nothing makes the default ServiceAccount of a namespace here: with this plugin no pod could be created.
            "--disable-admission-plugins=ServiceAccount",
            f"--client-ca-file={self._authority.certificate}",
            f"--tls-cert-file={server.certificate}",
            f"--tls-private-key-file={server.key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._authority.key}",
            f"--service-account-signing-key-file={self._authority.key}",
            "--profiling=false",
        ]

    def _launch(self, program: str, options: list[str]) -> subprocess.Popen[bytes]:
        with self._log_of(program).open("ab") as log:
            return subprocess.Popen([str(binaries.executable(program)), *options], stdout=log, stderr=log)

    def _log_of(self, program: str) -> Path:
        return self._directory / f"{program}.log"

    def _ready(self) -> bool:
        trusted = ssl.create_default_context(cafile=str(self._authority.certificate))
        admin = self._authority.issue("admin", user="admin", group=ADMINISTRATORS)
        trusted.load_cert_chain(admin.certificate, admin.key)
        connection = http.client.HTTPSConnection(_HOST, self._port, timeout=5, context=trusted)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(it["type"] == "Established" and it["status"] == "True" for it in conditions)


def _end(process: subprocess.Popen[bytes], sign: int) -> None:
    process.send_signal(signal.SIGCONT)  # a frozen process takes no other signal but SIGKILL
    process.send_signal(sign)
    process.wait(100)
