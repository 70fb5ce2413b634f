"""Runs the loop of each application: it reconciles when something happened, and as often as ``pace`` says; later when
it fails.

Some threads run the loops of all. A loop never dies of an error: an error is reported once, in the log and by an event,
until it is another one or gone.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import threading
import time
from typing import NamedTuple

from streamsapp_operator.apply import NameTakenError
from streamsapp_operator.kube import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Object,
    OlderDefinition,
    Refused,
    Rejected,
    Unavailable,
)
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.model.observed_state import Trouble
from streamsapp_operator.reconcile import (
    AppReconciler,
    OperatorContext,
    ReconcileResult,
    read_app,
    subject,
    write_trouble,
)
from streamsapp_operator.reconcile_interval import PERIOD, Pace, motion
from streamsapp_operator.status_comparison import masked

log = logging.getLogger(__name__)

#: The least seconds between two reconciles, however much happens.
SHORTEST = 0.2
#: Loops that reconcile at the same time: a reconcile waits for pods that do not answer.
THREADS = 32
#: The longest wait after an error of the application's own, and after one of the API server's; seconds.
LONGEST_BACKOFF, LONGEST_OUTAGE_BACKOFF = 300.0, 5.0
#: The longest wait until a resource that was too old is tried again, in seconds.
LONGEST_DEFINITION_BACKOFF = 15.0


class Key(NamedTuple):
    """The namespace and name of an application."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Loop:
    """Reconciles one application until it is gone; one reconcile at a time, on whichever thread has time."""

    def __init__(self, key: Key, tools: OperatorContext, figures: OperatorMetrics, pace: Pace) -> None:
        self.key = key
        self._tools = tools
        self._figures = figures
        self._pace = pace
        self._app: AppReconciler | None = None
        self._document: Object | None = None
        #: Says whether the document must be read again.
        self._stale = True
        self._failures = 0
        self._cause: str | None = None
        #: The time when it was last seen to get on, by the operator's clock.
        self.beat_at = tools.clock.now()
        #: Kept by ``Loops``: whether something happened since the last reconcile began, whether one runs now, and when
        #: the next is due.
        self.asked_for = False
        self.running = False
        self.ran_at, self.due_at = float("-inf"), float("inf")

    @property
    def fails(self) -> bool:
        return self._failures > 0

    @property
    def code_name(self) -> str:
        """The name of the ConfigMap that its code comes from; empty if there is none."""
        app = self._app
        return "" if app is None else app.code.name

    def changed(self) -> None:
        """Notes that the application is not what it was when it was read."""
        self._stale = True

    def reconcile(self) -> float | None:
        """Reconciles once, and returns the seconds until the next time; ``None`` if the application is gone."""
        self._beat()
        if not self._tools.is_watched(self.key.namespace):
            return PERIOD
        began = time.thread_time()
        try:
            with self._figures.reconcile_seconds.time():
                result = self._try()
        except Conflict as error:
            return self._again(error, "conflict", longest=PERIOD)
        except (Refused, Gone) as error:
            return self._again(error, "refused", longest=PERIOD)
        except Unavailable as error:
            return self._again(error, "unavailable", longest=LONGEST_OUTAGE_BACKOFF)
        except OlderDefinition as error:
            return self._left_alone(error)
        except ApiError as error:
            return self._failed(error, str(error))
        except Exception as error:
            return self._failed(error, f"{type(error).__name__}: {error}; the operator's log has the details")
        if self._cause is not None:
            log.info("%s: works again", self.key, extra={"app": str(self.key)})
        self._failures, self._cause = 0, None
        self._figures.leave_alone(self.key, None)
        if self._app is not None:
            self._app.trouble = None
        if self._document is None:
            self._pace.forget(self.key)
            return None
        if result is None or self._tools.cache is None:
            return PERIOD
        return self._pace.next_reconcile(self.key, motion(result.status), time.thread_time() - began)

    def _try(self) -> ReconcileResult | None:
        document = self._newest()
        if document is None:
            self._figures.forget(self.key)
            self._tools.groups.forget(str(self.key))
            self._app = None
            return None
        uid = document["metadata"]["uid"]
        if self._app is None or self._app.uid != uid:
            self._app = AppReconciler(self._tools, uid)
        result = self._app.reconcile(document, self._beat)
        if result is not None:
            self._document = result.document
            self._figures.saw(self.key, result.status, result.wanted_replicas)
        return result

    def _newest(self) -> Object | None:
        """Returns the application; it is read again when it changed, and when something went wrong."""
        if self._stale or self._failures or self._document is None or self._tools.cache is None:
            self._stale = False
            self._document = read_app(self._tools.client, *self.key)
        return self._document

    def _again(self, error: ApiError, kind: str, longest: float) -> float:
        """Returns the seconds until the next try after an error that is not the application's."""
        self._figures.errors.labels(kind).inc()
        self._failures += 1
        if self._is_new(error, str(error)):
            level = logging.WARNING if isinstance(error, Unavailable) else logging.INFO
            log.log(level, "%s: %s", self.key, error, extra={"app": str(self.key)})
        return min(longest, SHORTEST * 2.0 ** min(self._failures, 20))

    def _left_alone(self, error: OlderDefinition) -> float:
        """Returns the seconds until the next try, after the cluster's resource turned out to be too old. The log, an
        event, a metric and ``/healthz`` report it: a condition would be a write, which loses fields."""
        self._figures.errors.labels("definition").inc()
        self._failures += 1
        self._shut_budget()
        self._figures.leave_alone(self.key, str(error))
        if self._is_new(error, str(error)) and self._app is not None and self._document is not None:
            self._app.recorder.tell(subject(self._document), "Warning", "DefinitionTooOld", str(error))
        return LONGEST_DEFINITION_BACKOFF * random.uniform(0.5, 1.0)

    def _failed(self, error: Exception, said: str) -> float:
        self._figures.errors.labels("error").inc()
        self._failures += 1
        self._shut_budget()
        if self._is_new(error, said):
            expected = isinstance(error, ApiError)
            log.error("%s: %s", self.key, said, exc_info=None if expected else error, extra={"app": str(self.key)})
            self._tell(Trouble(_reason(error), said))
        # At different times, as one cause may make many applications fail at once.
        return min(LONGEST_BACKOFF, 2.0 ** min(self._failures - 1, 10)) * random.uniform(0.5, 1.0)

    def _shut_budget(self) -> None:
        """Shuts the budget before the application is left alone for a while; as far as possible, as writes fail."""
        if self._app is None:
            return
        try:
            self._app.shut_budget()
        except Exception as error:
            if self._failures == 1:
                log.warning("%s: its budget could not be shut: %s", self.key, error, extra={"app": str(self.key)})

    def _tell(self, trouble: Trouble) -> None:
        """Reports an error as a condition and an event of this application, as it concerns no other."""
        if self._app is None or self._document is None or not self._tools.may_act():
            return
        self._app.trouble = trouble
        try:
            self._app.recorder.tell(subject(self._document), "Warning", "OperatorError", trouble.message)
            write_trouble(self._tools, *self.key, trouble)
        except Exception as error:
            log.warning(
                "%s: its failure could not be written into its status: %s",
                self.key,
                error,
                extra={"app": str(self.key)},
            )

    def _is_new(self, error: Exception, said: str) -> bool:
        cause = f"{type(error).__name__} {masked(said)}"
        new, self._cause = cause != self._cause, cause
        return new

    def _beat(self) -> None:
        self.beat_at = self._tools.clock.now()


def _reason(error: Exception) -> str:
    """Returns the reason of the condition; it is stable."""
    reasons: dict[type[Exception], str] = {
        NameTakenError: "NameTaken",
        Rejected: "Rejected",
        Forbidden: "MissingRight",
        InternalError: "WriteFailed",
    }
    return reasons.get(type(error), "OperatorError")


class Loops:
    """The loops of all applications, and the threads that run the due ones, the longest due first.

    Called by the watchers and by the probes, on their threads.
    """

    def __init__(self, tools: OperatorContext, figures: OperatorMetrics) -> None:
        self._tools = tools
        self._figures = figures
        self._pace = Pace()
        self._changed = threading.Condition()
        self._loops: dict[Key, Loop] = {}
        #: The time when a loop is due; entries of loops that are due at another time by now are passed over.
        self._due: list[tuple[float, int, Loop]] = []
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def saw(self, key: Key) -> None:
        """Notes that there is such an application, or that something was changed about it."""
        with self._changed:
            loop = self._loops.get(key)
            if loop is None:
                if self._closed:
                    return
                loop = self._loops[key] = Loop(key, self._tools, self._figures, self._pace)
                self._start_thread()
            loop.changed()
            self._ask(loop)

    def nudge(self, key: Key) -> None:
        """Makes the loop reconcile now, as something happened to a child; but not more often than its errors allow."""
        with self._changed:
            loop = self._loops.get(key)
            if loop is not None and not loop.fails:
                self._ask(loop)

    def code_changed(self, namespace: str, name: str) -> None:
        """Wakes the applications whose code may be in a ConfigMap that changed."""
        with self._changed:
            for key, loop in self._loops.items():
                if key.namespace == namespace and loop.code_name == name:
                    self._ask(loop)

    def oldest(self) -> tuple[Key, float] | None:
        """Returns the loop that has not got on for the longest time, and since when: it hangs, or no thread has time
        for it."""
        with self._changed:
            beats = [(loop.key, loop.beat_at if loop.running else loop.due_at) for loop in self._loops.values()]
        return min(beats, key=lambda beat: beat[1], default=None)

    def close(self, timeout: float) -> None:
        """Ends all loops, each after the action that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = self._tools.clock.now() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._tools.clock.now()))

    def _start_thread(self) -> None:
        if len(self._threads) < min(THREADS, len(self._loops)):
            thread = threading.Thread(target=self._run, name=f"loops-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (loop := self._next()) is not None:
            wait = loop.reconcile()
            self._turned(loop, wait)

    def _next(self) -> Loop | None:
        """Waits for the loop that is due next; returns ``None`` when the loops are to end."""
        with self._changed:
            while not self._closed:
                while self._due and not self._counts(*self._due[0]):
                    heapq.heappop(self._due)
                wait = self._due[0][0] - self._tools.clock.now() if self._due else None
                if wait is not None and wait <= 0:
                    loop = heapq.heappop(self._due)[2]
                    loop.running, loop.asked_for = True, False
                    loop.ran_at = loop.beat_at = self._tools.clock.now()
                    return loop
                self._changed.wait(wait)
        return None

    def _counts(self, due_at: float, _: int, loop: Loop) -> bool:
        return not loop.running and loop.due_at == due_at and self._loops.get(loop.key) is loop

    def _turned(self, loop: Loop, wait: float | None) -> None:
        """Takes a loop back after a reconcile. An application that was made anew while its loop was about to end keeps
        it."""
        with self._changed:
            loop.running = False
            if wait is None and not loop.asked_for:
                del self._loops[loop.key]
            else:
                longest = PERIOD if wait is None else wait
                self._schedule(loop, self._tools.clock.now() + min(SHORTEST if loop.asked_for else longest, longest))

    def _ask(self, loop: Loop) -> None:
        loop.asked_for = True
        soonest = max(self._tools.clock.now(), loop.ran_at + SHORTEST)
        if not loop.running and loop.due_at > soonest:
            self._schedule(loop, soonest)

    def _schedule(self, loop: Loop, at: float) -> None:
        loop.due_at = at
        heapq.heappush(self._due, (at, next(self._numbers), loop))
        self._changed.notify()
