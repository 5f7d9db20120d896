"""An attempt's output: objects by offset, a spool for bad days, and what readers see."""

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import FileSystemStorage

from runs import log_stream, slots, storage
from runs.executors import interrupt
from runs.log_stream import Flusher, LogReader, LogsUnavailableError, LogWriter, chunk_key
from runs.storage import Backend, ChunkStore, build, spooled, upload_spool

PREFIX = "logs/2031-02-03/run/1-claim/"


class Sick(FileSystemStorage):
    """A store that answers only while it is well."""

    is_well = False

    def _check(self) -> None:
        if not self.is_well:
            raise ConnectionError("the store does not answer")

    def save(self, *args: object, **kwargs: object) -> str:
        self._check()
        return super().save(*args, **kwargs)  # type: ignore[arg-type]

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        self._check()
        return super().listdir(path)


@pytest.fixture
def store(tmp_path: Path) -> Backend:
    return build(f"file://{tmp_path}/store")


@pytest.fixture
def sick(tmp_path: Path) -> Backend:
    return Backend(Sick(location=str(tmp_path / "store"), allow_overwrite=True), (OSError,))


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def writer(store: Backend, spool: Path, max_bytes: int = 1_000_000) -> LogWriter:
    return LogWriter(ChunkStore(store, spool), PREFIX, max_bytes=max_bytes)


def test_no_output_stores_nothing(store: Backend, spool: Path, tmp_path: Path) -> None:
    log = writer(store, spool)
    log.write(b"")
    assert log.flush_due_in() is None
    assert log.close() == ""
    assert list(tmp_path.iterdir()) == []


def test_output_is_read_back(store: Backend, spool: Path) -> None:
    log = writer(store, spool)
    log.write(b"hello ")
    log.flush()
    log.write(b"world\n")
    assert log.close() == PREFIX
    reader = LogReader(store, spool)
    assert reader.read(PREFIX) == b"hello world\n"
    assert reader.size(PREFIX) == 12
    assert reader.read(PREFIX, 4, 4) == b"o wo"
    assert reader.read(PREFIX, 12) == b""
    assert reader.read(PREFIX, 500) == b""
    assert (reader.read("", 0), reader.size("")) == (b"", 0)


@pytest.mark.parametrize("cut", range(1, 12))
def test_every_offset_and_limit(store: Backend, spool: Path, cut: int) -> None:
    log = writer(store, spool)
    for piece in (b"abc", b"d", b"efghijk"):
        log.write(piece)
        log.flush()
    reader = LogReader(store, spool)
    assert reader.read(PREFIX, 0, cut) == b"abcdefghijk"[:cut]
    assert reader.read(PREFIX, cut) == b"abcdefghijk"[cut:]


def test_the_prefix_names_day_run_attempt_and_claim() -> None:
    run_id, claim_id = uuid.uuid4(), uuid.uuid4()
    late = datetime(2031, 2, 3, 23, 30, tzinfo=timezone(timedelta(hours=-2)))
    prefix = log_stream.log_prefix(late, run_id, 2, claim_id)
    assert prefix == f"logs/2031-02-04/{run_id}/2-{claim_id}/"
    day = datetime(2031, 2, 3, tzinfo=UTC)
    assert log_stream.log_prefix(day, run_id, 2, claim_id).startswith("logs/2031-02-03/")


def test_a_full_buffer_is_stored_at_once(store: Backend, spool: Path) -> None:
    log = writer(store, spool)
    log.write(b"x" * (log_stream.FLUSH_BYTES - 1))
    assert LogReader(store, spool).size(PREFIX) == 0
    log.write(b"xy")
    assert LogReader(store, spool).size(PREFIX) == log_stream.FLUSH_BYTES + 1


def test_output_waits_a_second_at_most(store: Backend, spool: Path) -> None:
    log = writer(store, spool)
    log.write(b"x")
    first = log.flush_due_in()
    assert first is not None
    assert 0 < first <= 1
    log.write(b"y")
    second = log.flush_due_in()
    assert second is not None
    assert second <= first


def test_too_much_output_is_cut_off_and_says_so(store: Backend, spool: Path) -> None:
    log = writer(store, spool, max_bytes=10)
    for _ in range(5):
        log.write(b"1234")
    log.close()
    assert log.is_truncated
    text = LogReader(store, spool).read(PREFIX)
    assert text == b"1234123412\n[chrono] output is cut off after 10 bytes\n"


def test_a_sick_store_is_asked_once_and_output_is_spooled(sick: Backend, spool: Path) -> None:
    log = writer(sick, spool)
    for piece in (b"one ", b"two ", b"three"):
        log.write(piece)
        log.flush()
    assert log.close() == PREFIX
    assert [path.name for path in spooled(spool)] == [f"{offset:020d}.log" for offset in (0, 4, 8)]


def test_the_spool_is_read_and_later_carried_over(
    sick: Backend, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(sick, spool)
    log.write(b"kept here")
    log.close()
    assert upload_spool(sick, spool) == 0
    monkeypatch.setattr(Sick, "is_well", True)
    reader = LogReader(sick, spool)
    assert reader.read(PREFIX) == b"kept here"
    assert upload_spool(sick, spool) == 1
    assert list(spool.iterdir()) == []
    assert reader.read(PREFIX) == b"kept here"


def test_the_store_is_tried_again_after_a_while(
    sick: Backend, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = ChunkStore(sick, spool, break_sec=0.05)
    assert chunks.put("logs/a.log", b"1") == "spooled"
    monkeypatch.setattr(Sick, "is_well", True)
    assert chunks.put("logs/b.log", b"2") == "spooled"
    time.sleep(0.06)  # the break itself; nothing else is waited for
    assert chunks.put("logs/c.log", b"3") == "stored"


def test_a_sick_store_is_no_empty_log(sick: Backend, spool: Path) -> None:
    with pytest.raises(LogsUnavailableError):
        LogReader(sick, spool).read(PREFIX)


def test_no_store_and_no_spool_costs_output_only(sick: Backend, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    log = writer(sick, tmp_path / "file")
    log.write(b"lost")
    assert log.close() == ""
    assert log.is_truncated


def test_what_another_host_spools_shows_as_missing(store: Backend, spool: Path) -> None:
    ChunkStore(store, spool).put(chunk_key(PREFIX, 60), b"tail")
    reader = LogReader(store, spool)
    text = reader.read(PREFIX)
    assert len(text) == 64
    assert text.startswith(b"[chrono] 60 bytes are not in the store yet")
    assert text.endswith(b"\ntail")
    assert reader.read(PREFIX, 62) == b"il"


def test_following_a_live_log_ends_with_the_run(store: Backend, spool: Path) -> None:
    log = writer(store, spool)
    steps: Iterator[bool] = iter([False, False, True])

    def is_finished() -> bool:
        finished = next(steps)
        log.write(b"last words" if finished else b"line\n")
        log.flush()
        return finished

    pieces = list(
        LogReader(store, spool).follow(PREFIX, is_finished=is_finished, offset=2, poll_sec=0)
    )
    assert b"".join(pieces) == b"ne\nline\nlast words"


def test_a_silent_task_s_output_is_flushed_for_it(store: Backend, spool: Path) -> None:
    flusher = Flusher()
    stored = threading.Event()
    log = LogWriter(
        ChunkStore(store, spool),
        PREFIX,
        max_bytes=100,
        on_buffered=flusher.watch,
        on_stored=stored.set,
    )
    log.write(b"and then it computes for hours")
    assert stored.wait(10)
    assert LogReader(store, spool).read(PREFIX) == b"and then it computes for hours"
    flusher.forget()
    assert log.close() == PREFIX


def test_an_interrupt_costs_no_output(
    store: Backend, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal that ends a task waits until the object is stored."""
    log = writer(store, spool)
    put = ChunkStore.put

    def put_amid_signal(self: ChunkStore, key: str, data: bytes) -> storage.Put:
        signal.raise_signal(signal.SIGUSR1)
        return put(self, key, data)

    monkeypatch.setattr(ChunkStore, "put", put_amid_signal)
    entry, record = overdue()
    before = signal.getsignal(signal.SIGUSR1)
    interrupt.install()
    log.write(b"whole")
    try:
        with (
            pytest.raises(interrupt.RunInterrupted),
            interrupt.interruptible(interrupt.Armed(entry, record, fence_ns=slots.NEVER)),
        ):
            log.flush()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert LogReader(store, spool).read(PREFIX) == b"whole"


def overdue() -> tuple[slots.Entry, slots.Record]:
    """Return an attempt whose time is over."""
    table = slots.SlotTable.create(slots=1, entries=1, fence_ns=slots.NEVER)
    record = slots.Record(
        seq=1,
        run_id=bytes(16),
        claim_id=bytes(16),
        scheduled_for_us=0,
        attempt=1,
        kind=slots.KIND_TASK,
        claimed_at=0,
        deadline=0,
    )
    return table.slots[0].entries[0], record


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "file://host/x",
        "file:relative",
        "s3:///prefix",
        "s3://bucket/p?endpoint=http://typo",
    ],
)
def test_a_bad_storage_url_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="CHRONO_STORAGE_URL"):
        build(url)
