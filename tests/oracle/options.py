"""The options of a step, as java/Options.java and java/Stores.java read them.

Called while a program is built, on the test's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functions
from streamsapp import Consumed, Grouped, Materialized, Named, Produced, Serdes, Stores
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import WindowStoreSupplier

Step = dict[str, Any]

_SERDES: dict[str, Callable[[], AnySerde]] = {
    "string": Serdes.string,
    "long": Serdes.long,
    "integer": Serdes.integer,
    "short": Serdes.short,
    "double": Serdes.double,
    "float": Serdes.float,
    "boolean": Serdes.boolean,
    "uuid": Serdes.uuid,
    "bytes": Serdes.bytes,
    "void": Serdes.void,
}


def serde(name: str) -> AnySerde:
    """The serde of a name as java/SerdeTable.java reads it."""
    kind, _, inside = name.removesuffix(")").partition("(")
    if kind == "list":
        return Serdes.list_(serde(inside))
    if kind == "time_windowed":
        inner, _, size = inside.rpartition(",")
        return Serdes.time_windowed(serde(inner), int(size))
    if kind == "session_windowed":
        return Serdes.session_windowed(serde(inside))
    return _SERDES[name]()


def option(options: Step, side: str) -> AnySerde | None:
    return serde(options[side]) if options.get(side) is not None else None


def serdes(options: Step) -> dict[str, Any]:
    return {"key_serde": option(options, "key"), "value_serde": option(options, "value")}


def consumed(step: Step) -> Consumed[Any, Any]:
    options = step.get("consumed", {})
    extractor = functions.EXTRACTORS[options["extractor"]] if "extractor" in options else None
    return Consumed(
        **serdes(options),
        timestamp_extractor=extractor,
        offset_reset=options.get("reset"),
        name=options.get("name"),
    )


def produced(step: Step) -> Produced[Any, Any]:
    options = step.get("produced", {})
    partitioner = functions.PARTITIONERS[options["partitioner"]] if "partitioner" in options else None
    return Produced(**serdes(options), partitioner=partitioner, name=options.get("name"))


def grouped(step: Step) -> Grouped[Any, Any] | None:
    if "grouped" not in step:
        return None
    return Grouped(**serdes(step["grouped"]), name=step["grouped"].get("name"))


def materialized(step: Step) -> Materialized[Any, Any] | None:
    if "materialized" not in step:
        return None
    options = step["materialized"]
    return Materialized(
        store_name=options.get("name"),
        **serdes(options),
        store=options.get("engine", "rocksdb"),
        logging=options.get("logging", True),
        caching=options.get("caching", True),
        emit=options.get("emit"),
        retention=options.get("retention"),
        versioned=options.get("versioned"),
    )


def named(step: Step) -> Named | None:
    return Named(step["name"]) if "name" in step else None


def store_builder(step: Step) -> StoreBuilder:
    builder = _builder(step)(_supplier(step), serde(step["key"]), serde(step["value"]))
    if not step.get("logging", True):
        builder = builder.with_logging_disabled()
    return builder.with_caching_enabled() if step.get("caching", False) else builder.with_caching_disabled()


def _builder(step: Step) -> Callable[..., StoreBuilder]:
    builders: dict[str, Callable[..., StoreBuilder]] = {
        "kv": Stores.key_value_store_builder,
        "timestamped": Stores.timestamped_key_value_store_builder,
        "window": Stores.window_store_builder,
        "timestamped_window": Stores.timestamped_window_store_builder,
        "versioned": Stores.versioned_key_value_store_builder,
        "session": Stores.session_store_builder,
        "headed": Stores.timestamped_key_value_store_with_headers_builder,
        "headed_window": Stores.timestamped_window_store_with_headers_builder,
        "headed_session": Stores.session_store_with_headers_builder,
    }
    return builders[step.get("kind", "kv")]


def window_supplier(step: Step) -> WindowStoreSupplier:
    make = Stores.in_memory_window_store if step.get("engine") == "memory" else Stores.persistent_window_store
    return make(step["name"], step["retention"], step["size"], step.get("duplicates", False))


def _supplier(step: Step) -> Any:
    name, in_memory = step["name"], step.get("engine") == "memory"
    if "window" in step.get("kind", ""):
        return window_supplier(step)
    if step.get("kind") == "versioned":
        return Stores.persistent_versioned_key_value_store(name, step["retention"], step.get("segment"))
    if "session" in step.get("kind", ""):
        make_sessions = Stores.in_memory_session_store if in_memory else Stores.persistent_session_store
        return make_sessions(name, step["retention"])
    return Stores.in_memory_key_value_store(name) if in_memory else Stores.persistent_key_value_store(name)
