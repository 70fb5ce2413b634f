"""The processors that programs name; java/Processors.java has the same table, and the two must stay equal.

Made by the programs of this folder, run on the test's thread. Those of ``VALUE_STEPS`` keep the key, so that they also
serve ``process_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from functions import clip, fail_on_boom, num, text
from options import store_builder
from streamsapp.processor.api import Cancellable, Processor, ProcessorContext, PunctuationType
from streamsapp.record import Headers, Record
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import AggregationWithHeaders, StoreBuilder, ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.state.kinds.versioned import VersionedRecord

Step = dict[str, Any]


def store_of(context: ProcessorContext, step: Step) -> Any:
    """Returns the store that a step is connected to, or the global store it names."""
    return context.get_state_store(step["global"] if "global" in step else step["stores"][0])


def metadata(context: ProcessorContext, step: Step, record: Record) -> Record:
    at = context.record_metadata
    where = "nowhere" if at is None else f"{at.topic}-{at.partition}@{at.offset}"
    names = "[" + ", ".join(name for name, _ in record.headers) + "]"
    return record.with_value(
        clip(
            f"{where} stream {context.current_stream_time_ms} now {context.current_system_time_ms}"
            f" task {context.task_id} {names}"
        )
    )


def headers(context: ProcessorContext, step: Step, record: Record) -> Record:
    return record.with_headers([*record.headers, ("seen", text(record.key).encode())])


def count(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    if record.key is None:
        return None
    store = store_of(context, step)
    counted = num(store.get(record.key)) + 1
    store.put(record.key, counted)
    return record.with_value(counted)


def latest(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    if record.key is None:
        return None
    store = store_of(context, step)
    previous = store.get(record.key)
    store.put(record.key, None if record.value is None else ValueAndTimestamp(record.value, record.timestamp))
    return record.with_value("none" if previous is None else f"{text(previous.value)}@{previous.timestamp}")


def keys(entries: Iterator[tuple[Any, Any]], mark: str) -> list[str]:
    return [mark + text(key) for key, _ in entries]


def store_api(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    if record.key is None:
        return None
    store = store_of(context, step)
    seen = [text(store.put_if_absent(record.key, record.value))]
    seen += keys(store.range(record.key, None), ">")
    seen += keys(store.range(None, record.key), "<")
    seen += keys(store.reverse_all(), "r")
    seen += keys(store.reverse_range(None, record.key), "q")
    if num(record.value) % 3 == 0:
        seen.append("d" + text(store.delete(record.key)))
    store.put_all([(record.key, record.value)])
    seen += keys(store.all(), "a")
    return record.with_value(clip(" ".join(seen)))


def shown(found: Any) -> str:
    """A value, with its time and its headers if its store keeps them."""
    if isinstance(found, ValueTimestampHeaders):
        return f"{text(found.value)}@{found.timestamp}{named(found.headers)}"
    return (
        f"{text(found.aggregation)}{named(found.headers)}" if isinstance(found, AggregationWithHeaders) else text(found)
    )


def named(headers: Headers) -> str:
    return f"[{', '.join(name if data is None else f'{name}={data.decode()}' for name, data in headers)}]"


def is_headed(step: Step) -> bool:
    return bool(step["processor"].startswith("headed"))


def headed_api(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    """Puts values with headers of their own, those of the record or none, and reads them (KIP-1271)."""
    key, value = record.key, record.value
    if key is None:
        return None
    store = store_of(context, step)
    seen = [shown(store.get(key))]
    kept: Headers = [] if num(value) % 3 == 0 else record.headers
    row = None if value is None else ValueTimestampHeaders(value, record.timestamp, kept)
    seen.append(shown(store.put_if_absent(key, row)))
    store.put(key, row)
    if num(value) % 5 == 0:
        seen.append("d" + shown(store.delete(key)))
    seen += windowed(store.range(None, key), "<")
    seen += windowed(store.reverse_range(key, None), "q")
    seen += windowed(store.all(), "a")
    return record.with_value(" ".join(seen))


def read(context: ProcessorContext, step: Step, record: Record) -> Record:
    found = None if record.key is None else store_of(context, step).get(record.key)
    return record.with_value(text(found.value if isinstance(found, ValueAndTimestamp) else found))


def windowed(entries: Iterator[tuple[Any, Any]], mark: str) -> list[str]:
    def key_of(key: Any) -> str:
        return f"{text(key.key)}@{key.start_ms}-{key.end_ms}" if isinstance(key, Windowed) else str(key)

    return [f"{mark}{key_of(key)}={shown(value)}" for key, value in entries]


def window_api(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    key, value, timestamp = record.key, record.value, record.timestamp
    if key is None:
        return None
    store = store_of(context, step)
    kept = None if num(value) % 5 == 0 else value
    if is_headed(step) and kept is not None:
        kept = ValueTimestampHeaders(kept, timestamp, record.headers)
    store.put(key, kept, timestamp)
    times = max(0, timestamp - 20), timestamp + 20
    seen = [shown(store.fetch(key, timestamp))]
    seen += windowed(store.fetch(key, *times), "f")
    seen += windowed(store.backward_fetch(key, *times), "b")
    seen += windowed(store.fetch_range(None, key, *times), "<")
    seen += windowed(store.fetch_range(key, None, *times), ">")
    seen += windowed(store.backward_fetch_range(None, key, *times), "q")
    seen += windowed(store.fetch_range(None, None, *times), "t")
    seen += windowed(store.backward_fetch_range(None, None, *times), "u")
    seen += windowed(store.all(), "a")
    seen += windowed(store.backward_all(), "r")
    return record.with_value(" ".join(seen))


def session_api(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    key, value, timestamp = record.key, record.value, record.timestamp
    if key is None:
        return None
    store = store_of(context, step)
    session = Windowed(key, max(0, timestamp - num(value) % 7), timestamp)
    if num(value) % 5 == 0:
        store.remove(session)
    else:
        headed = is_headed(step) and value is not None
        store.put(session, AggregationWithHeaders(value, record.headers) if headed else value)
    times = max(0, timestamp - 10), timestamp
    seen = [shown(store.fetch_session(key, session.start_ms, timestamp))]
    seen += windowed(store.fetch(key), "f")
    seen += windowed(store.backward_fetch(key), "b")
    seen += windowed(store.find_sessions(key, *times), "s")
    seen += windowed(store.backward_find_sessions(key, *times), "z")
    seen += windowed(store.find_sessions_range(None, key, *times), "<")
    seen += windowed(store.find_sessions_range(key, None, *times), ">")
    seen += windowed(store.backward_find_sessions_range(None, key, *times), "q")
    seen += windowed(store.fetch_range(None, None), "a")
    seen += windowed(store.backward_fetch_range(None, None), "r")
    return record.with_value(" ".join(seen))


def version(found: VersionedRecord | None) -> str:
    """Without the end of its validity, which Kafka Streams' stores do not give to processors."""
    return "none" if found is None else f"{text(found.value)}@{found.timestamp}"


def versioned_api(context: ProcessorContext, step: Step, record: Record) -> Record | None:
    key, value, timestamp = record.key, record.value, record.timestamp
    if key is None:
        return None
    store = store_of(context, step)
    if value is not None and num(value) % 3 == 0:
        seen = ["d" + version(store.delete(key, timestamp))]
    else:
        seen = [f"p{store.put(key, value, timestamp)}"]
    seen.append(version(store.get(key)))
    seen += [version(store.get(key, timestamp - ago)) for ago in (-1, 0, 3, 20, 200)]
    return record.with_value(" ".join(seen))


def fail(context: ProcessorContext, step: Step, record: Record) -> Record:
    fail_on_boom(record.key, record.value)
    return record


VALUE_STEPS: dict[str, Callable[[ProcessorContext, Step, Record], Record | None]] = {
    "pass": lambda context, step, record: record,
    "late": lambda context, step, record: record.with_timestamp(max(0, record.timestamp - 3)),
    "headers": headers,
    "metadata": metadata,
    "count": count,
    "latest": latest,
    "store_api": store_api,
    "read": read,
    "headed_api": headed_api,
    "window_api": window_api,
    "headed_window_api": window_api,
    "session_api": session_api,
    "headed_session_api": session_api,
    "versioned_api": versioned_api,
    "fail_on_boom": fail,
}


class OracleProcessor(Processor):
    """Keeps its step and its context."""

    context: ProcessorContext

    def __init__(self, step: Step) -> None:
        self.step = step

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        raise NotImplementedError


class Stepping(OracleProcessor):
    """Forwards what a step that keeps the key makes of a record."""

    def process(self, record: Record) -> None:
        stepped = VALUE_STEPS[self.step["processor"]](self.context, self.step, record)
        if stepped is not None:
            self.context.forward(stepped)


class Swapping(OracleProcessor):
    def process(self, record: Record) -> None:
        self.context.forward(Record(text(record.value), text(record.key), record.timestamp, record.headers))


class Twice(OracleProcessor):
    def process(self, record: Record) -> None:
        self.context.forward(record)
        self.context.forward(record.with_timestamp(record.timestamp + 1))


class ToChild(OracleProcessor):
    def process(self, record: Record) -> None:
        children = self.step["children"]
        self.context.forward(record, children[num(record.value) % len(children)])


class Keeping(OracleProcessor):
    def process(self, record: Record) -> None:
        if record.key is not None:
            store_of(self.context, self.step).put(record.key, record.value)


def punctuation_type(step: Step) -> PunctuationType:
    by_stream_time = step["processor"].endswith("stream_time")
    return PunctuationType.STREAM_TIME if by_stream_time else PunctuationType.WALL_CLOCK_TIME


def schedule(
    context: ProcessorContext, step: Step, type: PunctuationType, callback: Callable[[int], None]
) -> Cancellable:
    """Has a callback called every "interval", from "start" on if there is one (KIP-1146)."""
    return context.schedule(step["interval"], type, callback, step.get("start"))


class Dumping(Keeping):
    """Keeps the last value per key and forwards all of them at every punctuation."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        schedule(context, self.step, punctuation_type(self.step), self.dump)

    def dump(self, timestamp: int) -> None:
        for key, value in store_of(self.context, self.step).all():
            self.context.forward(Record(key, value, timestamp))


class Ticking(OracleProcessor):
    """Passes records on, forwards a mark at every punctuation, and stops punctuating after the third."""

    schedule: Cancellable
    ticks = 0

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.schedule = schedule(context, self.step, punctuation_type(self.step), self.tick)

    def tick(self, timestamp: int) -> None:
        self.ticks += 1
        if self.ticks == 3:
            self.schedule.cancel()
        context = self.context
        where = "nowhere" if context.record_metadata is None else "somewhere"
        mark = f"tick {self.ticks} {where} stream {context.current_stream_time_ms} now {context.current_system_time_ms}"
        context.forward(Record("tick", mark, timestamp))

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(text(record.value)))


class Scheduling(OracleProcessor):
    """Every record, and the first call by wall clock, schedules two calls by stream time."""

    made = 0

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.by_wall_clock = schedule(context, self.step, PunctuationType.WALL_CLOCK_TIME, self.began)

    def began(self, timestamp: int) -> None:
        self.by_wall_clock.cancel()
        self.schedule_two()

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(text(record.value)))
        self.schedule_two()

    def schedule_two(self) -> None:
        self.made += 1
        number, calls = self.made, 0

        def tick(timestamp: int) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                scheduled.cancel()
            self.context.forward(Record("tick", f"tick {calls} of {number}", timestamp))

        scheduled = schedule(self.context, self.step, PunctuationType.STREAM_TIME, tick)


_OTHERS: dict[str, Callable[[Step], Processor]] = {
    "dump_stream_time": Dumping,
    "dump_wall_clock": Dumping,
    "tick_stream_time": Ticking,
    "tick_wall_clock": Ticking,
    "scheduling": Scheduling,
    "swap": Swapping,
    "twice": Twice,
    "to_child": ToChild,
    "keep": Keeping,
}


class _Bringing:
    """Makes a processor, and brings the store that it uses."""

    def __init__(self, make: Callable[[], Processor], store: StoreBuilder) -> None:
        self._make = make
        self._store = store

    def __call__(self) -> Processor:
        return self._make()

    def stores(self) -> list[StoreBuilder]:
        return [self._store]


def supplier(step: Step) -> Callable[[], Processor]:
    """Makes the processor that a step names."""
    make = Stepping if step["processor"] in VALUE_STEPS else _OTHERS[step["processor"]]
    return _Bringing(lambda: make(step), store_builder(step["brings"])) if "brings" in step else lambda: make(step)
