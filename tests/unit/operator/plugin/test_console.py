"""``kubectl streamsapp console``: which pod, at which address, and what is carried between."""

from __future__ import annotations

import json
import socket
import threading
from queue import SimpleQueue
from urllib.parse import urlsplit

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, pod_document
from streamsapp_operator.plugin import console
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.main import make_parser
from streamsapp_operator.plugin.style import Style

NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


class Told(Terminal):
    """A terminal whose reader waits for the first document."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster, Style())
        self.documents: SimpleQueue[str] = SimpleQueue()
        self.stream.write = self.documents.put  # type: ignore[assignment,method-assign]


def begun(cluster: FakeCluster, *arguments: str, name: str | None = "wordcount") -> dict[str, str]:
    """Runs the command on a thread; returns what it says."""
    terminal = Told(cluster)
    words = ["console", *([] if name is None else [name]), "-o", "json", *arguments]
    options = make_parser().parse_args(words)
    threading.Thread(target=console.run, args=(options, terminal.session), daemon=True).start()
    found: dict[str, str] = json.loads(terminal.documents.get(timeout=60))
    return found


@pytest.fixture
def cluster() -> FakeCluster:
    pods = [pod_document(0, **NOT_READY), pod_document(1), pod_document(2)]
    return FakeCluster([app_document()], pod_documents=pods)


def test_a_connection_is_carried_both_ways_to_the_first_pod_that_is_ready(cluster: FakeCluster) -> None:
    said = begun(cluster)
    with socket.create_connection(("127.0.0.1", urlsplit(said["url"]).port or 0), timeout=60) as browser:
        browser.sendall(b"GET /")
        assert browser.recv(5) == b"GET /"
    assert said["pod"] == "wordcount-1"
    assert set(cluster.forwards) == {"wordcount-1"}


def test_the_token_is_behind_what_a_browser_sends(cluster: FakeCluster) -> None:
    url = urlsplit(begun(cluster, "--pod", "wordcount-2")["url"])
    assert (url.hostname, url.path, url.query, url.fragment) == ("127.0.0.1", "/console/", "", "token=to%20ken")


def test_without_a_name_it_is_the_operators_page_which_is_given_no_token(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    said = begun(cluster, name=None)
    with socket.create_connection(("127.0.0.1", urlsplit(said["url"]).port or 0), timeout=60) as browser:
        browser.sendall(b"GET /")
        assert browser.recv(5) == b"GET /"
    assert (said["pod"], urlsplit(said["url"]).fragment) == ("operator-x", "")
    assert set(cluster.forwards) == {"operator-x"}
    assert "kubectl create token" in capsys.readouterr().err


def test_a_pod_is_chosen_of_an_application_only(cluster: FakeCluster) -> None:
    options = make_parser().parse_args(["console", "--pod", "operator-x"])
    with pytest.raises(PluginError, match="--pod: is of an application"):
        console.run(options, Terminal(cluster, Style()).session)


def test_a_pod_that_is_not_there_and_a_port_that_is_taken_are_told(cluster: FakeCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for arguments, told in (
            (["--pod", "wordcount-7"], "there are: wordcount-0, wordcount-1, wordcount-2"),
            (["--port", str(taken.getsockname()[1])], "cannot be used"),
        ):
            options = make_parser().parse_args(["console", "wordcount", *arguments])
            with pytest.raises(PluginError, match=told) as raised:
                console.run(options, Terminal(cluster, Style()).session)
            assert raised.value.code == 2


def test_an_application_without_pods_has_no_page() -> None:
    options = make_parser().parse_args(["console", "wordcount"])
    with pytest.raises(PluginError, match="has no pods now"):
        console.run(options, Terminal(FakeCluster([app_document()]), Style()).session)


def test_a_port_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        make_parser().parse_args(["console", "wordcount", "--port", "99999"])
    assert raised.value.code == 2
    assert "expected a port, 0 to 65535, got '99999'" in capsys.readouterr().err
