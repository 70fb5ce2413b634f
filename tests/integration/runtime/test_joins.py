"""Joins of every kind on a real broker: closed while records wait, their state lost, and gone on with."""

from __future__ import annotations

import shutil
import time
from collections import Counter

from hurried_rows import HURRIED
from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from streamsapp import (
    Consumed,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TableJoined,
    Topology,
)
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable

_TEXT = Serdes.string()
_READ: Consumed[str, str] = Consumed(_TEXT, _TEXT)
_WINDOWS = JoinWindows.of(60_000)
PARTITIONS = 2


def _topology(left: str, right: str, rows: str, others: str, sink: str) -> Topology:
    """Joins of streams, of a stream with a versioned table that waits for late rows, and of tables by foreign key."""
    builder = StreamsBuilder()
    lefts: KStream[str, str] = builder.stream(left, _READ)
    rights: KStream[str, str] = builder.stream(right, _READ)
    table: KTable[str, str] = builder.table(rows, _READ, Materialized("rows", versioned=600_000))
    foreign: KTable[str, str] = builder.table(others, _READ)

    def shown(kind: str, a: str | None, b: str | None) -> str:
        return f"{kind} {a or '-'}/{b or '-'}"

    results = [
        lefts.join(rights, lambda a, b: shown("inner", a, b), _WINDOWS),
        lefts.left_join(rights, lambda a, b: shown("left", a, b), _WINDOWS),
        lefts.join(table, lambda a, b: shown("table", a, b), Joined(_TEXT, _TEXT, grace=60_000)),
        table.join(
            foreign,
            lambda row: row[0],
            lambda a, b: shown("foreign", a, b),
            TableJoined(_to_its_partition, _to_its_partition),
            Materialized("named", _TEXT, _TEXT),
        ).to_stream(),
    ]
    for result in results:
        result.to(sink, Produced(_TEXT, _TEXT))
    return builder.build()


def _to_its_partition(topic: str, key: str, value: None, partitions: int) -> int:
    """Keys end with the number of the partition that they are written to."""
    return int(key[-1]) % partitions


def test_joins_whose_state_is_lost_while_records_wait_give_each_result_once(kafka: Kafka, instances: Instances) -> None:
    topics = left, right, rows, others, sink = [
        kafka.create_topic(name, PARTITIONS) for name in ("left", "right", "rows", "others", "joins")
    ]
    config = instances.config(processing_guarantee="exactly_once")
    # Not long ago: the broker deletes what the changelogs of windows have of 1970.
    now = (int(time.time()) - 3600) * 1000

    def put(topic: str, values: dict[str, str], at: int = 0) -> None:
        for key, value in values.items():
            produce(kafka, topic, [(key.encode(), value.encode(), now + at)], partition=int(key[-1]) % PARTITIONS)

    def results() -> Counter[tuple[str, str]]:
        found = (((each.key() or b"").decode(), (each.value() or b"").decode()) for each in kafka.read(sink))
        return Counter((key, value) for key, value in found if not key.startswith("end"))

    put(left, dict.fromkeys(("k0", "k1", "j0", "j1"), "l"))
    put(right, {"k0": "r"})
    put(rows, {"k0": "1 too new", "k1": "1 too new", "m0": "1 row"}, 1_000)
    put(others, {"m1": "other"})
    instance = instances.start(_topology(*topics), config)
    first = Counter({("k0", "inner l/r"): 1, ("k0", "left l/r"): 1})
    eventually(lambda: results() == first)
    assert instance.close()
    shutil.rmtree(config.state_dir)

    put(right, {"k1": "r"})
    put(rows, {"k0": "1 late", "j1": "1 late"}, -1_000)
    put(others, {"1": "one"})
    instance = instances.start(_topology(*topics), config)
    second = first + Counter({("k1", "inner l/r"): 1, ("k1", "left l/r"): 1})
    # A late row joins nothing by foreign key; the rows that are the latest do.
    for key, row in (("k0", "1 too new"), ("k1", "1 too new"), ("m0", "1 row"), ("j1", "1 late")):
        second[(key, f"foreign {row}/one")] = 1
    eventually(lambda: results() == second)
    last = second + Counter({("k0", "table l/1 late"): 1, ("j1", "table l/1 late"): 1})
    last += Counter({(key, "left l/-"): 1 for key in ("j0", "j1")})
    at = 0

    def complete() -> bool:
        nonlocal at
        at += 200_000
        put(left, {"end0": "x", "end1": "x"}, at)
        time.sleep(1)  # a record makes the join look for waiting rows, at most once in a second
        return results().total() >= last.total()

    eventually(complete)
    assert instance.close()
    assert results() == last


def test_rows_that_change_faster_than_their_partners_answer_keep_no_result_of_before(
    kafka: Kafka, instances: Instances
) -> None:
    """Kafka Streams keeps it for ever: the answer that would end the result comes when the row is another one,
    and that one asks only for a partner that there is."""
    rows, others, sink = (kafka.create_topic(name) for name in ("rows", "others", "joined"))
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table(rows, _READ, Materialized("left", _TEXT, _TEXT))
    right: KTable[str, str] = builder.table(others, _READ)
    joined = left.join(right, lambda row: None if row == "none" else row[0], lambda a, b: f"{a}/{b}")
    joined.to_stream().to(sink, Produced(_TEXT, _TEXT))
    config = instances.config(processing_guarantee="exactly_once")

    def results() -> dict[str, str | None]:
        return {
            (each.key() or b"").decode(): None if (value := each.value()) is None else value.decode()
            for each in kafka.read(sink)
        }

    produce(kafka, others, [(b"a", b"A", 1_000)])
    produce(kafka, rows, [(key.encode(), b"a1", 1_000) for key in HURRIED])
    instance = instances.start(builder.build(), config)
    eventually(lambda: results() == dict.fromkeys(HURRIED, "a1/A"))
    assert instance.close()

    changes = [(key.encode(), value) for key, values in HURRIED.items() for value in values]
    produce(kafka, rows, [(key, None if value is None else value.encode(), 2_000) for key, value in changes])
    instances.start(builder.build(), config)

    kept = {"of the same partner": "a2/A", "back": "a1/A"}
    eventually(lambda: {key: value for key, value in results().items() if value is not None} == kept)
