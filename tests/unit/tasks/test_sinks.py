"""From nodes to topics: sinks, sinks whose topic is chosen per record, and partitioners."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

import pytest

from streamsapp import (
    Serdes,
    Topology,
)
from streamsapp.errors import ProcessingError, SerializationError, TopologyError
from streamsapp.processor.api import StreamPartitioner
from streamsapp.record import Headers, RecordMetadata
from streamsapp.serdes.api import Serde
from streamsapp.serdes.windowed import Windowed, session_windowed, time_windowed
from streamsapp.tasks.sink_bytes import giving_bytes
from task_parts import config, raw, sent, through, topics


def test_a_sink_keeps_key_value_timestamp_and_headers() -> None:
    record = raw(0, 5, key=b"a", value=b"b", headers=[("h", b"1")])

    assert sent(through(), record) == [("out", b"b", b"a", -1, None, None, 5, [("h", b"1")])]


class Topics(str, Enum):  # noqa: UP042 - prints as something else than its text, as a StrEnum does not
    IN = "in"
    OUT = "out"


def test_topics_may_be_members_of_enumerations() -> None:
    chosen = Topology().add_source("source", Topics.IN).add_sink("sink", lambda *_: Topics.OUT, "source")
    for topology in (Topology().add_source("source", Topics.IN).add_sink("sink", Topics.OUT, "source"), chosen):
        ((topic, *_),) = sent(topology)
        assert (topic, type(topic)) == ("out", str)
        assert "Topics" not in str(topology.describe())


def test_null_keys_and_values_are_written_as_nulls() -> None:
    assert sent(through(), raw(0, 5, key=None, value=None)) == [("out", None, None, -1, None, None, 5, None)]


def test_a_value_the_sinks_serde_cannot_write_goes_to_the_production_handler() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source", value_serializer=Serdes.long())

    with pytest.raises(SerializationError, match="cannot serialise the value of a record for topic out at node sink"):
        sent(topology)
    assert sent(topology, settings=config(production_exception_handler="continue")) == []


def test_a_header_whose_name_utf_8_cannot_express_goes_to_the_production_handler_and_not_to_the_client() -> None:
    record = raw(0, 5, headers=[("plain", b"1"), ("\ud800", b"1")])

    with pytest.raises(SerializationError, match=r"header '\\ud800'"):
        sent(through(), record)
    assert sent(through(), record, settings=config(production_exception_handler="continue")) == []


def partitioned(partitioner: StreamPartitioner) -> Topology:
    return Topology().add_source("source", "in").add_sink("sink", "out", "source", partitioner=partitioner)


def test_a_partitioner_chooses_among_the_partitions_the_topic_has() -> None:
    told = []

    def partitioner(topic: str, key: str, value: str, count: int) -> int:
        told.append((topic, key, value, count))
        return 3

    ((_, _, _, partition, *_),) = sent(partitioned(partitioner))

    assert partition == 3
    assert told == [("out", "k", "v", 4)]


def test_a_partitioner_that_gives_none_leaves_the_choice_to_the_keys_hash() -> None:
    ((_, _, _, partition, *_),) = sent(partitioned(lambda topic, key, value, count: None))

    assert partition == -1


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_partition_the_topic_does_not_have_is_refused(wrong: int) -> None:
    for chosen in (wrong, {0, wrong}):
        with pytest.raises(ProcessingError, match=f"chose partition {wrong} of topic out, which has 4"):
            sent(partitioned(lambda topic, key, value, count, chosen=chosen: chosen))


def test_a_partitioner_sends_a_record_to_each_partition_that_it_chooses() -> None:
    def partitioner(topic: str, key: str, value: str, count: int) -> set[int]:
        return {"all": set(range(count)), "two": {3, 1}}.get(value, set())

    out = sent(partitioned(partitioner), raw(0, value=b"all"), raw(1, value=b"none"), raw(2, value=b"two"))

    assert [partition for _, _, _, partition, *_ in out] == [0, 1, 2, 3, 1, 3]
    assert [value for _, value, *_ in out] == [*[b"all"] * 4, b"two", b"two"]


class Index:
    """A whole number that is no ``int``, as numpy's are."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


@pytest.mark.parametrize("chosen", [Index(2), [Index(2)], {Index(2), 2}, iter([2])])
def test_a_partition_is_whatever_python_takes_for_an_index(chosen: Any) -> None:
    ((_, _, _, partition, *_),) = sent(partitioned(lambda topic, key, value, count: chosen))

    assert type(partition) is int
    assert partition == 2


@pytest.mark.parametrize("chosen", [0.0, [0.0], "0", b"\0", [None]])
def test_the_handler_for_user_code_is_asked_about_a_choice_that_is_no_partition(chosen: Any) -> None:
    topology = partitioned(lambda topic, key, value, count: chosen)

    with pytest.raises(ProcessingError, match="TypeError at node sink") as failure:
        sent(topology)
    assert f"the partitioner chose {chosen!r} of topic out; return the number of a partition" in str(failure.value)
    assert sent(topology, settings=config(processing_exception_handler="continue")) == []


def test_a_record_whose_partitioner_fails_is_dropped_where_the_handler_for_user_code_says_so() -> None:
    def partitioner(topic: str, key: str, value: str, count: int) -> int:
        return int(value)

    records = raw(0, value=b"x"), raw(1, value=b"2")
    with pytest.raises(ProcessingError, match="ValueError at node sink"):
        sent(partitioned(partitioner), *records)
    out = sent(partitioned(partitioner), *records, settings=config(processing_exception_handler="continue"))
    assert [partition for _, _, _, partition, *_ in out] == [2]


def test_a_partitioner_of_five_arguments_is_given_the_headers_of_a_record() -> None:
    def partitioner(topic: str, key: str, value: str, headers: Headers, count: int) -> int | set[int]:
        return int(dict(headers)["to"] or b"0") % count if headers else set()

    records = raw(0, value=b"x", headers=[("to", b"3")]), raw(1, value=b"y"), raw(2, value=b"z", headers=[("to", b"5")])
    out = sent(partitioned(partitioner), *records)
    assert [(value, partition) for _, value, _, partition, *_ in out] == [(b"x", 3), (b"z", 1)]


def test_a_partitioner_that_can_be_called_with_four_arguments_is_given_no_headers() -> None:
    told: list[tuple[Any, ...]] = []

    def partitioner(*asked: Any) -> None:
        told.append(asked)

    sent(partitioned(partitioner), raw(0, headers=[("to", b"3")]))
    sent(partitioned(lambda topic, key, value, count, to=2: told.append((topic, to))), raw(0, headers=[("to", b"3")]))
    assert told == [("out", "k", "v", 4), ("out", 2)]


async def _later(topic: str, key: str, value: str, count: int) -> int:
    return 0


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (
            lambda key: 0,
            r"is called with \(topic, key, value, partitions\) or with .*, headers, .* takes neither",
        ),
        (3, r"must be a function of \(topic, key, value, partitions\), got 3"),
        (_later, "is a coroutine, which is never awaited; write it without async"),
    ],
)
def test_a_partitioner_that_cannot_be_called_is_refused_where_it_is_added(wrong: Any, fault: str) -> None:
    with pytest.raises(TopologyError, match=f"^partitioner of sink sink {fault}"):
        partitioned(wrong)


def test_a_topic_extractor_sends_each_record_to_the_topic_it_names() -> None:
    def extractor(key: str, value: str, metadata: RecordMetadata | None) -> str:
        assert metadata is not None
        return f"{value}-{metadata.topic}-{metadata.offset}"

    topology = Topology().add_source("source", "in").add_sink("sink", extractor, "source")

    assert topics(sent(topology, raw(0, value=b"x"), raw(1, value=b"y"))) == ["x-in-0", "y-in-1"]


def test_a_topic_extractor_that_names_no_topic_fails_the_record() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", lambda k, v, m: None, "source")  # type: ignore[arg-type,return-value]

    with pytest.raises(ProcessingError, match="extractor of sink: None is not the name of a topic"):
        sent(topology)


@pytest.mark.parametrize(
    ("given", "written"),
    [(bytearray(b"a"), b"a"), (memoryview(b"a"), b"a"), ("ä", "ä".encode()), (b"a", b"a"), (None, None)],
)
@pytest.mark.parametrize("partitioner", [None, lambda *_: 0])
def test_what_a_serializer_gives_is_written_as_bytes(given: Any, written: bytes | None, partitioner: Any) -> None:
    serde = Serdes.of(lambda _: given, bytes.decode)
    topology = Topology().add_source("source", "in")
    topology.add_sink("sink", "out", "source", key_serializer=serde, value_serializer=serde, partitioner=partitioner)

    ((_, value, key, *_),) = sent(topology)

    assert (key, value) == (written, written)
    assert {type(key), type(value)} == {type(written)}


@pytest.mark.parametrize("wrap", [partial(time_windowed, size=10), session_windowed])
def test_bytes_that_wrap_those_of_a_serializer_are_written_as_bytes(wrap: Any) -> None:
    of_any: Any = Serdes.of
    inner = of_any(lambda text: bytearray(text.encode()), bytes.decode)
    key = wrap(inner).serialize(Windowed("a", 5, 15))
    topology = Topology().add_source("source", "in", key_deserializer=wrap(Serdes.string()))
    topology.add_sink("sink", "out", "source", key_serializer=wrap(inner))

    ((_, _, written, *_),) = sent(topology, raw(0, 5, key=bytes(key)))

    assert (type(written), written) == (bytes, key)


@pytest.mark.parametrize("given", [3, "\ud800", {"a": 1}])
@pytest.mark.parametrize("part", ["key_serializer", "value_serializer"])
def test_what_is_no_bytes_goes_to_the_production_handler_and_not_to_the_client(given: Any, part: str) -> None:
    parts: Any = {part: Serdes.of(lambda _: given, bytes.decode)}
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source", **parts)

    side = part.removesuffix("_serializer")
    with pytest.raises(SerializationError, match=f"cannot serialise the {side} of a record for topic out at node sink"):
        sent(topology)
    assert sent(topology, settings=config(production_exception_handler="continue")) == []


@pytest.mark.parametrize("header", [("h", 3), ("h", {}), ("h", "\ud800"), (b"h", b"1"), ("h",), ["h", b"1"]])
def test_a_header_that_cannot_be_written_goes_to_the_production_handler(header: Any) -> None:
    record = raw(0, 5, headers=[("plain", b"1"), header])

    with pytest.raises(SerializationError, match="for topic out at node sink"):
        sent(through(), record)
    assert sent(through(), record, settings=config(production_exception_handler="continue")) == []


def test_the_librarys_own_serializers_are_called_without_a_detour() -> None:
    own: list[Serde[Any]] = [
        Serdes.string(),
        Serdes.long(),
        Serdes.json(),
        Serdes.msgpack(),
        Serdes.json(dict),
        Serdes.bytes(),
    ]
    assert [giving_bytes(serde) for serde in own] == [serde.serialize for serde in own]
