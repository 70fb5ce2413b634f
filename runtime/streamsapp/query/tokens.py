"""The application's bearer tokens as they are mounted: a line each, the newest first.

Read by the HTTP server for every request it guards, and by whoever asks another instance. The file is read each time:
whoever rotates tokens replaces it in place, and not in all pods at once, so the one before is good until it is gone.
"""

from __future__ import annotations

import hmac
from pathlib import Path


class TokenFile:
    """The file of tokens, where a folder for it is mounted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = False

    @property
    def mounted(self) -> bool:
        """Whether tokens are asked for. Where the folder was there once they are for good: a file that comes late, or
        goes away, opens nothing."""
        self._seen = self._seen or self._path.parent.is_dir()
        return self._seen

    def tokens(self) -> list[bytes]:
        """What there is now."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return []
        return [token for line in lines if (token := line.strip())]

    def admits(self, given: bytes) -> bool:
        """Whether it is one of the tokens; takes as long whichever it is."""
        return any([hmac.compare_digest(given, token) for token in self.tokens()])  # noqa: C419 - every one is compared
