"""Names inside the cluster, and of the host's services, by CoreDNS as a process of the host.

Called by the node when it writes its configuration. Every pod asks the node's address. ``kafka`` and ``s3`` are bare
names, so that they mean the same in every namespace: a pod tries its search list first and then the name alone.
"""

from __future__ import annotations

from pathlib import Path

from cluster.layout import CLUSTER_DOMAIN, NODE_ADDRESS

#: Names of the host's services, as the manifests of the examples have them.
HOST_SERVICES = ("kafka", "s3")
_RESOLVER = Path("/etc/resolv.conf")


def corefile(kubeconfig: Path) -> str:
    """CoreDNS' configuration; other names are asked of the host's own servers, if it has any."""
    forward = f"forward . {_RESOLVER}" if _host_resolves() else ""
    return f"""\
.:53 {{
  bind {NODE_ADDRESS}
  errors
  hosts {{
    {NODE_ADDRESS} {" ".join(HOST_SERVICES)}
    ttl 30
    fallthrough
  }}
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
    ttl 1
  }}
  {forward}
  cache 1
}}
"""


def _host_resolves() -> bool:
    return _RESOLVER.exists() and any(
        line.startswith("nameserver") for line in _RESOLVER.read_text("utf-8").splitlines()
    )
