"""Steps on windows, cogroups, suppression and joins, as java/WindowSteps.java and java/JoinSteps.java have them.

Called by ``programs`` while it builds a program, on the test's thread.
"""

from __future__ import annotations

from typing import Any

import functions
from options import materialized, named, serdes, window_supplier
from streamsapp import (
    EmitStrategy,
    Joined,
    JoinWindows,
    ProcessorContext,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    Suppressed,
    TableJoined,
    TimeWindows,
    UnlimitedWindows,
)
from streamsapp.dsl.operators.tables import ValueTransformer

Step = dict[str, Any]


def windows(options: Step) -> Any:
    """The windows of an aggregation."""
    grace = options.get("grace", 0)
    kind = options["kind"]
    if kind == "session":
        return SessionWindows.of(options["gap"], grace)
    if kind == "sliding":
        return SlidingWindows.of(options["size"], grace)
    if kind == "unlimited":
        return UnlimitedWindows.of().start_on(options.get("start", 0))
    made = TimeWindows.of(options["size"], grace)
    return made.advance_by(options["advance"]) if "advance" in options else made


def join_windows(options: Step) -> JoinWindows:
    """The windows of a join of two streams."""
    made = JoinWindows.of(options.get("size", 0), options.get("grace", 0))
    if "before" in options:
        made = made.before(options["before"])
    return made.after(options["after"]) if "after" in options else made


def suppressed(step: Step) -> Suppressed:
    """Returns when a table's updates go on."""
    config = Suppressed.BufferConfig.unbounded()
    if "records" in step:
        config = config.with_max_records(step["records"])
    if "bytes" in step:
        config = config.with_max_bytes(step["bytes"])
    if step.get("full") == "emit" and ("records" in step or "bytes" in step):
        config = config.emit_early_when_full()
    if not step.get("logging", True):
        config = config.with_logging_disabled()
    if step["until"] == "window_closes":
        made = Suppressed.until_window_closes(config)
    else:
        made = Suppressed.until_time_limit(step["until"]["time_limit"], config)
    return made.with_name(step["name"]) if "name" in step else made


def transformer(step: Step) -> type[ValueTransformer]:
    """The transformer that a step names; with a store it counts its calls for each key."""
    mapper = functions.VALUE_MAPPERS_WITH_KEY[step["fn"]]
    store: str | None = next(iter(step.get("stores", ())), None)

    class Transformer(ValueTransformer):
        def init(self, context: ProcessorContext) -> None:
            self.calls: Any = None if store is None else context.get_state_store(store)

        def transform(self, key: Any, value: Any) -> Any:
            mapped = mapper(key, value)
            if self.calls is None:
                return mapped
            number = functions.num(self.calls.get(key)) + 1
            self.calls.put(key, number)
            return functions.clip(f"{functions.text(mapped)}#{number}")

        def close(self) -> None: ...

    return Transformer


class WindowSteps:
    """A mixin: every method builds one step on what an earlier step made."""

    made: dict[str, Any]

    def on_windowed_by(self, step: Step, of: Any) -> Any:
        made = of.windowed_by(windows(step["windows"]))
        if "emit" not in step:
            return made
        close = step["emit"] == "close"
        return made.emit_strategy(EmitStrategy.on_window_close() if close else EmitStrategy.on_window_update())

    def on_cogroup(self, step: Step, of: Any) -> Any:
        aggregator = functions.AGGREGATORS[step["fn"]]
        return of.cogroup(self.made[step["with"]], aggregator) if "with" in step else of.cogroup(aggregator)

    def on_suppress(self, step: Step, of: Any) -> Any:
        return of.suppress(suppressed(step))

    def on_transform_values(self, step: Step, of: Any) -> Any:
        return of.transform_values(
            transformer(step), *step.get("stores", ()), named=named(step), materialized=materialized(step)
        )

    def on_join(self, step: Step, of: Any) -> Any:
        return self._join(step, of)

    def on_left_join(self, step: Step, of: Any) -> Any:
        return self._join(step, of)

    def on_outer_join(self, step: Step, of: Any) -> Any:
        return self._join(step, of)

    def _join(self, step: Step, of: Any) -> Any:
        join, other = getattr(of, step["op"]), self.made[step["with"]]
        joiner = functions.joiner_of(step)
        if "windows" in step:
            return join(other, joiner, join_windows(step["windows"]), _stream_joined(step.get("stream_joined", {})))
        if "selector" in step:
            return join(other, functions.KEY_SELECTORS[step["selector"]], joiner, named(step))
        if "extractor" in step:
            return join(
                other,
                _foreign_key(step),
                joiner,
                table_joined=TableJoined(
                    functions.PARTITIONERS[step["partitioner"]] if "partitioner" in step else None,
                    functions.PARTITIONERS[step["other_partitioner"]] if "other_partitioner" in step else None,
                    name=step.get("table_joined"),
                ),
                materialized=materialized(step),
            )
        if type(of).__name__ == "KTable":
            return join(other, joiner, named=named(step), materialized=materialized(step))
        options = step.get("joined", {})
        return join(
            other, joiner, Joined(**_three_serdes(options), name=options.get("name"), grace=options.get("grace"))
        )


def _foreign_key(step: Step) -> Any:
    if step.get("extractor_args") == 2:
        return functions.KEY_SELECTORS[step["extractor"]]
    return functions.VALUE_MAPPERS[step["extractor"]]


def _three_serdes(options: Step) -> dict[str, Any]:
    return {**serdes(options), "other_value_serde": serdes({"key": options.get("other_value")})["key_serde"]}


def _joined(options: Step) -> Joined[Any, Any, Any]:
    return Joined(**_three_serdes(options), name=options.get("name"), grace=options.get("grace"))


def _stream_joined(options: Step) -> StreamJoined[Any, Any, Any]:
    suppliers: dict[str, Any] = {
        f"{side}_store_supplier": window_supplier(options[side]) for side in ("this", "other") if side in options
    }
    return StreamJoined(
        **suppliers,
        **_three_serdes(options),
        name=options.get("name"),
        store_name=options.get("store_name"),
        store=options.get("engine", "rocksdb"),
        logging=options.get("logging", True),
    )
