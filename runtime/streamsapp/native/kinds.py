"""The numbers in which Python and the compiled part name things to each other, on any thread."""

from __future__ import annotations

from enum import IntEnum


class StepKind(IntEnum):
    """The ways in which a step without state uses its function, in the order of ``steps.h``. Those that end in
    ``KEYED`` give it key and value, as filters, ``MAP`` and ``SELECT_KEY`` do, others the value."""

    FILTER = 0
    FILTER_NOT = 1
    MAP = 2
    SELECT_KEY = 3
    MAP_VALUES = 4
    MAP_VALUES_KEYED = 5
    FLAT_MAP_VALUES = 6
    FLAT_MAP_VALUES_KEYED = 7
    DROP_NULL_KEYS = 8


class Why(IntEnum):
    """The reasons for which a record was not taken, in the order of ``outbox.h``."""

    TAKEN = 0
    FULL = 1
    UNKNOWN_TOPIC = 2
    UNKNOWN_PARTITION = 3
    TOO_LARGE = 4
    NOT_KNOWN = 5
