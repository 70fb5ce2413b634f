"""The user functions that programs name; java/Functions.java has the same table, and the two must stay equal.

Called by the programs of this folder, on the test's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamsapp.processor.api import StreamPartitioner
from streamsapp.record import InputRecord, RecordMetadata

#: Longest text a function makes, so that values fed back into themselves stay small.
TEXT_LIMIT = 60


#: The values that functions fail for; they come in records alone.
BOOM, UNLUCKY = "boom", 1_000_013


def text(value: Any) -> str:
    """A value as Java prints it; functions see texts, whole numbers and nulls only."""
    if value == BOOM:
        raise ValueError(BOOM)
    return "null" if value is None else str(value)


def num(value: Any) -> int:
    """A number for any value: itself, 0 for null, the length of a text in bytes."""
    if value is None:
        return 0
    if not isinstance(value, int):
        return len(text(value).encode())
    if value == UNLUCKY:
        raise ValueError("unlucky")
    return value


def clip(long: str) -> str:
    """The end of a text."""
    return long[-TEXT_LIMIT:]


def even(value: Any) -> bool:
    return num(value) % 2 == 0


def words(value: Any) -> list[str]:
    return [] if value is None else [word for word in text(value).split(" ") if word]


def fail_on_boom(key: Any, value: Any) -> bool:
    return text(value) != BOOM


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "all": lambda k, v: True,
    "none": lambda k, v: False,
    "value_even": lambda k, v: even(v),
    "key_even": lambda k, v: even(k),
    "value_present": lambda k, v: v is not None,
    "key_present": lambda k, v: k is not None,
    "value_gt_3": lambda k, v: num(v) > 3,
    "fail_on_boom": fail_on_boom,
}

VALUE_MAPPERS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda v: v,
    "text": lambda v: None if v is None else text(v),
    "length": num,
    "null_if_odd": lambda v: v if even(v) else None,
    "add_one": lambda v: num(v) + 1,
    "exclaim": lambda v: clip(text(v) + "!"),
}

VALUE_MAPPERS_WITH_KEY: dict[str, Callable[[Any, Any], Any]] = {
    "key_and_value": lambda k, v: clip(text(k) + ":" + text(v)),
    "sum_key_value": lambda k, v: num(k) + num(v),
    "null_if_key_even": lambda k, v: None if even(k) else v,
}


def text_of_value(key: Any, value: Any) -> str | None:
    return None if value is None else text(value)


def first_letter(key: Any, value: Any) -> str:
    return text(value)[:1]


def null_key_if_odd(key: Any, value: Any) -> Any:
    return key if even(value) else None


PAIR_MAPPERS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "swap_texts": lambda k, v: (clip(text(v)), clip(text(k))),
    "key_length": lambda k, v: (num(k), v),
    "value_as_key": lambda k, v: (text_of_value(k, v), v),
    "null_key_if_odd": lambda k, v: (null_key_if_odd(k, v), v),
    "first_letter": lambda k, v: (first_letter(k, v), v),
    "numbers": lambda k, v: (num(k), num(v)),
}

KEY_SELECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "text_of_value": text_of_value,
    "first_letter": first_letter,
    "value_parity": lambda k, v: num(v) % 2,
    "same_key": lambda k, v: k,
    "null_key_if_odd": null_key_if_odd,
}

FLAT_MAPPERS: dict[str, Callable[[Any, Any], list[tuple[Any, Any]]]] = {
    "twice": lambda k, v: [(k, v), (k, v)],
    "nothing": lambda k, v: [],
    "key_words": lambda k, v: [(word, v) for word in words(v)],
}

FLAT_VALUE_MAPPERS: dict[str, Callable[[Any], list[Any]]] = {
    "words": words,
    "repeat": lambda v: [v, v],
}

FLAT_VALUE_MAPPERS_WITH_KEY: dict[str, Callable[[Any, Any], list[Any]]] = {
    "key_then_value": lambda k, v: [text(k), clip(text(v))],
}

REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda a, b: clip(text(a) + "," + text(b)),
    "sum": lambda a, b: num(a) + num(b),
    "minus": lambda a, b: num(a) - num(b),
    "minus_or_none": lambda a, b: num(a) - num(b) or None,
    "unconcat": lambda a, b: clip(text(a) + "-" + text(b)),
    "latest": lambda a, b: b,
    "null_if_odd_sum": lambda a, b: num(a) + num(b) if (num(a) + num(b)) % 2 == 0 else None,
}

INITIALIZERS: dict[str, Callable[[], Any]] = {
    "zero": lambda: 0,
    "empty": lambda: "",
    "null": lambda: None,
}

AGGREGATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "count": lambda k, v, a: num(a) + 1,
    "uncount": lambda k, v, a: num(a) - 1,
    "sum": lambda k, v, a: num(a) + num(v),
    "unsum": lambda k, v, a: num(a) - num(v),
    "uncount_or_none": lambda k, v, a: num(a) - 1 or None,
    "unsum_or_none": lambda k, v, a: num(a) - num(v) or None,
    "join": lambda k, v, a: clip(text(a) + "+" + text(k) + "=" + text(v)),
    "unjoin": lambda k, v, a: clip(text(a) + "-" + text(k) + "=" + text(v)),
    "null_if_odd": lambda k, v, a: num(a) + num(v) if even(v) else None,
}


MERGERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda k, a, b: num(a) + num(b),
    "join": lambda k, a, b: clip(text(a) + "|" + text(b)),
    "null_if_odd_sum": lambda k, a, b: num(a) + num(b) if (num(a) + num(b)) % 2 == 0 else None,
}

JOINERS: dict[str, Callable[[Any, Any], Any]] = {
    "both": lambda a, b: clip(text(a) + "/" + text(b)),
    "left": lambda a, b: a,
    "right": lambda a, b: b,
    "total": lambda a, b: num(a) + num(b),
    "null_if_odd_total": lambda a, b: num(a) + num(b) if (num(a) + num(b)) % 2 == 0 else None,
}

JOINERS_WITH_KEY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "all": lambda k, a, b: clip(text(k) + ":" + text(a) + "/" + text(b)),
    "total": lambda k, a, b: num(k) + num(a) + num(b),
}

#: Those of a join with a global table, which has a key of its own.
JOINERS_WITH_KEYS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "every": lambda k, r, a, b: clip(text(k) + ";" + text(r) + ":" + text(a) + "/" + text(b)),
}


def negative_if_odd(record: InputRecord, key: Any, value: Any, partition_time_ms: int) -> int:
    return record.timestamp()[1] if even(value) else -1


EXTRACTORS: dict[str, Callable[[InputRecord, Any, Any, int], int]] = {
    "value_times_ten": lambda record, k, v, partition_time: num(v) * 10,
    "negative_if_odd": negative_if_odd,
    "partition_time": lambda record, k, v, partition_time: max(partition_time, 0),
}


def by_source_topic(key: Any, value: Any, metadata: RecordMetadata | None) -> str:
    return f"out-of-{'null' if metadata is None else metadata.topic}"


TOPIC_EXTRACTORS: dict[str, Callable[[Any, Any, RecordMetadata | None], str]] = {
    "by_value_parity": lambda k, v, metadata: "out-even" if even(v) else "out-odd",
    "by_source_topic": by_source_topic,
}

PARTITIONERS: dict[str, StreamPartitioner] = {
    "first": lambda topic, k, v, partitions: 0,
    "by_default": lambda topic, k, v, partitions: None,
    "even_headers": lambda topic, k, v, headers, partitions: () if len(headers) % 2 else 0,
    "by_value": lambda topic, k, v, partitions: num(v) % partitions,
}


def joiner_of(step: Mapping[str, Any]) -> Callable[..., Any]:
    """Returns the joiner of a step, which is given so many arguments (``args``)."""
    tables: dict[int, Mapping[str, Callable[..., Any]]] = {3: JOINERS_WITH_KEY, 4: JOINERS_WITH_KEYS}
    found: Callable[..., Any] = tables.get(step.get("args", 2), JOINERS)[step["fn"]]
    return found
