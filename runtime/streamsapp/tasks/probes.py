"""Probes at the nodes of a task: how many records pass, and on demand the last of them.

Records take the plain wiring of a task, in which nothing counts. A viewer of an instance, on a thread of the HTTP
server, only leaves a wish. The processing thread that holds the task reads it between two batches. The next records,
and the next results that are sent apart from records, take a second wiring with a probe in front of each node, until so
many have passed. Then they take the plain one until the next look: looking costs at most that number of records per
look, and nothing without a viewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from operator import sub
from threading import Lock
from typing import Any, NamedTuple

from streamsapp.processor.operator import Push, nowhere
from streamsapp.record import Headers
from streamsapp.tasks.shown_values import shown_value
from streamsapp.tasks.wiring import WiredTopology, Wiring

#: The records that a probe remembers, and how many it takes of the records that pass between two looks.
KEPT, TAKEN = 20, 5
#: Records that are processed before the probes are asked whether so many have passed as may.
AT_ONCE = 100
#: In seconds: a look that comes so soon after that of another viewer finds the same.
_SHORTEST = 0.5


class TappedRecord(NamedTuple):
    """A record that passed a node, with key and value as text."""

    #: Counts the records that the probe took, so that a viewer that looks twice knows which are new.
    number: int
    key: str
    value: str
    timestamp: int


class ProbeWish(NamedTuple):
    """The wish of a viewer."""

    number: int
    #: The records that may pass each probe.
    budget: int
    #: The nodes whose records are to be remembered.
    tapped: frozenset[str]


class Probe:
    """The probe of a node."""

    def __init__(self, at: int) -> None:
        #: The place of its count.
        self.at = at
        #: Records a second, between the last two looks; ``None`` before the second.
        self.rate: float | None = None
        self.last: deque[TappedRecord] = deque(maxlen=KEPT)
        #: So many more of the passing records are to be remembered.
        self.wanted = 0
        self._number = 0

    def remember(self, key: Any, value: Any, timestamp: int) -> None:
        """Take a record (processing thread)."""
        self.wanted -= 1
        self._number += 1
        self.last.append(TappedRecord(self._number, shown_value(key), shown_value(value), timestamp))


class Passed:
    """The records of one kind that pass the probes: moved on by the processing thread, read by viewers."""

    def __init__(self, probes: int) -> None:
        #: By probe, all that ever passed.
        self.passed = [0] * probes
        #: Records that were taken for them to pass, as far as they are counted.
        self.taken = 0
        self._before = self.passed[:]
        self._budget = 0

    def begin(self, budget: int) -> None:
        """Let so many pass each probe."""
        self._before, self._budget = self.passed[:], budget

    def goes_on(self) -> bool:
        """Say whether more may pass."""
        if self._budget and max(map(sub, self.passed, self._before), default=0) >= self._budget:
            self._budget = 0
        return self._budget > 0


class _Moment(NamedTuple):
    """The counts at a look."""

    time: float
    #: Records that the task had processed, and the number of them that passed the probes.
    processed: int
    taken: int
    #: By probe, what had passed.
    records: list[int]
    results: list[int]


class Probes:
    """The probes of a task, made at the first look."""

    def __init__(self, wired: WiredTopology) -> None:
        self._wired = wired
        self._nodes: dict[str, Probe] = {}
        #: Records that are processed, and results that are sent apart from them: at commits, and by callbacks.
        self._records, self._results = Passed(0), Passed(0)
        # ---- of viewers
        self._lock = Lock()
        self._look: ProbeWish | None = None
        #: The time of the last look; ``None`` before the first.
        self._looked: float | None = None
        #: The counts that the rates start from.
        self._since: _Moment | None = None
        # ---- of the processing thread
        self._taken: ProbeWish | None = None
        self._probed: Wiring | None = None
        #: The counts of the kind of records that passes now.
        self._passed: list[int] = []

    # ---- looking -----------------------------------------------------------------------------------------------

    def look(self, budget: int, tapped: str | None, *, processed: int, now: float) -> Mapping[str, Probe]:
        """Returns the probes of the nodes, and wishes for at most ``budget`` records through each of them from now on.
        The records of the node ``tapped`` are remembered. ``processed`` records went through the task so far, and it is
        ``now``, in seconds."""
        with self._lock:
            if self._look is None:
                self._make()
            wanted = frozenset(name for name in self._nodes if name == tapped)
            last = self._look
            if last is not None and self._looked is not None and now - self._looked < _SHORTEST:
                self._look = last._replace(tapped=last.tapped | wanted)
                return self._nodes
            self._looked = now
            self._rate(processed, now)
            self._look = ProbeWish(1 if last is None else last.number + 1, budget, wanted)
            return self._nodes

    def _make(self) -> None:
        names = [name for name, push in self._wired.plain.pushes.items() if push is not nowhere]
        self._records, self._results = Passed(len(names)), Passed(len(names))
        self._nodes = {name: Probe(at) for at, name in enumerate(names)}

    def _rate(self, processed: int, now: float) -> None:
        """The records that passed the probes stand for all that the task processed; results stand for themselves."""
        records, results, since = self._records, self._results, self._since
        at = _Moment(now, processed, records.taken, records.passed[:], results.passed[:])
        if since is not None:
            done, taken = processed - since.processed, at.taken - since.taken
            if done and not taken:
                return  # they were on their way when the wish came: the next look knows more
            share = max(1.0, done / max(1, taken))
            for each in self._nodes.values():
                of_records = at.records[each.at] - since.records[each.at]
                of_results = at.results[each.at] - since.results[each.at]
                each.rate = (share * of_records + of_results) / (now - since.time)
        self._since = at

    # ---- processing --------------------------------------------------------------------------------------------

    def for_records(self) -> Wiring | None:
        """The wiring with probes, if the next records are to take it."""
        return None if self._look is None else self._for(self._look, self._records)

    def for_results(self) -> Wiring | None:
        """The wiring with probes, if the next results that are sent apart from records are to take it."""
        return None if self._look is None else self._for(self._look, self._results)

    def took(self, records: int) -> None:
        """So many records took the wiring with probes."""
        self._records.taken += records

    @property
    def at_once(self) -> int:
        """The records that may take the wiring with probes before it is asked for again."""
        return AT_ONCE if self._taken is None else min(AT_ONCE, self._taken.budget)

    def _for(self, look: ProbeWish, sample: Passed) -> Wiring | None:
        if look is not self._taken:
            self._take(look)
        if not sample.goes_on():
            return None
        self._passed = sample.passed
        if self._probed is None:
            self._probed = self._wired.probed(self._probe)
        return self._probed

    def _take(self, look: ProbeWish) -> None:
        taken, self._taken = self._taken, look
        tapped = look.tapped
        if taken is not None and look.number == taken.number:
            tapped -= taken.tapped
        else:
            for sample in (self._records, self._results):
                sample.begin(look.budget)
            for probe in self._nodes.values():
                probe.wanted = 0
        for name in tapped:
            self._nodes[name].wanted = TAKEN

    def _probe(self, node: str, push: Push) -> Push:
        probe = self._nodes[node]
        at = probe.at

        def through(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            self._passed[at] += 1
            if probe.wanted:
                probe.remember(key, value, timestamp)
            push(key, value, timestamp, headers)

        return through
