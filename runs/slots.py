"""The worker's shared memory: what each pool child executes, seen by main process and shims.

One slot for each pool child, and in it an entry for each run that the child holds. Each part of an
entry has one writer: the child its record, the heartbeat renewals and wishes, the shim its verdict.
There is no lock. A record carries a checksum, so a half-written one is seen and read again; wishes
and verdicts name the sequence number of the attempt they are for, so none reaches the next one.

The shim imports this module in a bare interpreter: standard library only, and little of it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
import zlib

MAGIC = 0x4348524F4E4F3031
WORD = 8
TABLE_HEADER_BYTES = 64
SLOT_HEADER_BYTES = 64
ENTRY_BYTES = 256
READ_ATTEMPTS = 1000

KIND_COMMAND, KIND_HTTP, KIND_TASK = 1, 2, 3
# What the child does with the run: holds it, executes it, or records its outcome.
PHASE_NONE, PHASE_HELD, PHASE_EXECUTING, PHASE_FINISHING = 0, 1, 2, 3
# Why an execution was ended from outside, as the shim writes it.
CAUSE_NONE, CAUSE_TIMEOUT, CAUSE_CANCEL, CAUSE_FENCED, CAUSE_LOST, CAUSE_DRAIN = 0, 1, 2, 3, 4, 5
# These end an execution without its grace.
AT_ONCE = frozenset({CAUSE_FENCED, CAUSE_LOST, CAUSE_DRAIN})
CAUSE_UNSTARTED = 6  # none of an execution's: its child died before it began

NEVER = (1 << 63) - 1

# table header words
_MAGIC, _CHILDREN, _ENTRIES, _FENCE_NS, _DRAINING = range(5)
# slot header words
_PID, _PID_START, _SHIM_PID, _SHIM_START, _CURRENT = range(5)
# entry words after the record
_RENEWED_AT, _RENEWED_SEQ, _CANCEL_SEQ, _KILL_SEQ, _KILL_CAUSE = range(18, 23)
_VERDICT_SEQ, _VERDICT, _DONE, _TOTAL, _STORED = range(23, 28)

_RECORD = struct.Struct("=Q16s16sqQQQQQQd")
_CHECKSUM = struct.Struct("=Q")
RECORD_BYTES = _RECORD.size + _CHECKSUM.size


def boottime_ns() -> int:
    """Return the monotonic clock that also counts while the host sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Record:
    """One held attempt, as its pool child wrote it."""

    __slots__ = (
        "attempt",
        "claim_id",
        "claimed_at",
        "deadline",
        "grace_ns",
        "kind",
        "phase",
        "run_id",
        "scheduled_for_us",
        "seq",
        "timeout_retry_in",
    )

    def __init__(
        self,
        *,
        seq: int,
        run_id: bytes,
        claim_id: bytes,
        scheduled_for_us: int,
        attempt: int,
        kind: int,
        claimed_at: int,
        phase: int = PHASE_HELD,
        deadline: int = NEVER,
        grace_ns: int = 0,
        timeout_retry_in: float = -1.0,
    ) -> None:
        self.seq = seq
        self.run_id = run_id
        self.claim_id = claim_id
        self.scheduled_for_us = scheduled_for_us
        self.attempt = attempt
        self.kind = kind
        self.phase = phase
        self.claimed_at = claimed_at
        self.deadline = deadline
        self.grace_ns = grace_ns
        # Decided before the start, for the one who records the time-out of a killed pool child:
        # seconds until the retry, or negative for none.
        self.timeout_retry_in = timeout_retry_in

    def pack(self) -> bytes:
        """Return the record's bytes with their checksum."""
        body = _RECORD.pack(
            self.seq,
            self.run_id,
            self.claim_id,
            self.scheduled_for_us,
            self.attempt,
            self.kind,
            self.phase,
            self.claimed_at,
            self.deadline,
            self.grace_ns,
            self.timeout_retry_in,
        )
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def unpack(cls, raw: bytes) -> Record | None:
        """Return the record in `raw`; None when it is empty or only half written."""
        body, (checksum,) = raw[: _RECORD.size], _CHECKSUM.unpack_from(raw, _RECORD.size)
        if zlib.crc32(body) != checksum:
            return None
        values = _RECORD.unpack(body)
        return cls(
            seq=values[0],
            run_id=values[1],
            claim_id=values[2],
            scheduled_for_us=values[3],
            attempt=values[4],
            kind=values[5],
            phase=values[6],
            claimed_at=values[7],
            deadline=values[8],
            grace_ns=values[9],
            timeout_retry_in=values[10],
        )


_EMPTY = bytes(RECORD_BYTES)


class Entry:
    """The room of one held attempt."""

    __slots__ = ("_bytes", "_offset", "_words")

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        self._offset = offset
        self._bytes = memory
        self._words = memoryview(memory)[offset : offset + ENTRY_BYTES].cast("Q")

    def write(self, record: Record) -> None:
        """Publish the child's record with one copy."""
        self._bytes[self._offset : self._offset + RECORD_BYTES] = record.pack()

    def clear(self) -> None:
        """Free the room."""
        self._bytes[self._offset : self._offset + RECORD_BYTES] = _EMPTY
        self._words[_DONE] = self._words[_TOTAL] = self._words[_STORED] = 0

    def read(self) -> Record | None:
        """Return the record; None when the room is free, or its writer died within the copy."""
        for _ in range(READ_ATTEMPTS):
            raw = self._bytes[self._offset : self._offset + RECORD_BYTES]
            if raw == _EMPTY:
                return None
            record = Record.unpack(raw)
            if record is not None:
                return record
        return None

    def renew(self, seq: int, sent_at: int) -> None:
        """Note when the renewal that came back good was sent."""
        self._words[_RENEWED_AT] = sent_at
        self._words[_RENEWED_SEQ] = seq

    def renewed_at(self, record: Record) -> int:
        """Return the send of the last good renewal, or of the claim."""
        if self._words[_RENEWED_SEQ] == record.seq:
            return max(self._words[_RENEWED_AT], record.claimed_at)
        return record.claimed_at

    def ask_cancel(self, seq: int) -> None:
        """Wish that the attempt ends: SIGTERM, grace, SIGKILL."""
        self._words[_CANCEL_SEQ] = seq

    def ask_kill(self, seq: int, cause: int) -> None:
        """Wish that the attempt is killed at once."""
        self._words[_KILL_CAUSE] = cause
        self._words[_KILL_SEQ] = seq

    def cancel_asked(self, seq: int) -> bool:
        """Say whether this very attempt is to be cancelled."""
        return self._words[_CANCEL_SEQ] == seq

    def kill_asked(self, seq: int) -> int:
        """Return the cause for which this very attempt is to be killed, or CAUSE_NONE."""
        return self._words[_KILL_CAUSE] if self._words[_KILL_SEQ] == seq else CAUSE_NONE

    def set_verdict(self, seq: int, cause: int) -> None:
        """Note why the shim kills the pool child of this attempt; written before the kill."""
        self._words[_VERDICT] = cause
        self._words[_VERDICT_SEQ] = seq

    def verdict(self, seq: int) -> int:
        """Return why the shim killed the pool child of this attempt, or CAUSE_NONE."""
        return self._words[_VERDICT] if self._words[_VERDICT_SEQ] == seq else CAUSE_NONE

    def set_progress(self, done: int, total: int) -> None:
        """Publish how far a Python task is."""
        self._words[_TOTAL] = total
        self._words[_DONE] = done

    def set_stored(self) -> None:
        """Note that the attempt's log has an object in the store or the spool."""
        self._words[_STORED] = 1

    def is_stored(self) -> bool:
        """Say whether the attempt has any stored output."""
        return self._words[_STORED] != 0

    def progress(self) -> tuple[int, int] | None:
        """Return (done, total); None when none was told, or only zeros."""
        done, total = self._words[_DONE], self._words[_TOTAL]
        return (done, total) if done or total else None


def end_cause(entry: Entry, record: Record, now: int, fence_ns: int) -> int:
    """Return why an attempt must end now, or CAUSE_NONE. The gravest cause wins.

    A fenced or lost one is killed at once; a cancelled or late one gets its grace.
    """
    cause = entry.kill_asked(record.seq)
    if cause:
        return cause
    if now - entry.renewed_at(record) > fence_ns:
        return CAUSE_FENCED
    if entry.cancel_asked(record.seq):
        return CAUSE_CANCEL
    if now >= record.deadline:
        return CAUSE_TIMEOUT
    return CAUSE_NONE


class Slot:
    """A pool child's part of the table."""

    __slots__ = ("_words", "entries", "index")

    def __init__(self, memory: mmap.mmap, offset: int, index: int, entries: int) -> None:
        self.index = index
        self._words = memoryview(memory)[offset : offset + SLOT_HEADER_BYTES].cast("Q")
        first = offset + SLOT_HEADER_BYTES
        self.entries = [Entry(memory, first + n * ENTRY_BYTES) for n in range(entries)]

    @property
    def child(self) -> tuple[int, int]:
        """Return pid and start time of the pool child; pid 0 when the slot is free."""
        return self._words[_PID], self._words[_PID_START]

    @property
    def shim(self) -> tuple[int, int]:
        """Return pid and start time of the child's shim."""
        return self._words[_SHIM_PID], self._words[_SHIM_START]

    def set_child(self, pid: int, start: int) -> None:
        """Take the slot for a pool child."""
        self._words[_PID_START] = start
        self._words[_PID] = pid

    def set_shim(self, pid: int, start: int) -> None:
        """Note the child's shim."""
        self._words[_SHIM_START] = start
        self._words[_SHIM_PID] = pid

    def set_current(self, index: int | None) -> None:
        """Say which entry is being executed."""
        self._words[_CURRENT] = 0 if index is None else index + 1

    def current(self) -> Entry | None:
        """Return the entry that is being executed."""
        number = self._words[_CURRENT]
        return self.entries[number - 1] if number else None

    def held(self) -> list[tuple[Entry, Record]]:
        """Return the occupied entries with their records."""
        pairs = ((entry, entry.read()) for entry in self.entries)
        return [(entry, record) for entry, record in pairs if record is not None]

    def free(self) -> None:
        """Give the slot back once nothing of its child is left."""
        self.set_current(None)
        for entry in self.entries:
            entry.clear()
        self._words[_SHIM_PID] = self._words[_SHIM_START] = 0
        self._words[_PID] = self._words[_PID_START] = 0


class SlotTable:
    """All slots of a worker, in a memory file that forked children and executed shims share."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, 0)
        self._words = memoryview(self._memory)[:TABLE_HEADER_BYTES].cast("Q")
        if self._words[_MAGIC] != MAGIC:
            raise ValueError("not a slot table")
        size = SLOT_HEADER_BYTES + self.entries * ENTRY_BYTES
        self.slots = [
            Slot(self._memory, TABLE_HEADER_BYTES + index * size, index, self.entries)
            for index in range(self._words[_CHILDREN])
        ]

    @classmethod
    def create(cls, *, slots: int, entries: int, fence_ns: int) -> SlotTable:
        """Make an empty table; attempts end fence_ns after the send of their last renewal."""
        fd = os.memfd_create("chrono-slots", os.MFD_CLOEXEC)
        size = SLOT_HEADER_BYTES + entries * ENTRY_BYTES
        os.ftruncate(fd, TABLE_HEADER_BYTES + slots * size)
        header = struct.pack("=QQQQQ", MAGIC, slots, entries, fence_ns, 0)
        os.pwrite(fd, header, 0)
        return cls(fd)

    @property
    def entries(self) -> int:
        """Return how many runs a pool child may hold."""
        return self._words[_ENTRIES]

    @property
    def fence_ns(self) -> int:
        """Return the age of a renewal at which executions are killed."""
        return self._words[_FENCE_NS]

    @property
    def draining(self) -> bool:
        """Say whether the worker claims no more."""
        return self._words[_DRAINING] != 0

    def drain(self) -> None:
        """Stop all claims of this worker."""
        self._words[_DRAINING] = 1

    def take(self, pid: int, start: int) -> Slot | None:
        """Take a free slot for the calling pool child; None when there is none.

        The file lock orders children that start together; the kernel drops it if one dies there.
        """
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1)
        try:
            for slot in self.slots:
                if slot.child[0] == 0:
                    slot.set_child(pid, start)
                    return slot
            return None
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)
