"""Entries of stores go to their changelogs the same way by both clients, and as their records would."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from data_paths import everything, producing, take_client
from streamsapp import Serdes
from streamsapp.config.known_properties import CLIENTS, LIBRDKAFKA
from streamsapp.native import Why
from streamsapp.outgoing import ChangelogSlice
from streamsapp.serdes.api import AnySerde, Serde
from streamsapp.state.engine.entries import Entry, HeadersLoggedFormat, LoggedEntry, PlainFormat, TimestampedFormat

#: Serdes, and what stores keep of their values.
KINDS: dict[str, tuple[AnySerde, Callable[[random.Random], Any]]] = {
    "long": (Serdes.long(), lambda rng: rng.choice([0, 1, -1, 255, -(1 << 63), (1 << 63) - 1, True])),
    "integer": (Serdes.integer(), lambda rng: rng.randrange(-(1 << 31), 1 << 31)),
    "short": (Serdes.short(), lambda rng: rng.randrange(-(1 << 15), 1 << 15)),
    "long, the lowest byte first": (
        replace(
            Serdes.long(), serialize=struct.Struct("<q").pack, deserialize=lambda data: struct.unpack("<q", data)[0]
        ),
        lambda rng: rng.randrange(-(1 << 63), 1 << 63),
    ),
    "double": (Serdes.double(), lambda rng: rng.choice([0, -1, 0.5, 1e300])),
    "boolean": (Serdes.boolean(), lambda rng: rng.choice([True, False])),
    "string": (Serdes.string(), lambda rng: rng.choice(["", "ü", "x" * 200])),
    "bytes": (Serdes.bytes(), lambda rng: rng.randbytes(rng.randrange(40))),
    "json": (Serdes.json(), lambda rng: b"%d" % rng.randrange(100)),
}

FAILING: AnySerde = Serde(lambda _: bytes(1 // 0), bytes, immutable=True)
#: Gives numbers, in spite of what it says.
NO_BYTES: AnySerde = Serde(cast(Callable[[Any], bytes], len), len, immutable=True)


def random_entries(rng: random.Random, value: Callable[[random.Random], Any], count: int) -> list[tuple[bytes, Entry]]:
    def entry(number: int) -> Any:
        stored = rng.choice([None, value(rng), value(rng)])
        timestamp = rng.choice([-1, 0, 1, 1_700_000_000_000 + number])
        return rng.choice([(stored, timestamp), LoggedEntry.of(stored, timestamp, [("h", b"1")])])

    return [(b"" if number == 7 else b"%d" % number, entry(number)) for number in range(count)]


def send_all(producer: Any, changes: ChangelogSlice) -> None:
    """A topic that is just being made may not be known yet: the rest of the changes is sent again."""
    while changes:
        changes = producer.send_changes(changes)
        producer.poll()


@pytest.mark.parametrize("kind", KINDS)
def test_random_entries_become_the_same_records_whichever_client_sends_them(
    kind: str, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serde, value = KINDS[kind]
    entries = random_entries(random.Random(3), value, 2500)
    found = []
    name = kind.replace(", ", "-").replace(" ", "-")
    for sender in CLIENTS:
        topic = f"{name}-by-{sender}"
        take_client(sender, monkeypatch)
        with producing(broker) as producer:
            changes = ChangelogSlice(topic, 1, entries, TimestampedFormat(serde))
            send_all(producer, changes)
            assert producer.flush(60)
        records, _ = everything(broker, topic)
        found.append([[it[1:3] + it[4:] for it in records[each]] for each in sorted(records)])
        # A record without a time has that of the moment.
        times = [it[3][1] for run in records.values() for it in run]
        assert [max(entry[1], 1) for _, entry in entries if entry[1] >= 0] == [
            time for time, (_, entry) in zip(times, entries, strict=True) if entry[1] >= 0
        ]

    raw = TimestampedFormat(serde).raw
    assert found[0] == found[1]
    assert [(key, sent) for _, _, key, sent, _, _ in found[1][1]] == [
        (key, None if entry[0] is None else raw(entry[0])) for key, entry in entries
    ]


def test_entries_with_headers_have_them_in_the_changelog(broker: str, moving: str) -> None:
    topic = f"headed-{moving}"
    entries: list[tuple[bytes, Entry]] = [(b"1", LoggedEntry.of("a", 5, [("h", b"1")])), (b"2", ("b", 6))]
    with producing(broker) as producer:
        send_all(producer, ChangelogSlice(topic, 0, entries, HeadersLoggedFormat(Serdes.string())))
        assert producer.flush(60)

    records, _ = everything(broker, topic)

    assert [it[3:7] for run in records.values() for it in run] == [
        ((1, 5), b"1", b"a", [("h", b"1")]),
        ((1, 6), b"2", b"b", None),
    ]


def test_what_librdkafkas_queue_has_no_room_for_comes_back_and_what_is_refused_is_reported(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_client(LIBRDKAFKA, monkeypatch)
    failed: list[Any] = []
    entries: list[tuple[bytes, Entry]] = [(b"%d" % number, ("v", 1)) for number in range(9000)]
    entries[1500] = (b"large", ("v" * 2_000_000, 1))
    entries[1600] = (b"early", ("v", 0))
    with producing(broker, failed, linger_ms=5000, queue_buffering_max_messages=3000) as producer:
        producer.send_changes(ChangelogSlice("full", 0, entries[:1], PlainFormat(Serdes.string())))
        assert producer.flush(60)
        left = producer.send_changes(ChangelogSlice("full", 0, entries, PlainFormat(Serdes.string())))

        assert 1 < len(left) < 8000
        assert left.entries == entries[9000 - len(left) :]
        producer.poll()

    assert [(code, record.topic(), record.key()) for code, _, record in failed] == [
        (KafkaError.MSG_SIZE_TOO_LARGE, "full", b"large")
    ]


@pytest.mark.parametrize(
    ("stored", "serde", "error"),
    [
        ("text", Serdes.long(), TypeError),
        (1 << 63, Serdes.long(), ValueError),
        (-(1 << 15) - 1, Serdes.short(), ValueError),
        (1, Serdes.string(), TypeError),
        (object(), FAILING, ZeroDivisionError),
        ("no bytes", NO_BYTES, TypeError),
    ],
)
def test_what_cannot_be_written_raises_the_same(
    broker: str, moving: str, stored: Any, serde: AnySerde, error: type[Exception]
) -> None:
    entries: list[tuple[bytes, Entry]] = [(b"good", (None, 1)), (b"bad", (stored, 1))]
    with producing(broker) as producer, pytest.raises(error):
        producer.send_changes(ChangelogSlice("t", 0, entries, TimestampedFormat(serde)))


def test_calls_that_make_no_sense_are_refused(compiled: ModuleType) -> None:
    outbox = compiled.Outbox(batch_size=1000, most=1000)
    outbox.add_topic("t", 2)
    sound: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "changes": [],
        "begin": 0,
        "room": 1,
        "raw": None,
        "number_size": 0,
    }
    for name, value in (("partition", -1), ("begin", -1), ("number_size", 9), ("number_size", -1)):
        with pytest.raises(ValueError, match=rf"add_changes: {name} is to be from 0"):
            outbox.add_changes(**sound | {name: value})
    with pytest.raises(TypeError, match="add_changes: changes is to be list or CellRun, not tuple"):
        outbox.add_changes(**sound | {"changes": ()})
    assert outbox.add_changes(
        topic="t", partition=2, changes=[(b"k", (b"v", 1))], begin=0, room=1, raw=None, number_size=0
    ) == (0, Why.UNKNOWN_PARTITION)
    assert outbox.add_changes(
        topic="u", partition=0, changes=[(b"k", (b"v", 1))], begin=0, room=1, raw=None, number_size=0
    ) == (0, Why.UNKNOWN_TOPIC)
    for wrong in (None, (), (b"k",), ("k", (b"v", 1)), (b"k", None), (b"k", (b"v",)), (b"k", (b"v", "1"))):
        assert outbox.add_changes(
            topic="t", partition=0, changes=[(b"k", (b"v", 1)), wrong], begin=0, room=1000, raw=None, number_size=0
        ) == (1, Why.NOT_KNOWN)
    assert outbox.add_changes(topic="t", partition=0, changes=[], begin=5, room=1, raw=None, number_size=0) == (
        5,
        Why.TAKEN,
    )
