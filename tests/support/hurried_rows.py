"""Rows that change faster than their partners in a join by foreign key answer.

Called by the tests of that join, live and over history.
"""

from __future__ import annotations

#: The later values of rows that were ``a1``, by their key. The first letter is the foreign key, and ``none`` has none.
HURRIED: dict[str, list[str | None]] = {
    "deleted": [None, "b1"],
    "without a key": ["none", "b1"],
    "ends without a key": ["b1", "none", "other none"],
    "ends deleted": ["none", None],
    "of another partner": ["c1", "c2"],
    "of the same partner": ["b1", "a2"],
    "back": [None, "a1"],
}
