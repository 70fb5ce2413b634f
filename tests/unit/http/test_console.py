"""The console's routes, asked over a real socket: the page is open and harmless, what it shows is not."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from instances import eventually
from query_hosts import QueryHost
from streamsapp.http import instance_routes
from streamsapp.http.console_routes import STREAMS
from streamsapp.http.instance_routes import Drain
from streamsapp.metrics import Sample
from streamsapp.topology.description import TopologyDescription
from streamsapp.web import HttpServer
from streamsapp.web.history import MOMENTS, STEP_MS, Moment, MomentHistory
from task_parts import through

#: The files of the page, and the files that all pages share.
PAGE = {
    each.name: each.read_text("utf-8")
    for folder in (files("streamsapp.http").joinpath("console"), files("streamsapp.web").joinpath("page"))
    for each in folder.iterdir()
    if each.name.endswith((".js", ".html"))
}


class View:
    """An instance that remembers which nodes were asked for."""

    def __init__(self) -> None:
        self.tapped: list[str | None] = []
        self.history = MomentHistory("one")

    def status(self) -> dict[str, Any]:
        return {"applicationId": "app", "instance": "one", "tasks": []}

    def figures(self, tapped: str | None) -> dict[str, Any]:
        self.tapped.append(tapped)
        return {"nodes": {}, "looks": len(self.tapped)}

    def describe(self) -> TopologyDescription:
        return through().describe()

    def healthy(self) -> tuple[bool, str]:
        return True, ""

    ready = healthy

    def samples(self) -> list[Sample]:
        return []

    def snapshot(self, timeout: float) -> bool:
        return True

    def pause(self, sub_topology: int | str | None = None) -> None:
        raise AssertionError("no page pauses a query")

    resume = pause

    def take_out(self, member_id: str) -> None:
        raise AssertionError("no page takes a member out")


@contextmanager
def serving(view: View, token_file: Path | None = None) -> Iterator[HttpServer]:
    with closing(HttpServer(0, host="127.0.0.1", token_file=token_file)) as server:
        server.start(instance_routes(view, QueryHost().queries(), Drain(lambda timeout: True, 25)))
        yield server


@contextmanager
def asked(server: HttpServer, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        with closing(connection.getresponse()) as response:
            yield response


def event(response: http.client.HTTPResponse) -> dict[str, Any]:
    line = response.readline()
    assert response.readline() == b"\n"
    document: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return document


def test_the_page_is_open_runs_only_its_own_scripts_and_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    with serving(View(), tmp_path / "token") as server:
        with asked(server, "/console") as response:
            assert (response.status, response.headers["Location"]) == (307, "console/")
        for path, kind in (
            ("", "text/html"),
            ("main.js", "text/javascript"),
            ("style.css", "text/css"),
            ("uPlot.iife.min.js", "text/javascript"),
        ):
            with asked(server, f"/console/{path}") as response:
                assert response.status == 200
                assert response.headers["Content-Type"] == f"{kind}; charset=utf-8"
                policy = response.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self';")
                assert "unsafe" not in policy
        for path in ("events", "figures", "graph", "history", "stores", "topics"):
            with asked(server, f"/console/{path}") as response:
                assert response.status == 401, path
        for path in ("../server.py", "%2e%2e/server.py", "nothing.js"):
            with asked(server, f"/console/{path}") as response:
                assert response.status == 404, path


def test_events_come_one_after_the_other_for_as_long_as_somebody_listens() -> None:
    view = View()
    with serving(view) as server, asked(server, "/console/events?tap=KSTREAM-1%20%C3%A4") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        [first], [second] = (event(response)["instances"] for _ in range(2))
    assert (first["instance"], first["figures"]["looks"], second["figures"]["looks"]) == ("one", 1, 2)
    assert set(view.tapped) == {"KSTREAM-1 ä"}


def test_there_are_few_streams_at_a_time_and_who_leaves_makes_room() -> None:
    with serving(View()) as server:
        with ExitStack() as stack:
            for _ in range(STREAMS):
                event(stack.enter_context(asked(server, "/console/events")))
            with asked(server, "/console/events") as refused:
                assert refused.status == 503
                assert "close one" in json.load(refused)["error"]

        def admitted() -> bool:
            with asked(server, "/console/events") as response:
                return response.status == 200

        eventually(admitted, "room for a stream", 60)


def test_the_first_event_has_the_whole_history_and_the_next_ones_what_is_new() -> None:
    view = View()
    for number in range(2 * MOMENTS):
        view.history.add(Moment(number * STEP_MS, rate=5.0))
    with serving(view) as server, asked(server, "/console/events") as response:
        first = event(response)["history"]
        view.history.add(Moment(2 * MOMENTS * STEP_MS, rate=7.0))
        later = [event(response)["history"]["instances"] for _ in range(2)]
    assert first["fields"][:2] == ["atMs", "rate"]
    assert [each[:2] for each in first["instances"]["one"]] == [
        [number * STEP_MS, 5.0] for number in range(MOMENTS, 2 * MOMENTS)
    ]
    told = [each for some in later for each in some.get("one", [])]
    assert [each[:2] for each in told] == [[2 * MOMENTS * STEP_MS, 7.0]]


def test_the_history_is_asked_for_from_a_time_on() -> None:
    view = View()
    for at_ms in (10, 20, 30):
        view.history.add(Moment(at_ms))
    with serving(view) as server:
        for query, expected in (("", [10, 20, 30]), ("?after=10", [20, 30]), ("?after=30", [])):
            with asked(server, f"/console/history{query}") as response:
                assert [each[0] for each in json.load(response)["instances"]["one"]] == expected, query
        for wrong in ("-1", "soon", "9" * 40, "%C2%B2"):
            with asked(server, f"/console/history?after={wrong}") as response:
                assert response.status == 400
                assert "after: expected milliseconds" in json.load(response)["error"]


def test_the_graph_and_the_stores_are_told() -> None:
    with serving(View()) as server:
        with asked(server, "/console/graph") as response:
            assert {box["name"] for box in json.load(response)["boxes"]} == {"in", "source", "node", "sink", "out"}
        with asked(server, "/console/stores") as response:
            [store] = json.load(response)["stores"]
    assert store == {"name": "counts", "kind": "keys", "partitions": 4, "key": "string", "value": "long"}


def test_other_sites_get_nothing_from_a_port_without_a_token() -> None:
    with serving(View()) as server:
        for headers in ({"Origin": "http://elsewhere.example"}, {"Host": "rebound.example"}):
            with asked(server, "/console/events", **headers) as response:
                assert response.status == 403


def test_the_page_asks_at_once_for_all_its_modules() -> None:
    """Not for one after the other, as each names the next."""
    preloaded = re.findall(r'modulepreload" href="([^"]+)', PAGE["index.html"])
    assert sorted(preloaded) == sorted(name for name in PAGE if name.endswith(".js") and name != "main.js")


@pytest.mark.parametrize("name", sorted(PAGE))
def test_the_page_loads_nothing_from_elsewhere_and_makes_no_markup_of_texts(name: str) -> None:
    text = PAGE[name]
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text) == []
    assert re.findall(r"(?:src|href|from|import)\s*[=(]?\s*[\"']https?:", text) == []
    assert "localStorage" not in text
    assert "sessionStorage" not in text
