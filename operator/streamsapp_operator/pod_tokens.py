"""Derives the tokens by which pods know the operator, and users of their state: one for each application and day.

Pure. They are derived from the operator's own key, so that it can ask pods without being allowed to read any Secret: it
writes today's and yesterday's, and pods admit both.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from streamsapp_operator.kube.kinds import Object

_DAY_SECONDS = 86_400


def tokens(key: bytes, uid: str, now: float) -> tuple[str, str]:
    """Returns the tokens of an application: today's, which is the first to be used, and yesterday's."""
    today = int(now // _DAY_SECONDS)
    return _token(key, uid, today), _token(key, uid, today - 1)


def read_tokens(secret: Object | None) -> tuple[str, ...]:
    """Returns the tokens in an application's Secret, the newest first; none if it has none that can be read."""
    try:
        return tuple(base64.b64decode(((secret or {}).get("data") or {}).get("token") or "").decode("ascii").split())
    except ValueError:
        return ()


def spark_word(key: bytes, uid: str) -> str:
    """Returns the word that the pods of an application with ``engine: spark`` know each other by, as long as it
    lives."""
    return hmac.new(key, f"streamsapp-spark:{uid}".encode(), hashlib.sha256).hexdigest()


def _token(key: bytes, uid: str, day: int) -> str:
    return hmac.new(key, f"streamsapp-http:{uid}:{day}".encode(), hashlib.sha256).hexdigest()
