"""An application whose stores keep headers (KIP-1271, KIP-1285) changes hands: it loses none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from instances import Instances, eventually
from jvm import Jvm
from kafka_cluster import Kafka
from killable import headed_rows
from streamsapp.record import Headers

#: The beginning of this hour, in milliseconds: brokers remove old records from the changelogs of windows.
HOUR = int(time.time() // 3_600) * 3_600_000


class _Story:
    """Rows and questions, and the answers there have to be."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.rows, self.questions = kafka.create_topic("rows", 1), kafka.create_topic("questions", 1)
        self.answers = kafka.create_topic("answers", 1)
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        self._expected: list[str] = []

    def write(self, key: str, value: str | None, timestamp: int, headers: Headers) -> None:
        self._produce(self.rows, key, value, timestamp, headers)

    def ask(self, key: str, question: str, timestamp: int, answer: str) -> None:
        self._produce(self.questions, key, question, timestamp, [("from", question.encode())])
        self._expected.append(f"{question}: {answer}")
        eventually(lambda: self._told() == self._expected)

    def changelog(self, topic: str) -> list[tuple[bytes | None, bytes | None, int, Headers]]:
        read = self._kafka.read(topic)
        return [(each.key(), each.value(), each.timestamp()[1], list(each.headers() or ())) for each in read]  # type: ignore[arg-type]

    def _told(self) -> list[str]:
        return [(message.value() or b"").decode() for message in self._kafka.read(self.answers)]

    def _produce(self, topic: str, key: str, value: str | None, timestamp: int, headers: Headers) -> None:
        self._producer.produce(topic, key=key, value=value, timestamp=timestamp, headers=list(headers))
        assert self._producer.flush(30) == 0


@pytest.mark.parametrize("state", ["wiped", pytest.param("kept", marks=pytest.mark.long)])
def test_no_header_in_a_store_is_lost_while_an_application_goes_to_the_jvm_and_comes_back(
    kafka: Kafka, instances: Instances, start_jvm: Callable[..., Jvm], state: str
) -> None:
    story = _Story(kafka)
    topics = story.rows, story.questions, story.answers
    config = instances.config(dsl_store_format="headers", processing_guarantee="at_least_once", commit_interval_ms=100)
    application = config.application_id

    theirs = start_jvm(topics, config, "Headed", {"dsl.store.format": "HEADERS"})
    assert theirs.description == headed_rows(*topics).describe().to_text()
    story.write("a", "first", HOUR + 1_000, [("x", b"1"), ("x", None)])
    story.write("b", "second", HOUR + 2_000, [])
    story.write("c", "third", HOUR + 3_000, [("gone", b"1")])
    story.write("c", None, HOUR + 3_500, [("gone", b"2")])
    story.ask("a", "q1", HOUR + 9_000, f"first@{HOUR + 1_000} x=1 x=null")
    theirs.close()

    ours = instances.start(headed_rows(*topics), config)
    story.ask("a", "q2", HOUR + 9_100, f"first@{HOUR + 1_000} x=1 x=null")
    story.ask("b", "q3", HOUR + 9_200, f"second@{HOUR + 2_000}")
    story.ask("c", "q4", HOUR + 9_300, "none")
    story.write("b", "again", HOUR + 4_000, [("y", b"2")])
    story.write("d", "gone", HOUR + 5_000, [("z", b"3")])
    story.write("d", None, HOUR + 5_500, [("z", b"4")])
    story.ask("b", "q5", HOUR + 9_400, f"again@{HOUR + 4_000} y=2")
    assert ours.close()

    theirs = start_jvm(topics, config, "Headed", {"dsl.store.format": "HEADERS"})
    story.ask("a", "q6", HOUR + 9_500, f"first@{HOUR + 1_000} x=1 x=null")
    story.ask("b", "q7", HOUR + 9_600, f"again@{HOUR + 4_000} y=2")
    theirs.close()

    if state == "wiped":
        shutil.rmtree(config.state_dir)
    ours = instances.start(headed_rows(*topics), config)
    story.ask("b", "q8", HOUR + 9_700, f"again@{HOUR + 4_000} y=2")
    assert ours.close()

    _check(
        story.changelog(f"{application}-rows-changelog"),
        [
            (b"a", b"first", HOUR + 1_000, [("x", b"1"), ("x", None)]),
            (b"b", b"second", HOUR + 2_000, []),
            (b"c", b"third", HOUR + 3_000, [("gone", b"1")]),
            (b"c", None, HOUR + 3_500, [("gone", b"2")]),
            (b"b", b"again", HOUR + 4_000, [("y", b"2")]),
            (b"d", b"gone", HOUR + 5_000, [("z", b"3")]),
            (b"d", None, HOUR + 5_500, [("z", b"4")]),
        ],
    )
    # Kafka Streams 4.4 keeps no headers of windows (docs/departures.md): those of its four questions are not there.
    changes = story.changelog(f"{application}-counts-changelog")
    of_ours = {HOUR + 9_000 + 100 * at: [("from", f"q{at + 1}".encode())] for at in (1, 2, 3, 4, 7)}
    assert {time: headers for *_, time, headers in changes if time in of_ours and headers}.items() <= of_ours.items()
    last = {key: (int.from_bytes(value or b""), headers) for key, value, _, headers in changes}
    assert sorted(count for count, _ in last.values()) == [1, 3, 4]
    assert [("from", b"q8")] in [headers for _, headers in last.values()]


def _check(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    """A commit may leave out records that a later one of it overwrites."""
    assert found == [each for each in wanted if each in found]
    assert {each[0]: each for each in found} == {each[0]: each for each in wanted}
