"""Checks the form of an endpoint, ``host:port``, by which instances reach each other. Pure; called wherever one is
read.

An endpoint becomes part of requests and of ``Location`` headers, and most of them come from other members: a text that
is not exactly a host and a port is none.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
#: ``host:port``; the host is a name, an IPv4 address, or an IPv6 address in brackets.
ENDPOINT = rf"{_HOST}:{_PORT}"


def endpoint_of(host: str, port: int) -> str:
    """Returns ``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bracketed(text: str) -> str:
    """Returns an endpoint with the brackets that an IPv6 address needs: ``$(POD_IP):8080`` in a manifest has none. The
    port follows the last colon."""
    host, colon, port = text.rpartition(":")
    return f"{bracketed_host(host)}{colon}{port}"


def bracketed_host(host: str) -> str:
    """Returns a host, an IPv6 address in brackets."""
    return f"[{host}]" if _is_ipv6(host) else host


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return "%" not in host


def is_endpoint(text: str) -> bool:
    """Says whether a text is ``host:port`` and nothing else."""
    return re.fullmatch(ENDPOINT, text) is not None
