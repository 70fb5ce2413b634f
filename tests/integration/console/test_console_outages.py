"""The console in a real browser while its broker goes and comes back, and while ``local --watch`` runs code that fails:
the page claims nothing that it does not know, and its charts have gaps.
"""

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
from streamsapp.local.broker import EmbeddedBroker, free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: shop}}
spec:
  topology: {{entrypoint: "shop:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  processing: {{defaultKeySerde: string, defaultValueSerde: string, standbyReplicas: 0, commitIntervalMs: 1000}}
  code:
    files:
      shop.py: |
        from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder

        def priced(value):
            if "bad" in value:
                raise ValueError("no price in " + value)
            return value

        text = Serdes.string()
        topology = StreamsBuilder()
        orders = topology.stream("{source}", Consumed(text, text)).map_values(priced, named="priced")
        orders.group_by_key().count(Materialized("{store}"))
"""

STORE = "a-store-with-a-name-that-is-much-longer-than-a-box-of-the-graph-would-be-wide"

FORM = ((1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True))


class Shop:
    """``streamsapp local --watch`` of a small application, on a broker that may be stopped."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.kafka = Kafka(broker.bootstrap_servers)
        self.source = self.kafka.create_topic("orders")
        self._manifest = folder / "app.yaml"
        self._manifest.write_text(MANIFEST.format(servers=broker.bootstrap_servers, source=self.source, store=STORE))
        self._told, self._log = folder / "told", folder / "log"
        command = [sys.executable, "-m", "streamsapp.cli.main", "local", "-f", "app.yaml", "--watch"]
        with self._told.open("w") as told, self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--http-port", str(free_port())], cwd=folder, stdout=told, stderr=log
            )

    @property
    def url(self) -> str:
        pattern = re.compile(r"console +(http\S+)")
        eventually(lambda: self.process.poll() is not None or pattern.search(self._told.read_text()), "its URL", 120)
        found = pattern.search(self._told.read_text())
        assert found, self._log.read_text()
        return found[1]

    def order(self, value: str) -> None:
        self.kafka.produce(self.source, [(b"jane", value.encode())])

    def mend(self) -> None:
        self._manifest.write_text(self._manifest.read_text().replace('if "bad" in value', "if not value"))


@pytest.fixture
def shop(tmp_path: Path, own_broker: EmbeddedBroker) -> Iterator[Shop]:
    made = Shop(tmp_path, own_broker)
    yield made
    made.process.send_signal(signal.SIGTERM)
    assert made.process.wait(120) == 0


def pictures(page: Page, shots: Path, name: str) -> None:
    """At both widths, light and dark; nothing is beside the page."""
    for width, height, dark in FORM:
        page.look(width=width, height=height, dark=dark)
        page.value("new Promise((go) => setTimeout(go, 400))")
        page.screenshot(shots / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        assert page.value("document.documentElement.scrollWidth <= innerWidth"), (name, width)
    page.look()


def view(page: Page, name: str) -> None:
    page.click(f"nav a[href='#{name}']")


def test_the_page_is_right_while_brokers_and_instances_come_and_go(
    shop: Shop, own_broker: EmbeddedBroker, page: Page, shots: Path
) -> None:
    page.look()
    opens_when_it_listens(page, shop.url)
    page.until("document.querySelector('#state').innerText === 'RUNNING'", 300)
    has_whole_names(page, shots)
    changes_the_size_of_the_graph(page)
    draws_what_is_measured(shop, page, shots)
    shows_that_no_broker_answers(shop, own_broker, page, shots)
    shows_an_application_that_ends_again_and_again(shop, page, shots)
    shows_the_gap_when_it_is_back(shop, page, shots)
    assert page.complaints == []


def opens_when_it_listens(page: Page, url: str) -> None:
    """The command prints the address before the application has the port."""

    def opened() -> bool:
        page.open(url)
        return bool(page.value("document.querySelector('#state') !== null"))

    eventually(opened, "the page", 300)
    page.complaints.clear()


def has_whole_names(page: Page, shots: Path) -> None:
    page.until("document.querySelectorAll('.box').length === 4")
    cut = "it.scrollHeight > it.clientHeight + 1 || it.scrollWidth > it.clientWidth + 1"
    cut = f"[...document.querySelectorAll('.box')].filter((it) => {cut})"
    assert page.value(f"{cut}.map((it) => it.innerText)") == []
    assert STORE in page.text("#graph")
    pictures(page, shots, "outage-topology")


def changes_the_size_of_the_graph(page: Page) -> None:
    """By its buttons, by keys and by the wheel with Ctrl; the wheel alone scrolls the page."""
    width = "document.querySelector('.drawing').getBoundingClientRect().width"
    before = page.value(width)
    page.click(".zoom button[aria-label=Larger]")
    assert page.value(width) == pytest.approx(1.25 * before, rel=0.01)
    page.value("document.querySelector('.window').focus()")
    page.value("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '-', bubbles: true}))")
    assert page.value(width) == pytest.approx(before, rel=0.01)
    wheel = "document.querySelector('.window').dispatchEvent(new WheelEvent('wheel', {deltaY: -40, ctrlKey: %s}))"
    page.value(wheel % "false")
    assert page.value(width) == pytest.approx(before, rel=0.01)
    page.value(wheel % "true")
    assert page.value(width) > 1.1 * before
    page.click(".zoom button[aria-label^=Fit]")
    assert page.value(f"{width} <= document.querySelector('.window').clientWidth")


def draws_what_is_measured(shop: Shop, page: Page, shots: Path) -> None:
    view(page, "hour")
    rate = "document.querySelector('#hour figure:not([hidden]) figcaption strong')?.innerText"

    def drawn() -> bool:
        shop.order("an apple")
        return bool(page.value(f"/^[<\\d.]+K?\\/s$/.test({rate}) && {rate} !== '0/s'"))

    eventually(drawn, "a rate", 300)
    assert page.value("document.querySelectorAll('#hour figure:not([hidden]) canvas').length") >= 4
    page.value("document.querySelector('#hour details').open = true")
    assert "shop" in page.text("#hour details table")
    page.value("document.querySelector('#hour details').open = false")


def shows_that_no_broker_answers(shop: Shop, own_broker: EmbeddedBroker, page: Page, shots: Path) -> None:
    own_broker.stop()
    page.until("/no broker answered/.test(document.querySelector('.troubles').innerText)", 300)
    pictures(page, shots, "outage-broker-away")
    view(page, "tasks")
    page.until("/kafka/.test(document.querySelector('#notes').innerText)")
    page.screenshot(shots / "outage-broker-away-tasks.png")
    view(page, "hour")
    own_broker.start()
    figure = "document.querySelectorAll('#hour figure')[1].querySelector('figcaption strong').innerText"
    page.until(f"/^\\d/.test({figure})", 300)  # the lag is known again
    shop.order("a pear")


def shows_an_application_that_ends_again_and_again(shop: Shop, page: Page, shots: Path) -> None:
    """Its last failure is in Errors while no instance answers, and the page is grey."""
    shop.order("a bad one")
    page.until("document.body.classList.contains('lost')", 300)
    pictures(page, shots, "outage-instance-away-hour")
    view(page, "errors")
    page.until("/no price in a bad one/.test(document.querySelector('#record-errors').innerText)", 300)
    pictures(page, shots, "outage-instance-away-errors")
    view(page, "topology")
    page.until("document.body.classList.contains('lost')", 300)
    pictures(page, shots, "outage-instance-away-topology")


def shows_the_gap_when_it_is_back(shop: Shop, page: Page, shots: Path) -> None:
    shop.mend()
    view(page, "hour")
    page.until(
        "!document.body.classList.contains('lost') && document.querySelector('#state').innerText === 'RUNNING'", 300
    )
    page.until("/it was away/.test(document.querySelector('.troubles').innerText)", 300)
    page.until("/\\/s$/.test(document.querySelector('#hour figcaption strong').innerText)", 300)
    pictures(page, shots, "outage-instance-back")
