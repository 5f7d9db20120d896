"""Rows that have served: keys, misfires, workers; what nobody dispatches, and nobody executes."""

from datetime import timedelta

from django.conf import settings

from chronoproject.clock import db_now
from runs import floor
from runs.alerts.outbox import NewAlert, put
from runs.floor import SQL
from runs.ids import day_of
from runs.sweeps import MAINTENANCE, Sweep, register

OVERDUE_SEC = 60
PURGED_MISFIRES = 10_000
OVERDUE_TOLD = 100


def purge_idempotency_keys() -> int:
    """Delete keys past their life."""
    return SQL["purge_idempotency_keys"].run(hours=settings.CHRONO_IDEMPOTENCY_HOURS)


def purge_misfires() -> int:
    """Delete ranges that are older than every run that is kept, some at a time."""
    before = day_of(db_now()) - timedelta(days=settings.CHRONO_RETENTION_DAYS)
    return SQL["purge_misfires"].run(before=before, limit=PURGED_MISFIRES)


def watch_workers() -> int:
    """Mark workers that no longer beat, and forget those of last week."""
    gone = SQL["mark_workers_gone"].run(after_sec=2 * settings.CHRONO_LEASE_SEC)
    return gone + SQL["purge_workers"].run()


def purge_leases() -> int:
    """Forget the presence of dispatchers that are gone."""
    return SQL["purge_leases"].run()


def watch_overdue_jobs() -> int:
    """Tell of enabled jobs whose tick has stood for a minute, whoever should dispatch them."""
    rows = SQL["overdue_jobs"].rows(late_sec=OVERDUE_SEC, limit=OVERDUE_TOLD)
    return put(
        [
            NewAlert(
                kind="job_overdue",
                dedupe_key=f"job_overdue:{job_id}:{next_run_at.isoformat()}",
                message=f"{name} has been due since {next_run_at:%Y-%m-%d %H:%M:%SZ}",
                owner_id=owner,
                job_id=job_id,
            )
            for job_id, owner, name, next_run_at in rows
        ]
    )


def watch_pools() -> int:
    """Tell of pools whose runs wait although no worker serves them: a typo in `pool`, say.

    Once for as long as it lasts: until a worker has come and gone again.
    """
    rows = SQL["unserved_pools"].rows(
        floor=floor.read(),
        late_sec=OVERDUE_SEC,
        seen_sec=settings.CHRONO_LEASE_SEC,
        limit=OVERDUE_TOLD,
    )
    return put(
        [
            NewAlert(
                kind="pool_unserved",
                dedupe_key=f"pool_unserved:{pool}:{since.isoformat()}",
                message=f"no worker serves the pool {pool}; {runs} runs wait in it, "
                f"the oldest since {oldest:%Y-%m-%d %H:%M:%SZ}",
                detail={"pool": pool, "runs": runs},
            )
            for pool, runs, oldest, since in rows
        ]
    )


register(MAINTENANCE, Sweep("idempotency_keys", 600, purge_idempotency_keys))
register(MAINTENANCE, Sweep("misfires", 10, purge_misfires))
register(MAINTENANCE, Sweep("workers", 10, watch_workers))
register(MAINTENANCE, Sweep("leases", 600, purge_leases))
register(MAINTENANCE, Sweep("overdue_jobs", 15, watch_overdue_jobs))
register(MAINTENANCE, Sweep("unserved_pools", 15, watch_pools))
