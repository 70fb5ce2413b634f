"""Finds what is wrong with a sink whose table is in a database. Called by ``sink_faults``; pure.

No message shows an address: it may have a password in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamsapp.config.redaction import is_secret
from streamsapp.manifest.model import SinkSpec

#: ``//user:password@host``, and ``thin:user/password@host``, where the address ends with its parameters.
_LOGIN = re.compile(r"//[^/@\s]*@|[^/@:\s]+/[^/@\s]+@")
#: ``?password=...``, and ``;user=...``.
_PARAMETER = re.compile(r"[?&;,(]\s*(\w*(password|passwd|pwd|secret|token)\w*|user|username|uid)\s*=", re.IGNORECASE)
#: Options of Spark's that are the login.
_OWN_LOGIN = frozenset({"user", "username"})
#: Options that the sink sets itself.
_OWN = frozenset({"dbtable", "query", "truncate", "cascadetruncate"})
_REMEDY = "make username and password files of the Secret of secretRef"


def jdbc_faults(sink: SinkSpec, field: str) -> Iterator[str]:
    """Yields the faults of a sink beside those of its table, each with the ``field`` of the manifest."""
    if sink.format != "jdbc":
        if sink.secret_ref is not None:
            yield f"{field}.secretRef: is for jdbc alone; remove it"
        return
    yield from _url_faults(sink.options.get("url"), field)
    for option in sink.options:
        if is_secret(option) or option.lower() in _OWN_LOGIN:
            yield f"{field}.options.{option}: all who may read the resource can read it; remove it, and {_REMEDY}"
        elif option.lower() in _OWN:
            yield f"{field}.options.{option}: is set by the sink itself; remove it, and name the table in {field}.table"


def _url_faults(url: object, field: str) -> Iterator[str]:
    where = f"{field}.options.url"
    if url is None:
        yield f"{where}: is required with format: jdbc; set the database's address, such as jdbc:postgresql://host/lake"
    elif not isinstance(url, str) or not url.startswith("jdbc:"):
        yield f"{where}: expected the address of a database, such as jdbc:postgresql://host:5432/lake"
    elif _PARAMETER.search(url) or _LOGIN.search(re.split("[?;]", url)[0]):
        yield f"{where}: all who may read the resource can read the login in it; remove it, and {_REMEDY}"
