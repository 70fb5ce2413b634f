"""JSON gives back what was written, numbers exactly; a value that it cannot give back is refused when it is written."""

from __future__ import annotations

import datetime as dt
import math
import os
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from streamsapp import Consumed, Materialized, Produced, SchemaRegistry, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.cli.record_lines import read_record
from streamsapp.errors import TopologyError
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.json_text import read_json, write_json
from streamsapp.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
NAN, INF = math.nan, math.inf
WEI = 123456789012345678901234567890


class Plain(Enum):
    ONE = 1


class Text(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Mean:
    total: float = 0.0
    n: int = 0
    best: float | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Wider(Mean):
    more: int = 1


class Struct(msgspec.Struct):
    total: float = 0.0
    n: int = 0
    best: float | None = None


@dataclass(eq=False)
class ByIdentity:
    total: float | None = None


class Model(pydantic.BaseModel):
    total: float = 0.0
    best: float | None = None
    anything: Any = None
    hidden: str = pydantic.Field(default="", exclude=True)
    _cache: int = pydantic.PrivateAttr(0)


class Strict(pydantic.BaseModel, extra="forbid"):
    n: int = 0

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.n


class Secret(pydantic.BaseModel):
    password: pydantic.SecretStr


class Keyed(TypedDict):
    total: float


@dataclass(frozen=True)
class Tags:
    tags: frozenset[str]


@dataclass(frozen=True)
class Outer:
    inner: list[Tags]


class TagsModel(pydantic.BaseModel):
    inner: list[frozenset[str]]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(ANYTHING)
def test_whatever_json_can_say_comes_back(value: Any) -> None:
    assert JSON.deserialize(JSON.serialize(value)) == value
    assert read_json(write_json(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_digit(value: float) -> None:
    kinds: list[tuple[AnySerde, Any]] = [
        (JSON, value), (Serdes.json(Mean), Mean(value)), (Serdes.json(Model), Model(total=value))
    ]  # fmt: skip
    for serde, kept in kinds:
        assert serde.deserialize(serde.serialize(kept)) == kept


@pytest.mark.parametrize("number", [WEI, -WEI, 1 << 63, 1 << 64, -(1 << 63) - 1, 9007199254740993])
def test_whole_numbers_of_any_size_stay_exact(number: int) -> None:
    for text in (b"%d" % number, b'{"a":[%d]}' % number):
        read = JSON.deserialize(text)
        assert JSON.serialize(read) == text
        assert read in (number, {"a": [number]})
        assert isinstance(read if isinstance(read, int) else read["a"][0], int)
    line = read_record(b'{"key":"k","value":{"wei":%d}}' % number, TEXT, JSON)
    assert line.value_bytes == b'{"wei":%d}' % number


@pytest.mark.parametrize("value", [Counter("aab"), defaultdict(int, a=1), OrderedDict(a=1), Text.ONE, Number.ONE])
def test_subclasses_that_equal_what_is_read_are_taken(value: Any) -> None:
    assert JSON.deserialize(JSON.serialize(value)) == value


UNFIT: list[tuple[AnySerde, Any, str]] = [
    (JSON, NAN, "nan .*comes back as None"),
    (JSON, {"x": [1.0, -INF]}, r"at `\$\.x\[1\]`"),
    (JSON, [{"null": "null", "y": INF}], r"at `\$\[0\]\.y`"),
    (JSON, (1, 2), "tuple"),
    (JSON, {"pair": Pair(1, 2)}, r"Pair.* at `\$\.pair`"),
    (JSON, Mean(), "Mean"),
    (JSON, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "datetime"),
    (JSON, [dt.date(2026, 1, 1)], r"date.*at `\$\[0\]`"),
    (JSON, uuid.UUID(int=1), "UUID"),
    (JSON, Plain.ONE, "Plain"),
    (JSON, Decimal("1.10"), "Decimal"),
    (JSON, {"raw": b"x"}, "bytes"),
    (JSON, {"a", "b"}, "set"),
    (JSON, {200: 1}, "200"),
    (JSON, {Plain.ONE: 1}, "Plain"),
    (JSON, {None: 1}, "keys"),
    (JSON, "\ud800", "surrogates"),
    (Serdes.json(Mean), Mean(NAN), r"at `\$\.total`"),
    (Serdes.json(Mean), Mean(best=INF), r"inf.* at `\$\.best`"),
    (Serdes.json(Mean), Mean(total=None), r"`null` - at `\$\.total`"),  # type: ignore[arg-type]
    (Serdes.json(Mean), Mean(n="x"), r"Expected `int`, got `str` - at `\$\.n`"),  # type: ignore[arg-type]
    (Serdes.json(Mean), Mean(total=9007199254740993), r"at `\$\.total`"),
    (Serdes.json(Mean), Mean(tags=("a",)), r"tuple.* at `\$\.tags`"),  # type: ignore[arg-type]
    (Serdes.json(Mean), Wider(), "Wider"),
    (Serdes.json(Struct), Struct(best=NAN), r"at `\$\.best`"),
    (Serdes.json(list[Mean]), [Mean(), Mean(NAN)], r"at `\$\[1\]\.total`"),
    (Serdes.json(Keyed), {"total": NAN}, r"at `\$\.total`"),
    (Serdes.json(Keyed), {"total": 1.0, "more": 1}, r"\$\.more"),
    (Serdes.json(dict[str, float]), {"a": NAN}, r"at `\$\[\.\.\.\]`"),
    (Serdes.json(ByIdentity), ByIdentity(NAN), r"at `\$\.total`"),
    (Serdes.json(Model), Model(best=NAN), r"at `\$\.best`"),
    (Serdes.json(Model), Model(total=INF), r"at `\$\.total`"),
    (Serdes.json(Model), Model(anything=(1, 2)), r"at `\$\.anything`"),
    (Serdes.json(Strict), Strict(n=1), r"at `\$\.twice`"),
    (Serdes.json(Secret), Secret(password="x"), r"at `\$\.password`"),  # type: ignore[arg-type]
    (Serdes.msgpack(Mean), Mean(n="x"), r"at `\$\.n`"),  # type: ignore[arg-type]
    (Serdes.msgpack(), [(1, 2)], "tuple"),
]  # fmt: skip


@pytest.mark.parametrize(("serde", "value", "told"), UNFIT)
def test_what_cannot_be_read_back_is_not_written(serde: AnySerde, value: Any, told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        serde.serialize(value)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.json(ByIdentity), ByIdentity(1.5)),
        (Serdes.json(Model), Model(best=1.5, hidden="x")),
        (Serdes.msgpack(Mean), Mean(NAN, best=INF)),
        (Serdes.msgpack(), {"x": NAN}),
        (Serdes.json(Mean), Mean(total=1)),
    ],
)
def test_what_comes_back_alike_is_written(serde: AnySerde, value: Any) -> None:
    back = serde.deserialize(serde.serialize(value))
    assert type(back) is type(value)
    assert serde.serialize(serde.deserialize(serde.serialize(back))) == serde.serialize(back)


@pytest.mark.parametrize("bad", [{"x": NAN}, {"x": INF}])
def test_a_json_schema_writes_only_json(bad: Any) -> None:
    schema = '{"title": "Any", "type": "object"}'
    serde = SchemaRegistry("mock://tests").json_schema(schema).bind("t", is_key=False)
    with pytest.raises(ValueError, match=r"at `\$\.x`"):
        serde.serialize(bad)
    assert serde.deserialize(serde.serialize({"wei": WEI})) == {"wei": WEI}


def test_the_production_handler_hears_of_it_and_the_next_record_is_good() -> None:
    heard: list[str] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        heard.append(f"{context.topic}@{context.offset} {error}")
        return Response.CONTINUE

    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed(TEXT, TEXT)).map_values(float)
    numbers.map_values(lambda number: {"x": number}).to("out", Produced(TEXT, JSON))
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1", production_exception_handler=handler)
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("k", "nan"), ("k", "1")])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("k", {"x": 1.0})]
    assert len(heard) == 1
    assert heard[0].startswith("in@0")
    assert "`$.x`" in heard[0]


def test_state_keeps_the_last_good_value_and_the_processing_handler_hears_of_the_other() -> None:
    heard: list[str] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        heard.append(f"{context.topic}@{context.offset} {error}")
        return Response.CONTINUE

    def add(_: str, value: float, mean: Mean) -> Mean:
        return Mean(mean.total + value, mean.n + 1)

    builder = StreamsBuilder()
    values = builder.stream("in", Consumed(TEXT, Serdes.double())).group_by_key()
    values.aggregate(Mean, add, Materialized("means", TEXT, Serdes.json(Mean)))
    config = StreamsConfig(application_id="a", bootstrap_servers="b:1", processing_exception_handler=handler)
    with TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", TEXT, Serdes.double())
        source.pipe_key_values([("k", 1.0), ("k", NAN), ("k", 2.0)])
        assert driver.get_key_value_store("means").get("k") == Mean(3.0, 2)
    assert len(heard) == 1
    assert heard[0].startswith("in@1")
    assert "`$.total`" in heard[0]


CODE = """
import sys
from dataclasses import dataclass
from streamsapp import Serdes
@dataclass(frozen=True)
class Tags:
    tags: frozenset[str]
value = Tags(frozenset({"a", "b", "c", "d"}))
print(Serdes.json(Tags).serialize(value), Serdes.msgpack(list[Tags]).serialize([value]))
"""


def test_sets_have_the_same_bytes_in_every_process() -> None:
    def written(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", CODE]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({written(seed) for seed in "123"}) == 1
    assert Serdes.json(Outer).serialize(Outer([Tags(frozenset("cab"))])) == b'{"inner":[{"tags":["a","b","c"]}]}'


def test_a_model_with_a_set_is_no_key() -> None:
    serde = Serdes.json(TagsModel)
    value = TagsModel(inner=[frozenset("ab")])
    assert serde.bind("t", is_key=False).deserialize(serde.serialize(value)) == value
    with pytest.raises(TopologyError, match=r"keys of t: json\(TagsModel\) has a set"):
        Serdes.time_windowed(serde, 10).bind("t", is_key=True)
