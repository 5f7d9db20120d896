"""What happened, to look at: runs, attempts, misfires; leases, workers and alerts."""

from runs.admin import attempt, fleet, job_panels, misfire, run

__all__ = ["attempt", "fleet", "job_panels", "misfire", "run"]
