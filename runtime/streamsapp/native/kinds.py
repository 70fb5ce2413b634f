"""The numbers in which Python and the compiled part name things to each other, on any thread."""

from __future__ import annotations

from enum import IntEnum


class Why(IntEnum):
    """The reasons for which a record was not taken, in the order of ``outbox.h``."""

    TAKEN = 0
    FULL = 1
    UNKNOWN_TOPIC = 2
    UNKNOWN_PARTITION = 3
    TOO_LARGE = 4
    NOT_KNOWN = 5
