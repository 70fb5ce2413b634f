"""Probes at the nodes of a task: how many records pass, and on demand the last of them.

Put in by whoever looks at an instance, on a thread of the HTTP server; records pass through on the processing thread
that holds the task. Probes take themselves out after a number of records, and are put in again by the next look: so
they cost at most that number of records per look, and nothing when nobody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from streamsapp.processor.operator import Push, nowhere
from streamsapp.record import Headers
from streamsapp.tasks.record_queue import RecordQueue
from streamsapp.tasks.shown_values import shown_value
from streamsapp.tasks.splices import Splice, places_of

#: The records that a probe remembers, and how many it takes of those that pass between two looks.
KEPT, TAKEN = 20, 5
#: A look that comes so soon after the one before, of another viewer, finds what that one found; seconds.
_SHORTEST = 0.5


class TappedRecord(NamedTuple):
    """A record that passed a node, with key and value as text."""

    #: Counts the records that the probe took, so that whoever looks twice knows which are new.
    number: int
    key: str
    value: str
    timestamp: int


class Probe:
    """The probe of one push function, which several nodes share where one only hands on."""

    def __init__(self, push: Push, places: list[Splice], stop: Callable[[], None]) -> None:
        self.push = push
        #: Records a second, between the last two looks; ``None`` before the second.
        self.rate: float | None = None
        self.last: deque[TappedRecord] = deque(maxlen=KEPT)
        #: The records that passed since it was put in.
        self.passed = 0
        self.is_in = False
        self.places = places
        self._queues: list[RecordQueue] = []
        self._stop = stop
        self._budget = self._number = 0
        #: The records that it is to remember of those that pass.
        self.wanted = 0
        self._through = self._closure()

    def put_in(self, queues: Iterable[RecordQueue], budget: int, wanted: int) -> None:
        """Let the next records pass through: at most ``budget``, of which ``wanted`` are remembered."""
        self._queues = [queue for queue in queues if queue.push in (self.push, self._through)]
        self.passed, self._budget, self.wanted = 0, budget, wanted
        self.is_in = True
        self._replace(self.push, self._through)

    def take_out(self) -> None:
        """Let records go where they went before. Those of a batch in process may still come through."""
        self.is_in = False
        self._replace(self._through, self.push)

    def _replace(self, old: Push, new: Push) -> None:
        for queue in self._queues:
            queue.push = new
        for place in self.places:
            place.put(new, old)

    def _closure(self) -> Push:
        push = self.push

        def through(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if self.is_in:
                self.passed += 1
                if self.wanted:
                    self._remember(key, value, timestamp)
            push(key, value, timestamp, headers)
            if self.passed >= self._budget and self.is_in:
                self._stop()  # after everything below has had the record, too

        return through

    def _remember(self, key: Any, value: Any, timestamp: int) -> None:
        self.wanted -= 1
        self._number += 1
        self.last.append(TappedRecord(self._number, shown_value(key), shown_value(value), timestamp))


class Probes:
    """The probes of a task, made when somebody looks for the first time."""

    def __init__(
        self, pushes: Mapping[str, Push], sources: Iterable[str], roots: Callable[[], Iterable[object]]
    ) -> None:
        self._pushes = pushes
        self._sources = sources
        self._roots = roots
        self._lock = Lock()
        self._by_push: dict[int, Probe] | None = None
        #: When somebody looked last, and how many records the task had processed; ``None`` before.
        self._looked: tuple[float, int] | None = None

    def look(
        self, queues: Sequence[RecordQueue], budget: int, tapped: str | None, *, processed: int, now: float
    ) -> dict[str, Probe]:
        """Returns the probes of the nodes, each of which is put in again: at most ``budget`` records of each pass
        through. Those of the node ``tapped`` are remembered. ``processed`` records went through the task so far, and it
        is ``now``, in seconds."""
        with self._lock:
            if self._by_push is None:
                self._by_push = self._made()
            probes = self._by_push
            nodes = {name: probes[id(push)] for name, push in self._pushes.items() if id(push) in probes}
            wanted = nodes.get(tapped) if tapped is not None else None
            if self._looked is not None and now - self._looked[0] < _SHORTEST:
                if wanted is not None:
                    wanted.wanted = TAKEN
                return nodes
            self._rate(nodes, processed, now)
            for probe in probes.values():
                probe.put_in(queues, budget, TAKEN if probe is wanted else 0)
            return nodes

    def _rate(self, nodes: Mapping[str, Probe], processed: int, now: float) -> None:
        """The records that passed probes which were taken out stand for all that the task processed."""
        if self._looked is not None:
            elapsed, records = now - self._looked[0], processed - self._looked[1]
            seen = sum(probe.passed for probe in {nodes[name] for name in self._sources if name in nodes})
            for probe in set(nodes.values()):
                share = 1.0 if probe.is_in else max(1.0, records / max(1, seen))
                probe.rate = share * probe.passed / elapsed
        self._looked = now, processed

    def _stop(self) -> None:
        """One of them has had its records. Those that come later, as results that are sent at a commit, still count."""
        with self._lock:
            for probe in (self._by_push or {}).values():
                if probe.is_in and probe.passed:
                    probe.take_out()

    def _made(self) -> dict[int, Probe]:
        pushes = [push for push in self._pushes.values() if push is not nowhere]
        places = places_of(pushes, self._roots())
        return {id(push): Probe(push, places[id(push)], self._stop) for push in pushes}
