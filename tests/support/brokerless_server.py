"""A server that real clients of librdkafka's take for a broker, and that may name no brokers in its answers. A broker
that is out of touch with its controller does that, for a moment that no test can choose.

It answers requests for its versions and for topics; it has one topic.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from struct import pack, unpack_from

TOPIC = "t"

_METADATA, _VERSIONS = 3, 18
#: That may be asked for: with what librdkafka wants of a broker, though the others are not answered.
_KNOWN = ((0, 0, 7), (1, 0, 11), (2, 0, 5), (_METADATA, 0, 4), (_VERSIONS, 0, 0))
_UNSUPPORTED_VERSION, _LEADER_NOT_AVAILABLE = 35, 5


class BrokerlessServer:
    """Listens until it is closed."""

    def __init__(self) -> None:
        self.tells_of_none = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        threading.Thread(target=self._accept, name="brokerless", daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(connection,), name="brokerless", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # a client that has lost its brokers goes away
            while len(head := connection.recv(4, socket.MSG_WAITALL)) == 4:
                request = connection.recv(int.from_bytes(head), socket.MSG_WAITALL)
                kind, version, correlation = unpack_from(">hhi", request)
                if kind not in (_METADATA, _VERSIONS):
                    continue
                answer = self._versions(version) if kind == _VERSIONS else self._topics()
                connection.sendall(pack(">ii", 4 + len(answer), correlation) + answer)

    def _versions(self, version: int) -> bytes:
        kinds = b"".join(pack(">hhh", *each) for each in _KNOWN)
        return pack(">hi", _UNSUPPORTED_VERSION if version > 0 else 0, len(_KNOWN)) + kinds

    def _topics(self) -> bytes:
        """Of version 4: the brokers, the cluster and its controller, and the topic, which has one partition."""
        none = self.tells_of_none
        brokers = pack(">i", 0) if none else pack(">ii", 1, 1) + _text("127.0.0.1") + pack(">ih", self._port, -1)
        error, leader = (_LEADER_NOT_AVAILABLE, -1) if none else (0, 1)
        in_sync = pack(">i", 0) if none else pack(">ii", 1, 1)
        partition = pack(">hii", error, 0, leader) + pack(">ii", 1, 1) + in_sync
        topic = pack(">h", 0) + _text(TOPIC) + b"\0" + pack(">i", 1) + partition
        return pack(">i", 0) + brokers + _text("cluster") + pack(">i", leader) + pack(">i", 1) + topic


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()
