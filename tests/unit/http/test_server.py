"""The instance's HTTP port, asked over a real socket."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from query_hosts import QueryHost
from streamsapp.errors import ConfigError, StreamsError, UserInputError
from streamsapp.http import instance_routes
from streamsapp.http.instance_routes import Drain
from streamsapp.metrics import Sample, gauge
from streamsapp.query.remote_reader import HttpFetch
from streamsapp.topology.description import TopologyDescription
from streamsapp.web import HttpServer, connections, server as server_module
from streamsapp.web.history import MomentHistory
from streamsapp.web.request_routing import Route, probe
from task_parts import through

#: Longer than a thread stands still on a busy machine, in seconds.
_PATIENCE = 60.0


class View:
    """An instance whose answers the test decides."""

    def __init__(self) -> None:
        self.health = (True, "")
        self.readiness = (True, "RUNNING")
        self.error: Exception | None = None

        self.drained = True
        self.drains: list[float] = []
        self.taken = True
        self.refusal: str | None = None
        self.snapshots: list[float] = []
        self.taken_out: list[str] = []
        self.paused: list[int | str | None] = []
        self.history = MomentHistory("one")

    def drain(self, timeout: float) -> bool:
        self.drains.append(timeout)
        return self.drained

    def snapshot(self, timeout: float) -> bool:
        if self.refusal is not None:
            raise StreamsError(self.refusal)
        self.snapshots.append(timeout)
        return self.taken

    def pause(self, sub_topology: int | str | None = None) -> None:
        if self.refusal is not None:
            raise StreamsError(self.refusal)
        if sub_topology == "orders":
            raise UserInputError("there is no sub-topology 'orders'")
        self.paused.append(sub_topology)

    def resume(self, sub_topology: int | str | None = None) -> None:
        self.paused.remove(sub_topology)

    def take_out(self, member_id: str) -> None:
        if self.refusal is not None:
            raise StreamsError(self.refusal)
        self.taken_out.append(member_id)

    def status(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {"applicationId": "app", "tasks": [{"id": "0_0", "inputLag": None}]}

    def healthy(self) -> tuple[bool, str]:
        return self.health

    def ready(self) -> tuple[bool, str]:
        return self.readiness

    def describe(self) -> TopologyDescription:
        return through().describe()

    def figures(self, tapped: str | None) -> dict[str, Any]:
        return {"now": 1, "tapped": {"node": tapped, "records": []}}

    def samples(self) -> list[Sample]:
        return [gauge("stream-metrics", "alive-stream-threads", 2, client_id="c")]


@contextmanager
def serving(view: View, token_file: Path | None = None) -> Iterator[HttpServer]:
    with closing(HttpServer(0, host="127.0.0.1", token_file=token_file)) as server:
        server.start(instance_routes(view, QueryHost().queries(), Drain(view.drain, 25)))
        yield server


def ask(
    server: HttpServer, path: str, method: str = "GET", token: str | None = None
) -> tuple[int, dict[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)) as connection:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read().decode()


@pytest.fixture
def view() -> View:
    return View()


def test_health_and_readiness_follow_the_instance(view: View) -> None:
    with serving(view) as server:
        assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        view.health, view.readiness = (False, "polling thread died"), (False, "REBALANCING")
        assert ask(server, "/healthz")[::2] == (503, '{"ok":false,"reason":"polling thread died"}\n')
        assert ask(server, "/readyz")[::2] == (503, '{"ok":false,"reason":"REBALANCING"}\n')


def test_status_is_json_in_which_the_unknown_is_null(view: View) -> None:
    with serving(view) as server:
        status, headers, body = ask(server, "/status?pretty=1")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["tasks"] == [{"id": "0_0", "inputLag": None}]


def test_the_topology_is_told_in_every_form_to_who_has_the_token(view: View, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    with serving(view, tmp_path / "token") as server:
        told = {
            form: ask(server, f"/topology?format={form}", token="geheimnis") for form in ("text", "mermaid", "json")
        }
        assert ask(server, "/topology", token="geheimnis")[2] == told["text"][2] == through().describe().to_text()
        assert told["mermaid"][2] == through().describe().to_mermaid()
        assert json.loads(told["json"][2]) == json.loads(through().describe().to_json())
        assert [headers["Content-Type"] for _, headers, _ in told.values()] == [
            "text/plain; charset=utf-8",
            "text/plain; charset=utf-8",
            "application/json",
        ]
        status, _, body = ask(server, "/topology?format=svg", token="geheimnis")
        assert (status, json.loads(body)["error"]) == (400, "format: expected text, mermaid, json, got 'svg'")
        assert ask(server, "/topology")[0] == 401


def test_metrics_are_prometheus_text(view: View) -> None:
    with serving(view) as server:
        _, headers, body = ask(server, "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert 'kafka_stream_alive_stream_threads{client_id="c"} 2.0' in body
    assert "process_resident_memory_bytes" in body


def test_other_paths_and_methods_are_refused_in_json(view: View) -> None:
    with serving(view) as server:
        assert ask(server, "/nothing")[0] == 404
        status, headers, body = ask(server, "/status", "POST")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        assert "use GET" in json.loads(body)["error"]
        assert ask(server, "/nothing", "DELETE")[0] == 404


def test_head_answers_without_a_body(view: View) -> None:
    with serving(view) as server:
        status, headers, body = ask(server, "/status", "HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("token", [None, "", "wrong", "geheimnis2", "tést"])
def test_a_wrong_token_is_refused_where_one_is_mounted(view: View, tmp_path: Path, token: str | None) -> None:
    (tmp_path / "token").write_text("geheimnis\n")
    with serving(view, tmp_path / "token") as server:
        status, headers, _ = ask(server, "/status", token=token)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert [ask(server, path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


def test_every_line_of_the_token_file_is_admitted_and_may_be_rotated(view: View, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("today\n\nyesterday\r\n")
    with serving(view, token) as server:
        given = ("today", "yesterday", "todayyesterday", "tomorrow")
        assert [ask(server, "/status", token=each)[0] for each in given] == [200, 200, 401, 401]
        token.write_text("tomorrow\ntoday\n")
        assert [ask(server, "/status", token=each)[0] for each in given] == [200, 401, 401, 200]


def test_a_token_need_not_be_ascii(view: View, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes("gehéimnis\n".encode())
    with serving(view, tmp_path / "token") as server:
        fetch = HttpFetch(tmp_path / "token")
        assert fetch(f"127.0.0.1:{server.port}", "/status", timeout=_PATIENCE).status == 200


@pytest.mark.parametrize("left", ["nothing", "an empty file", "empty lines"])
def test_a_token_that_goes_away_closes_the_door(view: View, tmp_path: Path, left: str) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with serving(view, token) as server:
        if left == "nothing":
            token.unlink()
        else:
            token.write_text("" if left == "an empty file" else "\n \n")
        assert [ask(server, "/status", token=given)[0] for given in ("old", "")] == [401, 401]


def test_a_token_that_comes_late_is_asked_for_all_along(view: View, tmp_path: Path) -> None:
    folder = tmp_path / "http"
    folder.mkdir()
    with serving(view, folder / "token") as server:
        assert ask(server, "/status")[0] == 401
        (folder / "token").write_text("new")
        assert [ask(server, "/status", token=given)[0] for given in (None, "new")] == [401, 200]
        (folder / "token").unlink()
        folder.rmdir()
        assert ask(server, "/status")[0] == 401


def test_without_a_mounted_folder_status_is_open(view: View, tmp_path: Path) -> None:
    with serving(view, tmp_path / "not-mounted" / "token") as server:
        assert ask(server, "/status")[0] == 200


@pytest.mark.parametrize(
    ("mine", "theirs", "status"),
    [
        ("today\nyesterday\n", "today\nyesterday\n", 200),
        ("tomorrow\ntoday\n", "today\nyesterday\n", 200),
        ("today\nyesterday\n", "tomorrow\ntoday\n", 200),
        ("stranger\n", "today\n", 401),
        ("", "today\n", 401),
    ],
)
def test_who_sees_another_token_first_is_understood(
    view: View, tmp_path: Path, mine: str, theirs: str, status: int
) -> None:
    (tmp_path / "mine").write_text(mine)
    (tmp_path / "theirs").write_text(theirs)
    with serving(view, tmp_path / "theirs") as server:
        fetch = HttpFetch(tmp_path / "mine")
        endpoint = f"127.0.0.1:{server.port}"
        assert fetch(endpoint, "/status", timeout=_PATIENCE).status == status
        assert fetch(endpoint, "/drain", method="POST", timeout=_PATIENCE).status == status
    assert len(view.drains) == (status == 200)


def test_an_error_inside_answers_500_and_does_not_show_itself(view: View) -> None:
    view.error = RuntimeError("inner secret")
    with serving(view) as server:
        status, _, body = ask(server, "/status")
    assert status == 500
    assert "inner secret" not in body


def test_a_drain_answers_when_it_is_done_and_may_be_asked_for_again(view: View) -> None:
    with serving(view) as server:
        assert [ask(server, path, "POST")[::2] for path in ("/drain", "/drain?timeout=3")] == [
            (200, '{"drained":true}\n')
        ] * 2
    assert view.drains == [25, 3]


def test_a_drain_that_takes_too_long_says_so(view: View) -> None:
    view.drained = False
    with serving(view) as server:
        status, _, body = ask(server, "/drain?timeout=0.5", "POST")
    assert (status, json.loads(body)["drained"]) == (504, False)
    assert "within 0.5 s" in json.loads(body)["error"]


@pytest.mark.parametrize("timeout", ["soon", "-1", "nan", "inf"])
def test_a_drain_without_a_usable_timeout_does_not_begin(view: View, timeout: str) -> None:
    with serving(view) as server:
        assert ask(server, f"/drain?timeout={timeout}", "POST")[0] == 400
    assert view.drains == []


def test_a_drain_is_asked_for_by_post_with_the_token(view: View, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    with serving(view, tmp_path / "token") as server:
        assert ask(server, "/drain", "POST")[0] == 401
        status, headers, _ = ask(server, "/drain", token="geheimnis")
        assert (status, headers["Allow"]) == (405, "POST")
    assert view.drains == []


def test_a_snapshot_is_answered_for_when_it_is_taken(view: View) -> None:
    with serving(view) as server:
        assert [ask(server, path, "POST")[::2] for path in ("/snapshot", "/snapshot?timeout=3")] == [
            (200, '{"taken":true}\n')
        ] * 2
        assert view.snapshots == [60, 3]
        view.taken = False
        status, _, body = ask(server, "/snapshot?timeout=2", "POST")
        assert (status, "within 2 s" in body) == (504, True)
        assert ask(server, "/snapshot?timeout=soon", "POST")[0] == 400
        view.refusal = "there is no remote state"
        assert ask(server, "/snapshot", "POST")[::2] == (409, '{"error":"there is no remote state"}\n')
        assert ask(server, "/snapshot")[0] == 405


def test_a_sub_topology_is_paused_by_its_name_and_with_the_token_alone(view: View, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    with serving(view, tmp_path / "token") as server:
        assert ask(server, "/pause?subTopology=clicks", "POST")[0] == 401
        assert view.paused == []
        answer = ask(server, "/pause?subTopology=clicks", "POST", token="geheimnis")
        assert answer[::2] == (200, '{"subTopology":"clicks"}\n')
        assert view.paused == ["clicks"]
        assert ask(server, "/resume?subTopology=clicks", "POST", token="geheimnis")[0] == 200
        assert view.paused == []
        for wrong in ("", "?subTopology=", "?subTopology=a&subTopology=b", f"?subTopology={'x' * 250}"):
            assert ask(server, f"/pause{wrong}", "POST", token="geheimnis")[0] == 400
        answer = ask(server, "/pause?subTopology=orders", "POST", token="geheimnis")
        assert answer[::2] == (400, '{"error":"there is no sub-topology \'orders\'"}\n')
        view.refusal = "the instance is not started; call start() first"
        assert ask(server, "/pause?subTopology=clicks", "POST", token="geheimnis")[0] == 503
        assert ask(server, "/pause?subTopology=clicks", token="geheimnis")[0] == 405


def test_members_whose_processes_ended_are_taken_out_of_the_group(view: View, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheimnis")
    with serving(view, tmp_path / "token") as server:
        assert ask(server, "/ended?member=a", "POST")[0] == 401
        assert view.taken_out == []
        answer = ask(server, "/ended?member=a%20b&member=c", "POST", token="geheimnis")
        assert answer[::2] == (200, '{"ended":["a b","c"]}\n')
        assert view.taken_out == ["a b", "c"]
        for wrong in ("", "?member=", f"?member={'x' * 301}", "?" + "&".join(["member=x"] * 257)):
            assert ask(server, f"/ended{wrong}", "POST", token="geheimnis")[0] == 400
        view.refusal = "no answer"
        answer = ask(server, "/ended?member=d", "POST", token="geheimnis")
        assert answer[::2] == (503, '{"error":"no answer"}\n')


def test_closing_waits_for_the_answer_to_a_drain(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_LAST_ANSWERS", _PATIENCE)
    began, closed = threading.Event(), threading.Event()

    def drain(timeout: float) -> bool:
        began.set()
        return closed.wait(_PATIENCE)

    answers: list[int] = []
    server = HttpServer(0, host="127.0.0.1")
    server.start(instance_routes(view, QueryHost().queries(), Drain(drain, 25)))
    asking = threading.Thread(target=lambda: answers.append(ask(server, "/drain", "POST")[0]))
    asking.start()
    assert began.wait(_PATIENCE)
    threading.Timer(0.1, closed.set).start()
    server.close()
    assert closed.is_set()
    asking.join(_PATIENCE)
    assert answers == [200]


def test_a_port_in_use_is_the_users_to_mend() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"^http_port: cannot listen on 127.0.0.1:{port}"):
            HttpServer(port, host="127.0.0.1")


def test_an_open_connection_does_not_hold_up_closing(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 10 * _PATIENCE)  # a machine that stands still ends none
    with serving(view) as server, closing(http.client.HTTPConnection("127.0.0.1", server.port)) as idle:
        idle.request("GET", "/healthz")
        idle.getresponse().read()
        server.close()
        idle.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):  # it is open still: closing has not waited for its end
            idle.sock.recv(1)


def test_closing_before_starting_frees_the_port() -> None:
    server = HttpServer(0, host="127.0.0.1")
    server.close()
    with closing(HttpServer(server.port, host="127.0.0.1")) as again:
        assert again.port == server.port


def test_a_port_that_is_none_is_the_users_to_mend() -> None:
    with pytest.raises(ConfigError, match=r"^http_port: cannot listen on 127.0.0.1:65536: ports are 0 to 65535"):
        HttpServer(65536, host="127.0.0.1")


def test_a_port_answers_by_ipv4_and_by_ipv6() -> None:
    with closing(HttpServer(0)) as server:
        server.start({"/healthz": Route(lambda _: probe((True, "fine")), open=True)})
        for host in ("127.0.0.1", "[::1]"):
            with urlopen(f"http://{host}:{server.port}/healthz", timeout=60) as answer:
                assert answer.status == HTTPStatus.OK
        assert HttpFetch()(f"[::1]:{server.port}", "/healthz").status == HTTPStatus.OK
        assert server.address == f"[::]:{server.port}"


def test_a_host_without_ipv6_listens_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    made = socket.socket

    class WithoutIpv6(made):  # type: ignore[misc, valid-type]
        def __init__(self, family: int = -1, *more: Any, **options: Any) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *more, **options)

    monkeypatch.setattr(socket, "socket", WithoutIpv6)
    with closing(HttpServer(0)) as server:
        assert server.address == f"0.0.0.0:{server.port}"
