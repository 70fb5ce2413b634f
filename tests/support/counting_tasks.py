"""Random records for tasks that count, and what such tasks make of them.

Called by the tests that compare counting in C with counting in Python.
"""

from __future__ import annotations

import random
from typing import Any

from changelog import changelog_records
from streamsapp import KStream, Serdes
from streamsapp.record import Headers
from streamsapp.tasks.stream_task import StreamTask
from task_parts import raw, sent_by

TEXT, STORE = Serdes.string(), "counts"
REVERSED = Serdes.of(lambda text: text[::-1].encode(), lambda data: data.decode()[::-1], name="reversed")


def into_two(one: KStream[Any, Any], other: KStream[Any, Any]) -> None:
    one.to("out")
    other.to("more")


def repr_of(count: int) -> bytes:
    return repr(count).encode()


def commit(task: StreamTask) -> list[Any]:
    """Returns the results that are sent then, and the records of the changelog."""
    task.emit_all_held()
    epoch = task.freeze()
    if epoch is None:
        return []
    changes = [] if epoch.frozen is None else sorted(changelog_records(epoch.frozen), key=repr)
    for _ in task.stores.apply(epoch.frozen, {STORE: 1}):
        pass
    return [task.take_output(), changes, epoch.offsets]


def play(task: StreamTask, seed: int) -> list[object]:
    """Returns what a task sends and stores for random records, some late, some with headers, and a commit now and
    then."""
    rng = random.Random(seed)
    now, seen, offset = 0, list[object](), 0
    keys = rng.choice([1, 5, 60])
    for _ in range(60):
        records = []
        for _ in range(rng.randrange(30)):
            now += rng.choice([0, 0, 0, 1, 7, rng.choice([0, 90])])
            at = max(0, now - rng.choice([0, 0, 0, 11, 60]))
            headers: Headers | None = [("h", b"%d" % offset)] if rng.randrange(20) == 0 else None
            key = rng.choice([b"k%d" % rng.randrange(keys), b"k%d" % rng.randrange(keys), b"", None])
            records.append(raw(offset, at, key=key, headers=headers))
            offset += 1
        seen.append(sent_by(task, *records) if records else [])
        if rng.randrange(3) == 0:
            size = 1 + rng.randrange(20)
            while task.emit_held(size):
                """Another slice: a count is sent as it is then, so it must not be counted up in between."""
        if rng.randrange(4) == 0:
            seen += commit(task)
        seen += [sorted(map(repr, task.stores.stores[STORE].all())), task.context.record_errors.dropped]
    return seen
