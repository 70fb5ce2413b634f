"""Input that does not stop, for tests of what happens under load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from remote_state import Remote

_PERIOD = 0.05


class Repeated:
    """A context in which input is written every moment, on a thread of its own."""

    def __init__(self, write: Callable[[], object], period: float = _PERIOD) -> None:
        """Takes the pause between two calls, in seconds."""
        self._write = write
        self._period = period
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="input", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        assert self._error is None, f"the input was not written: {self._error!r}"

    def _run(self) -> None:
        try:
            while not self._end.wait(self._period):
                self._write()
        except BaseException as error:
            self._error = error


class Pouring(Repeated):
    """An application gets some records every moment."""

    def __init__(self, remote: Remote, records: int = 50) -> None:
        super().__init__(partial(remote.feed, records))
