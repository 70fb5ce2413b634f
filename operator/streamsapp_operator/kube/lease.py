"""Holds a Lease: of several operators one works, the others stand by.

``acquire`` runs on the main thread before anything else; then one thread renews and another watches the time, as the
first may hang in a request. A lease that could not be renewed in time ends the process at once: whatever other threads
were about to do, another operator may be doing it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.election import Election, ElectionStep, LeaseSeen
from streamsapp_operator.kube.errors import ApiError, Conflict, Forbidden
from streamsapp_operator.kube.kinds import LEASE, Object
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

EXIT_CODE = 1


def exit_at_once() -> None:
    """Ends the process. Nothing is tidied up: it could take time, and there is none."""
    logging.shutdown()
    os._exit(EXIT_CODE)


class Lease:
    """Holds this process's claim to the Lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: SteadyClock,
        *,
        seconds: float = 15.0,
        on_lost: Callable[[], None] = exit_at_once,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._seconds = seconds
        self._on_lost = on_lost
        #: Of client-go's proportions: 15 s of duration, 10 s to renew in, a try every 2 s.
        self._period = seconds * 2 / 15
        self._election = Election(identity, deadline=seconds * 2 / 3)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._renew, name="lease-renewal", daemon=True),
            threading.Thread(target=self._watch, name="lease-watch", daemon=True),
        ]

    @property
    def held(self) -> bool:
        """Says whether this process may act now: not any more once it gives the Lease back."""
        return not self._stopping.is_set() and self._remaining() > 0

    def _remaining(self) -> float:
        return self._election.remaining(self._clock.now())

    def acquire(self, stop: threading.Event) -> bool:
        """Waits until this process leads, then keeps renewing; returns ``False`` when asked to stop before."""
        complaint = ""
        while not stop.is_set():
            try:
                if self._try():
                    log.info("leads, by Lease %s/%s", self._namespace, self._name)
                    for thread in self._threads:
                        thread.start()
                    return True
                said = f"stands by: Lease {self._namespace}/{self._name} is another operator's"
            except ApiError as error:
                said = f"cannot have the Lease {self._namespace}/{self._name}: {error}"
                if isinstance(error, Forbidden):
                    stop.wait(10 * self._period)
            if said != complaint:
                log.info(said)
                complaint = said
            stop.wait(self._period)
        return False

    def release(self) -> None:
        """Lets the next candidate begin at once. Nothing may act any more when this is called."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        try:
            found = self._read()
            if found is not None and _seen(found).holder == self._election.identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._client.replace(found, timeout=self._period)
        except ApiError as error:
            log.warning("the Lease could not be given back, the next operator waits for its end: %s", error)

    def _renew(self) -> None:
        while not self._stopping.wait(self._period):
            try:
                self._try()
            except ApiError as error:
                log.warning("the Lease could not be renewed: %s", error)

    def _watch(self) -> None:
        while not self._stopping.wait(max(0.0, self._remaining())):
            if self._remaining() <= 0:
                log.critical("the Lease is lost: this operator ends at once, so that no two work")
                self._on_lost()
                return

    def _try(self) -> bool:
        """Reads the Lease, and writes our name if it may be written; says whether it stands there."""
        found = self._read()
        seen = None if found is None else _seen(found)
        sent_at = self._clock.now()
        if self._election.decide(seen, sent_at) is ElectionStep.WAIT:
            return False
        document = self._claim(found, seen)
        try:
            (self._client.create if found is None else self._client.replace)(document, timeout=self._period)
        except Conflict:
            return False
        self._election.wrote(sent_at)
        return True

    def _read(self) -> Object | None:
        return self._client.get(LEASE, self._namespace, self._name, timeout=self._period)

    def _claim(self, found: Object | None, seen: LeaseSeen | None) -> Object:
        now = self._clock.utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = dict((found or {}).get("spec") or {})
        spec |= {
            "holderIdentity": self._election.identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "renewTime": now,
        }
        if seen is None or seen.holder != self._election.identity:
            spec |= {"acquireTime": now, "leaseTransitions": 0 if seen is None else seen.transitions + 1}
        metadata = {"name": self._name, "namespace": self._namespace} if found is None else found["metadata"]
        return {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": metadata, "spec": spec}


def _seen(found: Object) -> LeaseSeen:
    spec = found.get("spec") or {}
    return LeaseSeen(
        holder=spec.get("holderIdentity") or "",
        renewed=spec.get("renewTime") or "",
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        transitions=int(spec.get("leaseTransitions") or 0),
    )
