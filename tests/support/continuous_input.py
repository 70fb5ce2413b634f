"""Input that does not stop, for tests of what happens under load."""

from __future__ import annotations

import threading
from types import TracebackType

from remote_state import Remote

_PERIOD = 0.05


class Pouring:
    """A context in which an application gets some records every moment, written on a thread of its own."""

    def __init__(self, remote: Remote, records: int = 50) -> None:
        self._remote = remote
        self._records = records
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pouring", daemon=True)

    def __enter__(self) -> Pouring:
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
            while not self._end.wait(_PERIOD):
                self._remote.feed(self._records)
        except BaseException as error:
            self._error = error
