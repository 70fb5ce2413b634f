"""Sizes and durations as people read them. Pure; for the commands of the runtime and the kubectl plugin."""

from __future__ import annotations


def size_text(size: int) -> str:
    """Bytes in the largest binary unit that gives at least one: ``1.5 MiB``."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration_text(seconds: float) -> str:
    """Seconds in the two largest units: ``2h05m``. A negative duration, from clocks that differ, is none."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"
