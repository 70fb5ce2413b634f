"""Objects and calls of the compiled part are given by named fields; errors name the wrong field."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from compiled_parts import chunk, count_push, input_of, loop, record, sink, step, window_push
from streamsapp.dsl.operators.stateless import StepKind


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda path: path.Step(1), TypeError, "Step takes its fields by name"),
        (lambda path: path.Step(), TypeError, "Step needs the field kind"),
        (lambda path: path.Step(kind=StepKind.FILTER, function=bool), TypeError, "Step needs the field adapt"),
        (lambda path: step(path, way=5), TypeError, "Step has no field way"),
        (lambda path: step(path, forward=None), TypeError, "Step: forward is to be callable, not NoneType"),
        (lambda path: step(path, adapt=5), TypeError, "Step: adapt is to be callable or None, not int"),
        (lambda path: step(path, kind="MAP"), TypeError, "Step: kind is to be int, not str"),
        (lambda path: step(path, kind=999), ValueError, f"Step: kind is to be from 0 to {len(StepKind) - 1}, not 999"),
        (lambda path: step(path, kind=1 << 70), ValueError, "Step: kind is to be from 0 to 8, not 1180591"),
        (lambda path: step(path, function=None), TypeError, "Step: steps of kind 4 need a function"),
        (lambda path: sink(path, keeps_key=1), TypeError, "Sink: keeps_key is to be bool, not int"),
        (lambda path: sink(path, topic=b"t"), TypeError, "Sink: topic is to be str, not bytes"),
        (lambda path: path.Loop(inputs=[]), TypeError, "Loop needs the field context"),
        (lambda path: loop(path, inputs=()), TypeError, "Loop: inputs is to be list, not tuple"),
        (lambda path: loop(path).offer(5), TypeError, "offer takes an Input"),
        (lambda path: input_of(path, deque(), trusts_time=1), TypeError, "Input: trusts_time is to be bool, not int"),
        (lambda path: setattr(input_of(path, deque()), "push", 5), TypeError, "Input: push is to be callable"),
        (lambda path: delattr(input_of(path, deque()), "push"), TypeError, "Input: push is to be callable"),
        (count_push, TypeError, "CountPush needs the field cells"),
        (lambda path: count_push(path, cells=5), TypeError, "CountPush: cells is to be Cells, not int"),
        (
            lambda path: count_push(path, cells=cells(path), noted=([], None)),
            TypeError,
            "CountPush: noted and noted_headers are None together",
        ),
        (
            lambda path: window_push(path, cells=cells(path), noted=({}, {})),
            TypeError,
            "WindowPush: noted is to be list or None, not dict",
        ),
        (
            lambda path: window_push(path, cells=cells(path), step_ms=0),
            ValueError,
            "WindowPush: step_ms is to be from 1 to 9223372036854775807, not 0",
        ),
        (lambda path: record(path, partition=1 << 31), ValueError, "Record: partition is to be from -2147483648"),
        (lambda path: record(path, key="k"), TypeError, "Record: key is to be bytes or None, not str"),
        (lambda path: chunk(path, data=b"", aborted=()), TypeError, "Chunk: aborted is to be list, not tuple"),
        (lambda path: chunk(path, data=b"", aborted=[(1,)]), TypeError, "Chunk: aborted has pairs"),
        (lambda path: chunk(path, data=b"", aborted=[(1, 1 << 70)]), OverflowError, "int too"),
        (lambda path: chunk(path, data="text"), TypeError, "a bytes-like object is required"),
        (lambda path: chunk(path, data=b"", most=-1), ValueError, "Chunk: most is to be from 0"),
        (lambda path: path.Cells(load=None), TypeError, "Cells: load is to be callable, not NoneType"),
        (lambda path: path.Cells(load=bool, **{"": 5}), TypeError, "Cells has no field $"),
        (lambda path: path.Cells(**no_name()), TypeError, "keywords must be strings"),
        (lambda path: path.stamped(b""), TypeError, "stamped takes its fields by name"),
        (lambda path: path.results(held=[]), TypeError, "results needs the field topic"),
        (lambda path: path.PackedRecords().stage(put=5), TypeError, "stage: put is to be callable, not int"),
    ],
)
def test_what_is_wrong_is_named(
    call: Callable[[ModuleType], object], error: type[Exception], text: str, compiled: ModuleType
) -> None:
    with pytest.raises(error, match=text):
        call(compiled)


def test_fields_come_in_any_order(compiled: ModuleType) -> None:
    made = compiled.Record(headers=[], timestamp=7, value=b"v", key=b"k", offset=5, partition=3, topic="t")

    assert (made.topic(), made.partition(), made.offset(), made.key()) == ("t", 3, 5, b"k")
    assert (made.value(), made.timestamp(), made.headers()) == (b"v", (1, 7), [])


def test_an_object_that_is_not_made_keeps_nothing(compiled: ModuleType) -> None:
    def given(*_: object) -> None:
        raise AssertionError

    before = sys.getrefcount(given)
    for wrong in ({"emit": None}, {"plain_sink": given, "keeps_key": 5}, {"other": given}):
        with pytest.raises(TypeError):
            sink(compiled, serialize_key=given, serialize_value=given, **wrong)
    del wrong
    gc.collect()

    assert sys.getrefcount(given) == before


def test_what_an_object_is_made_of_goes_with_it(compiled: ModuleType) -> None:
    class Held:
        def __call__(self, *_: object) -> None: ...

    held = Held()
    before = sys.getrefcount(held)
    made = [
        step(compiled, function=held, forward=held, on_error=held),
        sink(compiled, serialize_key=held, emit=held, plain_sink=held),
        count_push(compiled, cells=cells(compiled), on_error=held, forward=held),
        window_push(compiled, cells=cells(compiled), segments=held, tell=held),
        compiled.Recent(segments=held, room=held),
        compiled.Cells(load=held),
        record(compiled, headers=held),
    ]
    assert sys.getrefcount(held) == before + 14

    made.clear()
    gc.collect()
    assert sys.getrefcount(held) == before


def test_answers_have_names(compiled: ModuleType) -> None:
    outbox = compiled.Outbox(batch_size=1000, most=1000)
    outbox.add_topic("t", 1)
    outbox.add(records=[("t", b"v", b"k", 0, None, None, 5, None)], begin=0, room=1000)
    taken = outbox.take("t", 0)

    assert [taken.record_count, taken.more, type(taken.data), type(taken.since)] == [1, False, bytes, float]
    assert tuple(taken) == (taken.data, taken.record_count, taken.since, taken.more)
    empty = compiled.answer(b"\0\0\0\7" + b"\0" + b"\0\0\1\5" + b"\0\3" + b"\0\0\0\x09" + b"\1" + b"\0")
    assert (empty.throttle_ms, empty.error, empty.session, empty.parts) == tuple(empty) == (261, 3, 9, [])


def no_name() -> dict[Any, Any]:
    return {"load": bool, 5: 5}


def cells(path: ModuleType) -> Any:
    return path.Cells(load=bool)
