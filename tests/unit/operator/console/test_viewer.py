"""A viewer is the owner of the token that was shown: nothing of the operator's login goes with it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from streamsapp.clock import SystemClock
from streamsapp.web import HttpServer
from streamsapp_operator.console.routes import STREAMS, console_routes
from streamsapp_operator.console.viewer import MOST_EVENTS, Viewer, configuration_of, words
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import error_of
from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.steady_clock import SteadyClock

PAGE = Path(__file__).resolve().parents[4] / "operator/streamsapp_operator/console"


def operators_login() -> client.Configuration:
    """With everything that a login may have, at an address where nothing answers."""
    found = client.Configuration()
    found.host, found.ssl_ca_cert = "https://127.0.0.1:9", None
    found.cert_file, found.key_file = "operator.crt", "operator.key"
    found.api_key["authorization"] = "Bearer operators"
    found.username, found.password = "operator", "secret"
    setattr(found, "refresh_api_key_hook", lambda configuration: None)  # noqa: B010 - it is typed as nothing else
    return found


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with closing(HttpServer(0, host="127.0.0.1")) as made:
        made.start(console_routes(operators_login(), ["apps"], SteadyClock(SystemClock())))
        yield made


def asked(server: HttpServer, method: str, path: str, **headers: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer)


def test_a_viewer_has_the_operators_server_and_nothing_of_its_login() -> None:
    found = configuration_of(operators_login(), "veras")
    assert found.host == "https://127.0.0.1:9"
    assert found.api_key == {"authorization": "Bearer veras"}
    assert (found.cert_file, found.key_file, found.username, found.password) == (None, None, None, None)
    assert found.refresh_api_key_hook is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "scope"), ("GET", "events"), ("GET", "events?namespace=apps&app=a"),
     ("POST", "order?namespace=apps&app=a&order=restart")],
)  # fmt: skip
@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}])
def test_nothing_is_told_or_done_without_a_token(
    server: HttpServer, method: str, path: str, header: dict[str, str]
) -> None:
    status, told = asked(server, method, f"/console/{path}", **header)
    assert (status, told["error"]) == (401, "send 'Authorization: Bearer <token>', with a token of the API server")


def test_who_is_refused_takes_no_place_among_those_who_look(server: HttpServer) -> None:
    assert {asked(server, "GET", "/console/events")[0] for _ in range(STREAMS + 1)} == {401}


def test_what_is_no_name_is_refused_before_anybody_is_asked(server: HttpServer) -> None:
    path = "/console/order?namespace=apps&app=../../secrets/x&order=restart"
    status, told = asked(server, "POST", path, Authorization="Bearer token")
    assert status == 400
    assert told["error"].startswith("app: expected letters, digits")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "order?namespace=apps&order=restart"), ("POST", "order?app=a&order=restart"), ("GET", "events?app=a")],
)
def test_who_names_half_an_application_is_told_to_name_it(server: HttpServer, method: str, path: str) -> None:
    status, told = asked(server, method, f"/console/{path}", Authorization="Bearer token")
    assert status == 400
    assert "application" in told["error"]


def test_a_namespace_that_the_operator_does_not_watch_is_refused(server: HttpServer) -> None:
    status, told = asked(server, "GET", "/console/events?namespace=other", Authorization="Bearer token")
    assert (status, told["error"]) == (400, "the operator does not watch namespace 'other', but apps")


def test_an_api_server_that_is_away_is_told_as_such(server: HttpServer) -> None:
    status, told = asked(server, "GET", "/console/scope", Authorization="Bearer token")
    assert status == 502
    assert "token" not in told["error"]


class FullOfEvents(Client):
    """Endless events, page after page."""

    def __init__(self) -> None:
        self.pages = 0

    def _request(self, *_: Any, **__: Any) -> Object:
        self.pages += 1
        more = {"continue": "more"} if self.pages < 10 else {}
        return {"metadata": more, "items": [{"metadata": {"name": f"{self.pages}-{it}"}} for it in range(400)]}


def test_no_more_events_are_read_than_a_page_can_use() -> None:
    found = FullOfEvents()
    assert len(Viewer(found).events("apps", "a", "u-1")) == MOST_EVENTS == 1000
    assert found.pages == 3


def test_a_right_that_is_missing_is_told_in_the_api_servers_words_which_name_the_viewer() -> None:
    said = 'pods is forbidden: User "vera" cannot list resource "pods" in API group "" in the namespace "apps"'
    assert words(error_of(403, {"message": said}, "list pods")) == said


def test_the_page_is_open_and_made_of_its_own_files_and_those_of_all_pages(server: HttpServer) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        for name in ("", "main.js", "cluster.css", "style.css", "server.js"):
            connection.request("GET", f"/console/{name}")
            answer = connection.getresponse()
            assert answer.status == 200, name
            assert answer.read()
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        connection.request("GET", "/console/viewer.py")
        assert connection.getresponse().status == 404


@pytest.mark.parametrize("file", sorted(PAGE.glob("*.js")), ids=lambda file: file.name)
def test_the_page_makes_no_markup_of_texts_and_keeps_no_token(file: Path) -> None:
    text = file.read_text("utf-8")
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "Storage", "cookie", "http:")
    assert [word for word in words if word in text] == []
