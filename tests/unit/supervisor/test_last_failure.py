"""An instance reports why it ends, and its successor passes the reason on."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from streamsapp.cli.away_page import AwayPage
from streamsapp.errors import CommitError, ProcessingError
from streamsapp.local.broker import free_port
from streamsapp.supervisor.instance_process import InstanceProcess
from streamsapp.supervisor.last_failure import LastFailure, failure_line, read_failure

#: An instance: it reports its port, then the failure in a file, and ends.
INSTANCE = """
import pathlib, socket, sys
line = socket.socket(fileno=int(sys.argv[-1]))
line.sendall(b"4711\\n" + pathlib.Path(sys.argv[1]).read_bytes())
sys.exit(int(sys.argv[2]))
"""


def failed() -> Exception:
    cause = ProcessingError("ZeroDivisionError at node p, task 0_1, record in-1@7: division by zero")
    cause.happened_at = {"task": "0_1", "node": "p", "record": "in-1@7"}
    error = CommitError("the instance ended")
    error.__cause__ = cause
    return error


class Place:
    """Notes when an instance is away, and the failure that is known then."""

    def __init__(self) -> None:
        self.seen: list[LastFailure | str | None] = []
        self.twice = threading.Event()

    def begin(self, failure: LastFailure | None) -> None:
        self.seen.append(failure)
        if len(self.seen) > 2:
            self.twice.set()

    def end(self) -> None:
        self.seen.append("end")


def test_a_failure_is_told_with_the_record_that_it_happened_at() -> None:
    told = read_failure(failure_line(failed()))

    assert told is not None
    assert (told.message, told.task, told.node, told.record) == ("the instance ended", "0_1", "p", "in-1@7")
    assert told.as_data()["atMs"] > 1_600_000_000_000


@pytest.mark.parametrize("line", [b"", b"\n", b"4711\n", b"{", b'{"message": 1}', b"\xff\xfe"])
def test_what_is_no_failure_is_none(line: bytes) -> None:
    assert read_failure(line) is None


def test_the_supervisor_hears_why_an_instance_ended_before_it_starts_again(tmp_path: Path) -> None:
    (tmp_path / "failure").write_bytes(failure_line(failed()))
    place = Place()
    command = [sys.executable, "-c", INSTANCE, str(tmp_path / "failure"), "1"]
    process = InstanceProcess("one", command, lambda code: None, place)
    process.start()
    assert place.twice.wait(60)
    process.leave()
    process.join(60)

    first, away, again = place.seen[:3]
    assert (first, again) == ("end", "end")
    assert isinstance(away, LastFailure)
    assert away.record == "in-1@7"


def test_the_page_of_an_application_that_is_away_tells_its_last_failure() -> None:
    port = free_port()
    page = AwayPage("mine", "127.0.0.1", port)
    page.begin(read_failure(failure_line(failed())))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
            status = json.load(answer)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/console/events") as events:
            event = json.loads(events.readline().removeprefix(b"data: "))
            page.end()
            assert events.read().strip() == b""  # the page asks again, and gets the application's own
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/status")
    finally:
        page.end()

    assert (status["applicationId"], status["state"], status["ready"]) == ("mine", "ERROR", False)
    assert event["instances"] == []
    assert [(each["node"], each["record"]) for each in event["failures"]] == [("p", "in-1@7")]
    assert status["failures"] == event["failures"]


def test_a_page_without_a_failure_says_that_the_application_does_not_run() -> None:
    port = free_port()
    page = AwayPage("mine", "127.0.0.1", port)
    page.begin(None)
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
        assert refused.value.code == 503
        assert b"the application is not running" in refused.value.read()
    finally:
        page.end()
