"""A real browser: Chromium, driven by its own protocol over a pipe; nothing else is needed."""

import base64
import fcntl
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
ANSWER_SEC = 30.0
SETTLE_SEC = 15.0
POLL_SEC = 0.05


class BrowserError(AssertionError):
    """The browser did not do what it was asked to, or a page is not as it was expected."""


def executable() -> str:
    """Return where Chromium is."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise BrowserError(f"none of {', '.join(NAMES)} is installed; bin/test installs chromium")


class Pipe:
    """Messages of Chromium's DevTools protocol: JSON, each ended by a NUL."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self.last_id = 0
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._ready: list[dict[str, Any]] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(reading, selectors.EVENT_READ)

    def close(self) -> None:
        """Read no more."""
        self._selector.close()
        os.close(self.reading)

    def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        self.last_id += 1
        message: dict[str, Any] = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SEC
        while time.monotonic() < deadline:
            answer = self._next(deadline - time.monotonic())
            if answer is None:
                continue
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)
        raise BrowserError(f"{method}: no answer within {ANSWER_SEC} s")

    def _next(self, wait_sec: float) -> dict[str, Any] | None:
        if not self._ready and self._selector.select(max(0.0, wait_sec)):
            data = os.read(self.reading, 1 << 20)
            if not data:
                raise BrowserError("the browser has gone")
            *whole, self._buffer = (self._buffer + data).split(b"\0")
            self._ready += [json.loads(message) for message in whole]
        return self._ready.pop(0) if self._ready else None


class Page:
    """One tab."""

    def __init__(self, pipe: Pipe, base_url: str = "") -> None:
        self._pipe = pipe
        self._base_url = base_url
        # a context of its own: no cookie or setting of another test's
        context = pipe.call("Target.createBrowserContext")["browserContextId"]
        self._context = context
        made = pipe.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = pipe.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(1280, 900)

    def close(self) -> None:
        """Close the tab and forget its cookies."""
        self._pipe.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._pipe.events = []

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command to this tab."""
        return self._pipe.call(method, self._session, **params)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def keep_cookie(self, name: str, value: str) -> None:
        """Send this cookie to the site under test."""
        self.call("Network.setCookie", name=name, value=value, url=self._base_url)

    def prefer(self, scheme: str) -> None:
        """Ask pages for their light or dark look."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Load a page and wait until it stands."""
        self.evaluate("window.chLeft = true")
        if error := self.call("Page.navigate", url=self._base_url + url).get("errorText"):
            raise BrowserError(f"{url}: {error}")
        self.wait_loaded()

    def wait_loaded(self) -> None:
        """Wait until the page that was left is gone and the next one stands."""
        self.wait("!window.chLeft && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = SETTLE_SEC) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if self.evaluate(condition):
                    return
            except BrowserError:
                pass  # the page is being replaced
            time.sleep(POLL_SEC)
        raise BrowserError(
            f"not true within {seconds} s: {condition}; the page: {self.text()[:500]}"
        )

    def fill(self, selector: str, value: str) -> None:
        """Type into a field."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select."""
        self.fill(selector, value)
        self.evaluate(
            f"document.querySelector({json.dumps(selector)})"
            ".dispatchEvent(new Event('change', {bubbles: true}))"
        )

    def click(self, selector: str, *, leads_on: bool = True) -> None:
        """Click, and wait for the page that it leads to."""
        mark = "window.chLeft = true; " if leads_on else ""
        self.evaluate(f"{mark}document.querySelector({json.dumps(selector)}).click()")
        if leads_on:
            self.wait_loaded()

    def text(self) -> str:
        """Return what a person can read on the page."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def complaints(self) -> list[str]:
        """Return errors of scripts, the console and the network since the last time."""
        self.evaluate("0")  # what was under way has arrived once this answer has
        mine = [event for event in self._pipe.events if event.get("sessionId") == self._session]
        self._pipe.events = []
        return [text for event in mine if (text := complaint(event))]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


def complaint(event: dict[str, Any]) -> str:
    """Return what is wrong, "" for an event that tells of nothing wrong."""
    method, params = event.get("method"), event.get("params", {})
    if method == "Runtime.exceptionThrown":
        return f"exception: {params['exceptionDetails']}"
    if method == "Runtime.consoleAPICalled" and params["type"] == "error":
        return f"console: {params['args']}"
    if method == "Log.entryAdded" and params["entry"]["level"] == "error":
        return f"log: {params['entry']['text']} {params['entry'].get('url', '')}"
    return ""


# Chromium reads its pipe at 3 and writes to it at 4.
LAUNCH = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"


def high_pipe() -> tuple[int, int]:
    """Return a pipe whose ends lie above what the browser wants at 3 and 4."""
    low = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return reading, writing


@contextmanager
def chromium() -> Iterator[Pipe]:
    """A Chromium of our own with a fresh profile."""
    theirs_in, ours_out = high_pipe()
    ours_in, theirs_out = high_pipe()
    with tempfile.TemporaryDirectory(prefix="chrono-browser-", ignore_cleanup_errors=True) as home:
        launch = [sys.executable, "-c", LAUNCH.format(theirs_in, theirs_out)]
        process = subprocess.Popen(
            [*launch, executable(), *FLAGS, f"--user-data-dir={home}"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": home},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        pipe = Pipe(ours_in, ours_out)
        try:
            yield pipe
        finally:
            os.close(ours_out)  # the browser ends when its pipe does
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            pipe.close()
