"""The nightly proof: each UTC day that has ended is verified once, a slice at a time.

A slice is short, so that no other chore of maintenance waits; where it has got to stands in the
day's row, so that a restart goes on from there.
"""

import time
from dataclasses import asdict, fields
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db.models import Max

from chronoproject.clock import db_now
from runs import ledger
from runs.alerts.outbox import NewAlert, put
from runs.models import TickCheck
from runs.reconcile import Span
from runs.sweeps import MAINTENANCE, Sweep, register
from runs.verify import Tally, Wanted, verify_page

ONE_DAY = timedelta(days=1)
PATIENCE = timedelta(minutes=10)  # for the day's last ticks to be dispatched
SLICE_SEC = 2.0
MAX_BACKLOG_DAYS = 7  # after a longer stop of maintenance, older days are left out


def verify_last_day() -> int:
    """Verify for about two seconds; return how many jobs were looked at."""
    check = _current(db_now())
    if check is None:
        return 0
    began, before = time.monotonic(), check.jobs
    span = _span(check.day)
    while check.finished_at is None:
        _verify_page(check, span)
        if time.monotonic() - began > SLICE_SEC:
            break
    return check.jobs - before


def _current(now: datetime) -> TickCheck | None:
    """Return the check to go on with: the first day that has ended and has not been verified."""
    unfinished = TickCheck.objects.filter(finished_at__isnull=True).order_by("day").first()
    if unfinished is not None:
        return unfinished
    yesterday = (now - PATIENCE).date() - ONE_DAY
    newest: date | None = TickCheck.objects.aggregate(newest=Max("day"))["newest"]
    if newest is None:
        return TickCheck.objects.create(day=yesterday)
    backlog = min(MAX_BACKLOG_DAYS, settings.CHRONO_RETENTION_DAYS) - 1
    day = max(newest + ONE_DAY, yesterday - backlog * ONE_DAY)
    return TickCheck.objects.create(day=day) if day <= yesterday else None


def _span(day: date) -> Span:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return ledger.span_of(start, start + ONE_DAY)


def _verify_page(check: TickCheck, span: Span) -> None:
    page = verify_page(span, Wanted(), check.above)
    total = _tally_of(check)
    total.add(page.tally)
    for name, value in asdict(total).items():
        setattr(check, name, value)
    if page.last is not None:
        check.above = page.last
    else:
        check.finished_at, check.percentage = db_now(), total.percentage
        _tell(check, total)
    check.save()


def _tally_of(check: TickCheck) -> Tally:
    return Tally(**{each.name: getattr(check, each.name) for each in fields(Tally)})


def _tell(check: TickCheck, total: Tally) -> None:
    """Alert when the day is not whole."""
    if total.is_clean:
        return
    wrong = f"{total.missing} missing, {total.duplicate} duplicate, {total.unexplained} unexplained"
    put(
        [
            NewAlert(
                kind="ticks_incomplete",
                dedupe_key=f"ticks_incomplete:{check.day}",
                message=f"Of the {total.expected} ticks of {check.day}, {wrong}: see verify_ticks",
                detail=asdict(total) | {"day": str(check.day), "percentage": total.percentage},
            )
        ]
    )


register(MAINTENANCE, Sweep("verify", 5, verify_last_day))
