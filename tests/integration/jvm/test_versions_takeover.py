"""An application changes hands while records wait for late versions of a table, and sessions for more records."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable

import pytest

from instances import Instances, eventually, produce, values_per_key
from jvm import Jvm
from kafka_cluster import Kafka
from streamsapp import (
    Consumed,
    Joined,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    Topology,
)

PARTITIONS = 2
_KEYS = [f"k{number}" for number in range(12)]
_TEXT = Serdes.string()


def waits(events: str, rows: str, seen: str, visitors: str, visits: str) -> Topology:
    """Events with what their row was at their time, a minute later; and the visitors of each session, 100 seconds
    after they came."""
    builder = StreamsBuilder()
    stream = builder.stream(events, Consumed(_TEXT, _TEXT))
    table = builder.table(rows, Consumed(_TEXT, _TEXT), Materialized("versions", _TEXT, _TEXT, versioned=3_600_000))
    joined = stream.join(table, lambda event, row: f"{event}/{row}", Joined("seen", _TEXT, _TEXT, _TEXT, grace=60_000))
    joined.to(seen, Produced(_TEXT, _TEXT))
    visited = builder.stream(visitors, Consumed(_TEXT, _TEXT)).group_by_key()
    sessions = visited.windowed_by(SessionWindows.of(70_000)).count(Materialized("visits", _TEXT))
    calm = sessions.suppress(Suppressed.until_time_limit(100_000).with_name("calm"))
    named = calm.to_stream(lambda session, _: f"{session.key}@{session.start_ms}-{session.end_ms}")
    named.to(visits, Produced(_TEXT, Serdes.long()))
    return builder.build()


class Waits:
    """The topics of the program, and what is written to them."""

    def __init__(self, kafka: Kafka, config: StreamsConfig) -> None:
        self._kafka = kafka
        self._group = config.application_id
        names = ("events", "rows", "seen", "visitors", "visits")
        self.topics = tuple(kafka.create_topic(name, PARTITIONS) for name in names)
        self.events, self.rows, self._seen, self.visitors, self._visits = self.topics
        # Not long ago: the broker deletes what the changelog of sessions has of 1970.
        self.begun = (int(time.time()) - 3600) * 1000
        self._written: Counter[str] = Counter()

    def put(self, topic: str, value: str, second: int, keys: list[str] = _KEYS) -> None:
        """Write one value for every key."""
        at = self.begun + second * 1000
        produce(self._kafka, topic, [(key.encode(), value.encode(), at) for key in keys])
        self._written[topic] += len(keys)

    def is_processed(self) -> bool:
        """Says whether everything that was written is committed."""
        return all(
            sum(offset for offset, _ in self._kafka.committed(self._group, topic).values()) == written
            for topic, written in self._written.items()
        )

    def seen(self) -> dict[bytes, list[bytes | None]]:
        """Returns what was sent of each key's events."""
        return values_per_key(self._kafka.read(self._seen))

    def visits(self) -> dict[bytes, list[bytes | None]]:
        """Returns what was sent of each session."""
        return values_per_key(self._kafka.read(self._visits))

    def session(self, key: str, first: int, last: int) -> bytes:
        """The name of a key's session between two seconds."""
        return f"{key}@{self.begun + first * 1000}-{self.begun + last * 1000}".encode()


@pytest.mark.long
def test_versions_and_sessions_that_wait_survive_a_takeover_by_the_jvm_and_back(
    kafka: Kafka, instances: Instances, start_jvm: Callable[..., Jvm]
) -> None:
    config = instances.config(processing_guarantee="exactly_once")
    run = Waits(kafka, config)
    topology = waits(*run.topics)
    others = [f"other{number}" for number in range(20)]

    ours = instances.start(topology, config)
    run.put(run.rows, "first", 0)
    run.put(run.visitors, "v10", 10)
    eventually(run.is_processed)
    assert ours.close()
    assert run.visits() == {}

    theirs = start_jvm(run.topics, config, "Waits")
    assert theirs.description == topology.describe().to_text()
    run.put(run.rows, "late", 5)
    run.put(run.rows, "future", 200)
    eventually(lambda: theirs.assert_running() and run.is_processed())
    # Events wait only from here on: Kafka Streams restores no record that waits (docs/departures.md).
    for at in (2, 10, 75):
        run.put(run.events, f"e{at}", at)
    run.put(run.visitors, "v75", 75)
    run.put(run.visitors, "v115", 115, others)
    eventually(lambda: theirs.assert_running() and run.is_processed())
    theirs.close()
    assert run.seen() == {key.encode(): [b"e2/first", b"e10/late"] for key in _KEYS}
    # The first visit's session became part of a longer one, which waits.
    gone = {run.session(key, 10, 10): [None] for key in _KEYS}
    assert run.visits() == gone

    shutil.rmtree(config.state_dir)
    ours = instances.start(waits(*run.topics), config)
    run.put(run.rows, "later", 50)
    eventually(run.is_processed)
    for topic in (run.events, run.visitors):
        run.put(topic, "e140", 140)
        run.put(topic, "end", 1000, [f"end{number}" for number in range(20)])
    eventually(run.is_processed)
    assert ours.close()
    joined = [b"e2/first", b"e10/late", b"e75/later", b"e140/later"]
    assert run.seen() == {key.encode(): joined for key in _KEYS}
    gone |= {run.session(key, 10, 75): [None] for key in _KEYS}
    three = {run.session(key, 10, 140): [(3).to_bytes(8, "big")] for key in _KEYS}
    one = {run.session(key, 115, 115): [(1).to_bytes(8, "big")] for key in others}
    assert run.visits() == {**gone, **three, **one}
