"""Decides when an instance is started again, and when it is killed. Pure.

Owned by the thread that looks after the instance.
"""

from __future__ import annotations

#: An instance that ends with this would end with it again: the user's input is wrong.
WRONG_INPUT = 2

#: Seconds before an instance is started again, doubled each time up to the longest.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
#: An instance that ran for so long ended for a new reason, in seconds.
STEADY = 60.0

#: Bad answers in a row after which an instance is killed, and silent ones: it may be stopped or starved for a while.
BAD_ANSWERS, SILENT_ANSWERS = 3, 6


class RestartBackoff:
    """Decides how many seconds to wait before the next start."""

    def __init__(self) -> None:
        self._delay = FIRST_DELAY

    def after(self, code: int, ran: float) -> float | None:
        """Seconds to wait after an instance ended that ``ran`` for so long; ``None``: never start it again."""
        if code == WRONG_INPUT:
            return None
        if ran >= STEADY:
            self._delay = FIRST_DELAY
        delay = self._delay
        self._delay = min(2 * delay, LONGEST_DELAY)
        return delay


class LivenessChecks:
    """Counts what an instance answers to ``/healthz``."""

    def __init__(self) -> None:
        self._bad = self._silent = 0

    def heard(self, healthy: bool | None) -> bool:
        """Take an answer, ``None`` for silence; whether the instance is to be killed."""
        self._bad = self._bad + 1 if healthy is False else 0
        self._silent = self._silent + 1 if healthy is None else 0
        if self._bad < BAD_ANSWERS and self._silent < SILENT_ANSWERS:
            return False
        self._bad = self._silent = 0
        return True
