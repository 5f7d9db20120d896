"""manage.py bootstrap: team, token and admin of a credentials file, and the demo jobs."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, transaction
from django.utils.text import slugify

from chronoproject.clock import db_now
from jobs.auth import token_create, token_hash
from jobs.demo import demo_jobs
from jobs.models import ApiToken, Job, Team
from jobs.services import job_create

NAMES = ("team", "api_token", "admin_user", "admin_password")
ACTOR = "bootstrap"


class Command(BaseCommand):
    """Repeatable: what is there already stays as it is."""

    help = "Make the team, token and admin that a credentials file names, and the demo jobs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file's path."""
        parser.add_argument("--credentials", type=Path, required=True, help="a JSON file")
        parser.add_argument("--no-demo", action="store_true", help="register no demo jobs")

    def handle(self, *args: object, **options: Any) -> None:  # noqa: ANN401 - as in the base
        """Make what is missing and print one JSON line."""
        credentials = read_credentials(options["credentials"])
        try:
            team = make_team(credentials)
            has_demo = not options["no_demo"] and not Job.objects.filter(owner=team).exists()
            made = make_demo_jobs(team) if has_demo else 0
        except OperationalError as error:
            raise CommandError(f"the database does not answer: {error}") from error
        self.stdout.write(json.dumps({**credentials, "demo_jobs": made}))


def read_credentials(path: Path) -> dict[str, str]:
    """Return the four credentials; CommandError for a file that does not hold them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        credentials = {name: str(found[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path}: cannot read {', '.join(NAMES)}: {error!r}") from error
    if empty := [name for name in NAMES if not credentials[name]]:
        raise CommandError(f"{path}: {empty[0]} is empty")
    return credentials


@transaction.atomic
def make_team(credentials: dict[str, str]) -> Team:
    """Make team, token and admin where they are missing; a changed password stays changed."""
    name = credentials["team"]
    slug = slugify(name)
    if not slug:
        raise CommandError(f"team: {name!r} has no letter or digit to name it by")
    team, _ = Team.objects.get_or_create(slug=slug, defaults={"name": name})
    text = credentials["api_token"]
    if not ApiToken.objects.filter(token_hash=token_hash(text)).exists():
        token_create(team, "bootstrap", text=text)
    users = get_user_model().objects
    if not users.filter(username=credentials["admin_user"]).exists():
        users.create_superuser(
            username=credentials["admin_user"], password=credentials["admin_password"]
        )
    return team


def make_demo_jobs(team: Team) -> int:
    """Register the demo jobs; return how many."""
    ids: dict[str, str] = {}
    for definition in demo_jobs(settings.CHRONO_PORT, db_now()):
        edges = [ids[name] for name in definition.get("dependsOn", [])]
        job = job_create(team, {**definition, "dependsOn": edges}, actor=ACTOR)
        ids[job.name] = str(job.job_id)
    return len(ids)
