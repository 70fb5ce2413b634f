"""``GET /state/<store>/<key>`` and ``/state/<store>?from=&to=``: interactive queries over HTTP.

Called on threads of the HTTP server. An entry that is not here is redirected to its owner (307), fetched from it
(``proxy``), or refused with the owner's name: 421 when only this instance was asked (``local``), 503 while no instance
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from streamsapp.errors import InvalidQueryError, StoreNotAvailableError, UnknownStateStoreError
from streamsapp.http.json_values import parse_key, show, show_bound, show_version
from streamsapp.query import Queries, Staleness
from streamsapp.query.api import PAGE_BYTES, Found, KeyRange, Page, QuerySource, StoreInfo, Wanted, merged
from streamsapp.query.remote_reader import Patience, decode
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.layers.window_view import WindowRange
from streamsapp.web.request_routing import HttpRequest, HttpResponse, json_response

_LIMIT, _MAX_LIMIT = 1000, 10_000
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class QueryParameters:
    """A request's parameters."""

    partition: int | None = None
    stale: Staleness | None = None
    #: Only what is on this instance; of a range, behind this endpoint.
    local: bool = False
    #: Fetch from the owner instead of redirecting to it.
    proxy: bool = False
    #: Keys and values are base64 of their serialised form.
    as_bytes: bool = False
    limit: int = _LIMIT
    #: Bounds of a range as texts of keys; ``to`` is included, ``before`` is not.
    from_: str = ""
    to: str = ""
    before: str = ""
    #: The time when windows start, both ends included.
    from_time: int = 0
    to_time: int = MAX_TIMESTAMP
    #: The place where a page of windows or versions begins.
    position: str = ""
    #: The time of the version that is wanted of a key.
    as_of: str = ""


class StateRoute:
    """Answers queries at one instance."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            name, slash, key = request.path.removeprefix("/state/").partition("/")
            parameters = parse_parameters(request.query)
            store = self._queries.store(unquote(name, errors="strict"))
            if slash:
                return self._key(store, unquote(key, errors="strict"), parameters, request)
            if parameters.as_of:
                raise InvalidQueryError("asOf: it is for one key; say fromTime and toTime for a range of keys")
            keys = _window_range(store, parameters) if _has_times(store) else _key_range(store, parameters)
            return self._range(store, keys, parameters, request)
        except (InvalidQueryError, UnicodeDecodeError) as error:
            return json_response({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except UnknownStateStoreError as error:
            return json_response({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except StoreNotAvailableError as error:
            return _unavailable(error)

    def _key(self, store: StoreInfo, text: str, parameters: QueryParameters, request: HttpRequest) -> HttpResponse:
        if parameters.as_of:
            if store.key_of is None:
                raise InvalidQueryError(f"asOf: store {store.name} keeps no versions; leave it out")
            parameters = replace(parameters, from_=parameters.as_of, to=parameters.as_of)
        if store.window_of is not None or (store.key_of is not None and (parameters.from_ or parameters.to)):
            return self._windows_of_key(store, text, parameters, request)
        key = parse_key(store, text, as_bytes=parameters.as_bytes)
        partitions = self._queries.partitions_of(store, key) if parameters.partition is None else [parameters.partition]
        try:
            found, source = self._find(store, partitions, key, parameters)
        except StoreNotAvailableError as error:
            return self._elsewhere(error, parameters, request)
        document = {"store": store.name, **show(store, found, as_bytes=parameters.as_bytes), **_shown(source)}
        if found.raw is not None:
            return json_response(document)
        searched = {} if store.is_global else {"searched": sorted(partitions)}
        return json_response(document | searched, HTTPStatus.NOT_FOUND)

    def _windows_of_key(
        self, store: StoreInfo, text: str, parameters: QueryParameters, request: HttpRequest
    ) -> HttpResponse:
        """``from`` and ``to`` are times here; of all partitions where the key may be."""
        times = {
            field: _milliseconds(name, given)
            for field, name, given in (("from_time", "from", parameters.from_), ("to_time", "to", parameters.to))
            if given
        }
        parameters = replace(parameters, **{"from_": "", "to": "", **times})  # type: ignore[arg-type]
        # The key may be empty, which as a bound of a range is an open end.
        key = parse_key(store, text, as_bytes=parameters.as_bytes)
        keys = _window_range(store, parameters)._replace(low=key, high=key)
        where = self._queries.partitions_of(store, key)
        if parameters.partition is None and len(where) > 1:
            try:
                # All of them or none: a caller that asks for a key takes the answer for the whole.
                return self._page(store, keys, replace(parameters, proxy=True), where)
            except StoreNotAvailableError as error:
                return self._elsewhere(error, parameters, request) if parameters.local else _unavailable(error)
        partition = where[0] if parameters.partition is None else parameters.partition
        return self._range(store, keys, replace(parameters, partition=partition), request)

    def _find(
        self, store: StoreInfo, partitions: list[int], key: bytes, parameters: QueryParameters
    ) -> tuple[Found, QuerySource]:
        if parameters.local:
            return self._queries.find_here(store, partitions, key, parameters.stale)
        if not parameters.proxy:
            # The caller is sent to the likeliest owner. When that one has nothing, it asks the others itself.
            found, source = self._queries.local.get(store, partitions[0], key, parameters.stale)
            if found.raw is not None or len(partitions) == 1:
                return found, source
        return self._queries.find(store, partitions, key, parameters.stale)

    def _range(self, store: StoreInfo, keys: Wanted, parameters: QueryParameters, request: HttpRequest) -> HttpResponse:
        if store.is_global and parameters.partition is None:
            parameters = replace(parameters, partition=0)
        if parameters.partition is None:
            return self._page(store, keys, parameters, range(store.partitions))
        try:
            page, source = self._queries.local.range(
                store, parameters.partition, keys, parameters.limit, parameters.stale
            )
        except StoreNotAvailableError as error:
            if store.is_global:
                return _unavailable(error)
            if not parameters.proxy or parameters.local:
                return self._elsewhere(error, parameters, request)
            page = self._queries.remote_range(
                store, parameters.partition, keys, parameters.limit, parameters.stale, Patience()
            )
            return json_response(_document(store, page, parameters) | {"partition": parameters.partition})
        return json_response(_document(store, page, parameters) | _shown(source))

    def _page(
        self, store: StoreInfo, keys: Wanted, parameters: QueryParameters, partitions: Iterable[int]
    ) -> HttpResponse:
        """Partitions behind this endpoint, or of the whole application; missing ones are named."""
        pages: list[Page] = []
        covered: list[int] = []
        elsewhere: dict[str, str | None] = {}
        patience = Patience()
        for partition in partitions:
            try:
                pages.append(self._partition(store, partition, keys, parameters, patience))
                covered.append(partition)
            except StoreNotAvailableError as error:
                if parameters.proxy:
                    raise
                elsewhere[str(partition)] = error.owner
        document = _document(store, merged(pages, parameters.limit), parameters)
        return json_response(document | {"partitions": covered, "elsewhere": elsewhere})

    def _partition(
        self, store: StoreInfo, partition: int, keys: Wanted, parameters: QueryParameters, patience: Patience
    ) -> Page:
        most_bytes = PAGE_BYTES // store.partitions
        try:
            page, _ = self._queries.local.range(store, partition, keys, parameters.limit, parameters.stale, most_bytes)
        except StoreNotAvailableError as error:
            # An instance that shares this endpoint lives in the same pod.
            same = error.owner is not None and error.owner == self._queries.host.endpoint
            if not same and (parameters.local or not parameters.proxy):
                raise
            page = self._queries.remote_range(store, partition, keys, parameters.limit, parameters.stale, patience)
        return page.cut(parameters.limit, most_bytes)

    def _elsewhere(
        self, error: StoreNotAvailableError, parameters: QueryParameters, request: HttpRequest
    ) -> HttpResponse:
        """Sends the caller to the instance that has it, for it is not here."""
        if parameters.local:
            return json_response({"error": str(error), "owner": error.owner}, HTTPStatus.MISDIRECTED_REQUEST)
        if error.owner is None or error.owner == self._queries.host.endpoint:
            return _unavailable(error)
        document = {"error": str(error), "owner": error.owner}
        location = f"http://{error.owner}{request.target}"
        return json_response(document, HTTPStatus.TEMPORARY_REDIRECT, Location=location)


def parse_parameters(query: str) -> QueryParameters:
    """Parses the part behind the question mark. A parameter that is not known is refused, as it may be a bound
    misspelt."""
    given = dict(parse_qsl(query, keep_blank_values=True, errors="strict"))
    settings: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    standby = given.pop("standby", None)
    for name, text in given.items():
        if name not in _PARAMETERS:
            raise InvalidQueryError(f"{name}: there is no such parameter; there are standby, {', '.join(_PARAMETERS)}")
        field, parse = _PARAMETERS[name]
        try:
            (bounds if field in ("max_lag", "max_age") else settings)[field] = parse(text)
        except (ValueError, KeyError, OverflowError) as error:
            raise InvalidQueryError(f"{name}: cannot use {text!r}") from error
    if standby not in (None, "ok") or (bounds and standby is None):
        raise InvalidQueryError("standby: say standby=ok to be answered by replicas, and leave out maxLag otherwise")
    if not 1 <= settings.get("limit", _LIMIT) <= _MAX_LIMIT:
        raise InvalidQueryError(f"limit: expected 1 to {_MAX_LIMIT}, got {settings['limit']}")
    return QueryParameters(**settings, stale=None if standby is None else Staleness(**bounds))


_PARAMETERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "partition": ("partition", int),
    "maxLag": ("max_lag", int),
    "maxAgeMs": ("max_age", lambda text: timedelta(milliseconds=int(text))),
    "local": ("local", _FLAGS.__getitem__),
    "proxy": ("proxy", _FLAGS.__getitem__),
    "format": ("as_bytes", {"json": False, "bytes": True}.__getitem__),
    "limit": ("limit", int),
    "from": ("from_", str),
    "to": ("to", str),
    "before": ("before", str),
    "fromTime": ("from_time", int),
    "toTime": ("to_time", int),
    "position": ("position", str),
    "asOf": ("as_of", str),
}


def _key_range(store: StoreInfo, parameters: QueryParameters) -> KeyRange:
    """Empty bounds are open."""
    if (parameters.from_time, parameters.to_time, parameters.position) != (0, MAX_TIMESTAMP, ""):
        raise InvalidQueryError(f"fromTime, toTime, position: store {store.name} has no windows; leave them out")
    start = parse_key(store, parameters.from_, as_bytes=parameters.as_bytes) if parameters.from_ else b""
    if parameters.before:
        return KeyRange(start, parse_key(store, parameters.before, as_bytes=parameters.as_bytes))
    # The end is exclusive; a zero byte appended is the next key there can be.
    return KeyRange(
        start, parse_key(store, parameters.to, as_bytes=parameters.as_bytes) + b"\x00" if parameters.to else None
    )


def _window_range(store: StoreInfo, parameters: QueryParameters) -> WindowRange:
    """Empty bounds are open."""
    if parameters.before:
        raise InvalidQueryError(f"before: store {store.name} has windows or versions; say to and position")
    low, high = (
        parse_key(store, text, as_bytes=parameters.as_bytes) if text else None
        for text in (parameters.from_, parameters.to)
    )
    if not 0 <= parameters.from_time <= parameters.to_time:
        raise InvalidQueryError(
            f"there is no time from {parameters.from_time} to {parameters.to_time}; the earlier comes first"
        )
    try:
        position = decode(parameters.position)
    except ValueError as error:
        raise InvalidQueryError(
            f"position: {parameters.position!r} is none; send the next of the page before"
        ) from error
    return WindowRange(position, low or b"", high, parameters.from_time, parameters.to_time)


def _has_times(store: StoreInfo) -> bool:
    """Says whether a range of the store's entries is also one of time: it has windows or versions."""
    return store.window_of is not None or store.key_of is not None


def _milliseconds(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidQueryError(
            f"{name}: {text!r} is not a time in milliseconds, as the windows of a key need"
        ) from error


def _document(store: StoreInfo, page: Page, parameters: QueryParameters) -> dict[str, Any]:
    """The entries, and where to go on: ``next`` is the ``from`` of the next page, of windows its ``position``."""
    shown = show if store.key_of is None else show_version
    entries = [shown(store, each, as_bytes=parameters.as_bytes) for each in page.entries]
    as_bytes = parameters.as_bytes or _has_times(store)
    following = None if page.next is None else show_bound(store, page.next, as_bytes=as_bytes)
    return {"store": store.name, "entries": entries, "next": following}


def _shown(source: QuerySource) -> dict[str, Any]:
    if source.positions is not None:
        positions = {str(partition): offset for partition, offset in sorted(source.positions.items())}
        return {"role": "global", "lag": source.lag, "positions": positions}
    return {"partition": source.partition, "role": source.role.value, "lag": source.lag}


def _unavailable(error: StoreNotAvailableError) -> HttpResponse:
    document = {"error": str(error), "owner": error.owner}
    return json_response(document, HTTPStatus.SERVICE_UNAVAILABLE, **{"Retry-After": "1"})
