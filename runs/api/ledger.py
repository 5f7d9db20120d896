"""The tick ledger over HTTP, and backfill."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from chronoproject.clock import db_now
from jobs.api.base import TeamView, object_id, reply
from jobs.api.openapi import IDEMPOTENCY_KEY, operation, ref
from jobs.api.pages import cursor_param, one_instant, page
from jobs.api.params import LIMIT, Param, check_span, instant_param, read_params
from jobs.body import check_body
from jobs.fields import instant_text, read_time
from jobs.idempotency import Answer
from jobs.selectors import job_get
from runs import ledger, operations
from runs.api.openapi import BACKFILL
from runs.backfill import Plan, backfill_make, backfill_plan, ensure_days
from runs.ids import run_id_of
from runs.reconcile import INSTANT, Entry, Span

TICK_PARAMS: dict[str, Param] = {
    "from": instant_param("no tick before; default: the oldest day whose runs are kept"),
    "to": instant_param("only ticks before; default: now"),
    "limit": LIMIT,
    "cursor": cursor_param(one_instant),
}
SHOWN_TICKS = 1000


class JobTicksView(TeamView):
    """What became of each tick of one job."""

    @operation(
        "listJobTicks",
        "List a job's ticks with their fate, oldest first; a deleted job's too",
        {200: ref("TickPage")},
        params=TICK_PARAMS,
        path=["job_id"],
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """Return a page of the job's ledger."""
        wanted = read_params(request, TICK_PARAMS)
        job = job_get(self.team, object_id(job_id, "job"), with_deleted=True)
        span = _span(wanted, db_now())
        entries: list[Entry] = []
        if span.after < span.until:
            entries = ledger.page(job.job_id, span, wanted["limit"] + 1)
        shown, following = page(request, entries, wanted["limit"], lambda entry: (entry.tick,))
        return reply({"results": [_tick_body(entry) for entry in shown], "next": following})


def _span(wanted: dict[str, Any], now: datetime) -> Span:
    """Return the span that is asked for, from the cursor on, as far as runs are kept."""
    check_span(wanted)
    since, before = wanted["from"], wanted["to"]
    oldest = ledger.oldest_hot(now)
    after = max(oldest, since or oldest) - INSTANT
    if wanted["cursor"] is not None:
        after = max(after, wanted["cursor"])
    return Span(after, now if before is None else before - INSTANT)


def _tick_body(entry: Entry) -> dict[str, Any]:
    return {
        "tick": instant_text(entry.tick),
        "fate": entry.fate.value,
        "runId": None if entry.run_id is None else str(entry.run_id),
        "detail": entry.detail,
    }


class JobBackfillView(TeamView):
    """Runs for past ticks of one job that have none."""

    http_method_names = ["post", "options"]

    @operation(
        "backfillJob",
        "Make runs for a job's past ticks that have none, oldest first",
        {202: ref("Backfilled")},
        body=ref("Backfill"),
        headers=[IDEMPOTENCY_KEY],
        path=["job_id"],
    )
    def post(self, request: Request, job_id: str) -> HttpResponse:
        """Make the runs, or with dryRun only say which."""
        read_params(request, {})
        wanted = check_body(BACKFILL, request.data)
        job = job_get(self.team, object_id(job_id, "job"))

        plan = backfill_plan(job, read_time(wanted["from"]), read_time(wanted["to"]))
        if wanted["dryRun"]:
            return reply(_backfill_body(plan, None, is_dry_run=True), status=202)
        ensure_days(plan)  # outside of the transaction that inserts
        return self.once(request, lambda: Answer.of(202, self._make(plan)))

    def _make(self, plan: Plan) -> dict[str, Any]:
        if plan.is_large:
            return _backfill_body(plan, operations.hand_over_backfill(plan, self.actor))
        backfill_make(plan, actor=self.actor)
        return _backfill_body(plan, None)


def _backfill_body(
    plan: Plan, operation_id: str | None, *, is_dry_run: bool = False
) -> dict[str, Any]:
    return {
        "dryRun": is_dry_run,
        "from": instant_text(plan.since),
        "to": instant_text(plan.before),
        "count": plan.count,
        "ticks": [
            {"tick": instant_text(tick), "runId": str(run_id_of(plan.job.job_id, tick))}
            for tick in plan.ticks[:SHOWN_TICKS]
        ],
        "operationId": operation_id,
    }
