"""Drives harness_main from a test: reads its events, kills its processes, counts survivors."""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from runs import slots
from runs.executors import proctree

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SEC = 20.0


def eventually(look: Callable[[], T], *, within_sec: float = PATIENCE_SEC) -> T:
    """Return what `look` answers as soon as that is true; fail when it never is."""
    end = time.monotonic() + within_sec
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {within_sec} s: {look}")
        time.sleep(0.05)


def marked(marker: str) -> list[int]:
    """Return the living processes that have the marker in their command line."""
    found = []
    for process in proctree.all_processes():
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and not process.is_dead and b"harness_main" not in line:
            found.append(process.pid)
    return found


class Harness:
    """A running harness_main."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.harness_main", json.dumps(plan)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self._buffer = b""
        self._out = self.process.stdout.fileno()
        self.seen: list[dict[str, Any]] = []
        main = self.event("main")
        self.main: int = main["pid"]
        self.work_root = Path(main["work_root"])
        started = [self.event("child", child=n) for n in range(len(plan["children"]))]
        self.children: list[int] = [event["pid"] for event in started]
        self.shims: list[int] = [event["shim"] for event in started]
        fd = os.open(f"/proc/{self.main}/fd/{main['table_fd']}", os.O_RDWR)
        self.table = slots.SlotTable(fd)

    def event(
        self, name: str, *, child: int | None = None, within_sec: float = PATIENCE_SEC
    ) -> dict[str, Any]:
        """Return the next event of that name, of one child where it is named."""
        end = time.monotonic() + within_sec
        while True:
            for event in self.seen:
                if event["event"] == name and child in {None, event.get("child")}:
                    self.seen.remove(event)
                    return event
            self._read(end)

    def _read(self, end: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            if not selector.select(max(0.0, end - time.monotonic())):
                raise AssertionError(f"nothing more came; seen: {self.seen}")
        data = os.read(self._out, 65536)
        if not data:
            raise AssertionError(f"the harness ended; seen: {self.seen}")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self.seen += [json.loads(line) for line in lines]

    def executing(self) -> list[tuple[slots.Entry, slots.Record]]:
        """Wait until each child executes something; return the places."""

        def look() -> list[tuple[slots.Entry, slots.Record]]:
            places = [place for slot in self.table.slots for place in slot.held()]
            found = [place for place in places if place[1].phase == slots.PHASE_EXECUTING]
            return found if len(found) == len(self.children) else []

        return eventually(look)

    def close(self) -> None:
        """End everything."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        eventually(lambda: not any(start_of(shim) for shim in self.shims))
        os.close(self.table.fd)
        shutil.rmtree(self.work_root, ignore_errors=True)


def start_of(pid: int) -> int:
    """Return the start time of a process, 0 when it is gone or only a zombie."""
    found = proctree.look(pid)
    return found.start if found and not found.is_dead else 0


def kill(pid: int) -> None:
    """SIGKILL one process."""
    os.kill(pid, signal.SIGKILL)


@contextmanager
def harness(*children: list[dict[str, Any]], **plan: Any) -> Iterator[Harness]:  # noqa: ANN401
    """Run each list of works in a pool child of its own."""
    running = Harness({"children": children, **plan})
    try:
        yield running
    finally:
        running.close()


def command(text: str | list[str], **plan: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the plan of a command."""
    return {"kind": "command", "payload": {"command": text}, **plan}


def task(name: str, *args: Any, **plan: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the plan of a Python task."""
    return {"kind": "task", "payload": {"task": name, "args": list(args), "kwargs": {}}, **plan}
