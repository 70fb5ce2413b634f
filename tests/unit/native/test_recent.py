"""The newest records of a join in C are what they are in Python, and so are the join's results."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import models
from models import in_python
from streamsapp import Consumed, JoinWindows, Produced, Serdes, StreamJoined, StreamsBuilder
from streamsapp.record import Headers
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.window import window_key
from streamsapp.testing import TopologyTestDriver

STRING = Serdes.string()
KEYS = [b"", b"k", b"kk", b"\x00", b"k" * 300]


def segments(retention_ms: int) -> Segments:
    return Segments(retention_ms, 60_000, lambda key: 0)


def steps(seed: int) -> list[tuple[Any, ...]]:
    """Records and looks, late ones, values of all sizes, and now and then a store that begins anew."""
    rng = random.Random(seed)
    retention, now = rng.choice([1, 40, 5_000]), 0
    made: list[tuple[Any, ...]] = [(retention, rng.choice([0, 1, 7, 900, 100_000]), rng.choice([3, 4_000]))]
    for number in range(1, 4_000):
        now += rng.choice([0, 0, 1, 3])
        time = max(0, now - rng.choice([0, 0, 0, 2, retention, 2 * retention]))
        key = rng.choice(KEYS) + b"%d" % rng.randrange(made[0][2])
        made.append(("append", key, time, number, rng.choice([rng.randbytes(3), "text", 7, None])))
        low = max(0, now - rng.randrange(2 * retention + 1))
        made.append(("between", key, low, low + rng.randrange(retention + 1)))
        if rng.randrange(700) == 0:
            made.append(("begin", rng.choice([None, "as it is"])))
    return made


def play(given: list[tuple[Any, ...]], make: Callable[..., Any]) -> list[object]:
    (retention, room, _) = given[0]
    store = segments(retention)
    recent = make(segments=store, room=lambda: room)
    seen: list[object] = []
    for step in given[1:]:
        if step[0] == "begin":
            store.stand_at(None if step[1] is None else store.facts())
        elif step[0] == "between":
            found = recent.between(*step[1:])
            seen += [len(recent), None if found is None else list(found)]
        else:
            _, key, time, number, stored = step
            seen.append(recent.append(store.prefixes[time // 60_000], key, time, number, stored))
            if stored is not None:
                store.observe(time)
    return seen


@pytest.mark.parametrize("seed", range(12))
def test_random_records_are_found_as_in_python(seed: int, compiled: ModuleType) -> None:
    given = steps(seed)

    assert play(given, compiled.Recent) == play(given, models.Recent)


def test_records_of_a_key_are_in_order_and_one_of_the_same_number_is_replaced(compiled: ModuleType) -> None:
    store = segments(100)
    recent = compiled.Recent(segments=store, room=lambda: 1_000)
    for time, number in ((5, 1), (3, 2), (5, 0), (9, 3)):
        recent.append(b"", b"k", time, number, f"{time}-{number}")
    recent.append(b"", b"k", 5, 1, "again")

    assert recent.between(b"k", 4, 8) == ((5, 0, "5-0"), (5, 1, "again"))
    assert recent.between(b"other", 0, 9) == recent.between(b"k", 10, 9) == ()
    assert len(recent) == 4


def test_keys_may_be_anything_that_is_like_bytes(compiled: ModuleType) -> None:
    class Named(bytes):
        def __hash__(self) -> int:
            return 7

    recent = compiled.Recent(segments=segments(100), room=lambda: 1_000)
    alike: list[Any] = [b"k", Named(b"k"), memoryview(b"k"), bytearray(b"k")]
    made = {recent.append(b"p", key, 5, number, "v") for number, key in enumerate(alike)}

    assert made == {b"p" + window_key(b"k", 5, number) for number in range(4)}
    assert {type(each) for each in made} == {bytes}
    assert [recent.between(key, 5, 5) for key in alike] == [tuple((5, number, "v") for number in range(4))] * 4


def test_a_look_may_reach_beyond_all_times_that_records_have(compiled: ModuleType) -> None:
    recent = compiled.Recent(segments=segments(100), room=lambda: 1_000)
    recent.append(b"", b"k", 5, 0, "v")

    assert recent.between(b"k", 0, 1 << 63) == ((5, 0, "v"),)
    assert recent.between(b"k", -1 << 64, 1 << 64) is None


def test_nothing_is_said_to_be_complete_at_the_last_of_all_times(compiled: ModuleType) -> None:
    latest, store = (1 << 63) - 1, segments(100)
    store.observe(latest)
    store.stand_at(store.facts())
    recent = compiled.Recent(segments=store, room=lambda: 1)
    for number in range(2_000):
        recent.append(b"", b"k", latest, number, "v")

    assert recent.between(b"k", latest, latest) is None


def test_values_are_let_go_when_they_expire_and_with_the_store(compiled: ModuleType) -> None:
    store = segments(50)
    recent = compiled.Recent(segments=store, room=lambda: 5_000)
    value, held = object(), sys.getrefcount
    before = held(value)
    for time in range(3_000):
        recent.append(b"", b"%d" % (time % 500), time, time, value)
        store.observe(time)
    assert len(recent) == held(value) - before <= 2_000

    found = recent.between(b"%d" % (2_999 % 500), 2_999, 2_999)
    assert found is not None
    del recent, found
    assert held(value) == before


def test_a_value_may_use_the_store_when_it_goes(compiled: ModuleType) -> None:
    store = segments(1)
    recent = compiled.Recent(segments=store, room=lambda: 100)
    asked: list[object] = []

    class Curious:
        def __del__(self) -> None:
            asked.append(recent.between(b"k", 1 << 40, 1 << 41))
            recent.append(b"", b"of one that went", 1 << 40, 1, "more")

    for time in range(1_500):
        recent.append(b"", b"k", time, time, Curious())
        store.observe(time)

    assert len(asked) > 100
    assert set(asked) == {()}
    del Curious
    gc.collect()


@pytest.mark.parametrize(
    "call",
    [
        lambda recent: recent.append(b"", b"k", 1, 2),
        lambda recent: recent.append("", b"k", 1, 2, b"v"),
        lambda recent: recent.append(b"", "k", 1, 2, b"v"),
        lambda recent: recent.append(b"", 7, 1, 2, b"v"),
        lambda recent: recent.append(b"", b"k", "1", 2, b"v"),
        lambda recent: recent.append(b"", b"k", 1 << 70, 2, b"v"),
        lambda recent: recent.between(b"k", 1),
        lambda recent: recent.between("k", 1, 2),
        lambda recent: recent.between(b"k", 1, None),
    ],
)
def test_wrong_calls_are_refused(call: Callable[[Any], object], compiled: ModuleType) -> None:
    with pytest.raises((TypeError, OverflowError)):
        call(compiled.Recent(segments=segments(10), room=lambda: 10))


def test_errors_of_what_it_asks_come_through(compiled: ModuleType) -> None:
    def broken() -> int:
        raise RuntimeError("no room is known")

    recent = compiled.Recent(segments=segments(10), room=broken)
    with pytest.raises(RuntimeError, match="no room is known"):
        recent.append(b"", b"k", 1, 1, b"v")
    nothing: Any = object()
    with pytest.raises(AttributeError, match="begun"):
        compiled.Recent(segments=nothing, room=lambda: 10).between(b"k", 1, 2)


def results(kind: str, seed: int) -> tuple[list[object], dict[str, list[object]]]:
    """The results of random records, some late, some with headers or without value, and what the stores have."""
    rng, builder = random.Random(seed), StreamsBuilder()
    left, right = (builder.stream(topic, Consumed(STRING, STRING)) for topic in ("left", "right"))
    windows, options = JoinWindows.of(50, grace=30), StreamJoined(STRING, STRING, STRING, store_name="pairs")
    join = getattr(left, kind)
    join(right, lambda one, other: f"{one}+{other}", windows, options).to("out", Produced(STRING, STRING))
    with TopologyTestDriver(builder.build()) as driver:
        topics = [driver.create_input_topic(topic, STRING, STRING) for topic in ("left", "right")]
        for number in range(500):
            headers: Headers | None = [("h", b"%d" % number)] if rng.randrange(2) else None
            value = rng.choice([f"{number}", f"{number}", f"{number}", None])
            at = max(0, number * 5 - rng.choice((0, 0, 7, 40, 90)))
            rng.choice(topics).pipe_input(rng.choice("abc"), value, at, headers=headers)
            if number % 150 == 149:
                driver._tasks[0].stores.revert()  # all state is read back
        names = [name for name in driver._tasks[0].stores.stores if "shared" not in name]
        stores = {name: list(driver.get_window_store(name).all()) for name in names}
        output = driver.create_output_topic("out", STRING, STRING).read_records()
        return [(each.key, each.value, each.timestamp, each.headers) for each in output], stores


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join", "join_prior"])
def test_joins_have_the_same_results_whichever_path_keeps_their_records(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        in_python(patch)
        expected = results(kind, seed=3)

    assert len(expected[0]) > 100
    assert results(kind, seed=3) == expected


class Name(bytes):
    """The bytes of a key, as a serde may give them."""


def test_a_join_takes_keys_that_a_serde_gives_as_a_kind_of_bytes() -> None:
    names, builder = Serdes.of(lambda key: Name(key.encode()), bytes.decode), StreamsBuilder()
    left, right = (builder.stream(topic, Consumed(names, STRING)) for topic in ("left", "right"))
    options = StreamJoined(names, STRING, STRING)
    left.join(right, lambda one, other: one + other, JoinWindows.of(50), options).to("out", Produced(STRING, STRING))
    with TopologyTestDriver(builder.build()) as driver:
        for topic in ("left", "right"):
            driver.create_input_topic(topic, STRING, STRING).pipe_input("k", topic, 5)
        output = driver.create_output_topic("out", STRING, STRING)
        assert [(each.key, each.value) for each in output.read_records()] == [("k", "leftright")]
