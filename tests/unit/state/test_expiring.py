"""Stores with a time to live: against a dictionary with times, on both engines, through commits, reverts, restarts and
restores."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from streamsapp import Serdes, TaskId
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.builders import KeyValueStoreSupplier, Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.expiring import ExpiringStoreImpl
from streamsapp.state.kinds.expiry import _KEPT, _READ, EXPIRES_AT, PLACE
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.expiry import EntryExpiry
from streamsapp.tasks.record_queue import ProcessingControl

ENGINES = [Engine.MEMORY, Engine.ROCKSDB]
NEVER = (1 << 63) - 1


def built(engine: Engine = Engine.MEMORY, ttl: int | None = 10, *, timestamped: bool = False) -> StoreBuilder:
    build = (
        Stores.timestamped_key_value_store_with_ttl_builder if timestamped else Stores.key_value_store_with_ttl_builder
    )
    return build(KeyValueStoreSupplier("s", engine), Serdes.string(), Serdes.string(), ttl=ttl)


class Owner:
    """Does what a task does with its stores, and has a changelog."""

    def __init__(self, builder: StoreBuilder, directory: Path, log: list[RawRecord] | None = None) -> None:
        self.timestamp = self.time = -1
        self.log = [] if log is None else log
        self.stores = TaskStores(
            TaskId(0, 0),
            directory,
            [builder],
            StateResources(16 << 20),
            default_serdes=(Serdes.string(), Serdes.string()),
            context_timestamp=lambda: self.timestamp,
        )
        self.stores.open()
        self.restore()
        self.store: ExpiringStoreImpl = self.stores.stores["s"]
        self.gone: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.expiry = EntryExpiry()
        self.expiry.begin(self.stores.stores, {}, lambda: self.time)

    def restore(self, chunk: int = 3) -> None:
        begin = self.stores.changelog_offset("s") or 0
        for at in range(begin, len(self.log), chunk):
            part = self.log[at : at + chunk]
            self.stores.restore("s", part, at + len(part))

    def advance(self, time: int, limit: int = 1 << 30) -> bool:
        """Deletes some of what is over; returns whether none is left."""
        self.time = max(self.time, time)

        def fire(take_over: Callable[[int], object], node: str, at: int) -> None:
            assert at <= self.time
            self.gone.append(at)
            take_over(at)

        self.expiry.sweep(self.time, ProcessingControl(), limit, fire)
        return self.expiry.next_due > self.time

    def put(self, key: str, value: str | None, at: int, ttl: int | None = None) -> None:
        """As a record of a time does it."""
        self.advance(at)
        self.timestamp = at
        if value is not None and self.timestamped:
            self.store.put(key, ValueAndTimestamp(value, at), ttl)
        else:
            self.store.put(key, value, ttl)

    @property
    def timestamped(self) -> bool:
        return isinstance(self.store, ExpiringStoreImpl) and type(self.store) is not ExpiringStoreImpl

    def commit(self) -> list[OutputRecord]:
        frozen = self.stores.freeze()
        if frozen is None:
            return []
        records = [each for _, changes in frozen.changelogs() for part in changes.records("c", 0, 7) for each in part]
        for _, value, key, _, _, _, timestamp, headers in records:
            self.log.append(RawRecord("c", 0, len(self.log), key, value, timestamp, headers))
        for _ in self.stores.apply(frozen, {"s": len(self.log)}):
            pass
        return records

    def content(self) -> dict[str, Any]:
        return {key: value.value if self.timestamped else value for key, value in self.store.all()}

    def places(self) -> list[bytes]:
        return [key for key, _ in self.store.layers.scan(PLACE, None, reverse=False)]


@pytest.fixture(params=ENGINES)
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Owner]:
    made = Owner(built(request.param), tmp_path)
    with closing(made.stores):
        yield made


def test_an_entry_is_over_once_stream_time_is_its_time_to_live_later(owner: Owner) -> None:
    owner.put("a", "1", 0)
    owner.advance(9)
    assert owner.store.get("a") == "1"
    owner.time = 10  # not deleted yet
    assert owner.store.get("a") is None
    assert owner.content() == {}
    assert list(owner.store.prefix_scan("a")) == []
    assert owner.store.put_if_absent("a", "2") is None


def test_a_write_begins_the_time_anew_and_takes_the_earlier_place_back(owner: Owner) -> None:
    owner.put("a", "1", 0)
    owner.commit()
    owner.put("a", "2", 5)
    owner.put("a", "3", 7)
    owner.advance(16)
    assert owner.content() == {"a": "3"}
    assert len(owner.places()) == 1
    owner.advance(17)
    assert owner.content() == {}
    assert owner.places() == []


def test_entries_go_in_the_order_of_their_times_whatever_the_order_of_puts(owner: Owner) -> None:
    owner.put("c", "1", 0, ttl=30)
    owner.put("a", "1", 0, ttl=20)
    owner.put("b", "1", 1, ttl=10)
    assert not owner.advance(100, limit=2)
    assert owner.content() == {}  # what is over is not seen, deleted or not
    assert owner.advance(100)
    assert owner.gone == [11, 20, 30]


def test_a_value_that_is_over_already_deletes(owner: Owner) -> None:
    owner.put("a", "1", 100)
    owner.commit()
    owner.put("a", "late", 50)
    owner.put("b", "late", 50)
    assert owner.content() == {}
    assert [(record[2], record[1]) for record in owner.commit()] == [(b"a", None)]


def test_the_changelog_has_values_as_they_are_their_times_as_a_header_and_deletions(owner: Owner) -> None:
    owner.put("a", "1", 3)
    owner.put("b", "2", 4, ttl=1000)
    owner.store.delete("c")
    assert [(record[2], record[1], record[6], record[7]) for record in owner.commit()] == [
        (b"a", b"1", 3, [(EXPIRES_AT, (13).to_bytes(8, "big"))]),
        (b"b", b"2", 4, [(EXPIRES_AT, (1004).to_bytes(8, "big"))]),
        (b"c", None, 4, None),
    ]
    owner.advance(50)
    assert [(record[2], record[1], record[6], record[7]) for record in owner.commit()] == [(b"a", None, 13, None)]


@pytest.mark.parametrize("engine", ENGINES)
def test_records_of_a_writer_that_knows_of_no_times_have_the_store_s(engine: Engine, tmp_path: Path) -> None:
    log = [RawRecord("c", 0, at, b"k%d" % at, b"v", at) for at in range(3)]
    owner = Owner(built(engine), tmp_path / "a", log)
    with closing(owner.stores):
        owner.advance(11)
        assert owner.content() == {"k2": "v"}
    owner = Owner(built(engine, ttl=None), tmp_path / "b", log)
    with closing(owner.stores):
        owner.advance(1 << 60)
        assert owner.content() == {"k0": "v", "k1": "v", "k2": "v"}


@pytest.mark.parametrize("value", [None, b"", b"1234567", b"\xff" * 8])
def test_a_header_that_is_no_time_is_refused_with_its_record(value: bytes | None, tmp_path: Path) -> None:
    log = [RawRecord("c", 2, 7, b"k", b"v", 0, [(EXPIRES_AT, value)])]
    with pytest.raises(StateStoreError, match=r"record c-2@7 has a header streamsapp.expires-at that is no time"):
        Owner(built(), tmp_path, log)


def test_a_value_without_a_time_lives_until_it_is_deleted(tmp_path: Path) -> None:
    owner = Owner(built(ttl=None), tmp_path)
    owner.put("a", "1", 0)
    owner.put("b", "1", 0, ttl=5)
    owner.advance(1 << 61)
    assert owner.content() == {"a": "1"}
    assert [record[7] for record in owner.commit()] == [None, None]
    owner.put("a", "2", 1 << 61, ttl=1)
    owner.advance((1 << 61) + 1)
    assert owner.content() == {}


def test_a_place_that_goes_in_its_own_epoch_leaves_no_trace_and_one_from_below_is_deleted(owner: Owner) -> None:
    owner.put("a", "1", 0)
    owner.put("a", "2", 1)
    frozen = owner.stores.freeze()
    assert frozen is not None
    assert sorted(frozen.stores[0].epoch) == [b"\x00a", PLACE + (11).to_bytes(8, "big") + b"a"]
    for _ in owner.stores.apply(frozen, {}):
        pass
    owner.put("a", "3", 2)  # takes the committed place back,
    owner.put("a", "4", 1)  # needs it again,
    owner.put("a", "5", 2)  # and takes it back
    assert [place[1:9] for place in owner.places()] == [(12).to_bytes(8, "big")]
    owner.commit()
    assert [place[1:9] for place in owner.places()] == [(12).to_bytes(8, "big")]


def test_more_places_than_are_in_memory_are_read_when_these_are_gone(owner: Owner) -> None:
    count = _READ * (_KEPT + 2)
    for number in range(count):
        owner.put(f"{number}", "v", 0, ttl=10 + (number * 7919) % count)
    owner.commit()
    owner.begin()
    for time in range(10, 10 + count, 97):
        owner.advance(time)
        assert len(owner.content()) == max(0, count - (time - 9))
    owner.advance(10 + count)
    assert owner.gone == list(range(10, 10 + count))
    assert owner.places() == []


def test_a_store_without_a_time_to_live_refuses_one(tmp_path: Path) -> None:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"))
    owner = Owner(builder, tmp_path)
    for call in (owner.store.put, owner.store.put_if_absent):
        with pytest.raises(StateStoreError, match="'s' was built without a time to live; build it with"):
            call("a", "1", ttl=5)


@pytest.mark.parametrize("ttl", [0, -1, (1 << 62) + 1])
def test_a_time_that_no_entry_can_have_is_refused(ttl: int, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=f"store s: a time to live is at least 1 ms .* got {ttl} ms"):
        built(ttl=ttl)
    owner = Owner(built(), tmp_path)
    with pytest.raises(ValueError, match=rf"state store 's', key 'a': put\(ttl=...\): .* got {ttl} ms"):
        owner.store.put("a", "1", ttl=ttl)
    assert owner.content() == {}


def test_a_time_that_is_no_duration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"store s: a duration is a timedelta or whole milliseconds, got 1.5"):
        built(ttl=1.5)  # type: ignore[arg-type]
    owner = Owner(built(), tmp_path)
    with pytest.raises(ValueError, match="a duration is a timedelta or whole milliseconds, got '5s'"):
        owner.store.put("a", "1", ttl="5s")  # type: ignore[arg-type]


def test_the_latest_time_there_is_is_not_passed(tmp_path: Path) -> None:
    owner = Owner(built(ttl=1 << 62, timestamped=True), tmp_path)
    owner.put("a", "1", (1 << 63) - 2)
    assert owner.content() == {"a": "1"}


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_do_not_show_what_is_over_and_not_deleted_yet(engine: Engine, tmp_path: Path) -> None:
    owner = Owner(built(engine, timestamped=True), tmp_path)
    with closing(owner.stores):
        view = owner.stores.views["s"]
        owner.put("a", "1", 0)
        owner.put("b", "2", 5)
        owner.commit()

        def shown(*, committed: bool) -> list[tuple[bytes, Any]]:
            with view.readers.reading():
                return [(key, view.value(each)) for key, each in view.range(b"", None, committed=committed)]

        both = [(b"a", ValueAndTimestamp("1", 0)), (b"b", ValueAndTimestamp("2", 5))]
        assert shown(committed=False) == both
        owner.time = 12
        assert shown(committed=False) == both[1:]
        assert shown(committed=True) == both  # those of the last commit
        assert view.value(view.get(b"a", committed=False)) is None
        assert view.raw(view.get(b"b", committed=False)) == b"2"
        assert [key for key, _ in view.range(b"a", b"b", committed=True)] == [b"a"]
        owner.advance(12)
        owner.commit()
        assert shown(committed=True) == both[1:]


def test_the_number_of_entries_does_not_count_places(owner: Owner) -> None:
    for number in range(10):
        owner.put(f"{number}", "v", 0)
    assert owner.store.approximate_num_entries() == 10
    owner.commit()
    assert owner.stores.count("s") == 10


class Model:
    """A dictionary with times."""

    def __init__(self) -> None:
        self.time = -1
        self.entries: dict[str, tuple[str, int]] = {}

    def advance(self, time: int) -> None:
        self.time = max(self.time, time)
        self.entries = {key: each for key, each in self.entries.items() if each[1] > self.time}

    def put(self, key: str, value: str | None, at: int, ttl: int | None, default: int | None) -> None:
        self.advance(at)
        self.entries.pop(key, None)
        life = default if ttl is None else ttl
        until = NEVER if life is None else at + life
        if value is not None and until > self.time:
            self.entries[key] = (value, until)

    def copy(self) -> Model:
        other = Model()
        other.time, other.entries = self.time, dict(self.entries)
        return other


_KEYS = st.sampled_from(["a", "b", "c", "\x00", "\x01", "\xff"])
_TIMES = st.integers(0, 60)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KEYS, st.sampled_from("123"), _TIMES, st.one_of(st.none(), st.integers(1, 40))),
        st.tuples(st.just("delete"), _KEYS, _TIMES),
        st.tuples(st.just("advance"), _TIMES, st.integers(0, 3)),
        st.tuples(st.sampled_from(["commit", "revert", "restart", "restore", "compacted", "recycle"])),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(_STEPS, st.sampled_from(ENGINES), st.booleans(), st.sampled_from([None, 7]))
def test_a_store_is_a_dictionary_with_times(
    steps: list[tuple[Any, ...]], engine: Engine, timestamped: bool, default: int | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = built(engine, default, timestamped=timestamped)
        owner, model, committed, number = Owner(builder, Path(directory) / "0"), Model(), Model(), 0
        try:
            for step, *given_ in steps:
                if step == "put":
                    key, value, at, ttl = given_
                    model.put(key, value, at, ttl, default)
                    owner.put(key, value, at, ttl)
                elif step == "delete":
                    key, at = given_
                    model.put(key, None, at, None, default)
                    owner.put(key, None, at)
                elif step == "advance":
                    time, limit = given_
                    model.advance(time)
                    owner.advance(time, limit)
                elif step == "commit":
                    owner.commit()
                    committed = model.copy()
                elif step == "revert":
                    owner.stores.revert()
                    owner.begin()
                    model = committed.copy()
                else:
                    # All that was not committed is lost. Time is committed with the offsets.
                    number += step in ("restore", "compacted")
                    owner.stores.close()
                    log = owner.log
                    if step == "compacted":
                        newest = {record.key(): record for record in log}
                        log = [
                            record for record in log if newest[record.key()] is record and record.value() is not None
                        ]
                    owner = Owner(builder, Path(directory) / str(number), log)
                    model = committed.copy()
                    committed = model.copy()
                owner.time = model.time
                assert owner.content() == {key: value for key, (value, _) in sorted_by_bytes(model)}
                for key in ("a", "\xff"):
                    found = owner.store.get(key)
                    assert (found[0] if timestamped and found else found) == model.entries.get(key, (None,))[0]
            owner.advance(owner.time)
            until = {key: at for key, (_, at) in model.entries.items() if at != NEVER}
            assert owner.places() == sorted(PLACE + at.to_bytes(8, "big") + key.encode() for key, at in until.items())
            owner.commit()
            owner.advance(1000)
            owner.commit()
            living = {key for key, (_, at) in model.entries.items() if at == NEVER}
            logged = {record.key(): record.value() for record in owner.log}
            assert {key.decode() for key, value in logged.items() if key and value is not None} == living
        finally:
            owner.stores.close()


def sorted_by_bytes(model: Model) -> list[tuple[str, tuple[str, int]]]:
    return sorted(model.entries.items(), key=lambda each: each[0].encode())
