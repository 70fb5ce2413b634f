"""Measures how soon the console is there, and what an event of it costs, with 200 tasks and an hour of history.

Run by hand; needs Chromium, and no broker:

    PYTHONPATH=tests/support .venv/bin/python -m benchmarks.console_page

The instance is made up, as an hour of history would take an hour; the server, the page and the browser are real. The
pictures that it takes at 1280 and 390 pixels, light and dark, go to ``build/screenshots``.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from chromium import Page, chromium
from query_hosts import QueryHost
from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from streamsapp.http import instance_routes
from streamsapp.http.instance_routes import Drain
from streamsapp.metrics import Sample
from streamsapp.topology.description import TopologyDescription
from streamsapp.web import HttpServer
from streamsapp.web.history import MOMENTS, STEP_MS, HistoryReader, Moment, MomentHistory, history_document

#: Sub-topologies, and the partitions of each.
GROUPS, PARTITIONS = 4, 50
PICTURES = Path("build/screenshots")
#: So many times the page is opened; the median counts.
TIMES = 9


class MadeUpInstance:
    """An instance with 200 tasks, an hour old: once it was away, once no broker answered."""

    def __init__(self) -> None:
        self.history = MomentHistory("orders-0")
        now = time.time_ns() // 1_000_000
        for number in range(MOMENTS):
            if 100 <= number < 112:
                continue
            self.history.add(_moment(now - STEP_MS * (MOMENTS - number - 1), number))
        self._topology = _topology().build()

    def status(self) -> dict[str, Any]:
        return {
            "applicationId": "orders", "instance": "orders-0", "state": "RUNNING", "generation": 7, "ready": True,
            "tasks": [_task(group, number) for group in range(GROUPS) for number in range(PARTITIONS)],
            "notes": [], "outages": [], "dataPath": "streamsapp, in C",
        }  # fmt: skip

    def figures(self, tapped: str | None) -> dict[str, Any]:
        now = time.time_ns() // 1_000_000
        while now - self.history.last_ms > STEP_MS:
            self.history.add(_moment(self.history.last_ms + STEP_MS, MOMENTS - 1))
        tasks = [f"{group}_{number}" for group in range(GROUPS) for number in range(PARTITIONS)]
        late = {"average": 120.0, "highest": 3400}
        nodes = [node.name for group in self._topology.describe().groups for node in group.nodes]
        return {
            "now": now,
            "tasks": {task: {"buffered": 12, "dropped": 0, "lateness": late} for task in tasks},
            "nodes": {name: {"rate": 812.5, "dropped": 0, "queued": None} for name in nodes},
            "tapped": {"node": tapped, "records": []}, "record_errors": [],
        }  # fmt: skip

    def describe(self) -> TopologyDescription:
        return self._topology.describe()

    def healthy(self) -> tuple[bool, str]:
        return True, ""

    def ready(self) -> tuple[bool, str]:
        return True, ""

    def samples(self) -> list[Sample]:
        return []

    def snapshot(self, timeout: float) -> bool:
        return True


def _moment(at_ms: int, number: int) -> Moment:
    wave = 1 + math.sin(number / 17) / 3 + math.sin(number / 3) / 20
    outage = 200 <= number < 209
    return Moment(
        at_ms,
        rate=None if number == 112 else 0.0 if outage else round(12_000 * wave, 1),
        lag=None if outage else int(4_000 * wave + max(0, 40_000 - 2_000 * abs(number - 215))),
        lateness_ms=round(180 * wave, 1),
        commit_ms=float(10_000 * (number - 199)) if outage else round(35 * wave, 1),
        restoring=max(0, 900_000 - 30_000 * (number - 112)) if number >= 112 else 0,
        replica_lag=int(300 * wave),
        snapshot_age_ms=STEP_MS * (number % 31),
        outage=outage,
    )


def _topology() -> StreamsBuilder:
    text, number = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    for group in range(GROUPS):
        words = builder.stream(f"orders-of-the-region-{group}", Consumed(text, text))
        by_word = words.flat_map_values(lambda value: [value]).filter(lambda key, value: bool(value))
        counts = by_word.group_by(lambda key, value: value, Grouped(text, text)).count(Materialized(f"counts-{group}"))
        counts.to_stream().to(f"counts-of-the-region-{group}", Produced(text, number))
    return builder


def _task(group: int, number: int) -> dict[str, Any]:
    store = {
        "name": f"counts-{group}", "changelog": f"orders-counts-{group}-changelog-{number}", "position": 812_000,
        "endOffset": 812_000, "lag": 0, "observedAt": None, "mode": "processing", "snapshot": None,
    }  # fmt: skip
    return {
        "id": f"{group}_{number}", "role": "active", "state": "running", "stores": [store], "inputLag": 80,
        "processedRecords": time.time_ns() // 10_000_000, "waitingRecords": 12, "commits": 900, "restore": None,
    }  # fmt: skip


@contextmanager
def serving(view: MadeUpInstance) -> Iterator[str]:
    with closing(HttpServer(0, host="127.0.0.1")) as server:
        server.start(instance_routes(view, QueryHost().queries(), Drain(lambda timeout: True, 25)))
        yield f"http://127.0.0.1:{server.port}/console/"


def first_paint(page: Page, url: str, view: str, drawn: str) -> tuple[float, float]:
    """Returns the milliseconds until something is seen, and until all of it is."""
    page.open("about:blank")
    page.until("location.href === 'about:blank'")  # else the address differs by its hash only, and nothing is loaded
    noted = (
        f"const look = () => {{ if ({drawn}) window.drawnAt = performance.now(); else setTimeout(look, 5); }}; look();"
    )
    script = page.call("Page.addScriptToEvaluateOnNewDocument", source=noted)["identifier"]
    page.call("Page.navigate", url=f"{url}#{view}")
    page.until("window.drawnAt > 0")
    page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    painted = page.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(painted), float(page.value("window.drawnAt"))


def event_milliseconds(view: MadeUpInstance) -> tuple[float, float, int]:
    """Returns the processor time of the first event and of a later one, and the bytes of the first."""
    encoded = b""

    def once(reader: HistoryReader) -> float:
        nonlocal encoded
        began = time.thread_time()
        encoded = json.dumps(history_document(reader.news([view.history]))).encode()
        return 1000 * (time.thread_time() - began)

    reader = HistoryReader()
    first, size = once(reader), len(encoded)
    return first, min(once(reader) for _ in range(100)), size


def main() -> None:
    view = MadeUpInstance()
    PICTURES.mkdir(parents=True, exist_ok=True)
    first, later, size = event_milliseconds(view)
    print(f"history in the first event: {first:.2f} ms, {size} bytes; in a later one {later:.3f} ms")
    with (
        serving(view) as url,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        chromium(Path(folder)) as page,
    ):
        if "--serve" in sys.argv:
            print(url)
            time.sleep(3600)
        for name, drawn in (
            ("topology", "document.querySelectorAll('.box .figures:not(:empty)').length > 10"),
            ("hour", "document.querySelectorAll('#hour canvas').length >= 7"),
            ("tasks", f"document.querySelectorAll('#task-table tbody tr').length === {GROUPS * PARTITIONS}"),
        ):
            page.look()
            times = [first_paint(page, url, name, drawn) for _ in range(TIMES)]
            painted, done = (sorted(each)[TIMES // 2] for each in zip(*times, strict=True))
            print(f"{name}: first paint {painted:.0f} ms, with its figures {done:.0f} ms")
            for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
                page.look(width=width, height=900 if width > 1000 else 844, dark=dark)
                time.sleep(0.5)
                wide = page.value("document.documentElement.scrollWidth - innerWidth")
                print(f"  {width} px: {max(0, wide)} px beside the page")
                page.screenshot(PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        print(f"complaints: {page.complaints}")


if __name__ == "__main__":
    main()
