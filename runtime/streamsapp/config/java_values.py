"""Values that Kafka Streams takes as names of Java classes, and their values here.

Pure; called when a configuration is made. A class is known by its simple name, with whatever stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from streamsapp.errors import ConfigError
from streamsapp.processor import timestamps
from streamsapp.serdes.serdes import Serdes

_SERDES: Mapping[str, Any] = {
    "StringSerde": Serdes.string(),
    "BytesSerde": Serdes.bytes(),
    "ByteArraySerde": Serdes.bytes(),
    "ByteBufferSerde": Serdes.bytes(),
    "ShortSerde": Serdes.short(),
    "IntegerSerde": Serdes.integer(),
    "LongSerde": Serdes.long(),
    "FloatSerde": Serdes.float(),
    "DoubleSerde": Serdes.double(),
    "BooleanSerde": Serdes.boolean(),
    "UUIDSerde": Serdes.uuid(),
    "VoidSerde": Serdes.void(),
}
_EXTRACTORS: Mapping[str, Any] = {
    "FailOnInvalidTimestamp": timestamps.fail_on_invalid_timestamp,
    "LogAndSkipOnInvalidTimestamp": timestamps.log_and_skip_on_invalid_timestamp,
    "UsePartitionTimeOnInvalidTimestamp": timestamps.use_partition_time_on_invalid_timestamp,
    "WallclockTimestampExtractor": timestamps.wallclock_timestamp,
}
_HANDLERS: Mapping[str, Any] = {
    "LogAndContinueExceptionHandler": "continue",
    "LogAndContinueProcessingExceptionHandler": "continue",
    "LogAndFailExceptionHandler": "fail",
    "LogAndFailProcessingExceptionHandler": "fail",
    "DefaultProductionExceptionHandler": "fail",
}
_OF_FIELD: Mapping[str, Mapping[str, Any]] = {
    "default_key_serde": _SERDES,
    "default_value_serde": _SERDES,
    "default_timestamp_extractor": _EXTRACTORS,
    "deserialization_exception_handler": _HANDLERS,
    "processing_exception_handler": _HANDLERS,
    "production_exception_handler": _HANDLERS,
    "dsl_store_format": {"DEFAULT": "default", "HEADERS": "headers"},
    "processing_guarantee": {"exactly_once_v2": "exactly_once", "exactly_once_beta": "exactly_once"},
}
_SIMPLE_NAME = re.compile(r"(?:.*[.$])?(\w+)")
#: A class, and not one of the words that a handler is configured with.
_JAVA_CLASS = re.compile(r"(?:\w+[.$])+[A-Z]\w*(?:\.class)?")


def from_java(field: str, value: Any) -> Any:
    """Returns the value of a field of ``StreamsConfig`` that a name of Java's stands for, and every other value as it
    is. Raises ``ConfigError`` for a class that has no counterpart."""
    table = _OF_FIELD.get(field)
    if (
        table is None
        or not isinstance(value, str)
        or (found := _SIMPLE_NAME.fullmatch(value.removesuffix(".class"))) is None
    ):
        return value
    if found[1] in table:
        return table[found[1]]
    close = get_close_matches(found[1], table, n=1, cutoff=0.8)
    if close and found[1][0].isupper():
        raise ConfigError(f"{field}: there is no {value!r:.200}; did you mean {close[0]}?")
    if _JAVA_CLASS.fullmatch(value):
        raise ConfigError(
            f"{field}: {value} is a class of Java's without a counterpart here; give an object of Python's, "
            f"or one of: {', '.join(table)}"
        )
    return value
