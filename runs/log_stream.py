"""An attempt's output: written as numbered objects while it runs, read back by offset.

An attempt's log is the objects under its prefix, each named by the offset of its first byte. The
prefix names attempt and claim, so a stale attempt cannot write into its successor's log.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

from django.conf import settings

from runs.executors import interrupt
from runs.storage import Backend, ChunkStore, backend

FLUSH_SEC = 1.0
FLUSH_BYTES = 256 * 1024
OFFSET_DIGITS = 20
FOLLOW_SEC = 0.5
END = 1 << 62  # beyond any offset


class LogsUnavailableError(Exception):
    """The store that holds the log does not answer."""


def log_prefix(
    scheduled_for: datetime, run_id: uuid.UUID, attempt: int, claim_id: uuid.UUID
) -> str:
    """Return the output_ref of an attempt, whether it has output or not."""
    day = scheduled_for.astimezone(UTC).date().isoformat()
    return f"logs/{day}/{run_id}/{attempt}-{claim_id}/"


def chunk_key(prefix: str, offset: int) -> str:
    """Return the name of the object whose first byte is at `offset`."""
    return f"{prefix}{offset:0{OFFSET_DIGITS}d}.log"


class LogWriter:
    """Collects output and stores it each second while there is some, and at 256 KiB.

    `on_buffered` is called when output begins to wait, `on_stored` when an object is kept; a write
    never fails, for a log must not fail its run.
    """

    def __init__(
        self,
        store: ChunkStore,
        prefix: str,
        *,
        max_bytes: int,
        on_buffered: Callable[["LogWriter"], None] | None = None,
        on_stored: Callable[[], None] | None = None,
    ) -> None:
        self.prefix = prefix
        self.is_truncated = False
        self._store = store
        self._room = self._max_bytes = max_bytes
        self._on_buffered = on_buffered
        self._on_stored = on_stored
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._since = 0.0
        self._offset = 0
        self._is_kept = False

    def write(self, data: bytes) -> None:
        """Append output; what exceeds the limit of an attempt is dropped, and a line says so."""
        if self.is_truncated or not data:
            return
        with self._lock:
            if len(data) > self._room:
                self.is_truncated = True
                cut = f"\n[chrono] output is cut off after {self._max_bytes} bytes\n"
                data = data[: self._room] + cut.encode()
            was_empty = not self._buffer
            if was_empty:
                self._since = time.monotonic()
            self._buffer += data
            self._room -= len(data)
            is_full = len(self._buffer) >= FLUSH_BYTES
        if is_full:
            self.flush()
        elif was_empty and self._on_buffered is not None:
            self._on_buffered(self)

    def flush_due_in(self) -> float | None:
        """Return the seconds until kept output must be stored; None when there is none."""
        if not self._buffer:
            return None
        return max(0.0, self._since + FLUSH_SEC - time.monotonic())

    def flush(self) -> None:
        """Store what is kept."""
        with interrupt.held_back():  # an interrupt amid it would cost output
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            data, self._buffer = bytes(self._buffer), bytearray()
            offset = self._offset
            self._offset += len(data)
        if not data:
            return
        if self._store.put(chunk_key(self.prefix, offset), data) == "dropped":
            self.is_truncated = True
        elif not self._is_kept:
            self._is_kept = True
            if self._on_stored is not None:
                self._on_stored()

    def close(self) -> str:
        """Store the rest and return the output_ref: empty when there was no output."""
        self.flush()
        return self.prefix if self._is_kept else ""


class Flusher:
    """Stores the waiting output of tasks that say something and then fall silent.

    One thread a pool child, asleep while no output waits; the tasks' own thread is busy with them.
    """

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._log: LogWriter | None = None
        self._thread: threading.Thread | None = None

    def watch(self, log: LogWriter) -> None:
        """Take care of a log that has begun to hold output."""
        with self._wake:
            self._log = log
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="log-flusher", daemon=True)
                self._thread.start()
            self._wake.notify()

    def forget(self) -> None:
        """Leave the log to its owner, who closes it."""
        with self._wake:
            self._log = None

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._log is None:
                    self._wake.wait()
                due_in = self._log.flush_due_in()
                if due_in is None:
                    self._log = None
                    continue
                if due_in > 0:
                    self._wake.wait(due_in)
                    continue
                log, self._log = self._log, None
            log.flush()


class LogReader:
    """Reads logs from the store and, on the worker's own host, from its spool."""

    def __init__(self, store: Backend, spool: Path) -> None:
        self._store = store
        self._spool = spool

    def read(self, output_ref: str, offset: int = 0, limit: int = FLUSH_BYTES) -> bytes:
        """Return up to `limit` bytes from `offset` on. Raises LogsUnavailableError."""
        pieces: list[bytes] = []
        position, end = offset, offset + limit
        starts = self._starts(output_ref)
        for start, following in zip_longest(starts, starts[1:], fillvalue=END):
            if position >= end or following <= position:
                continue
            if start > position:
                pieces.append(missing(start - position))
                position = start
            piece = self._chunk(output_ref, start)[position - start :]
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)[:limit]

    def size(self, output_ref: str) -> int:
        """Return the length of the log so far. Raises LogsUnavailableError."""
        starts = self._starts(output_ref)
        return starts[-1] + len(self._chunk(output_ref, starts[-1])) if starts else 0

    def follow(
        self,
        output_ref: str,
        *,
        is_finished: Callable[[], bool],
        offset: int = 0,
        poll_sec: float = FOLLOW_SEC,
    ) -> Iterator[bytes]:
        """Yield output as it comes, until `is_finished` says that no more will."""
        while True:
            finished = is_finished()  # asked first: what came before the end is then read below
            while piece := self.read(output_ref, offset):
                offset += len(piece)
                yield piece
            if finished:
                return
            time.sleep(poll_sec)

    def _starts(self, output_ref: str) -> list[int]:
        if not output_ref:
            return []
        try:
            _, names = self._store.storage.listdir(output_ref)
        except FileNotFoundError:
            names = []
        except self._store.errors as error:
            raise LogsUnavailableError(str(error)) from error
        local = [path.name for path in (self._spool / output_ref).glob("*.log")]
        return sorted({int(name[:OFFSET_DIGITS]) for name in [*names, *local] if is_chunk(name)})

    def _chunk(self, output_ref: str, start: int) -> bytes:
        key = chunk_key(output_ref, start)
        try:
            return (self._spool / key).read_bytes()
        except OSError:
            pass  # not spooled, or carried into the store this moment
        try:
            with self._store.storage.open(key) as file:
                data: bytes = file.read()
                return data
        except self._store.errors as error:
            raise LogsUnavailableError(str(error)) from error


def is_chunk(name: str) -> bool:
    """Say whether a name is that of a log object."""
    return name.endswith(".log") and name[:OFFSET_DIGITS].isdigit()


def missing(length: int) -> bytes:
    """Return exactly `length` bytes that stand for output which another host still spools."""
    text = f"[chrono] {length} bytes are not in the store yet"
    return text[: length - 1].ljust(length - 1).encode() + b"\n"


def reader() -> LogReader:
    """Return the reader of the configured store."""
    return LogReader(backend(), settings.CHRONO_SPOOL_DIR)


def read(output_ref: str, offset: int = 0, limit: int = FLUSH_BYTES) -> bytes:
    """Return up to `limit` bytes of a log from `offset` on. Raises LogsUnavailableError."""
    return reader().read(output_ref, offset, limit)


def size(output_ref: str) -> int:
    """Return the length of a log so far. Raises LogsUnavailableError."""
    return reader().size(output_ref)


def follow(output_ref: str, *, is_finished: Callable[[], bool], offset: int = 0) -> Iterator[bytes]:
    """Yield a log's output as it comes, until `is_finished` says that no more will."""
    return reader().follow(output_ref, is_finished=is_finished, offset=offset)
