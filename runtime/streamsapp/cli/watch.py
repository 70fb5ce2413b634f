"""``streamsapp local --watch``: the application starts again when its files are saved. The broker stays.

Runs on the main thread of ``local``, which has the broker and the folder. The application is a process, so that edited
modules are loaded anew; a thread looks after it. Another process looks at an edit first: what runs is left alone unless
the edit can go on with its topics and state.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.cli.source_files import SourceFiles
from streamsapp.structs import decoded
from streamsapp.supervisor.instance_process import Away, InstanceProcess
from streamsapp.topology.application_shape import ApplicationShape, differences, misfits

log = logging.getLogger(__name__)

#: Seconds between two looks at the files, and at a process that is waited for.
PERIOD, _TICK = 1.0, 0.05
#: The time that an edit has to be loaded; as on Kubernetes. Seconds.
LOADING = 120.0

_ANEW = "stop this `local` and start it again with --fresh"

#: Returns what is saved; ``None`` if it is wrong, which it has reported, or if no thread waits for the answer any more.
Look = Callable[[threading.Event], ApplicationShape | None]


def run_watched(watched: WatchedApplication, shutdown_timeout: float) -> int:
    """Runs an application until a signal; returns the exit code."""
    with closing_on_signals(watched.stopped.set, within=shutdown_timeout):
        watched.run()
    return 0


class WatchedApplication:
    """An application that starts again when its files are saved."""

    def __init__(
        self,
        command: Sequence[str],
        files: SourceFiles,
        look: Look,
        shape: ApplicationShape,
        shutdown_timeout: float,
        away: Away | None = None,
    ) -> None:
        """``command`` runs it, ``look`` returns what is saved, and ``shape`` is what was saved when it began. ``away``
        takes its place while it does not run."""
        self._command = command
        self._files = files
        self._look = look
        self._shape = shape
        self._shutdown_timeout = shutdown_timeout
        self._away = away
        self._process = self._new_process()
        #: Ends :meth:`run`.
        self.stopped = threading.Event()

    def run(self) -> None:
        """Runs it until ``stopped`` is set."""
        self._process.start()
        try:
            while not self.stopped.wait(PERIOD):
                if saved := self._files.saved():
                    self._consider(saved)
        finally:
            self._end()
            if self._away is not None:
                self._away.end()

    def _consider(self, saved: Sequence[str]) -> None:
        log.info("saved: %s", ", ".join(saved))
        shape = self._look(self.stopped)
        if self.stopped.is_set():
            return
        faults = [] if shape is None else list(misfits(self._shape, shape, _ANEW))
        if shape is None or faults:
            for fault in faults:
                log.error("%s", fault)
            goes_on = self._process.pid is not None
            if faults:
                self._process.stay_down()  # started again by itself, it would run what does not fit
            log.warning("the application %s", "goes on as it was" if goes_on else "starts again at the next change")
            return
        for difference in differences(self._shape, shape):
            log.info("%s", difference)
        self._end()
        self._shape, self._process = shape, self._new_process()
        self._process.start()

    def _end(self) -> None:
        """Ends the process in good order, or after its time."""
        process = self._process
        process.leave()
        process.join(self._shutdown_timeout)
        if process.is_alive():
            log.warning("the application does not end in time; it is killed, and does again what it had not committed")
            process.kill()
            process.join()

    def _new_process(self) -> InstanceProcess:
        return InstanceProcess("the application", self._command, self._refused, self._away)

    def _refused(self, code: int) -> None:
        """Called on the process's thread. It has said why, and its replacement stays."""
        log.error("the application starts again at the next change")


def look_at(manifest: Path, stopped: threading.Event) -> ApplicationShape | None:
    """Has ``streamsapp validate`` look at what is saved, in a process of its own; it reports faults itself."""
    command = [sys.executable, "-m", "streamsapp.cli.main", "validate", "-f", str(manifest), "-o", "json"]
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True) as process,
    ):
        give_up = time.monotonic() + LOADING
        while process.poll() is None:
            if time.monotonic() > give_up:
                log.error(
                    "%s: its code was not loaded within %g s; a module is to build the topology and nothing else: put "
                    "the rest behind `if __name__ == '__main__':`",
                    manifest, LOADING,
                )  # fmt: skip
                process.kill()
                process.wait()
            elif stopped.wait(_TICK):
                process.kill()
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        return None
    try:
        return decoded(text[text.rfind(b"\n{") + 1 :], ApplicationShape)  # before it, what the user's modules print
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        log.error("%s: what was saved is unknown, because the code writes to stdout when it ends: %s", manifest, error)
        return None
