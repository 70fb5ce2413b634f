"""Compares statuses without the figures that always change: lags, ages, numbers in messages. Pure.

Called by the loop, which writes such changes only now and then: every write goes to every watcher.
"""

from __future__ import annotations

import re
from typing import Any

_DIGITS = re.compile(r"\d+([.,]\d+)*")
#: Fields that are figures, and fields that are sentences with figures in them.
_FIGURES = frozenset(
    {
        "inputLag",
        "standbyLag",
        "lag",
        "predictedSeconds",
        "ageSeconds",
        "podRecordsPerSecond",
        "batches",
        "batchSeconds",
        "recordsPerSecond",
    }
)
_SENTENCES = frozenset({"reason", "message", "predictedFrom"})


def without_figures(document: Any) -> Any:
    """Returns a status without its volatile parts: two that are equal then say the same."""
    if isinstance(document, dict):
        return {key: _part(key, value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [without_figures(item) for item in document]
    return document


def masked(text: str) -> str:
    """Returns a sentence without its figures."""
    return _DIGITS.sub("#", text)


def _part(key: str, value: Any) -> Any:
    if key in _FIGURES:
        return value is None
    if key in _SENTENCES and isinstance(value, str):
        return masked(value)
    return without_figures(value)
