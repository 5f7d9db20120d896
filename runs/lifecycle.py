"""THE one writer of a run's status. Each verb is a guarded statement; zero rows is an answer.

Locks are taken in the order of PROTOCOL 8: jobs, then limit slots, then runs by primary key.
Verbs join the caller's transaction or open their own; messages go out after the commit.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from django.conf import settings
from django.db import transaction

from chronoproject import sql
from runs import floor, publisher
from runs.hooks import run_hooks
from runs.records import (
    ClaimedRun,
    Expired,
    Held,
    Moved,
    NewMisfire,
    NewRun,
    QueuedTicks,
    Renewed,
    Result,
    RunRef,
    progress_arrays,
)
from runs.signals import announce
from runs.states import TERMINAL, RunStatus

SQL = floor.SQL
LOST_ERRORS = {
    "worker_lost": "the worker stopped renewing its lease",
    "crashed": "the worker's process died (killed, out of memory, or a crash)",
    "drain": "the worker was shut down before the attempt ended",
    "put_back": "",
}
FREE = ("drain", "put_back")  # these cost neither a retry nor a loss


def columns(rows: Sequence[Any], *names: str) -> dict[str, list[Any]]:
    """Return the attributes of the rows as one array a name, for unnest."""
    return {name: [getattr(row, name) for row in rows] for name in names}


def bounds(rows: Sequence[Any]) -> dict[str, datetime]:
    """Return the span of scheduled_for, the constants that prune partitions."""
    instants = [row.scheduled_for for row in rows]
    return {"first": min(instants), "last": max(instants)}


def keys_of(refs: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters that name runs: ids, instants and their span.

    Callers that lock several runs pass them in primary key order (PROTOCOL 8).
    """
    return {**columns(refs, "run_id", "scheduled_for"), **bounds(refs)}


# --- birth ----------------------------------------------------------------------------------


@sql.retrying()
def record_ticks(new_runs: Sequence[NewRun], misfires: Sequence[NewMisfire] = ()) -> list[RunRef]:
    """Insert runs and misfire ranges; return the runs that were not there yet.

    One run per tick: the unique constraint decides. Rows that dag adds go into the same INSERT.
    """
    for expand in run_hooks.expand:
        new_runs = [*new_runs, *expand(new_runs)]
    record_misfires(misfires)
    if not new_runs:
        return []
    floor.lower_to(min(run.scheduled_for for run in new_runs))
    born = {RunRef(row[0], row[1]): row[2:] for row in SQL["insert_runs"].rows(**_arrays(new_runs))}
    inserted = [run for run in new_runs if run.ref in born]
    for hook in run_hooks.born:
        hook(inserted)
    admit(run.limit_key for run in inserted if run.reason == "concurrency")
    publisher.publish_after_commit([ref for ref, row in born.items() if row[0] == RunStatus.QUEUED])
    return list(born)


@sql.retrying()
def record_queued(parts: Sequence[QueuedTicks]) -> int:
    """Insert runs of many jobs that wait for nothing, in one statement; return how many were new.

    The dispatcher's hot path: it holds the jobs' due states, so no rival inserts the same ticks.
    """
    if not parts:
        return 0
    run_ids = [part.run_ids() for part in parts]
    floor.lower_to(min(part.tick for part in parts))
    ((count, published_at, new_ids),) = SQL["insert_queued"].rows(
        **columns(parts, "tick", "pool", "priority", "attempt_limit"),
        run_id=sql.array(chain.from_iterable(run_ids)),
        job_id=sql.array(chain.from_iterable(part.job_ids for part in parts)),
        owner=sql.array(chain.from_iterable(part.owners for part in parts)),
        version=sql.array(chain.from_iterable(part.versions for part in parts)),
        part=sql.array(n for n, part in enumerate(parts, 1) for _ in part.job_ids),
        expected=sum(len(part.job_ids) for part in parts),
    )
    outgoing = [
        _outgoing(part, ids, published_at, None if new_ids is None else frozenset(new_ids))
        for part, ids in zip(parts, run_ids, strict=True)
    ]
    transaction.on_commit(partial(publisher.send, outgoing))
    return int(count)


def _outgoing(
    part: QueuedTicks, run_ids: Sequence[str], published_at: datetime, new: frozenset[str] | None
) -> publisher.Outgoing:
    tick = part.tick.isoformat()
    return publisher.Outgoing(
        part.pool,
        part.priority,
        part.limits,
        published_at,
        [(run_id, tick) for run_id in run_ids if new is None or run_id in new],
    )


def record_misfires(misfires: Sequence[NewMisfire]) -> None:
    """Insert ranges of ticks that have no run of their own."""
    if misfires:
        names = ("job_id", "first_tick", "last_tick", "tick_count", "rule")
        SQL["insert_misfires"].run(
            owner=[misfire.owner_id for misfire in misfires],
            **columns(misfires, *names, "into_scheduled_for", "job_version"),
        )


def _arrays(new_runs: Sequence[NewRun]) -> dict[str, list[Any]]:
    apart = {"owner_id", "payload", "with_downstream"}
    names = [field.name for field in fields(NewRun) if field.name not in apart]
    return {
        "run_id": [run.run_id for run in new_runs],
        "owner": [run.owner_id for run in new_runs],
        "payload": [None if run.payload is None else json.dumps(run.payload) for run in new_runs],
        **columns(new_runs, *names),
    }


# --- a worker's verbs -----------------------------------------------------------------------


def claim(
    refs: Sequence[RunRef], *, worker_id: str, claim_id: uuid.UUID, lease_sec: float
) -> list[ClaimedRun]:
    """Move queued → running; what is not returned is somebody else's, or not due: drop it."""
    if not refs:
        return []
    rows = SQL["claim_runs"].dicts(
        **keys_of(refs), worker_id=worker_id, claim_id=claim_id, lease_sec=lease_sec
    )
    return [_claimed(row) for row in rows]


def read_back_claim(refs: Sequence[RunRef], *, claim_id: uuid.UUID) -> list[ClaimedRun]:
    """Return what a claim got whose COMMIT had no answer (PROTOCOL 13)."""
    rows = SQL["read_back_claim"].dicts(**keys_of(refs), claim_id=claim_id) if refs else []
    return [_claimed(row) for row in rows]


def _claimed(row: dict[str, Any]) -> ClaimedRun:
    decoded = {
        name: json.loads(row[name]) if isinstance(row[name], str) else row[name]
        for name in ("definition", "override")
    }
    return ClaimedRun(**{**row, **decoded})


def renew(held: Sequence[Held], *, lease_sec: float) -> list[Renewed]:
    """Extend the leases, noting each attempt's progress; one that is not returned has been lost."""
    if not held:
        return []
    rows = SQL["renew_leases"].rows(
        **keys_of(held),
        **columns(held, "attempt", "claim_id"),
        **progress_arrays(held),
        lease_sec=lease_sec,
    )
    return [Renewed(*row) for row in rows]


@sql.retrying()
def finish(results: Sequence[Result]) -> list[Moved]:
    """Move running → succeeded, retrying, dead or cancelled; a stale result is not returned."""
    if not results:
        return []
    limit_keys = [result.limit_key for result in results if result.limit_key]
    lock_slots(limit_keys)
    names = ("attempt", "claim_id", "outcome", "status", "reason", "retry_in_sec", "exit_code")
    rows = SQL["finish_runs"].rows(
        **keys_of(results),
        **columns(results, *names, "error", "output_ref"),
        **progress_arrays(results),
        output=[_json_or_none(result.output) for result in results],
    )
    return _after_move(rows, limit_keys)


def read_back_finish(results: Sequence[Result]) -> list[Moved]:
    """Return the runs that already left running under these claims (P6: a lost COMMIT answer)."""
    if not results:
        return []
    rows = SQL["read_back_finish"].rows(**columns(results, "run_id", "claim_id"), **bounds(results))
    return [Moved(*row) for row in rows]


def lose(held: Sequence[Held], *, reason: str) -> list[Moved]:
    """End attempts that have no outcome: drain (free), crashed or worker_lost (PROTOCOL 16).

    put_back is for those that were claimed and never started: the claim is undone.
    """
    return _end_attempts(held, [None] * len(held), reason=reason)


def expire(expired: Sequence[Expired]) -> list[Moved]:
    """The reaper's verb: end attempts whose lease ran out and did not move since it was seen."""
    return _end_attempts(expired, [one.lease_until for one in expired], reason="worker_lost")


@sql.retrying()
def _end_attempts(
    held: Sequence[Held], lease_until: Sequence[datetime | None], *, reason: str
) -> list[Moved]:
    if not held:
        return []
    limit_keys = _lock_slots_of(held)
    rows = SQL["end_attempts"].rows(
        **keys_of(held),
        **columns(held, "attempt", "claim_id"),
        lease_until=list(lease_until),
        is_free=reason in FREE,
        is_unstarted=reason == "put_back",
        reason=reason,
        outcome="drained" if reason == "drain" else reason,
        error=LOST_ERRORS[reason],
        max_lost=settings.CHRONO_MAX_LOST,
    )
    return _after_move(rows, limit_keys)


# --- sweeps and people ----------------------------------------------------------------------


@sql.retrying()
def promote(limit: int = 1000) -> list[Moved]:
    """Move retrying → queued where the back-off is over."""
    rows = SQL["promote_runs"].rows(floor=floor.read(), limit=limit)
    return _after_move(rows, [])


@sql.retrying()
def cancel(refs: Sequence[RunRef], *, reason: str = "user") -> list[Moved]:
    """End waiting, queued and retrying runs; ask running ones to stop (status stays running)."""
    if not refs:
        return []
    refs = sorted(refs)
    limit_keys = _lock_slots_of(refs)
    return _after_move(SQL["cancel_runs"].rows(**keys_of(refs), reason=reason), limit_keys)


@sql.retrying()
def rerun(refs: Sequence[RunRef], *, behind: Collection[RunRef] = ()) -> list[RunRef]:
    """Give terminal runs of living jobs a new set of attempts; return those that got it.

    Those `behind` others wait for their upstreams first.
    """
    if not refs:
        return []
    floor.lower_to(min(ref.scheduled_for for ref in refs))
    waits = [ref in behind for ref in refs]
    return _after_release(SQL["rerun_runs"].rows(**keys_of(refs), waits=waits))


@sql.retrying()
def release(refs: Sequence[RunRef]) -> list[RunRef]:
    """Move runs whose upstreams are satisfied on: waiting → queued, or waiting at a limit.

    What waits at a limit is let in after the commit: the caller holds runs, and a slot comes before
    runs in the order of locks (PROTOCOL 8). The sweep admit_held does the same if that fails.
    """
    if not refs:
        return []
    rows = SQL["release_waiting"].rows(**keys_of(refs))
    limit_keys = [row[3] for row in rows if row[2] == RunStatus.WAITING]
    if limit_keys:
        transaction.on_commit(lambda: admit(limit_keys), robust=True)
    return _publish_released(rows)


@sql.retrying()
def revive(refs: Sequence[RunRef]) -> list[RunRef]:
    """Move skipped/upstream_failed → waiting again, for the low queue (PROTOCOL 25)."""
    if not refs:
        return []
    floor.lower_to(min(ref.scheduled_for for ref in refs))
    return [RunRef(*row) for row in SQL["revive_skipped"].rows(**keys_of(refs))]


@sql.retrying()
def skip(refs: Sequence[RunRef], reasons: Sequence[str]) -> list[Moved]:
    """Move waiting → skipped, each for its reason."""
    if not refs:
        return []
    return _after_move(SQL["skip_waiting"].rows(**keys_of(refs), reason=list(reasons)), [])


# --- limits ---------------------------------------------------------------------------------


def lock_slots(limit_keys: Iterable[str | None]) -> list[str]:
    """Lock the limits' slots in order, making those that are missing; return the keys."""
    wanted = sorted({key for key in limit_keys if key})
    if wanted:
        scopes, keys = zip(*(key.split(":", 1) for key in wanted), strict=True)
        params = {"scope": list(scopes), "key": list(keys)}
        SQL["make_slots"].run(**params)
        SQL["lock_slots"].rows(**params)
    return wanted


def _lock_slots_of(refs: Sequence[Any]) -> list[str]:
    return lock_slots(row[0] for row in SQL["limit_keys_of"].rows(**_ids(refs)))


def _ids(refs: Sequence[Any]) -> dict[str, Any]:
    return {**columns(refs, "run_id"), **bounds(refs)}


@sql.retrying()
def admit(limit_keys: Iterable[str | None]) -> list[RunRef]:
    """Let held runs in while their limit has room, and apply the policy to those left."""
    wanted = lock_slots(limit_keys)
    if not wanted:
        return []
    edge = {"limit_key": wanted, "floor": floor.read()}
    released = [RunRef(*row) for row in SQL["release_held"].rows(**edge)]
    publisher.publish_after_commit(released)
    left = SQL["still_held"].dicts(**edge)
    if left:
        _apply_policies(left)
    return released


def _apply_policies(left: Sequence[dict[str, Any]]) -> None:
    newest = {row["job_id"]: row["run_id"] for row in left}  # oldest first: the last one stays
    superseded = [
        RunRef(row["run_id"], row["scheduled_for"])
        for row in left
        if row["concurrency_policy"] == "skip" or newest[row["job_id"]] != row["run_id"]
    ]
    skip(superseded, ["concurrency"] * len(superseded))
    replacing = {row["job_id"] for row in left if row["concurrency_policy"] == "cancel_running"}
    if replacing:
        rows = SQL["active_of_jobs"].rows(job_id=list(replacing), floor=floor.read())
        cancel([RunRef(*row) for row in rows], reason="concurrency")


# --- what follows a move --------------------------------------------------------------------


def _after_move(rows: Sequence[tuple[Any, ...]], limit_keys: Sequence[str]) -> list[Moved]:
    """Publish what became queued, announce what became terminal, let held runs in."""
    moved = [Moved(*row) for row in rows]
    publisher.publish_after_commit([run.ref for run in moved if run.status == RunStatus.QUEUED])
    announce([run for run in moved if run.status in TERMINAL])
    admit(limit_keys)
    return moved


def _after_release(rows: Sequence[tuple[Any, ...]]) -> list[RunRef]:
    """Publish what became queued; take what waits at a limit through it."""
    released = _publish_released(rows)
    admit(row[3] for row in rows)
    return released


def _publish_released(rows: Sequence[tuple[Any, ...]]) -> list[RunRef]:
    publisher.publish_after_commit(
        [RunRef(row[0], row[1]) for row in rows if row[2] == RunStatus.QUEUED]
    )
    return [RunRef(row[0], row[1]) for row in rows]


def _json_or_none(value: object) -> str | None:
    return None if value is None else json.dumps(value)
