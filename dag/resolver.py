"""Releases or skips waiting runs by what their upstreams came to, through runs.lifecycle.

Locks first, then reads, in two statements (PROTOCOL 9): of two upstreams that finish together the
second one waits for the lock, and then sees what the first one committed. What follows from a skip,
down the DAG, is decided in memory and written in the same statements.
"""

import json
import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from chronoproject import sql
from dag.graph import topological_order
from dag.statements import SQL
from dag.trigger_rules import OUTCOMES, Action, Outcome, RuleDecision, Tally, decide
from jobs.choices import TriggerRule
from runs import lifecycle
from runs.records import Moved, RunRef
from runs.states import RunStatus

logger = logging.getLogger(__name__)

AT_ONCE = 20_000  # runs looked at in one transaction; the sweep takes the rest
MANY_EDGES = 16
# One success among others still under way decides nothing by these.
PATIENT_RULES = frozenset({TriggerRule.ALL_SUCCESS, TriggerRule.ALL_DONE, TriggerRule.NONE_FAILED})
WORDS = {**OUTCOMES, "due": Outcome.PENDING, "absent": Outcome.ABSENT}


@dataclass(frozen=True, slots=True)
class Member:
    """A run that waits for upstreams, or that they had skipped; the names are the columns'."""

    run_id: uuid.UUID
    scheduled_for: datetime
    job_id: uuid.UUID
    owner: int
    logical_date: datetime
    status: str
    is_deleted: bool
    edges: int
    trigger_rule: str | None
    span_from: datetime | None
    span_until: datetime | None
    seen_at: datetime

    @property
    def ref(self) -> RunRef:
        """Return the run's key."""
        return RunRef(self.run_id, self.scheduled_for)

    @property
    def was_skipped(self) -> bool:
        """Say whether the run is terminal, and would be revived."""
        return self.status == RunStatus.SKIPPED


@dataclass(slots=True)
class Seen:
    """What a member's upstreams came to, and which of them are members themselves."""

    outcomes: list[Outcome] = field(default_factory=list)
    inside: set[uuid.UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Decided:
    """A member and what becomes of it."""

    member: Member
    decision: RuleDecision

    @property
    def changes(self) -> bool:
        """Say whether the run moves, so that those after it must be looked at too."""
        wanted = Action.SKIP if self.member.was_skipped else Action.WAIT
        return self.decision.action != wanted

    @property
    def reaches_further(self) -> bool:
        """Say whether runs below may move at once: by a skip that falls, or one that is undone."""
        return self.changes and (self.member.was_skipped or self.decision.action == Action.SKIP)


# --- whose turn it may be -------------------------------------------------------------------


def followers(finished: Sequence[Moved]) -> list[RunRef]:
    """Return the runs that wait directly for these; for most jobs none, at the price of a probe."""
    if not SQL["has_followers"].value(job_id=list({run.job_id for run in finished})):
        return []
    return _refs_from("direct_followers", finished)


def resolve_after(finished: Sequence[Moved], refs: Sequence[RunRef]) -> int:
    """Decide on the followers of finished runs; after a failure on all that is below at once."""
    if all(run.status == RunStatus.SUCCEEDED for run in finished):
        return resolve(refs, is_good_news=True)
    return resolve(refs, below=_refs_from("all_followers", finished))


def _refs_from(statement: str, runs: Iterable[Moved | Member]) -> list[RunRef]:
    dates = sorted({(run.job_id, run.logical_date) for run in runs})
    rows = SQL[statement].rows(
        job_id=[job_id for job_id, _ in dates],
        logical_date=[logical_date for _, logical_date in dates],
        limit=AT_ONCE,
    )
    return [RunRef(*row) for row in rows]


# --- deciding -------------------------------------------------------------------------------


@sql.retrying()
def resolve(
    refs: Sequence[RunRef], *, below: Sequence[RunRef] = (), is_good_news: bool = False
) -> int:
    """Lock, read, decide and move these runs and whatever follows at once; return how many.

    `below` are further runs that may follow. Good news: upstreams succeeded, nothing else happened.
    """
    rung = set(refs)
    members = lock([*rung.union(below)])
    if is_good_news:
        members = _without_those_that_surely_wait(members)
    decided = decide_on(members, rung)
    further = [one.member for one in decided if one.reaches_further]
    if further and not below:
        found = rung.union(_refs_from("all_followers", further))
        if found > rung:
            decided = decide_on(lock(list(found)), rung)
    return _apply([one for one in decided if one.changes])


def lock(refs: Sequence[RunRef]) -> list[Member]:
    """Lock those of the runs that are still to be decided, in primary key order."""
    if not refs:
        return []
    rows = SQL["lock_unresolved"].rows(**lifecycle.keys_of(refs))
    return [Member(*row) for row in rows]


def _without_those_that_surely_wait(members: Sequence[Member]) -> list[Member]:
    """Leave out runs of many upstreams of which one is under way: a success decides nothing there.

    Counting a thousand upstreams at each of a thousand completions would be a million look-ups.
    """
    wide = [
        one
        for one in members
        if one.edges > MANY_EDGES and not one.was_skipped and one.trigger_rule in PATIENT_RULES
    ]
    if not wide:
        return list(members)
    rows = SQL["wait_for_live"].rows(run_id=[one.run_id for one in wide], **_bounds(wide))
    waiting_on = {row[0] for row in rows}
    return [one for one in members if one.run_id not in waiting_on]


def decide_on(members: Sequence[Member], rung: Collection[RunRef]) -> list[Decided]:
    """Return what becomes of each, upstreams first, so that a skip or a revival goes on down.

    A terminal run is looked at only where an upstream of it has just ended or been revived. Frozen
    edges of different times may form a cycle: its runs wait, until their time is up.
    """
    seen = _read_outcomes(members)
    by_id = {member.run_id: member for member in members}
    decided: dict[uuid.UUID, Decided] = {}
    for run_id in topological_order({run_id: seen[run_id].inside for run_id in by_id}):
        member, upstreams = by_id[run_id], [decided.get(up) for up in seen[run_id].inside]
        is_asked = not member.was_skipped or member.ref in rung
        if is_asked or any(upstream and upstream.reaches_further for upstream in upstreams):
            outcomes = [*seen[run_id].outcomes, *map(_outcome_of, upstreams)]
            decided[run_id] = Decided(member, _decide(member, Tally.of(outcomes)))
        else:
            decided[run_id] = Decided(member, RuleDecision(Action.SKIP))
    return list(decided.values())


def _decide(member: Member, tally: Tally) -> RuleDecision:
    if member.is_deleted:  # born while its job was being deleted
        return RuleDecision(Action.SKIP, "job_deleted")
    return decide(member.trigger_rule or TriggerRule.ALL_SUCCESS, tally)


def _outcome_of(upstream: Decided | None) -> Outcome:
    is_skipped = upstream is not None and upstream.decision.action == Action.SKIP
    return Outcome.SKIPPED if is_skipped else Outcome.PENDING


def _read_outcomes(members: Sequence[Member]) -> Mapping[uuid.UUID, Seen]:
    """Look at the runs of the ticks that are waited for; where that settles little, look closely.

    `inside` holds upstreams that are members: what they come to is being decided.
    """
    seen: dict[uuid.UUID, Seen] = defaultdict(Seen)
    if not any(member.edges for member in members):
        return seen
    bounds = _bounds(members)
    rows = SQL["read_standing"].rows(run_id=[member.run_id for member in members], **bounds)
    unsettled = {row[0] for row in rows if row[1] is None}
    rows = [row for row in rows if row[0] not in unsettled]
    if unsettled:
        rows += SQL["read_outcomes"].rows(
            run_id=list(unsettled), member_id=[member.run_id for member in members], **bounds
        )
    for run_id, status, inside, count, *_ in rows:
        if inside is None:
            seen[run_id].outcomes += [WORDS[status]] * count
        else:
            seen[run_id].inside.add(inside)
    return seen


def _bounds(members: Iterable[Member]) -> dict[str, datetime]:
    """Return between which instants upstream runs are looked for, constants that prune partitions.

    A coalesced tick's run, and a triggered one that stands for a tick, may be as late as now.
    """
    spans = [(one.span_from, one.span_until, one.seen_at) for one in members if one.edges]
    return {
        "first": min(start for start, _, _ in spans if start is not None),
        "last": max(max(until, seen) for _, until, seen in spans if until is not None),
    }


# --- moving ---------------------------------------------------------------------------------


def _apply(changes: Sequence[Decided]) -> int:
    """Revive, release and skip, each in one statement, in primary key order."""
    ordered = sorted(changes, key=lambda one: one.member.ref)
    _revive([one.member for one in ordered if one.member.was_skipped])
    lifecycle.release(_refs_of(ordered, Action.RELEASE))
    skipped = [one for one in ordered if one.decision.action == Action.SKIP]
    with _own_skips():
        lifecycle.skip(
            [one.member.ref for one in skipped], [one.decision.reason for one in skipped]
        )
    return len(ordered)


def _refs_of(decided: Iterable[Decided], action: Action) -> list[RunRef]:
    return [one.member.ref for one in decided if one.decision.action == action]


def _revive(members: Sequence[Member]) -> None:
    if not members:
        return
    revived = set(lifecycle.revive([member.ref for member in members]))
    audited = [member for member in members if member.ref in revived]
    SQL["audit_revived"].run(
        owner=[member.owner for member in audited],
        run_id=[member.run_id for member in audited],
        detail=[
            json.dumps({"scheduledFor": member.scheduled_for.isoformat()}) for member in audited
        ],
    )


class _Skipping(threading.local):
    is_on = False


_skipping = _Skipping()


@contextmanager
def _own_skips() -> Iterator[None]:
    """Mark skips whose consequences are part of the decision: their signal asks for nothing."""
    _skipping.is_on = True
    try:
        yield
    finally:
        _skipping.is_on = False


def is_own_skip() -> bool:
    """Say whether run_finished tells the resolver what it has just decided itself."""
    return _skipping.is_on
