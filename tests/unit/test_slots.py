"""The worker's shared memory: whole records, wishes that reach one attempt only."""

import multiprocessing
import os
import uuid

import pytest

from runs import slots
from runs.slots import Record, SlotTable

SECOND = 1_000_000_000


def table(slot_count: int = 2) -> SlotTable:
    return SlotTable.create(slots=slot_count, entries=3, fence_ns=20 * SECOND)


def record(**values: int) -> Record:
    fields = {
        "seq": 5,
        "scheduled_for_us": -7,
        "attempt": 3,
        "kind": slots.KIND_TASK,
        "claimed_at": 1000 * SECOND,
        **values,
    }
    return Record(run_id=uuid.uuid4().bytes, claim_id=uuid.uuid4().bytes, **fields)


def test_a_record_is_read_as_it_was_written() -> None:
    entry = table().slots[0].entries[1]
    written = record(phase=slots.PHASE_EXECUTING, deadline=9, grace_ns=8)
    written.timeout_retry_in = 2.5
    entry.write(written)
    read = entry.read()
    assert read is not None
    assert {name: getattr(read, name) for name in Record.__slots__} == {
        name: getattr(written, name) for name in Record.__slots__
    }


def test_a_free_entry_has_no_record() -> None:
    entry = table().slots[0].entries[0]
    assert entry.read() is None
    entry.write(record())
    entry.clear()
    assert entry.read() is None


def test_a_half_written_record_is_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "READ_ATTEMPTS", 3)
    shared = table()
    entry = shared.slots[0].entries[0]
    entry.write(record(attempt=1))
    raw = record(attempt=2).pack()
    os.pwrite(shared.fd, raw[:40], slots.TABLE_HEADER_BYTES + slots.SLOT_HEADER_BYTES)
    assert entry.read() is None


def test_slots_lie_apart() -> None:
    shared = table(3)
    for number, slot in enumerate(shared.slots):
        slot.set_child(number + 1, 10)
        for entry in slot.entries:
            entry.write(record(attempt=number))
    for number, slot in enumerate(shared.slots):
        assert slot.child == (number + 1, 10)
        assert [found.attempt for _, found in slot.held()] == [number] * 3


def test_the_table_is_shared_by_its_descriptor() -> None:
    shared = table()
    shared.slots[1].entries[2].write(record(attempt=9))
    other = SlotTable(os.dup(shared.fd))
    assert [found.attempt for _, found in other.slots[1].held()] == [9]
    assert other.fence_ns == 20 * SECOND
    other.drain()
    assert shared.draining


def test_a_descriptor_of_something_else_is_refused() -> None:
    fd = os.memfd_create("other")
    os.ftruncate(fd, 4096)
    with pytest.raises(ValueError, match="not a slot table"):
        SlotTable(fd)


def test_the_current_entry() -> None:
    slot = table().slots[0]
    assert slot.current() is None
    slot.set_current(2)
    assert slot.current() is slot.entries[2]
    slot.set_current(None)
    assert slot.current() is None


def test_wishes_and_verdicts_are_for_one_attempt() -> None:
    entry = table().slots[0].entries[0]
    entry.ask_cancel(5)
    entry.ask_kill(5, slots.CAUSE_LOST)
    entry.set_verdict(5, slots.CAUSE_TIMEOUT)
    assert entry.cancel_asked(5)
    assert not entry.cancel_asked(6)
    assert (entry.kill_asked(5), entry.kill_asked(6)) == (slots.CAUSE_LOST, slots.CAUSE_NONE)
    assert (entry.verdict(5), entry.verdict(6)) == (slots.CAUSE_TIMEOUT, slots.CAUSE_NONE)


def test_a_renewal_of_the_last_attempt_does_not_count_for_this_one() -> None:
    entry = table().slots[0].entries[0]
    entry.renew(4, 2000 * SECOND)
    assert entry.renewed_at(record()) == 1000 * SECOND
    entry.renew(5, 1010 * SECOND)
    assert entry.renewed_at(record()) == 1010 * SECOND
    entry.renew(5, 900 * SECOND)
    assert entry.renewed_at(record()) == 1000 * SECOND


@pytest.mark.parametrize(
    ("after_sec", "kill", "cancel", "cause"),
    [
        (1, 0, False, slots.CAUSE_NONE),
        (1, slots.CAUSE_DRAIN, True, slots.CAUSE_DRAIN),
        (21, 0, True, slots.CAUSE_FENCED),
        (1, 0, True, slots.CAUSE_CANCEL),
        (15, 0, False, slots.CAUSE_TIMEOUT),
        (15, 0, True, slots.CAUSE_CANCEL),
    ],
)
def test_why_an_attempt_must_end(after_sec: int, kill: int, cancel: bool, cause: int) -> None:
    entry = table().slots[0].entries[0]
    held = record(deadline=1010 * SECOND)
    if kill:
        entry.ask_kill(5, kill)
    if cancel:
        entry.ask_cancel(5)
    now = (1000 + after_sec) * SECOND
    assert slots.end_cause(entry, held, now, 20 * SECOND) == cause


def test_children_that_start_together_take_different_slots() -> None:
    shared = table(8)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=shared.take, args=(pid, 1)) for pid in range(1, 9)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert sorted(slot.child[0] for slot in shared.slots) == list(range(1, 9))
    assert shared.take(99, 1) is None
    shared.slots[3].free()
    taken = shared.take(99, 1)
    assert taken is not None
    assert taken.index == 3


def test_progress() -> None:
    entry = table().slots[0].entries[0]
    assert entry.progress() is None
    entry.set_progress(3, 10)
    entry.set_stored()
    assert (entry.progress(), entry.is_stored()) == ((3, 10), True)
    entry.clear()
    assert (entry.progress(), entry.is_stored()) == (None, False)
