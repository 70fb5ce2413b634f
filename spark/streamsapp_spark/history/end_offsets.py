"""Fixes the part of the topics that is history: from the first record up to offsets that are fixed once.

Runs on the driver. ``--until`` is ``latest``, or JSON or a file of it, in the form of Spark's
Kafka connector: ``{"topic": {"0": 1200, "1": -1}}``, -1 for the end, -2 for the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ManifestError, TopicError
from streamsapp.kafka.admin import Admin
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.retry import repeated
from streamsapp.manifest.history_end import BEGINNING, END, LATEST
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import HistoryRange

_TIMEOUT = 30.0
_PARTITION = re.compile(r"[0-9]{1,9}")

log = client_log(__name__)


class PartitionOffsets:
    """The offsets at which partitions begin and end now."""

    def __init__(self, config: StreamsConfig, partitions: Collection[TopicPartition]) -> None:
        self._isolation = IsolationLevel.READ_COMMITTED if config.exactly_once else IsolationLevel.READ_UNCOMMITTED
        self._admin = Admin(client_properties.admin(config), logger=log)
        self.lows = self._ask(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        #: Up to where the application can read: under exactly once, before the first open transaction.
        self.highs = self._ask(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def since(self, time_ms: int) -> dict[TopicPartition, int]:
        """Returns the offsets of the first records that are not before a time, in milliseconds since 1970; where there
        are none, the ends."""
        found = self._ask(self.lows.keys(), OffsetSpec.for_timestamp(time_ms), all_have_one=False)
        return {each: offset if offset >= 0 else self.highs[each] for each, offset in found.items()}

    def _ask(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec, *, all_have_one: bool = True
    ) -> dict[TopicPartition, int]:
        asked = {KafkaPartition(*each): spec for each in partitions}

        def request() -> dict[TopicPartition, int]:
            answers = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=_TIMEOUT)
            found = {
                TopicPartition(partition.topic, partition.partition): answer.result(2 * _TIMEOUT).offset
                for partition, answer in answers.items()
            }
            if all_have_one and any(offset < 0 for offset in found.values()):
                # A client that was cut off may answer without an offset and without an error.
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no offset was given"))
            return found

        try:
            return repeated(request, "looking up where topics begin and end")
        except KafkaException as error:
            named = ", ".join(sorted({each.topic for each in partitions}))
            raise TopicError(f"cannot read the offsets of {named}: {error.args[0].str()}") from error


def ranges(bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
    """Returns the history of each partition; everything in ``until`` that does not fit is reported."""
    wanted = {} if until == LATEST else _wanted(until, bounds.highs)
    made = []
    for partition, high in sorted(bounds.highs.items()):
        low = bounds.lows[partition]
        end = wanted.get(partition, END)
        end = high if end == END else low if end == BEGINNING else end
        if not low <= end <= high:
            raise ManifestError(
                [f"--until: {end} is not an offset of {partition}, which has the offsets {low} to {high}"]
            )
        made.append(HistoryRange(*partition, low, end))
    return tuple(made)


def refuse_other(fixed: Collection[HistoryRange], until: str, since: str) -> None:
    """Refuses other offsets than those of a bootstrap that was begun, which are fixed; raises ``ManifestError`` if
    ``until`` asks for others. ``since`` says when they were fixed. An end means the offsets that were fixed then."""
    if until == LATEST:
        return
    wanted = _wanted(until, {each.of: each.until for each in fixed})
    for each in fixed:
        end = each.start if wanted[each.of] == BEGINNING else wanted[each.of]
        if end not in (END, each.until):
            differs = f"{end} for {each.of}, and the bootstrap {since} with offset {each.until}"
            again = "start again from nothing with `streamsapp reset`, then `streamsapp bootstrap`"
            raise ManifestError([f"--until: {differs}; leave it out, or {again}"])


def _wanted(until: str, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    try:
        text = until.encode() if until.lstrip().startswith("{") else Path(until).read_bytes()
        document: Any = msgspec.json.decode(text, type=dict[str, dict[str, int]])
    except (OSError, ValueError) as error:  # a file, or no JSON, no UTF-8, or no name that a file could have
        raise ManifestError(
            [f'--until: expected \'latest\' or a file such as {{"topic": {{"0": 1200}}}}; {until}: {error}']
        ) from error
    for topic, of_topic in document.items():
        for number in of_topic:
            if not _PARTITION.fullmatch(number):
                raise ManifestError(
                    [f"--until: {number!r:.60} of topic {topic} is not a partition; partitions are numbers"]
                )
    found = {
        TopicPartition(topic, int(number)): offset
        for topic, of_topic in document.items()
        for number, offset in of_topic.items()
    }
    for partition in sorted(found.keys() - known.keys()):
        raise ManifestError([f"--until: {partition} is not an input of the application; it reads: {_named(known)}"])
    for partition in sorted(known.keys() - found.keys()):
        raise ManifestError([f"--until: {partition} is missing; -1 stands for its end"])
    return found


def _named(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
