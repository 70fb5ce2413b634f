"""Bytes that a serde keeps as they are cost no call of it; it still gets all other objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from compiled_parts import Due, Standing, count_push, input_of, loop
from models import in_python
from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from streamsapp.serdes.api import Serde
from streamsapp.tasks.record_queue import ProcessingControl
from task_parts import raw, sent

#: The same bytes by functions that our code does not know.
UNKNOWN: Serde[bytes] = Serde(bytes, bytes, immutable=True)


class Bytes(bytes):
    """It is like bytes, but not kept as bytes are."""


def passed_on(serde: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(serde, serde)).to("out", Produced(serde, serde))
    return builder.build()


def counted(serde: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(serde, serde)).group_by_key(Grouped(serde, serde))
    stream.count(Materialized("counts", serde, store="memory")).to_stream().to("out", Produced(serde, Serdes.long()))
    return builder.build()


def counted_in_windows(serde: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(serde, serde)).group_by_key(Grouped(serde, serde))
    windows = TimeWindows.of(10, grace=100).advance_by(5)
    stream.windowed_by(windows).count(Materialized("counts", serde, store="memory")).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("topology", [passed_on, counted, counted_in_windows])
def test_they_are_what_serdes_make_of_them_that_are_not_known(
    topology: Callable[[Any], Topology],
    is_native: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_native:
        in_python(monkeypatch)
    keys = (b"a", b"", b"a", None, b"c" * 300)
    records = [raw(at, 3 * at, key=key, value=b"v%d" % at) for at, key in enumerate(keys)]

    assert sent(topology(Serdes.bytes()), *records) == sent(topology(UNKNOWN), *records)


def test_a_sink_asks_the_serializer_about_all_that_are_no_bytes(compiled: ModuleType) -> None:
    asked, out, told = list[Any](), list[Any](), list[Any]()

    def serialize(value: Any) -> Any:
        asked.append(value)
        return value.encode()

    sink = compiled.Sink(
        topic="out",
        serialize_key=serialize,
        serialize_value=serialize,
        keeps_key=True,
        check_headers=bool,
        emit=out.append,
        on_error=lambda error, *record: told.append((type(error), record)),
        plain_sink=None,
    )
    for key, value in ((b"k", "v"), ("k", "v"), (Bytes(b"k"), "v"), (None, None), (b"k", b"v")):
        sink(key, value, 1, None)

    assert asked == ["v", "k", "v", b"k", b"v"]
    assert told == [(AttributeError, (Bytes(b"k"), "v", 1, None)), (AttributeError, (b"k", b"v", 1, None))]
    assert [(record[2], record[1]) for record in out] == [(b"k", b"v"), (b"k", b"v"), (None, None)]


@pytest.mark.parametrize("kept", [True, False])
def test_counts_ask_the_serializer_about_keys_that_are_no_bytes(compiled: ModuleType, kept: bool) -> None:
    asked, cells = list[Any](), compiled.Cells(load=lambda key: (None, -1))
    cells.begin()

    def serialize(key: Any) -> bytes:
        asked.append(key)
        return bytes(key)

    failed = Mock()
    push = count_push(compiled, cells=cells, serialize_key=serialize, keeps_bytes=kept, on_error=failed)
    for key in (b"k", bytearray(b"k")):
        push(key, b"v", 1, None)

    failed.assert_not_called()
    assert asked == ([bytearray(b"k")] if kept else [b"k", bytearray(b"k")])
    assert cells.at_hand(b"k")[0] == 2


def test_a_loop_without_deserializers_hands_on_what_records_have(compiled: ModuleType) -> None:
    pushed, buffer = list[Any](), deque[Any]()
    given = [(b"k", b"v"), (None, b"v"), (b"k", None)]
    buffer.extend(
        compiled.Record(topic="in", partition=0, offset=at, key=key, value=value, timestamp=at, headers=None)
        for at, (key, value) in enumerate(given)
    )

    only = input_of(compiled, buffer, push=lambda *record: pushed.append(record[:2]))

    assert loop(compiled, only).run(control=ProcessingControl(), due=Due(9), expiry=Due(), limit=9) == 3
    assert pushed == given


def test_a_time_that_was_later_is_met_when_records_come_to_it_or_when_it_becomes_sooner(
    compiled: ModuleType,
) -> None:
    due, punctuated, buffer = Due(1005), list[int](), deque[Any]()
    context = Standing()

    def punctuate() -> None:
        punctuated.append(context.message.offset())
        due.next_due = 2000

    buffer.extend(
        compiled.Record(
            topic="in", partition=0, offset=at, key=b"k", value=b"v", timestamp=1000 + at // 2, headers=None
        )
        for at in range(14)
    )

    def push(*record: Any) -> None:
        if record[2] == 1006:
            due.next_due = 1006  # a processor has asked for another one meanwhile

    running = loop(compiled, input_of(compiled, buffer, push=push), context=context, punctuate=punctuate)
    assert running.run(control=ProcessingControl(), due=due, expiry=Due(), limit=99) == 14
    assert punctuated == [10, 12, 13]
