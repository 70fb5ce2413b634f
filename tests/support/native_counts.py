"""Counts of keys and of windows in cells in C, at random, for ``native_stress`` and
``native_faults``."""

from __future__ import annotations

import random
from functools import partial
from types import ModuleType
from typing import Any

from compiled_parts import count_push, window_push
from streamsapp import native


def windows_counted(rng: random.Random, count: int) -> None:
    """Counts windows, sends them, and forgets cells; some of these come again."""
    path = native
    times, sent = Times(), list[Any]()
    known, logs = [(None, -1), (7, 3)], list[Any]()

    def load(key: bytes) -> Any:
        """An entry, or a cell that was forgotten."""
        found = logs and len(logs[-1]) and logs[-1].cell(rng.randrange(len(logs[-1])))
        return found or rng.choice(known)

    counts = path.Cells(load=load, start_at=12)
    windows = tuple(
        (start, start + 40, path.Window(before=b"8 before", after=b"twelve after", whole=not start % 2))
        for start in range(11)
    )
    held, headers, told = list[Any](), dict[int, Any](), list[object]()

    def forward(*pushed: object) -> None:
        sent.append(pushed)

    def failed(*pushed: object) -> None:
        told.append(pushed)

    ways: list[Any] = [(None, None, None), (None, None, forward), ("out", None, forward)]
    for topic, noted, following in [(None, (held, headers), None), *ways]:
        time = path.StreamTime()
        push = window_push(
            path,
            cells=counts,
            segments=times,
            windows_of=lambda step: windows[: rng.choice([0, 1, 2, 11])],
            step_ms=4,
            grace_ms=7,
            serialize_key=checked_bytes,
            on_error=failed,
            stream_time=time,
            topic=topic,
            emit=topic and sent.append,
            noted=noted,
            tell=following,
        )
        log = counts.begin()
        logs.append(log)
        for number in range(count):
            key: Any = rng.choice([rng.randbytes(rng.randrange(3)), rng.randbytes(2), None, 7])
            push(key, None, rng.choice([number % 50, number % 3]), rng.choice([None, None, None, [("h", b"1")]]))
            if not rng.randrange(500):
                if held and rng.randrange(2):
                    held[0][0][0] = None
                sent += path.results(held=held, topic="out", deleted_at=lambda key, start, end: end, before=8, behind=4)
                held.clear()
                headers.clear()
                ordered = log.in_order()
                keys_in_order = ordered.keys_from(0)
                sent += [*log.behind(8)[3:9], *staged(log.behind(5)[3:9])]
                sent += [ordered.only(keys_in_order[::2])[:], ordered.only(keys_in_order)]
                log = counts.begin()
                logs[:] = [*logs[-3:], log]
                rng.choice([counts.grow_old, counts.clear])()
                for _, _, window in windows:
                    window.whole = rng.random() < 0.5
                push.forget()
                time.latest = rng.randrange(50)
                told.clear()
    sent.clear()


def counted(rng: random.Random, count: int) -> None:
    """Counts keys, and sends them."""
    path = native
    sent, told = list[Any](), list[object]()
    kept: list[Any] = [(None, -1), (7, 3), [7, 3]]
    keys = path.Cells(load=lambda key: rng.choice(kept))
    log, waiting = keys.begin(), path.CellLog()
    pushes = counting_pushes(path, keys, sent, told)
    for number in range(count):
        key = b"%d" % rng.randrange(200)
        push = rng.choice(pushes)
        push(rng.choice([key, key, key, None, 3]), b"", number, rng.choice([None, None, [("h", b"")]]))
        sent += [keys.read(key), keys.at_hand(key)]
        if not rng.randrange(9):
            keys.write(key, rng.choice([None, number]), number)
        if not rng.randrange(500):
            waiting.absorb(log)
            sent += [log.entry(sent[-1]), log[5:], log.keys_from(3), *waiting.in_order(), *staged(log[:])]
            noted = [(keys.read(b"%d" % each), each) for each in range(200)]
            sent += path.results(held=noted, topic="out", deleted_at=lambda key: key, before=0, behind=rng.randrange(2))
            log = keys.begin()
            rng.choice([keys.grow_old, keys.clear])()
            waiting = rng.choice([waiting, path.CellLog()])
    sent.clear()


def staged(run: native.CellRun) -> list[tuple[object, ...]]:
    """Gives writes to functions that take them as a batch of RocksDB's does; returns what they were given."""
    given = list[tuple[object, ...]]()

    def take(*entry: object) -> None:
        given.append(entry)

    run.stage(put=take, delete=take, family=None)
    return given


def counting_pushes(path: ModuleType, cells: native.Cells, sent: list[Any], told: list[object]) -> list[Any]:
    """Returns push functions that count; each does something else with the counts."""

    def forward(*pushed: object) -> None:
        sent.append(pushed)

    def failed(*pushed: object) -> None:
        told.append(pushed)

    ways: list[Any] = [(None, None, forward), ("out", None, forward), (None, ([], {}), None), (None, None, None)]
    return [
        count_push(
            path,
            cells=cells,
            serialize_key=checked_bytes,
            on_error=failed,
            dropped=partial(told.append, None),
            topic=topic,
            emit=topic and sent.append,
            noted=noted,
            forward=following,
            old_values=not number,
        )
        for number, (topic, noted, following) in enumerate(ways)
    ]


def checked_bytes(key: Any) -> bytes:
    if isinstance(key, int):
        raise TypeError(key)
    return bytes(key)


class Times:
    """A store's ``Segments``, as far as counting asks for them."""

    stream_time = -1

    def observe(self, time: int) -> bool:
        self.stream_time = time
        return True
