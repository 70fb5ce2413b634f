"""Looks whether any broker of a cluster is there, before a client looks for much longer.

Used by readers of snapshots and by commands, which go on without Kafka, on their main threads.
"""

from __future__ import annotations

import socket

#: The time in which a broker has to be found, in seconds.
_SECONDS = 5.0


def check_reachable(bootstrap_servers: str) -> None:
    """Raise ``OSError`` if no server of the list takes a connection. Forms of addresses that only the client knows are
    left to it."""
    fault: OSError | None = None
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
        except (ValueError, OverflowError):
            return
        except OSError as error:
            fault = OSError(f"nothing answers at {server.strip()} ({error})")
        else:
            return
    if fault is not None:
        raise fault
