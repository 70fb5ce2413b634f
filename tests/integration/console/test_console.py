"""The console in a real browser, of ``streamsapp local``: its pages, clicks, and hostile records."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Page
from instances import eventually
from kafka_cluster import Kafka
from streamsapp.local.broker import EmbeddedBroker

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "shop:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  processing: {{defaultKeySerde: string, defaultValueSerde: string, standbyReplicas: 0}}
  errors: {{processing: dead_letter, deadLetterTopic: {dead}}}
  code:
    files:
      shop.py: |
        from datetime import timedelta
        from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows

        def priced(value):
            if "bad" in value:
                raise ValueError("no price in " + value[:20])
            return value

        text = Serdes.string()
        topology = StreamsBuilder()
        orders = topology.stream("{source}", Consumed(text, text)).map_values(priced, named="priced")
        by_customer = orders.group_by_key()
        by_customer.reduce(lambda before, now: now, Materialized("last-order")).to_stream().to("{sink}")
        minute = TimeWindows.of(timedelta(minutes=1))
        by_customer.windowed_by(minute).count(Materialized("per-minute"))
"""

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


class Console:
    """``streamsapp local`` of a small shop, on the tests' broker."""

    def __init__(self, folder: Path, kafka: Kafka, servers: str) -> None:
        self.kafka = kafka
        self.topics = {name: kafka.create_topic(name) for name in ("source", "sink", "dead")}
        text = MANIFEST.format(name=kafka.unique("shop"), servers=servers, **self.topics)
        (folder / "app.yaml").write_text(text)
        self._told = folder / "told"
        command = [sys.executable, "-m", "streamsapp.cli.main", "local", "-f", "app.yaml", "--http-port", "0"]
        self._log = folder / "log"
        with self._told.open("w") as told, self._log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=told, stderr=log)

    @property
    def url(self) -> str:
        """The address that the command prints."""
        pattern = re.compile(r"console +(http\S+)")
        eventually(lambda: self.process.poll() is not None or pattern.search(self._told.read_text()), "its URL", 120)
        found = pattern.search(self._told.read_text())
        assert found, self._log.read_text()
        return found[1]

    def write(self, *values: tuple[str, str | bytes]) -> None:
        """Records with their keys."""
        encoded = [(key.encode(), each if isinstance(each, bytes) else each.encode()) for key, each in values]
        self.kafka.produce(self.topics["source"], encoded)


@pytest.fixture
def console(tmp_path: Path, kafka: Kafka, broker: EmbeddedBroker) -> Iterator[Console]:
    made = Console(tmp_path, kafka, broker.bootstrap_servers)
    yield made
    made.process.send_signal(signal.SIGTERM)
    assert made.process.wait(120) == 0


@pytest.mark.long
def test_the_console_shows_what_happens_and_takes_records_for_what_they_are(
    console: Console, page: Page, shots: Path
) -> None:
    page.look()
    page.open(console.url)
    page.until("document.querySelector('#state').innerText === 'RUNNING'")
    page.until("document.querySelector('#connection').innerText === 'live'")

    knows_values_and_events(page)
    comes_back_when_the_connection_was_lost(page)
    taps_a_node(console, page, shots)
    looks_at_tasks_and_errors(page, shots)
    writes_a_record(page, shots)
    browses_stores(page, shots)
    fits_a_phone(page, shots)
    goes_by_keyboard_at_200_percent(page, shots)
    takes_the_token_that_is_in_the_address(page, console.url)

    assert page.value("document.title") == "streamsapp"
    assert page.complaints == []


def takes_the_token_that_is_in_the_address(page: Page, url: str) -> None:
    """And shows it to the server only: the address does not contain it any more."""
    page.open("about:blank")
    page.open(f"{url}#token=se%20cret")
    page.until("document.querySelector('#connection').innerText === 'live'")
    assert page.value("location.href") == url
    listening = (
        "window.real = window.fetch, window.fetch = (path, o) => (window.shown = o.headers, window.real(path, o))"
    )
    page.value(f"({listening}, 1)")
    page.value("import('./server.js').then((it) => it.ask('healthz')).then(() => 1)")
    assert page.value("window.shown") == {"Authorization": "Bearer se cret"}


def knows_values_and_events(page: Page) -> None:
    """The page's own parts that need no server."""
    parts = "import('./values.js').then(async (values) => [values, await import('./server.js')])"
    shown = page.value(f"{parts}.then(([it]) => it.shown(it.parsed('[9007199254740993, 1.5]')))")
    assert shown == '[ "9007199254740993", 1.5 ]'
    assert page.value(f"{parts}.then(([it]) => [it.decoded('w6Q='), it.decoded('/wA='), it.decoded(null)])") == [
        "ä", "0x ff 00", "null"
    ]  # fmt: skip
    split = "new it.EventParser(), ['data: 1\\n', '\\nda', 'ta: 2\\n\\n: still\\n\\ndata: 3']"
    taken = f"((parser, chunks) => chunks.flatMap((each) => parser.take(each)))({split})"
    assert page.value(f"{parts}.then(([, it]) => {taken})") == ["1", "2"]


def comes_back_when_the_connection_was_lost(page: Page) -> None:
    page.offline(True)
    page.value("document.dispatchEvent(new Event('visibilitychange'))")  # a stream that is open stays; begin another
    page.until("/trying again/.test(document.querySelector('#connection').innerText)")
    page.offline(False)
    page.until("document.querySelector('#connection').innerText === 'live'")


def taps_a_node(console: Console, page: Page, shots: Path) -> None:
    """Nothing of records is seen until it is asked for; then hostile ones are texts, and long ones cut."""
    page.until("document.querySelector('.box[title=priced]') !== null")
    page.click(".box[title=priced]")
    assert page.text("aside h2") == "priced"
    console.write(("jane", "three apples"))
    page.until("/rate\\s+[<\\d]/.test(document.querySelector('aside').innerText)")
    assert page.value("document.querySelectorAll('aside td.text').length") == 0
    page.click("aside button")

    def ordered() -> bool:
        console.write(("jane", "three apples"), ("ann", "a pear"), ("max", "twelve plums"))
        return all(each in page.text("aside") for each in ("apples", "a pear", "plums"))

    eventually(ordered, "the orders at the tap", 120)
    page.screenshot(shots / "console.png")

    def tapped() -> bool:
        console.write(("eve", HOSTILE), ("max", "x" * 900_000), ("ann", "bad order"))
        seen = page.text("aside")
        return "<script>" in seen and "…" in seen and "bad order" in seen

    eventually(tapped, "the hostile records at the tap", 120)
    page.screenshot(shots / "topology-light.png")
    page.look(dark=True)
    page.screenshot(shots / "topology-dark.png")
    page.click("aside button")


def looks_at_tasks_and_errors(page: Page, shots: Path) -> None:
    page.click("nav a[href='#tasks']")
    page.until("/0_0/.test(document.querySelector('#task-table').innerText)")
    assert "running" in page.text("#task-table").lower()
    page.screenshot(shots / "tasks-dark.png")
    page.look()
    page.click("nav a[href='#errors']")
    page.until("/no price in bad order/.test(document.querySelector('#record-errors').innerText)")
    assert "went to the dead letter topic" in page.text("#record-errors")
    page.screenshot(shots / "errors-light.png")


def writes_a_record(page: Page, shots: Path) -> None:
    """By the form; for a wrong record the page names the field."""
    page.click("nav a[href='#produce']")
    page.fill("#produce-form textarea", '{"key": "form", "value": "from the form"}')
    page.click("#produce-form button")
    page.until("/1 record written/.test(document.querySelector('#produced').innerText)")
    page.fill("#produce-form textarea", '{"key": "form", "valeu": 1}')
    page.click("#produce-form button")
    page.until("/valeu: no field of a record/.test(document.querySelector('#produced').innerText)")
    page.screenshot(shots / "produce-light.png")


def browses_stores(page: Page, shots: Path) -> None:
    """By key, all of them, and windows from one time to another."""
    page.click("nav a[href='#stores']")
    page.until("document.querySelector('#store-form select') !== null")
    page.fill("#store-form [name=key]", "form")

    def found() -> bool:
        page.click("#store-form button")
        page.until("document.querySelector('#store-told').innerText !== 'asking…'")
        return "from the form" in page.text("#entries")

    eventually(found, "the record in the store", 120)
    does_not_show_a_late_answer(page)
    page.fill("#store-form [name=key]", "")
    page.click("#store-form button")
    page.until("/5 entries/.test(document.querySelector('#store-told').innerText)")
    assert "<script>" in page.text("#entries")
    assert "(900000 characters)" in page.text("#entries")
    page.screenshot(shots / "stores-light.png")
    page.value("document.querySelector('#store-form select').value = 'per-minute'")
    page.value("document.querySelector('#store-form select').dispatchEvent(new Event('change'))")
    page.fill("#store-form [name=key]", "form")
    page.click("#store-form button")
    page.until("/1 entry/.test(document.querySelector('#store-told').innerText)")
    page.fill("#store-form [name=fromTime]", "2000-01-01")
    page.fill("#store-form [name=toTime]", "2000-01-02")
    page.click("#store-form button")
    page.until("/0 entries/.test(document.querySelector('#store-told').innerText)")


def does_not_show_a_late_answer(page: Page) -> None:
    """An answer to an earlier question: the form has asked another one since."""
    late = "new Promise((go) => { window.release = go; }).then(() => real(path, o)).then((it) => (window.came = 1, it))"
    waiting = (
        f"window.real = window.fetch, window.fetch = (path, o) => path.includes('/late?') ? {late} : real(path, o)"
    )
    page.value(f"({waiting}, 1)")
    for key in ("late", "form"):
        page.fill("#store-form [name=key]", key)
        page.click("#store-form button")
    page.until("/1 entry/.test(document.querySelector('#store-told').innerText)")
    page.value("(window.release(), window.fetch = window.real, 1)")
    page.until("window.came === 1")
    page.value("new Promise((go) => setTimeout(go, 200))")
    assert "from the form" in page.text("#entries")
    assert "1 entry" in page.text("#store-told")


def fits_a_phone(page: Page, shots: Path) -> None:
    """Nothing is beside the page in any view, and each cell has the title of its column."""
    for dark in (False, True):
        page.look(width=390, height=844, dark=dark)
        for view in ("topology", "hour", "tasks", "stores", "errors", "produce"):
            page.click(f"nav a[href='#{view}']")
            page.until(f"!document.querySelector('#{view}').hidden")
            assert page.value("document.documentElement.scrollWidth <= innerWidth"), view
            page.screenshot(shots / f"phone-{view}-{'dark' if dark else 'light'}.png")
    titles = "[...document.querySelectorAll('#task-table tbody tr:first-child td')].map((td) => td.dataset.title)"
    assert page.value(titles)[:4] == ["Task", "Instance", "Role", "State"]
    page.look()


def goes_by_keyboard_at_200_percent(page: Page, shots: Path) -> None:
    """A link is followed by a key, and nothing is beside the page."""
    page.value("document.querySelector('nav a[href=\"#topology\"]').focus()")
    page.press("Enter", 13)
    page.look(zoom=2)
    page.until("!document.querySelector('#topology').hidden")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(shots / "topology-200.png")
