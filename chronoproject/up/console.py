"""Named, timed lines: to the terminal, and to a log file for each process."""

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

LOG_BYTES = 20 * 1024 * 1024
NAME_WIDTH = 13
OWN_NAME = "up"
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")


class LogFile:
    """Appends, a line at a time; when large it becomes `.1` and a new one begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None
        self._looked_at = 0.0
        self._fault = ""

    def write(self, line: str) -> str:
        """Returns a new reason why lines cannot be kept, once, so that the caller can say it."""
        try:
            file = self._open()
            file.write(line)
            if file.tell() > LOG_BYTES:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                self.close()
        except OSError as fault:
            # A full disk must not end the processes whose lines we cannot keep.
            reason = f"cannot write {self.path}: {fault.strerror}"
            is_news, self._fault = reason != self._fault, reason
            self.close()
            return reason if is_news else ""
        self._fault = ""
        return ""

    def _open(self) -> TextIO:
        """The open file, or a new one where someone has taken it away; looked at each second."""
        now = time.monotonic()
        if self._file is not None and now - self._looked_at > 1.0:
            self._looked_at = now
            if not self.path.exists():
                self.close()
        if self._file is None:
            self._file = self.path.open("a", encoding="utf-8", buffering=1)
        return self._file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written cannot be flushed either
                file.close()


class Console:
    def __init__(self, logs: Path, *, terminal: int | None) -> None:
        self._logs = logs
        self._files: dict[str, LogFile] = {}
        self._terminal = terminal
        self._unseen = 0
        is_colourful = terminal is not None and os.isatty(terminal) and "NO_COLOR" not in os.environ
        self._colours: dict[str, str] | None = {} if is_colourful else None

    def say(self, text: str) -> None:
        """The supervisor's own word."""
        self.line(OWN_NAME, text)

    def line(self, name: str, text: str) -> None:
        fault = self.keep(name, text)
        self._show(f"{self._stamp(name)} {text}\n")
        if fault:
            self._show(f"{self._stamp(OWN_NAME)} {fault}\n")

    def keep(self, name: str, text: str) -> str:
        """To the log file alone."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"
        file = self._files.setdefault(name, LogFile(self.path(name)))
        return file.write(f"{stamp} {text}\n")

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def path(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def show(self, text: str) -> None:
        """To the terminal alone: what holds a secret is in no log."""
        self._show(text)

    def _stamp(self, name: str) -> str:
        clock = time.strftime("%H:%M:%S")
        label = f"{name:<{NAME_WIDTH}}|"
        if self._colours is not None:
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            label = f"\x1b[{colour}m{label}\x1b[0m"
        return f"{clock} {label}"

    def _show(self, text: str) -> None:
        """Never wait for a terminal that is held (Ctrl-S): every process would wait with us."""
        if self._terminal is None:
            return
        if not select.select([], [self._terminal], [], 0)[1]:
            self._unseen += 1
            return
        if self._unseen:
            text = f"[{self._unseen} lines not shown; they are in {self._logs}]\n{text}"
            self._unseen = 0
        try:
            # A pipe that is ready takes this much without blocking.
            os.write(self._terminal, text.encode("utf-8", "replace")[: select.PIPE_BUF])
        except OSError as fault:
            # Whoever read our output is gone; the work goes on, the log files have it all.
            self._terminal = None
            self.keep(OWN_NAME, f"output closed: {fault.strerror}")


def standard_output() -> int:
    sys.stdout.flush()
    return sys.stdout.fileno()
