"""``Session``: fed, tapped, read, replaced and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from streamsapp import (
    Branched,
    Consumed,
    Grouped,
    Materialized,
    Named,
    Produced,
    Record,
    Serdes,
    Session,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    Windowed,
)
from streamsapp.errors import SerializationError, TopologyError, UserInputError
from streamsapp.state.kinds.versioned import VersionedRecord
from streamsapp.testing.call_charts import CALLS

TEXT, LONG = Serdes.string(), Serdes.long()


def counting(sink: str = "totals", factor: int = 1) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(TEXT, TEXT))
    counts = words.group_by(lambda key, value: value, Grouped("by-word", TEXT, TEXT)).count(Materialized("counts"))
    many = counts.to_stream(Named("as-stream")).map_values(lambda count: count * factor, Named("times"))
    many.to(sink, Produced(TEXT, LONG))
    return builder.build()


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(counting()) as it:
        yield it


def pairs(records: list[Record]) -> list[tuple[object, object]]:
    return [(record.key, record.value) for record in records]


def test_records_are_fed_and_results_told_once(session: Session) -> None:
    session.feed("words", ("jane", "a"), Record("joe", "a", 5), ("jim", "b"))
    assert pairs(session.results("totals")) == [("a", 1), ("a", 2), ("b", 1)]
    assert session.results("totals") == []
    session.feed("words", ("jane", "b"))
    assert pairs(session.results("totals")) == [("b", 2)]
    assert list(session.store("counts").all()) == [("a", 2), ("b", 2)]


def test_every_node_is_tapped(session: Session) -> None:
    session.feed("words", ("jane", "a"), Record("joe", "b", 5))
    assert pairs(session.tap("KSTREAM-SOURCE-0000000000")) == [("jane", "a"), ("joe", "b")]
    assert session.tap("KSTREAM-SOURCE-0000000000", last=1) == [Record("joe", "b", 5)]
    assert pairs(session.tap("as-stream")) == [("a", 1), ("b", 1)]
    with pytest.raises(TopologyError, match="there is no node 'sink' to tap; there are: KSTREAM-SOURCE-0000000000, "):
        session.tap("sink")


def test_another_topology_goes_on_with_the_state_there_is(session: Session) -> None:
    session.feed("words", ("jane", "a"), ("joe", "a"))
    assert session.replace(counting(factor=100)) == ["state is kept: counts"]
    session.feed("words", ("jim", "a"))
    assert pairs(session.results("totals")) == [("a", 1), ("a", 2), ("a", 300)]
    session.replace(counting("others"))
    session.feed("words", ("jim", "a"))
    assert pairs(session.results("others")) == [("a", 4)]
    assert session.store("counts").get("a") == 4


def test_state_of_every_kind_goes_on() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        rows = builder.stream("in", Consumed(TEXT, LONG))
        grouped = rows.group_by_key()
        grouped.windowed_by(TimeWindows.of(10)).count(Materialized("windows"))
        grouped.windowed_by(SessionWindows.of(5)).count(Materialized("sessions"))
        rows.to_table(Materialized("versions", TEXT, LONG, versioned=100))
        return builder.build()

    with Session(topology()) as it:
        it.feed("in", Record("a", 1, 12))
        assert it.replace(topology()) == ["state is kept: sessions, versions, windows"]
        it.feed("in", Record("a", 2, 14))
        assert it.store("windows").fetch("a", 10) == 2
        assert list(it.store("sessions").fetch("a")) == [(Windowed("a", 12, 14), 2)]
        assert it.store("versions").get("a", 13) == VersionedRecord(1, 12, 14)


def test_what_does_not_fit_is_refused_and_the_old_one_goes_on(session: Session) -> None:
    session.feed("words", ("jane", "a"))
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(TEXT, TEXT))
    words.group_by_key().windowed_by(TimeWindows.of(10)).count(Materialized("counts"))
    with pytest.raises(TopologyError, match=r"store counts was of type .*give it another name, or begin a new Session"):
        session.replace(builder)
    with pytest.raises(TopologyError, match="the topology reads nothing"):
        session.replace(StreamsBuilder())
    session.feed("words", ("jane", "a"))
    assert pairs(session.results("totals")) == [("a", 1), ("a", 2)]


def test_what_begins_empty_is_told() -> None:
    def topology(logged: bool) -> Topology:
        builder = StreamsBuilder()
        counts = Materialized[str, int]("counts", logging=logged)
        builder.stream("words", Consumed(TEXT, TEXT)).group_by_key().count(counts)
        builder.global_table("names", Consumed(TEXT, TEXT), Materialized("names"))
        return builder.build()

    with Session(topology(logged=True)) as it:
        it.feed("names", ("a", "Ada"))
        it.feed("words", ("a", "x"))
        assert it.store("names").get("a") == "Ada"
        assert it.replace(topology(logged=False)) == [
            "store counts begins empty: it has no changelog of its own",
            "global store names begins empty: feed its topic again",
        ]
        assert it.store("counts").get("a") is None


def test_mistakes_are_told_and_the_session_goes_on(session: Session) -> None:
    with pytest.raises(TopologyError, match="no source of the topology reads topic word; it reads: "):
        session.feed("word", ("jane", "a"))
    with pytest.raises(
        SerializationError, match="record 2: topic words: the value 5 is of type int, which its value s"
    ):
        session.feed("words", ("jane", "a"), ("joe", 5))
    assert pairs(session.results("totals")) == [("a", 1)]
    with pytest.raises(KeyError, match="no store 'absent'; it has: counts"):
        session.store("absent")
    with pytest.raises(TopologyError, match=r"never writes topic total; it writes: .*; did you mean 'totals'"):
        session.results("total")
    with pytest.raises(TopologyError, match=r"no node 'time' to tap; there are: .*; did you mean 'times'"):
        session.tap("time")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([("a", "b")], r"a list of 1: \[\('a', 'b'\)\], not a pair of key and value or a Record; .*\*records"),
        ([("a", "b"), ("c", "d")], r"a list of 2: .* with a star"),
        (("a", "b", "c"), r"a tuple of 3: \('a', 'b', 'c'\), not a pair"),
        ("ab", "a str: 'ab', not a pair"),
        ({"key": "a"}, "a dict: "),
    ],
)
def test_what_is_no_record_is_refused_by_its_number(session: Session, given: Any, told: str) -> None:
    with pytest.raises(UserInputError, match=f"record 2 of topic words is {told}"):
        session.feed("words", ("jane", "a"), given)
    assert pairs(session.results("totals")) == [("a", 1)]


def test_time_stands_still_until_it_is_moved() -> None:
    with Session(counting()) as it:
        it.feed("words", ("jane", "a"))
        it.advance(timedelta(minutes=1))
        it.feed("words", ("jane", "a"))
        first, second = it.results("totals")
        assert second.timestamp - first.timestamp == 60_000


def test_branches_are_tapped_where_records_come_out() -> None:
    builder = StreamsBuilder()
    split = builder.stream("in", Consumed(TEXT, LONG)).split(Named("by-"))
    split.branch(lambda key, value: value > 1, Branched("many")).default_branch(Branched("few"))
    with Session(builder) as it:
        it.feed("in", ("a", 1), ("b", 2))
        assert pairs(it.tap("by-many")) == [("b", 2)]
        assert pairs(it.tap("by-few")) == [("a", 1)]


def test_it_is_drawn_as_one_well_formed_picture(session: Session) -> None:
    space = {"svg": "http://www.w3.org/2000/svg"}
    picture = ET.fromstring(session._repr_html_()).find("div/svg:svg", space)  # noqa: S314 - our own
    assert picture is not None
    names = {text.text for text in picture.findall(".//svg:text", space)}
    assert {"words", "KSTREAM-SOURCE-0000000000", "by-word-repartition", "counts", "as-stream", "totals"} <= names
    boxes = [
        tuple(float(each.get(side, "0")) for side in ("x", "y", "width", "height"))
        for each in picture.findall(".//svg:rect", space)
    ]
    for number, (x, y, width, height) in enumerate(boxes):
        assert x + width <= float(picture.get("width", "0"))
        assert y + height <= float(picture.get("height", "0"))
        assert not any(y == other[1] and x < other[0] + other[2] and other[0] < x + width for other in boxes[:number])


def charts(session: Session) -> list[str]:
    space = {"svg": "http://www.w3.org/2000/svg"}
    found = ET.fromstring(session._repr_html_()).findall("div/svg:svg", space)  # noqa: S314 - our own
    return [each.get("aria-label", "") for each in found if each.get("aria-label") != "topology"]


def test_its_calls_are_drawn_as_charts_without_a_script() -> None:
    with Session(counting()) as it:
        assert charts(it) == []
        it.feed("words", ("jane", "tea"), ("joe", "tea"))
        it.feed("words", ("jane", "<tea>"))
        it.advance(timedelta(minutes=5))
        fed, rate, results, dropped, lateness = charts(it)
        assert fed == "Records fed of the last 3 calls: last 0, highest 2"
        assert rate.startswith("Processed of the last 3 calls: last not known, highest ")
        assert results == "Results of the last 3 calls: last 0, highest 2"
        assert dropped == "Dropped of the last 3 calls: last 0, highest 0"
        assert lateness == "Lateness, average of the last 3 calls: last not known, highest 0 ms"
        assert "<script" not in it._repr_html_()
        assert "http" not in it._repr_html_().replace("http://www.w3.org/2000/svg", "")


def test_the_charts_have_the_last_calls_and_no_more() -> None:
    with Session(counting()) as it:
        for _ in range(CALLS + 5):
            it.advance(timedelta(milliseconds=1))
        assert charts(it)[0] == f"Records fed of the last {CALLS} calls: last 0, highest 0"


def test_names_cannot_break_the_picture_and_a_circle_is_drawn() -> None:
    topology = Topology().add_source("<script>", "in").add_sink("& out", "in", "<script>")
    picture = topology.describe().to_svg()
    assert ET.fromstring(picture) is not None  # noqa: S314 - our own
    assert "<script" not in picture


def test_it_reads_as_kafka_streams_describes_it(session: Session) -> None:
    assert repr(session) == str(counting().describe())
