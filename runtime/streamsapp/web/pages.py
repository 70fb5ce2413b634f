"""The files of a page: its own, the ones that all pages have, and the library that draws charts.

Read once; called on threads of the HTTP server.

A page is open to all, as it holds no data: it asks for the data it shows with a token, where there are tokens.
"""

from __future__ import annotations

from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: The page runs its own scripts only, loads nothing from elsewhere, and is in no other page's frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TO_PAGE = {"Location": "console/"}


def page_routes(package: str) -> Routes:
    """The routes of the page in the folder ``console`` of a package, at ``/console/``."""
    web = files("streamsapp.web")
    pages = _Pages(web.joinpath("page"), web.joinpath("uplot"), files(package).joinpath("console"))
    return {
        "/console": Route(lambda _: HttpResponse(HTTPStatus.TEMPORARY_REDIRECT, b"", headers=_TO_PAGE), open=True),
        "/console/": Route(pages, open=True),
    }


class _Pages:
    def __init__(self, *folders: Traversable) -> None:
        self._files = {
            each.name: (each.read_bytes(), _TYPES[suffix])
            for folder in folders
            for each in folder.iterdir()
            if (suffix := each.name[each.name.rfind(".") :]) in _TYPES
        }

    def __call__(self, request: HttpRequest) -> HttpResponse:
        found = self._files.get(request.path.removeprefix("/console/") or "index.html")
        if found is None:
            return json_response({"error": "not found"}, HTTPStatus.NOT_FOUND)
        body, content_type = found
        return HttpResponse(HTTPStatus.OK, body, f"{content_type}; charset=utf-8", _HEADERS)
