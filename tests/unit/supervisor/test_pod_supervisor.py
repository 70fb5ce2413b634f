"""A pod of small processes that speak HTTP as instances do: started, watched, asked, drained, stopped."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from instances import TIMEOUT, eventually
from streamsapp.query.remote_reader import HttpFetch, PeerResponse
from streamsapp.supervisor import instance_process, pod_supervisor as pod_module
from streamsapp.supervisor.pod_supervisor import PodSupervisor, time_of_instances
from streamsapp.supervisor.routes import pod_routes
from streamsapp.web import HttpServer

#: An instance without an application: answers as its arguments say.
INSTANCE = """
import json, os, signal, socket, sys, threading, urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer
name, told, has = sys.argv[1], sys.argv[2], sys.argv[3]
if told == "refuse":
    sys.exit(2)
if told == "hang":
    threading.Event().wait()

ended = []
class Handler(BaseHTTPRequestHandler):
    def answer(self):
        path, _, query = self.path.partition("?")
        status, document, headers = 200, {"ok": True, "reason": name}, {}
        if path == "/status":
            document = {"state": "RUNNING", "generation": 1, "tasks": [{"id": has}], "notes": []}
        elif path == "/console/figures":
            document = {"instances": [{"instance": name, "query": query}]}
        elif path == "/console/history":
            moments = [[at, 1.5] for at in (10, 20, 30) if at > int(query.removeprefix("after="))]
            document = {"instances": {name: moments}} if told != "garbled" else {"instances": [name]}
        elif path in ("/topology", "/console/graph", "/console/stores"):
            document = {"by": name, "query": query}
        elif path == "/drain":
            status, document = (504, {"error": "slow"}) if told == "slow" else (200, {"drained": True})
        elif path == "/snapshot":
            answers = {"slow": (504, {"error": "slow"}), "bare": (409, {"error": "no remote state"})}
            status, document = answers.get(told, (200, {"taken": True}))
        elif path == "/ended":
            ended.append(query)
            status, document = (503, {"error": "away"}) if told == "shy" else (200, {"ended": ended})
        elif path == "/ended-here":
            document = ended
        elif path == "/healthz" and told == "sick":
            status = 503
        elif path == "/metrics" and told == "sick":
            status, document = 401, {"error": "send a token"}
        elif path == "/metrics":
            self.send_response(200); self.end_headers(); self.wfile.write(b"# TYPE m gauge\\nm 1\\n"); return
        elif path.startswith("/state/"):
            if "partition" in query and has not in query or path.count("/") == 3 and not path.endswith(has):
                status, document = 421, {"error": "not here", "owner": "far:1"}
                if "local" not in query:
                    status, headers = 307, {"Location": "http://far:1" + self.path}
            else:
                document = {"by": name, "query": query}
        body = json.dumps(document).encode()
        self.send_response(status)
        for header in headers.items(): self.send_header(*header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *_): pass

server = HTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0) if told != "deaf" else None)
line = socket.socket(fileno=int(sys.argv[-1]))
line.sendall(b"%d\\n" % server.server_port)
if told != "alone":
    line.sendall(b"member of-%d\\nmember %s-%d\\n" % (os.getpid(), name.encode(), os.getpid()))
server.serve_forever()
"""


def commands(*told: str) -> dict[str, list[str]]:
    return {
        f"p-{number}": [sys.executable, "-c", INSTANCE, f"p-{number}", each, f"key{number}"]
        for number, each in enumerate(told)
    }


def fetch(endpoint: str, path: str, *, method: str = "GET", timeout: float = 0.0) -> PeerResponse:
    """Waits for as long as a busy machine may need, whatever the pod would: no instance here is too slow by itself."""
    return HttpFetch()(endpoint, path, method=method, timeout=max(timeout, TIMEOUT))


class Running:
    """A pod behind its port."""

    def __init__(self, *told: str, shutdown_timeout: float = 60) -> None:
        self.pod = PodSupervisor(commands(*told), fetch, shutdown_timeout)
        self.server = HttpServer(0, host="127.0.0.1")
        self.server.start(pod_routes(self.pod, "app", "p", 5))
        self.pod.start()
        for member in self.pod.members:
            if member.ident is not None:
                assert member.settled.wait(TIMEOUT)

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)) as connection:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read().decode()

    def json(self, path: str, method: str = "GET") -> tuple[int, Any]:
        status, _, body = self.ask(path, method)
        return status, json.loads(body)

    def close(self) -> None:
        self.server.close()
        self.pod.stop()


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def start(*told: str, **settings: Any) -> Running:
        made.append(Running(*told, **settings))
        return made[-1]

    yield start
    for each in made:
        each.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_pod_answers_for_its_instances(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    assert running.json("/readyz") == (200, {"ok": True, "reason": "all instances are ready"})
    assert running.ask("/healthz")[0] == 200
    status, document = running.json("/status")
    assert (status, document["state"], [task["id"] for task in document["tasks"]]) == (
        200,
        "RUNNING",
        ["key0", "key1"],
    )
    assert running.json("/topology?format=json") == (200, {"by": "p-0", "query": "format=json"})
    metrics = running.ask("/metrics")[2]
    assert 'm{instance="p-1"} 1.0' in metrics
    assert 'streamsapp_instance_starts_total{instance="p-0"} 1.0' in metrics


def test_a_query_goes_to_the_instance_that_has_the_answer(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    assert running.json("/state/counts/key1")[1] == {"by": "p-1", "query": "local=1"}
    assert running.json("/state/counts/key0?proxy=1")[1] == {"by": "p-0", "query": "proxy=1&local=1"}
    assert running.json("/state/counts?partition=key1&local=1")[1]["by"] == "p-1"
    assert running.json("/state/counts?from=a")[1] == {"by": "p-0", "query": "from=a"}


def test_what_no_instance_of_the_pod_has_is_redirected(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    status, headers, _ = running.ask("/state/counts/other")
    assert (status, headers["Location"]) == (307, "http://far:1/state/counts/other")
    assert running.json("/state/counts/other?local")[0] == 421


def test_a_killed_instance_comes_back_and_is_missed_meanwhile(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    member = running.pod.members[1]
    assert member.pid is not None
    with member._lock:  # under which it is started again: it stays away until it was missed
        os.kill(member.pid, signal.SIGKILL)
        eventually(lambda: running.ask("/readyz")[0] == 503)
        assert running.json("/readyz")[1]["reason"] == "p-1: does not answer"
        assert running.json("/status")[1]["state"] == "CREATED"
    eventually(lambda: running.ask("/readyz")[0] == 200)
    assert 'streamsapp_instance_starts_total{instance="p-1"} 2.0' in running.ask("/metrics")[2]


def heard(running: Running, number: int) -> list[str]:
    """The members that an instance was asked to take out."""
    reply = running.pod.ask(running.pod.members[number], "/ended-here")
    return [] if reply is None else [each.removeprefix("member=") for each in json.loads(reply.body)]


def test_the_others_take_the_member_of_a_killed_instance_out_and_never_one_that_lives(
    run: Callable[..., Running],
) -> None:
    running = run("well", "shy", "well")
    member = running.pod.members[2]
    for _ in range(2):
        eventually(lambda: member.endpoint is not None, "the instance")
        pid = member.pid
        assert pid is not None
        eventually(lambda pid=pid: f"p-2-{pid}" in members_of(running), "its member")  # type: ignore[misc]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: heard(running, 0)[-1:] == [f"p-2-{pid}"], "its end")  # type: ignore[misc]
        eventually(lambda pid=pid: member.pid not in (None, pid), "the next process")  # type: ignore[misc]
    assert len(heard(running, 0)) == 2
    assert heard(running, 1) == heard(running, 2) == []


def test_another_instance_is_asked_where_one_cannot_take_a_member_out(run: Callable[..., Running]) -> None:
    running = run("shy", "well", "well")
    pid = running.pod.members[2].pid
    eventually(lambda: f"p-2-{pid}" in members_of(running), "its member")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: heard(running, 1) == heard(running, 0) == [f"p-2-{pid}"], "its end")


def test_an_instance_that_was_no_member_is_not_taken_out(run: Callable[..., Running]) -> None:
    running = run("well", "alone")
    member = running.pod.members[1]
    assert member.pid is not None
    os.kill(member.pid, signal.SIGKILL)
    eventually(lambda: member.starts == 2 and member.endpoint is not None, "the next process")
    assert heard(running, 0) == []


def test_a_pod_passes_on_that_members_elsewhere_have_ended(run: Callable[..., Running]) -> None:
    running = run("shy", "well")
    assert running.json("/ended?member=x&member=y", "POST")[0] == 200
    assert [heard(running, number) for number in (0, 1)] == [["x&member=y"]] * 2
    assert run("shy").json("/ended?member=x", "POST") == (503, {"error": "away"})


def members_of(running: Running) -> list[str]:
    return list(running.pod.ended.members.values())


def test_without_any_instance_a_query_is_to_come_back(run: Callable[..., Running]) -> None:
    running = run("well")
    running.pod.members[0].stay_down()
    running.pod.members[0].kill()
    running.pod.members[0].join(TIMEOUT)
    status, headers, _ = running.ask("/state/counts/key0")
    assert (status, headers["Retry-After"]) == (503, "1")


def test_an_instance_that_stays_sick_is_killed(run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_module, "HEALTH_PERIOD", 0.05)
    running = run("well", "sick")
    eventually(lambda: running.pod.members[1].starts > 1)
    assert running.pod.members[0].starts == 1


def test_the_pod_remembers_what_its_instances_measured(
    run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when they have ended, and when one answers with something else."""
    monkeypatch.setattr(pod_module, "HEALTH_PERIOD", 0.05)
    running = run("well", "garbled")
    eventually(lambda: running.pod.histories["p-0"].last_ms == 30, "the history of the first")
    for member in running.pod.members:
        member.stay_down()
        member.kill()
    eventually(lambda: running.json("/console/figures")[1] == {"instances": []}, "both are gone")
    _, document = running.json("/console/history?after=10")
    assert {name: [each[:2] for each in some] for name, some in document["instances"].items()} == {
        "p-0": [[20, 1.5], [30, 1.5]], "p-1": []
    }  # fmt: skip


def test_a_refusal_ends_the_pod_and_is_made_once(run: Callable[..., Running]) -> None:
    running = run("refuse", "well")
    assert running.pod.wait() == 2
    assert [member.starts for member in running.pod.members] == [1, 0]


def test_a_later_refusal_ends_the_others_too(run: Callable[..., Running]) -> None:
    running = run("well", "refuse")
    assert running.pod.wait() == 2
    assert running.pod.members[0].pid is None


def test_stopping_ends_all_instances_in_good_order(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    pids = [member.pid for member in running.pod.members]
    running.pod.stop()
    assert running.pod.wait() == 0
    assert not any(alive(pid) for pid in pids if pid is not None)


def test_a_pod_that_is_stopped_before_all_instances_were_started_ends_well() -> None:
    pod = PodSupervisor(commands("well", "well"), fetch, 60)

    pod.stop()

    assert pod.wait() == 0


@pytest.mark.parametrize(("of_the_pod", "of_each"), [(25.0, 23.0), (5.0, 4.0), (0.0, 0.0)])
def test_instances_end_before_their_pod_has_to(of_the_pod: float, of_each: float) -> None:
    assert time_of_instances(of_the_pod) == of_each


def test_an_instance_that_does_not_stop_is_killed(run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    running = run("well", "deaf", shutdown_timeout=60)
    # The first has as long as it needs to end, and then the time of the pod is over.
    looks = chain([0.0, 0.0], repeat(60.0))
    monkeypatch.setattr(pod_module, "time", SimpleNamespace(monotonic=looks.__next__))
    running.pod.stop()
    assert running.pod.wait() == 1
    assert [member.code for member in running.pod.members] == [0, -9]


def test_a_drain_is_done_when_all_are_done(run: Callable[..., Running]) -> None:
    assert run("well", "well").json("/drain", "POST") == (200, {"drained": True})
    assert run("well", "slow").json("/drain?timeout=1", "POST") == (504, {"drained": False, "error": "p-1: slow"})
    assert run("well").ask("/drain?timeout=x", "POST")[0] == 400


def test_snapshots_are_taken_when_all_instances_have_taken_theirs(run: Callable[..., Running]) -> None:
    assert run("well", "well").json("/snapshot", "POST") == (200, {"taken": True})
    assert run("well", "slow").json("/snapshot?timeout=1", "POST") == (504, {"taken": False, "error": "p-1: slow"})
    assert run("well").ask("/snapshot?timeout=x", "POST")[0] == 400


def test_a_pod_without_remote_state_says_so_when_asked_for_snapshots(run: Callable[..., Running]) -> None:
    assert run("bare").json("/snapshot", "POST") == (409, {"taken": False, "error": "p-0: no remote state"})


def test_a_drained_pod_starts_nothing_again(run: Callable[..., Running]) -> None:
    running = run("well", "well")
    running.json("/drain", "POST")
    member = running.pod.members[0]
    member.kill()
    member.join(TIMEOUT)
    assert not member.is_alive()
    assert running.json("/drain", "POST")[0] == 200


def test_instances_notice_the_end_of_the_supervisor() -> None:
    """The other side of the lifeline, as instances have it."""
    script = """
import socket, sys, time
from streamsapp.cli.pod import follow_supervisor
follow_supervisor(int(sys.argv[-1]), 1)
time.sleep(600)
"""
    supervisor = f"""
import sys, time
from streamsapp.supervisor.instance_process import InstanceProcess
member = InstanceProcess("m", [sys.executable, "-c", {script!r}], print)
member.start()
member.settled.wait(60)
print(member.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", supervisor], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    eventually(lambda: not alive(pid))


def test_the_console_of_a_pod_shows_all_its_instances(run: Callable[..., Running]) -> None:
    it = run("well", "well")
    expected = [{"instance": name, "query": "tap=a+%26b"} for name in ("p-0", "p-1")]
    assert it.json("/console/figures?tap=a%20%26b") == (200, {"instances": expected})
    assert it.json("/console/graph")[1]["by"] == it.json("/console/stores")[1]["by"] == "p-0"
    with closing(http.client.HTTPConnection("127.0.0.1", it.server.port, timeout=60)) as connection:
        connection.request("GET", "/console/events?tap=a%20%26b")
        with closing(connection.getresponse()) as response:
            event = json.loads(response.readline().removeprefix(b"data: "))
            assert event.pop("history")["instances"] == {}  # nothing was measured yet
            assert event == {"instances": expected, "failures": []}


def test_an_instance_that_cannot_be_started_now_is_started_later(
    run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    popen, left = subprocess.Popen, iter([OSError(12, "Cannot allocate memory")])

    def fail_once(*args: Any, **settings: Any) -> Any:
        for error in left:
            raise error
        return popen(*args, **settings)

    monkeypatch.setattr(subprocess, "Popen", fail_once)
    running = run("well")
    eventually(lambda: running.pod.members[0].endpoint is not None)
    assert running.pod.members[0].starts == 1


def test_an_instance_that_cannot_be_started_is_not_waited_for_at_the_end(
    run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[None] = []

    def refuse() -> Any:
        tries.append(None)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(instance_process, "socket", SimpleNamespace(socketpair=refuse))
    running = run("well")
    eventually(lambda: bool(tries))
    running.pod.stop()
    assert not running.pod.members[0].is_alive()


def test_an_instance_that_hangs_before_its_port_is_started_again(
    run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_process, "START_SECONDS", 0.1)
    running = run("hang")
    eventually(lambda: running.pod.members[0].starts > 1)
    assert running.pod.members[0].code == -signal.SIGKILL


def test_metrics_of_a_pod_leave_out_an_instance_that_refuses_them(run: Callable[..., Running]) -> None:
    status, _, metrics = run("well", "sick").ask("/metrics")
    assert status == 200
    assert 'm{instance="p-0"} 1.0' in metrics
    assert 'm{instance="p-1"}' not in metrics
