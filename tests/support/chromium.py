"""A headless Chromium that a test clicks through, by its DevTools protocol.

Called by long tests of pages. It keeps what the page writes to the browser's console, what it throws and what its
content security policy refuses.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websocket import WebSocket, create_connection

from instances import eventually

_OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--no-first-run",
]
_COMPLAINTS = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}


class Page:
    """One page of a browser."""

    def __init__(self, connection: WebSocket) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        #: Errors and warnings, but for answers of the server that are errors, which pages ask for and show.
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._connection.recv())
            if told.get("id") == number:
                assert "error" not in told, (method, told)
                result: dict[str, Any] = told["result"]
                return result
            self._hear(told)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """The value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 90) -> None:
        """Returns when an expression is true."""
        eventually(lambda: bool(self.value(expression)), expression, seconds)

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, selector: str, text: str) -> None:
        self.value(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(text)}")

    def press(self, key: str, code: int) -> None:
        """Presses a key as a user would, with the focus where it is."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, zoom: float = 1) -> None:
        """Sets the window's size, its colours, and how far the user zoomed in."""
        metrics = {"width": int(width / zoom), "height": int(height / zoom), "deviceScaleFactor": zoom}
        self.call("Emulation.setDeviceMetricsOverride", mobile=False, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def offline(self, away: bool) -> None:
        """Takes the network away, or gives it back."""
        self.call(
            "Network.emulateNetworkConditions", offline=away, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def screenshot(self, path: Path) -> bytes:
        """Writes and returns what is seen, as PNG."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(data)
        return data

    def _hear(self, told: dict[str, Any]) -> None:
        if told.get("method") not in _COMPLAINTS:
            return
        entry = told["params"].get("entry", {})
        kind = told["params"].get("type", entry.get("level", "error"))
        if kind in ("error", "warning") and entry.get("source") != "network":
            self.complaints.append(json.dumps(told["params"])[:1000])


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser with one page and a profile of its own in ``folder``; skips the test where there is none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no Chromium")
    command = [program, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = folder / "DevToolsActivePort"
        eventually(lambda: port.exists() and "\n" in port.read_text(), "a port of the browser", 120)
        address = f"http://127.0.0.1:{port.read_text().split()[0]}/json/list"
        pages: list[dict[str, Any]] = []

        def found() -> bool:
            with urllib.request.urlopen(address, timeout=60) as answer:
                pages[:] = [each for each in json.load(answer) if each["type"] == "page"]
            return bool(pages)

        eventually(found, "a page of the browser", 120)
        connection = create_connection(pages[0]["webSocketDebuggerUrl"], timeout=120, suppress_origin=True)
        try:
            yield Page(connection)
        finally:
            connection.close()
    finally:
        process.terminate()
        process.wait(60)
