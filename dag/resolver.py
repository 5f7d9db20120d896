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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from chronoproject import sql
from chronoproject.clock import db_now
from dag.graph import topological_order
from dag.statements import SQL
from dag.trigger_rules import OUTCOMES, Action, Outcome, RuleDecision, Tally, decide
from jobs.choices import TriggerRule
from runs import lifecycle
from runs.records import Moved, RunRef
from runs.states import RunStatus

logger = logging.getLogger(__name__)

INSTANT = timedelta(microseconds=1)
AT_ONCE = 20_000  # runs looked at in one transaction; the sweep takes the rest
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
    trigger_rule: str | None
    span_from: datetime | None
    span_until: datetime | None

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
    return _refs_from("direct_followers", finished)


def resolve_after(finished: Sequence[Moved], refs: Sequence[RunRef]) -> int:
    """Decide on the followers of finished runs; after a failure on all that is below at once."""
    if any(run.status != RunStatus.SUCCEEDED for run in finished):
        refs = list({*refs, *_refs_from("all_followers", finished)})
    return resolve(refs)


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
def resolve(refs: Sequence[RunRef]) -> int:
    """Lock, read, decide and move these runs and whatever follows at once; return how many."""
    decided = decide_on(lock(refs))
    further = [one.member for one in decided if one.reaches_further]
    if further and (below := set(_refs_from("all_followers", further)) - set(refs)):
        decided = decide_on(lock([*refs, *below]))
    return _apply([one for one in decided if one.changes])


def lock(refs: Sequence[RunRef]) -> list[Member]:
    """Lock those of the runs that are still to be decided, in primary key order."""
    if not refs:
        return []
    rows = SQL["lock_unresolved"].rows(**lifecycle.keys_of(refs))
    return [Member(*row) for row in rows]


def decide_on(members: Sequence[Member]) -> list[Decided]:
    """Return what becomes of each, upstreams first, so that a skip or a revival goes on down."""
    seen = _read_outcomes(members)
    by_id = {member.run_id: member for member in members}
    order = topological_order({run_id: seen[run_id].inside for run_id in by_id})
    decisions: dict[uuid.UUID, RuleDecision] = {}
    for run_id in order:
        inside = [_outcome_of(decisions[upstream]) for upstream in seen[run_id].inside]
        tally = Tally.of([*seen[run_id].outcomes, *inside])
        decisions[run_id] = _decide(by_id[run_id], tally)
    return [Decided(by_id[run_id], decisions[run_id]) for run_id in order]


def _decide(member: Member, tally: Tally) -> RuleDecision:
    if member.is_deleted:  # born while its job was being deleted
        return RuleDecision(Action.SKIP, "job_deleted")
    return decide(member.trigger_rule or TriggerRule.ALL_SUCCESS, tally)


def _outcome_of(decision: RuleDecision) -> Outcome:
    return Outcome.SKIPPED if decision.action == Action.SKIP else Outcome.PENDING


def _read_outcomes(members: Sequence[Member]) -> Mapping[uuid.UUID, Seen]:
    seen: dict[uuid.UUID, Seen] = defaultdict(Seen)
    spans = [
        (member.span_from, member.span_until)
        for member in members
        if member.span_from is not None and member.span_until is not None
    ]
    if not spans:
        return seen
    rows = SQL["read_outcomes"].rows(
        run_id=[member.run_id for member in members],
        first=min(start for start, _ in spans),
        last=max(db_now(), *(until for _, until in spans)),
    )
    for run_id, status, inside, count in rows:
        if inside is None:
            seen[run_id].outcomes += [WORDS[status]] * count
        else:
            seen[run_id].inside.add(inside)
    return seen


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
