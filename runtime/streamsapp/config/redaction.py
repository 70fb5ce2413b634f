"""Keeps secrets out of logs and error messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "[hidden]"

_SECRET = re.compile(r"password|secret|token|credential|(^|\.)sasl\.|(^|\.)ssl\.key|\.pem$", re.IGNORECASE)


def redact(properties: Mapping[str, object]) -> dict[str, object]:
    """Returns a copy in which the values of secret keys are hidden."""
    return {key: REDACTED if is_secret(key) else value for key, value in properties.items()}


def is_secret(key: str) -> bool:
    """Says whether the value of this client property must not be shown."""
    return bool(_SECRET.search(key))
