"""What and when, to look at and to edit: jobs, teams, tokens, versions, pauses, the audit."""

from jobs.admin import history, job, team

__all__ = ["history", "job", "team"]
