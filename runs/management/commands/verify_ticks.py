"""manage.py verify_ticks: prove from the database that no tick was dropped or run twice."""

import argparse
import json
import sys
import uuid
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from chronoproject.clock import db_now
from jobs.fields import Invalid, aware_instant, instant_text, read_time
from jobs.models import Job, Team
from runs import ledger
from runs.reconcile import Fate
from runs.verify import Problem, Tally, Wanted, verify

MAX_LISTED = 10_000  # of --json; the counts go on


class Command(BaseCommand):
    """Recompute every tick from the definitions in force and compare with runs and misfires."""

    help = (
        "Recompute every tick from the definitions in force, compare with runs and misfires, and "
        "print what is missing, duplicate or unexplained. Exits 1 if there is any, 2 if it cannot "
        "tell."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the span, and what to narrow it to."""
        parser.add_argument("--from", dest="since", help="first instant; default: --to less a day")
        parser.add_argument("--to", dest="before", help="end, exclusive; default and latest: now")
        parser.add_argument("--job", help="only the job of this id")
        parser.add_argument("--team", help="only the jobs of this team, by its slug")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: object, **options: Any) -> None:  # noqa: ANN401 - as the base has it
        """Verify, print, and exit 1 if a tick is wrong."""
        now = db_now()
        before = min(_instant("--to", options["before"]) or now, now)
        since = _instant("--from", options["since"]) or before - timedelta(days=1)
        if since >= before:
            _refuse(f"--from {instant_text(since)} is not before {instant_text(before)}")
        since = max(since, ledger.oldest_hot(now))  # older runs are no longer kept
        wanted = _wanted(options["job"], options["team"])
        report = _JsonReport() if options["json"] else _TextReport(self)
        tally = verify(since, before, wanted, report.add)
        self.stdout.write(report.end(since, before, tally))
        if not tally.is_clean:
            sys.exit(1)


class _TextReport:
    """A line for each wrong tick as it is found, then one that sums up."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def add(self, problem: Problem) -> None:
        entry = problem.entry
        parts = [
            f"{entry.fate.value:<11} {entry.tick:%Y-%m-%dT%H:%M:%SZ}",
            f"job {problem.job.job_id} ({problem.job.name})",
            f"version {entry.version}" if entry.version is not None else "no version",
            entry.detail,
        ]
        self._command.stdout.write("  ".join(part for part in parts if part))

    def end(self, since: datetime, before: datetime, tally: Tally) -> str:
        wrong = f"{tally.missing} missing, {tally.duplicate} duplicate"
        return (
            f"{tally.jobs} jobs, {tally.expected} ticks from {instant_text(since)} to "
            f"{instant_text(before)}: {wrong}, {tally.unexplained} unexplained; {tally.due} still "
            f"due; {_percent(tally)} % complete"
        )


class _JsonReport:
    """One object: the counts, and the wrong ticks by kind."""

    def __init__(self) -> None:
        self._listed: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind in (Fate.MISSING, Fate.DUPLICATE, Fate.UNEXPLAINED)
        }

    def add(self, problem: Problem) -> None:
        entry, listed = problem.entry, self._listed[problem.entry.fate]
        if len(listed) < MAX_LISTED:
            listed.append(
                {
                    "tick": instant_text(entry.tick),
                    "jobId": str(problem.job.job_id),
                    "jobName": problem.job.name,
                    "version": entry.version,
                    "runId": None if entry.run_id is None else str(entry.run_id),
                    "detail": entry.detail,
                }
            )

    def end(self, since: datetime, before: datetime, tally: Tally) -> str:
        counts = {
            "jobs": tally.jobs,
            "expected": tally.expected,
            "found": tally.found,
            "due": tally.due,
            "missing": tally.missing,
            "duplicate": tally.duplicate,
            "unexplained": tally.unexplained,
        }
        body = {
            "from": instant_text(since),
            "to": instant_text(before),
            "isClean": tally.is_clean,
            "percentage": tally.percentage,
            "counts": counts,
            **self._listed,
        }
        return json.dumps(body, indent=2)


def _percent(tally: Tally) -> str:
    """Return the percentage, never rounded up to 100."""
    digits = f"{tally.percentage:.4f}"
    return "99.9999" if digits == "100.0000" and tally.missing else digits.rstrip("0").rstrip(".")


def _instant(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return aware_instant(read_time(text))
    except Invalid as error:
        _refuse(f"{option} {text!r} {error}")


def _wanted(job: str | None, team: str | None) -> Wanted:
    owner_id, job_id = None, None
    if team is not None:
        owner_id = Team.objects.filter(slug=team).values_list("team_id", flat=True).first()
        if owner_id is None:
            _refuse(f"--team {team!r} is no team's slug")
    if job is not None:
        try:
            job_id = uuid.UUID(job)
        except ValueError:
            _refuse(f"--job {job!r} is not a job's id")
        jobs = Job.objects.filter(job_id=job_id)
        if not (jobs if owner_id is None else jobs.filter(owner_id=owner_id)).exists():
            _refuse(f"--job {job} is not the id of a job{' of the team' if team else ''}")
    return Wanted(owner_id, job_id)


def _refuse(message: str) -> NoReturn:
    raise CommandError(message, returncode=2)
