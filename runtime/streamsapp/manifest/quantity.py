"""Kubernetes' quantities: ``2Gi``, ``500m``, ``1e3``. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE]|)")
_MOST_CHARACTERS = 64
_FACTORS = {
    "": Decimal(1),
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in zip((-3, -2, -1, 1, 2, 3, 4, 5, 6), "numkMGTPE", strict=True)
    },
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(quantity: str | float) -> Decimal | None:
    """The number a quantity stands for, or ``None`` if it is none or negative."""
    text = str(quantity)
    match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2]
    return number * (_FACTORS[suffix] if suffix in _FACTORS else Decimal(f"1{suffix}"))
