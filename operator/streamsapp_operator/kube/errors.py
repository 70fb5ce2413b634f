"""The errors of the API server, by what the caller has to do about them. Pure.

    ApiError
    ├── Conflict      another writer changed it meanwhile, or it exists already: look again
    ├── Gone          it is not there (any more)
    ├── Forbidden     the operator's role lacks a right; the message names it
    ├── Refused       an eviction that a budget does not allow now
    ├── InternalError what was to be written made the API server fail (a webhook that is away): this object's trouble
    ├── OlderDefinition  the StreamsApp resource is older than what it is to hold: a write would lose fields
    ├── Rejected      the document is wrong, or a policy or quota of the namespace is against it: the user's to mend
    └── Unavailable   not reached, no answer in time, or too busy: try again
        └── Unauthorized  the login is not accepted

Raised by the client, on whichever thread calls it.
"""

from __future__ import annotations

import re
from typing import Any

_MISSING_RIGHT = re.compile(r'cannot (\S+) resource "([^"]+)" in API group "([^"]*)"')

#: The words in which server-side apply says that a document does not fit its schema: as an error of its own.
_UNTYPED = "failed to create typed patch object"


class ApiError(Exception):
    """The root of the errors that the client raises."""

    #: The API server's own words; empty if it has not answered.
    said = ""


class Conflict(ApiError):
    """The object changed since it was read, or exists already."""


class Gone(ApiError):
    """There is no such object."""


class Forbidden(ApiError):
    """The operator's role lacks a right."""


class Refused(ApiError):
    """A budget does not allow the eviction now."""


class Rejected(ApiError):
    """The API server cannot take the document, now or later."""


class InternalError(ApiError):
    """The API server, or a webhook that it asks, failed over what was written."""


class OlderDefinition(ApiError):
    """The cluster's StreamsApp resource does not know all that an object or this operator has: a write loses it."""


class Unavailable(ApiError):
    """The API server was not reached, or could not do it now."""


class Unauthorized(Unavailable):
    """The API server does not accept the login: a token may have ended, and be renewed."""


def error_of(
    code: int, status: dict[str, Any], doing: str, *, evicting: bool = False, writing: bool = False
) -> ApiError:
    """Returns the error of an answer; ``doing`` names the call, and ``status`` is its body."""
    said = str(status.get("message") or status.get("reason") or f"HTTP {code}")
    error = _error_of(code, said, doing, evicting, writing)
    error.said = said
    return error


def _error_of(code: int, said: str, doing: str, evicting: bool, writing: bool) -> ApiError:
    if code == 401:
        return Unauthorized(f"{doing}: the API server does not accept the operator's login: {said}")
    if code == 403 and (right := _MISSING_RIGHT.search(said)) is not None:
        verb, resource, group = right.groups()
        remedy = f"add {verb} on {resource} in API group {group!r} to its role, or upgrade the chart"
        return Forbidden(f"{doing}: the operator may not {verb} {resource}; {remedy} ({said})")
    if code == 429 and evicting:
        return Refused(said)
    if code == 500 and _UNTYPED in said:
        return Rejected(f"{doing}: {said}")
    if code == 500 and writing:
        return InternalError(f"{doing}: {said}")
    kind = {404: Gone, 409: Conflict, 410: Gone, 400: Rejected, 403: Rejected, 413: Rejected, 422: Rejected}
    return kind.get(code, Unavailable)(f"{doing}: {said}")
