"""Reads the application's bearer tokens as they are mounted: a line each, the newest first. Called on any thread.

Read by the HTTP server for every request it guards, and by code that asks another instance. The file is read each time:
a rotation of tokens replaces it in place, and not in all pods at once, so the token before is good until it is gone.

A token is never sent to a peer, as any member of the group may name any host as its endpoint. An instance *proves* that
it has the token: by a signature of what it asks for, of whom it asks, and of the time. A receiver can do no more with
it than ask the same instance the same again for a while.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from streamsapp.clock import Clock

#: The scheme of ``Authorization`` of an instance that asks another: seconds since the epoch, a colon, the signature.
PEER = "StreamsApp-Peer"
#: The seconds that the clocks of two instances may be apart, with the time a request takes.
PEER_SECONDS = 300


class TokenFile:
    """The file of tokens, where a folder for it is mounted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = False

    @property
    def mounted(self) -> bool:
        """Says whether tokens are asked for. If the folder was there once they are for good: a file that comes late, or
        goes away, opens nothing."""
        self._seen = self._seen or self._path.parent.is_dir()
        return self._seen

    def tokens(self) -> list[bytes]:
        """Returns the tokens that are mounted now."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return []
        return [token for line in lines if (token := line.strip())]

    def admits(self, given: bytes) -> bool:
        """Says whether the text is one of the tokens; it takes as long whichever it is."""
        return any([hmac.compare_digest(given, token) for token in self.tokens()])  # noqa: C419 - every one is compared

    def admits_peer(self, proof: bytes, endpoint: str, target: str, clock: Clock) -> bool:
        """Says whether the header proves, to ``endpoint`` and for this target, that the peer has one of the tokens."""
        moment = proof.partition(b":")[0]
        if not moment.isdigit() or len(moment) > 12 or abs(clock.now_ms() / 1000 - int(moment)) > PEER_SECONDS:
            return False
        proofs = [_proof(token, endpoint, target, int(moment)) for token in self.tokens()]
        return any([hmac.compare_digest(proof, each) for each in proofs])  # noqa: C419 - every one is compared


def bearer(token: bytes, _endpoint: str, _target: str) -> bytes:
    """Returns the ``Authorization`` header that shows the token; only for a server that the caller has started
    itself."""
    return b"Bearer " + token


def peer_proof(clock: Clock, token: bytes, endpoint: str, target: str) -> bytes:
    """Returns the ``Authorization`` header that proves to ``endpoint``, for one target, that the caller has the
    token."""
    return f"{PEER} ".encode() + _proof(token, endpoint, target, clock.now_ms() // 1000)


def _proof(token: bytes, endpoint: str, target: str, moment: int) -> bytes:
    text = "\n".join((PEER, str(moment), endpoint, target))
    return f"{moment}:{hmac.new(token, text.encode(), 'sha256').hexdigest()}".encode()
