"""The end of a Spark session, in good order or by Ctrl-C. Made and called by ``session``, on the driver's main thread;
Spark is stopped on a thread of its own.

If Ctrl-C breaks off a call to Java, py4j has Java close every connection of the driver, a moment later: also the one on
which the session is being stopped. In a Java process that goes on after the driver, the session would stay for ever. So
Ctrl-C breaks off no call to Java: it stops Spark, and that ends the call.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: The time that an end in good order may take; a Java process that the driver has started ends with it in any case.
STOP_SECONDS = 30.0


class SessionEnd:
    """The end of one session. From its beginning on Ctrl-C is dealt with here."""

    def __init__(self, spark: SparkSession) -> None:
        #: Each thread has a connection to Java of its own.
        self._stopping = threading.Thread(target=spark.stop, name="stopping", daemon=True)
        #: Says whether an error of a call to Java is no failure, but comes of Ctrl-C.
        self.interrupted = False
        self._before = signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted or not _is_in_call_to_java(frame):
            raise KeyboardInterrupt
        self.interrupted = True
        self._stopping.start()

    def stop(self, within: float) -> None:
        """Stop Spark, if that is not under way, and wait for it."""
        if not self.interrupted:
            self._stopping.start()
        self._stopping.join(within)
        signal.signal(signal.SIGINT, self._before)
        if self._stopping.is_alive():
            log.warning("Spark has not stopped within %g s; it is not waited for", within)


def _is_in_call_to_java(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals["__name__"].startswith("py4j."):
            return True
        frame = frame.f_back
    return False
