"""The error that ends a command with a message and an exit code. Raised on the main thread, and on the threads that ask
pods."""

from __future__ import annotations

FAILED, WRONG_INPUT = 1, 2


class PluginError(Exception):
    """Ends a command; it is printed on stderr without a traceback."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
