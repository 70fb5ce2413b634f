"""Posts the events on an application that ``kubectl describe`` shows.

Called on the thread of the application's loop. An event's name is made of its content, so that an operator that crashed
after posting an event does not post it twice.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import Literal

from streamsapp_operator.kube.client import FIELD_MANAGER, Client
from streamsapp_operator.kube.errors import ApiError, Conflict, Gone
from streamsapp_operator.kube.kinds import EVENT, STREAMS_APP
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

_LONGEST = 1000
#: Events that are remembered as posted.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Subject:
    """The application that the events are about."""

    name: str
    namespace: str
    uid: str
    #: An event that is posted again after this changed is a new one: the generation of the spec and its rollout, say.
    occasion: str = ""


class Recorder:
    """Posts the events of one application; an event that cannot be posted is logged, and no reason to stop."""

    def __init__(self, client: Client, clock: SteadyClock, reporter: str) -> None:
        self._client = client
        self._clock = clock
        self._reporter = reporter
        #: The number of times that each event was posted, by its name.
        self._told: dict[str, int] = {}

    def tell(self, subject: Subject, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Posts an event, or counts up the one that said the same."""
        log.log(
            logging.WARNING if kind == "Warning" else logging.INFO,
            "%s: %s",
            reason,
            message,
            extra={"app": f"{subject.namespace}/{subject.name}"},
        )
        try:
            self._post(subject, kind, reason, message)
        except ApiError as error:
            log.warning("event %s of %s/%s was not posted: %s", reason, subject.namespace, subject.name, error)

    def _post(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        name, now = _name(subject, reason, message), self._now()
        times = self._told.pop(name, 0)
        if not times or not self._count_up(subject, name, times + 1, now):
            self._create(subject, kind, reason, message, name, now)
            times = 0
        self._told[name] = times + 1
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]

    def _count_up(self, subject: Subject, name: str, times: int, now: str) -> bool:
        """Counts up an event that this process posted: this is no crash's repetition, it happened again. Returns
        ``False`` if the event is gone, as events go after a while."""
        try:
            self._client.merge(EVENT, subject.namespace, name, {"count": times, "lastTimestamp": now})
        except Gone:
            return False
        return True

    def _create(self, subject: Subject, kind: str, reason: str, message: str, name: str, now: str) -> None:
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": name, "namespace": subject.namespace},
            "involvedObject": {
                "apiVersion": STREAMS_APP.api_version,
                "kind": STREAMS_APP.name,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}...",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._reporter,
        }
        try:
            self._client.create(event)
        except Conflict:
            log.debug("event %s was posted before the operator restarted", name)

    def _now(self) -> str:
        return self._clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(subject: Subject, reason: str, message: str) -> str:
    parts = f"{subject.uid}\0{subject.occasion}\0{reason}\0{message}"
    return f"{subject.name}.{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
