"""The loop of one application: a turn every second, sooner when something happened, later when it fails.

A thread for each application. It never dies of an error: an error is told once, in the log and by an event, until it is
another one or gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from streamsapp_operator.apply import NameTakenError
from streamsapp_operator.kube import ApiError, Conflict, Forbidden, Gone, Object, Refused, Rejected, Unavailable
from streamsapp_operator.metrics import Figures
from streamsapp_operator.model.observed import Trouble
from streamsapp_operator.turn import App, Tools, read_app, subject, told_of
from streamsapp_operator.volatile import masked

log = logging.getLogger(__name__)

#: Seconds between two turns when nothing happens, and the least there are however much happens.
PERIOD, SHORTEST = 1.0, 0.2
#: The longest wait after an error of the application's own, and after one of the API server's; seconds.
LONGEST_BACKOFF, LONGEST_OUTAGE_BACKOFF = 30.0, 5.0


class Key(NamedTuple):
    """An application."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Loop(threading.Thread):
    """Turns for one application until it is gone."""

    def __init__(self, key: Key, tools: Tools, figures: Figures, ended: Callable[[Loop], bool]) -> None:
        """``ended`` is asked when the application is gone: whether the loop may end."""
        super().__init__(name=f"app-{key}", daemon=True)
        self.key = key
        self._tools = tools
        self._figures = figures
        self._ended = ended
        self._app: App | None = None
        self._document: Object | None = None
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._cause: str | None = None
        #: When it was last seen to get on, by the operator's clock.
        self.beat_at = tools.clock.now()

    @property
    def asked_for(self) -> bool:
        """Whether something happened since the last turn began."""
        return self._woken.is_set()

    def wake(self) -> None:
        """The application changed: turn now, even if the last turns failed."""
        self._woken.set()

    def nudge(self) -> None:
        """Something of it changed: turn now, but not more often than its errors allow."""
        if not self._failures:
            self._woken.set()

    def stop(self) -> None:
        """End after the action that is under way."""
        self._stopping.set()
        self._woken.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            wait = self._turn()
            if wait is None:
                if self._ended(self):
                    return
                continue
            self._stopping.wait(min(SHORTEST, wait))
            self._woken.wait(max(0.0, wait - SHORTEST))

    def _turn(self) -> float | None:
        """Seconds until the next; ``None``: the application is gone."""
        self._beat()
        try:
            with self._figures.reconcile_seconds.time():
                exists = self._try()
        except Conflict as error:
            return self._again(error, "conflict", longest=PERIOD)
        except (Refused, Gone) as error:
            return self._again(error, "refused", longest=PERIOD)
        except Unavailable as error:
            return self._again(error, "unavailable", longest=LONGEST_OUTAGE_BACKOFF)
        except ApiError as error:
            return self._failed(error, str(error))
        except Exception as error:
            return self._failed(error, f"{type(error).__name__}: {error}; the operator's log has the details")
        if self._cause is not None:
            log.info("%s: works again", self.key, extra={"app": str(self.key)})
        self._failures, self._cause = 0, None
        if self._app is not None:
            self._app.trouble = None
        return PERIOD if exists else None

    def _try(self) -> bool:
        document = self._document = read_app(self._tools.client, *self.key)
        if document is None:
            self._figures.forget(self.key)
            self._tools.groups.forget(str(self.key))
            self._app = None
            return False
        uid = document["metadata"]["uid"]
        if self._app is None or self._app.uid != uid:
            self._app = App(self._tools, uid)
        turned = self._app.turn(document, self._beat)
        if turned is not None:
            self._figures.saw(self.key, turned.status, turned.wanted_replicas)
        return True

    def _again(self, error: ApiError, kind: str, longest: float) -> float:
        """Nothing is wrong with the application: look again soon."""
        self._figures.errors.labels(kind).inc()
        self._failures += 1
        if self._is_new(error, str(error)):
            level = logging.WARNING if isinstance(error, Unavailable) else logging.INFO
            log.log(level, "%s: %s", self.key, error, extra={"app": str(self.key)})
        return min(longest, SHORTEST * 2.0 ** min(self._failures, 20))

    def _failed(self, error: Exception, said: str) -> float:
        self._figures.errors.labels("error").inc()
        self._failures += 1
        if self._is_new(error, said):
            expected = isinstance(error, ApiError)
            log.error("%s: %s", self.key, said, exc_info=None if expected else error, extra={"app": str(self.key)})
            self._tell(Trouble(_reason(error), said))
        return min(LONGEST_BACKOFF, 2.0 ** min(self._failures - 1, 10))

    def _tell(self, trouble: Trouble) -> None:
        """As a condition and an event of this application: whatever is wrong with it is no other's business."""
        if self._app is None or self._document is None or not self._tools.may_act():
            return
        self._app.trouble = trouble
        try:
            self._app.recorder.tell(subject(self._document), "Warning", "OperatorError", trouble.message)
            told_of(self._tools.client, *self.key, trouble, self._tools.clock.now())
        except Exception as error:
            log.warning("%s: its trouble could not be told: %s", self.key, error, extra={"app": str(self.key)})

    def _is_new(self, error: Exception, said: str) -> bool:
        cause = f"{type(error).__name__} {masked(said)}"
        new, self._cause = cause != self._cause, cause
        return new

    def _beat(self) -> None:
        self.beat_at = self._tools.clock.now()


def _reason(error: Exception) -> str:
    """Of the condition; stable."""
    reasons: dict[type[Exception], str] = {NameTakenError: "NameTaken", Rejected: "Rejected", Forbidden: "MissingRight"}
    return reasons.get(type(error), "OperatorError")


class Loops:
    """The loops of all applications. Called by the watcher and by the probes, on their threads."""

    def __init__(self, tools: Tools, figures: Figures) -> None:
        self._tools = tools
        self._figures = figures
        self._lock = threading.Lock()
        self._loops: dict[Key, Loop] = {}
        self._closed = False

    def saw(self, key: Key) -> None:
        """There is such an application, or something was changed about it."""
        with self._lock:
            loop = self._loops.get(key)
            if loop is not None:
                loop.wake()
            elif not self._closed:
                loop = self._loops[key] = Loop(key, self._tools, self._figures, self._may_end)
                loop.start()

    def nudge(self, key: Key) -> None:
        """Something happened to a pod of it."""
        with self._lock:
            loop = self._loops.get(key)
        if loop is not None:
            loop.nudge()

    def oldest(self) -> tuple[Key, float] | None:
        """The loop that has not got on for the longest time, and since when."""
        with self._lock:
            beats = [(loop.key, loop.beat_at) for loop in self._loops.values()]
        return min(beats, key=lambda beat: beat[1], default=None)

    def close(self, timeout: float) -> None:
        """End all, each after the action that is under way."""
        with self._lock:
            self._closed = True
            loops = list(self._loops.values())
        for loop in loops:
            loop.stop()
        deadline = self._tools.clock.now() + timeout
        for loop in loops:
            loop.join(max(0.0, deadline - self._tools.clock.now()))

    def _may_end(self, loop: Loop) -> bool:
        """An application that was made anew while its loop was about to end keeps it."""
        with self._lock:
            if loop.asked_for and not self._closed:
                return False
            del self._loops[loop.key]
            return True
