"""Steps without state, sinks and the loop over records do in C what they do in Python, errors included."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from compiled_parts import input_of, record, sink, step
from data_paths import fetched
from models import in_python
from streamsapp import (
    Consumed,
    KStream,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamsBuilder,
    TopicPartition,
)
from streamsapp.dsl.operators.stateless import StepKind
from streamsapp.errors import StreamsError
from streamsapp.record import Headers, InputRecord
from streamsapp.tasks.stream_task import StreamTask
from task_parts import config, raw, task_of

TEXT = Serdes.string()
Steps = Callable[[KStream[Any, Any]], KStream[Any, Any]]


class Pair(NamedTuple):
    """A pair that is no plain tuple."""

    key: Any
    value: Any


class Punctuating(Processor):
    """Sends the stream time each ten milliseconds, and what it gets."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule(10, PunctuationType.STREAM_TIME, lambda now: context.forward(Record("now", str(now), now)))

    def process(self, record: Record) -> None:
        self._context.forward(record)


def picky(value: Any) -> str:
    """Fails for some values."""
    if value is not None and value.endswith("7"):
        raise ValueError(f"no {value}, please")
    return f"{value}!"


def strict(text: str) -> bytes:
    if text.endswith("3"):
        raise TypeError("three is too much")
    return text.encode()


def other_pair(key: Any, value: Any) -> Any:
    return Pair(key, value) if value != "v1" else [value, key]


def no_pair(key: Any, value: Any) -> Any:
    return {"v5": "ab", "v1": (key, value, 1)}.get(value, (key, value))


#: A step each, whose functions fail for some records, or give what they should not.
STEPS: dict[str, Steps] = {
    "filter": lambda stream: stream.filter(lambda key, value: picky(value) != "v4!"),
    "filter not": lambda stream: stream.filter_not(lambda key, value: picky(value) == "v4!"),
    "truth": lambda stream: stream.filter(lambda key, value: value),
    "map": lambda stream: stream.map(lambda key, value: (value, picky(value))),
    "other pairs": lambda stream: stream.map(other_pair),
    "no pairs": lambda stream: stream.map(no_pair),
    "select": lambda stream: stream.select_key(lambda key, value: picky(value)),
    "values": lambda stream: stream.map_values(picky),
    "keyed values": lambda stream: stream.map_values(lambda key, value: f"{key}{picky(value)}"),
    "many": lambda stream: stream.flat_map_values(lambda value: [picky(value)] * 3),
    "keyed many": lambda stream: stream.flat_map_values(lambda key, value: (key or "none", picky(value))),
    "not many": lambda stream: stream.flat_map_values(lambda value: picky(value) if value == "v2" else iter("ab")),
    "punctuation": lambda stream: stream.process(Punctuating),
    "repartition": lambda stream: stream.select_key(lambda key, value: None if value == "v1" else value).repartition(),
    "nothing": lambda stream: stream,
}


def odd_time(record: InputRecord, key: Any, value: Any, partition_time: int) -> int:
    """Skips some records, is not there for others, and has later ones go first."""
    if value == "v8":
        raise ValueError("no time")
    return -1 if value == "v6" else partition_time + 1 if value == "v5" else record.timestamp()[1]


def program(steps: list[str], handler: str, topics: int = 1) -> StreamTask:
    """Topics are merged, and the times of every third are extracted."""
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in0", Consumed(TEXT, TEXT))
    for number in range(1, topics):
        extractor = odd_time if number % 3 == 2 else None
        stream = stream.merge(builder.stream(f"in{number}", Consumed(TEXT, TEXT, timestamp_extractor=extractor)))
    for each in steps:
        stream = STEPS[each](stream)
    stream.to("out", Produced(TEXT, Serdes.of(strict, bytes.decode)))
    settings = config(
        deserialization_exception_handler=handler,
        processing_exception_handler=handler,
        production_exception_handler=handler,
        dead_letter_queue_topic="dead",
    )
    return task_of(builder.build(), settings=settings)


def records(rng: random.Random, count: int, topic: str = "in0") -> list[InputRecord]:
    """Some cannot be deserialised, some are late, some have headers, or no key or value."""
    found, now = list[InputRecord](), 0
    for offset in range(count):
        now += rng.choice([0, 1, 1, 9])
        some: Headers = [("h", b"%d" % offset)]
        headers = rng.choice([None, None, None, [], some])
        key = rng.choice([b"k%d" % rng.randrange(9), b"k1", None, b"\xff" if rng.randrange(9) == 0 else b"k"])
        value = rng.choice([b"v%d" % rng.randrange(9), b"v1", None, b"\xff" if rng.randrange(9) == 0 else b"v"])
        time = max(0, now - rng.choice([0, 0, 7]))
        found.append(raw(offset, time, topic=topic, key=key, value=value, headers=headers))
    return found


def play(task: StreamTask, batches: list[list[InputRecord]], limit: int) -> list[object]:
    """Returns all that a task shows after each turn, up to an error that no handler takes."""
    seen: list[object] = []
    queues, context = task.queues, task.context
    for number, batch in enumerate(batches):
        task.add_records(TopicPartition(batch[0].topic(), 0), batch)
        left = 0 if number % len(queues) == 0 or batch is batches[-1] else 10  # so that inputs take turns
        while task.buffered_records > left:
            try:
                taken = task.process(task.control, limit)
            except StreamsError as error:
                failure = type(error), str(error), repr(error.__cause__)
                return [*seen, failure, task.take_output(), [each.position for each in queues.values()]]
            figures = context.lateness.figures(0), context.record_errors.dropped, context.stream_time
            standing = [(len(each), each.position, each.partition_time) for each in queues.values()]
            seen.append([taken, task.take_output(), standing, *figures, context.message])
    return seen


@pytest.mark.seeds(12)
@pytest.mark.parametrize("handler", ["continue", "fail"])
def test_random_records_take_the_same_steps_as_in_python(
    handler: str, seed: int, compiled: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        steps = rng.choices(list(STEPS), k=rng.choice([1, 1, 2, 3]))
        topics = rng.choice([1, 1, 2, 2, 3, 5])
        batches = [records(rng, rng.randrange(1, 30), f"in{each % topics}") for each in range(4 * topics)]
        limit = rng.choice([1, 5, 100])
        with monkeypatch.context() as patch:
            in_python(patch)
            expected = play(program(steps, handler, topics), batches, limit)

        assert play(program(steps, handler, topics), batches, limit) == expected, steps
        native_batches = [[fetched(compiled, each) for each in batch] for batch in batches]
        assert play(program(steps, handler, topics), native_batches, limit) == expected, steps


def test_each_step_passes_a_probe_while_one_is_there(compiled: ModuleType) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT)).filter(lambda key, value: True).map_values(str.upper)
    odd, even = stream.split().branch(lambda key, value: value == "V1").default_branch().values()
    odd.to("odd")
    even.to("even")
    task = task_of(builder.build())
    task.probes.look(100, None, processed=0, now=0)
    task.add_records(next(iter(task.queues)), [fetched(compiled, raw(at, at, value=b"v%d" % at)) for at in range(3)])
    task.process(task.control, 100)

    nodes = task.probes.look(100, None, processed=3, now=1)
    passed = {name.rsplit("-", 1)[0]: probe.rate for name, probe in nodes.items()}
    assert [passed[f"KSTREAM-{step}"] for step in ("SOURCE", "FILTER", "MAPVALUES")] == [3, 3, 3]
    assert {probe.rate for name, probe in nodes.items() if "SINK" in name} == {1, 2}


def test_an_error_is_handled_where_an_except_clause_would_be(compiled: ModuleType) -> None:
    told: list[object] = []

    def fails(value: Any) -> None:
        raise ValueError(value)

    def on_error(error: Exception, *record: Any) -> None:
        told.extend([str(error), record])
        raise KeyError("told")

    step = compiled.Step(kind=StepKind.MAP_VALUES, function=fails, adapt=None, forward=print, on_error=on_error)
    with pytest.raises(KeyError) as raised:
        step("k", "v", 5, None)

    assert told == ["v", ("k", "v", 5, None)]
    assert isinstance(raised.value.__context__, ValueError)
    assert raised.value.__context__.__traceback__ is not None


def test_an_end_of_the_program_is_not_handled(compiled: ModuleType) -> None:
    def leaves(value: Any) -> None:
        raise SystemExit(value)

    with pytest.raises(SystemExit):
        step(compiled, function=leaves, on_error=print)("k", 1, 5, None)
    with pytest.raises(SystemExit):
        sink(compiled, serialize_key=leaves, on_error=print)("k", 1, 5, None)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda path: step(path, kind=StepKind.MAP), TypeError),
        (lambda path: step(path, kind=StepKind.FLAT_MAP_VALUES), TypeError),
        (lambda path: step(path, function=None), TypeError),
        (lambda path: step(path, kind=len(StepKind)), ValueError),
        (lambda path: step(path, kind=-1), ValueError),
        (lambda path: step(path)("k", "v", 1), TypeError),
        (lambda path: step(path)("k", "v", 1, headers=None), TypeError),
        (lambda path: step(path, kind=StepKind.MAP, adapt=lambda it: it)("k", "v", 1, None), TypeError),
        (lambda path: sink(path, topic=b"t"), TypeError),
        (lambda path: sink(path)("k", "v", 1), TypeError),
        (lambda path: input_of(path, None), AttributeError),
        (lambda path: input_of(path, []), AttributeError),
        (lambda path: record(path, key="k"), TypeError),
        (lambda path: record(path, value="v"), TypeError),
        (lambda path: record(path, topic=b"t"), TypeError),
    ],
)
def test_wrong_calls_are_refused(call: Callable[[Any], object], error: type[Exception], compiled: ModuleType) -> None:
    with pytest.raises(error):
        call(compiled)


def raising(error: Exception, *record: Any) -> None:
    raise error


@pytest.mark.parametrize("made", ["Step", "Sink"])
def test_what_is_part_of_a_circle_is_let_go(made: str, compiled: ModuleType) -> None:
    gone: list[int] = []

    class Leaving:
        def __call__(self, *given: Any) -> None: ...

        def __del__(self) -> None:
            gone.append(1)

    own: Any = Leaving()
    if made == "Step":
        own.step = compiled.Step(kind=StepKind.FILTER, function=own, adapt=None, forward=own, on_error=own)
    else:
        own.step = compiled.Sink(
            topic="t", serialize_key=own, serialize_value=own, check_headers=own, emit=own, on_error=own, plain_sink=own
        )
    del own
    gc.collect()

    assert gone == [1]
