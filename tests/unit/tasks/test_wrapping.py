"""``processor_wrapper`` (KIP-1112): a function of the user's around every processor of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from streamsapp.errors import ConfigError, ProcessingError, TopologyError
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)


def _config(wrapper: Any, **more: Any) -> StreamsConfig:
    return StreamsConfig(application_id="a", bootstrap_servers="b:1", processor_wrapper=wrapper, **more)


class Upper(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(record.value.upper()))


def _topology() -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("lines", READ).filter(lambda key, value: value != "no", "wanted")
    counts = (
        lines.process(Upper, named="upper").group_by_key(Grouped(TEXT, TEXT)).count("count", Materialized("counts"))
    )
    counts.to_stream("stream").to("counts", Produced(TEXT, Serdes.long()))
    lines.split("by-").branch(lambda key, value: value < "m", "early").default_branch("late")
    return builder.build()


class Around(Processor):
    """Tells what happens to the processor inside."""

    told: ClassVar[list[Any]]

    def __init__(self, name: str, inner: Processor) -> None:
        self.name = name
        self.inner = inner

    def init(self, context: ProcessorContext) -> None:
        self.told.append(("init", self.name))
        self.inner.init(context)

    def process(self, record: Record) -> None:
        self.told.append((self.name, record.key, record.value))
        self.inner.process(record)

    def close(self) -> None:
        self.told.append(("close", self.name))
        self.inner.close()


def _around() -> tuple[type[Around], list[Any]]:
    told: list[Any] = []
    return type("Told", (Around,), {"told": told}), told


def test_every_processor_is_wrapped_those_of_the_dsl_included() -> None:
    wrapper, told = _around()
    with TopologyTestDriver(_topology(), _config(wrapper)) as driver:
        begun = {name for _, name in told}
        del told[:]
        lines = driver.create_input_topic("lines", TEXT, TEXT)
        lines.pipe_input("a", "b")
        lines.pipe_input("a", "no")
        results = driver.create_output_topic("counts", TEXT, Serdes.long()).read_key_values()
        seen = list(told)
    assert results == [("a", 1)]
    nodes = {"wanted", "upper", "count", "stream", "by-"}
    assert nodes <= begun
    assert [(name, value) for name, _, value in seen if name in ("wanted", "upper", "by-")] == [
        ("wanted", "b"),
        ("upper", "b"),
        ("by-", "b"),
        ("wanted", "no"),
    ]
    assert [key for name, key, _ in seen if name in ("count", "stream")] == ["a", "a"]
    assert {name for what, name, *_ in told if what == "close"} == begun


def test_results_are_the_same_where_the_wrapper_returns_what_it_is_given() -> None:
    for wrapper in (None, lambda name, processor: processor, _around()[0]):
        with TopologyTestDriver(_topology(), _config(wrapper)) as driver:
            driver.create_input_topic("lines", TEXT, TEXT).pipe_key_values([("a", "b"), ("b", "x"), ("a", "c")])
            assert driver.create_output_topic("counts", TEXT, Serdes.long()).read_key_values() == [
                ("a", 1),
                ("b", 1),
                ("a", 2),
            ]


class Own:
    """A context that changes what is forwarded."""

    def __init__(self, context: ProcessorContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def forward(self, record: Record, child: str | None = None) -> None:
        self._context.forward(record.with_headers([*record.headers, ("through", b"own")]), child)


class WithContext(Around):
    told: ClassVar[list[Any]] = []

    def init(self, context: ProcessorContext) -> None:
        self.inner.init(Own(context))


def test_results_of_processors_and_of_the_dsl_go_through_the_context_that_the_wrapper_gives() -> None:
    builder = StreamsBuilder()
    branches = builder.stream("lines", READ).map_values(str.upper).process(Upper).split("by-")
    branches.branch(lambda key, value: True, "all")
    built = branches.no_default_branch()
    built["by-all"].to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), _config(WithContext)) as driver:
        driver.create_input_topic("lines", TEXT, TEXT).pipe_input("a", "b")
        (record,) = driver.create_output_topic("out", TEXT, TEXT).read_records()
    assert (record.value, record.headers) == ("B", [("through", b"own")] * 4)


class Clock(Around):
    """Counts the calls of a schedule of its own."""

    told: ClassVar[list[Any]] = []

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.told.append)


def test_a_wrapper_may_schedule_and_use_the_stores_of_its_node() -> None:
    del Clock.told[:]
    with TopologyTestDriver(
        _topology(), _config(lambda name, inner: Clock(name, inner) if name == "count" else inner)
    ) as driver:
        driver.advance_wall_clock_time(25)
    assert [each for each in Clock.told if isinstance(each, int)] == [25]


def test_a_wrapper_is_around_the_processor_that_fills_a_global_store() -> None:
    class Filling(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.rows = context.get_state_store("rows")

        def process(self, record: Record) -> None:
            self.rows.put(record.key, record.value)

    wrapper, told = _around()
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("rows"), TEXT, TEXT)
    builder.add_global_store(store, "rows", READ, Filling)
    builder.stream("lines", READ).to("out")
    with TopologyTestDriver(builder.build(), _config(wrapper)) as driver:
        driver.create_input_topic("rows", TEXT, TEXT).pipe_input("a", "b")
        assert driver.get_key_value_store("rows").get("a") == "b"
    assert [each for each in told if len(each) == 3] == [("KTABLE-SOURCE-0000000001", "a", "b")]


@pytest.mark.parametrize(
    ("wrapper", "fault"),
    [
        (lambda name, processor: None, "processor_wrapper gave NoneType for node .*has to return a Processor"),
        (lambda name, processor: Around, "processor_wrapper gave ABCMeta for node"),
    ],
)
def test_what_is_no_processor_is_refused(wrapper: Callable[..., Any], fault: str) -> None:
    with pytest.raises(TopologyError, match=fault):
        TopologyTestDriver(_topology(), _config(wrapper))
    with pytest.raises(ConfigError, match=r"^processor_wrapper: expected a function of .*, got 3"):
        _config(3)


def test_an_error_of_a_wrapper_is_one_of_user_code_at_its_node() -> None:
    class Failing(Around):
        told: ClassVar[list[Any]] = []

        def process(self, record: Record) -> None:
            raise ValueError("not today")

    for handler, fails in (("fail", True), ("continue", False)):
        config = _config(
            lambda name, inner: Failing(name, inner) if name == "wanted" else inner,
            processing_exception_handler=handler,
        )
        with TopologyTestDriver(_topology(), config) as driver:
            lines = driver.create_input_topic("lines", TEXT, TEXT)
            if fails:
                with pytest.raises(ProcessingError, match=r"ValueError at node wanted .*not today"):
                    lines.pipe_input("a", "b")
            else:
                lines.pipe_input("a", "b")
                assert driver.create_output_topic("counts", TEXT, Serdes.long()).is_empty()
