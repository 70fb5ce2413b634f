"""Authorizes requests to paths that are not open to all.

Asked by the server for each request, on the threads of its connections. Where tokens are mounted, a caller shows one of
them, or proves as a peer that it has one. If none are, as on a developer's machine, every client that reaches the port
may ask, but no web page in a browser: that sends its ``Origin``, or a name of its own as ``Host``.
"""

from __future__ import annotations

import re
import socket
from email.message import Message
from ipaddress import ip_address

from streamsapp.clock import Clock
from streamsapp.web.tokens import PEER, TokenFile


class Authorization:
    """Authorizes the callers of one port; ``endpoint`` is the address by which peers know it."""

    def __init__(self, file: TokenFile | None, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self.endpoint = ""

    @property
    def closed(self) -> bool:
        """Says whether callers have to show a token."""
        return self._file is not None and self._file.mounted

    def admits(self, method: str, target: str, headers: Message) -> bool:
        """Says whether a caller may ask."""
        if self._file is None or not self._file.mounted:
            return self._same_site(headers)
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        # Headers come as bytes, which http.server reads as Latin-1.
        proof = given.strip().encode("latin-1")
        if scheme.lower() == PEER.lower():
            # A peer reads. A proof that it gave to another server proves nothing here.
            mine = bool(self.endpoint) and headers.get("Host") == self.endpoint
            return method == "GET" and mine and self._file.admits_peer(proof, self.endpoint, target, self._clock)
        return scheme.lower() == "bearer" and self._file.admits(proof)

    def _same_site(self, headers: Message) -> bool:
        host, origin = headers.get("Host"), headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != host:
            return False
        return host is None or self._is_mine(_name_of(host))

    def _is_mine(self, name: str) -> bool:
        """Says whether no other party can have given this name to our address: a name with dots has an owner in the
        DNS."""
        if "." not in name or name in (_name_of(self.endpoint), socket.gethostname().lower()):
            return True
        return _is_address(name)


def _name_of(host: str) -> str:
    """Returns the host without the port."""
    return re.sub(r":[0-9]*\Z", "", host).lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
