"""`manage.py`: Django's command line, on the installation that runs in CHRONO_HOME.

A command that cannot do its work says so in a line and exits with 2: settings that are refused, a
database that does not answer. No server guesses its addresses: only what is typed here does.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand, CommandError, SystemCheckError
from django.db import InterfaceError, OperationalError, ProgrammingError

from chronoproject.process import first_line

CANNOT = 2
DEFAULT_HOME = Path(__file__).resolve().parent.parent / "var"
# The variable, and what up.json calls it.
ADDRESSES = {"DATABASE_URL": "database_url", "REDIS_URL": "redis_url"}
UNDEFINED_TABLE = "42P01"


def main(argv: list[str]) -> None:
    """Run a command. Raises SystemExit."""
    try:
        take_addresses(os.environ)
        CommandLine(argv).execute()
    except ImproperlyConfigured as fault:
        sys.stderr.write(f"{CommandError.__name__}: {fault}\n")
        sys.exit(CANNOT)


def take_addresses(environ: MutableMapping[str, str]) -> None:
    """Name the servers of the installation that runs in CHRONO_HOME, where none are named.

    Raises ImproperlyConfigured when its up.json is there and cannot be read.
    """
    given = {name for name in ADDRESSES if _is_given(name, environ)}
    if len(given) == len(ADDRESSES):
        return
    path = Path(environ.get("CHRONO_HOME") or DEFAULT_HOME) / "up.json"
    try:
        up = json.loads(path.read_text(encoding="utf-8"))
        found = {name: str(up[key]) for name, key in ADDRESSES.items()}
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing runs there
    except OSError as fault:
        raise ImproperlyConfigured(
            f"cannot read {path}: {fault.strerror}; set DATABASE_URL and REDIS_URL"
        ) from fault
    except (ValueError, KeyError, TypeError) as fault:
        raise ImproperlyConfigured(f"{path} is damaged; set DATABASE_URL and REDIS_URL") from fault
    if any(environ.get(name) != found[name] for name in given):
        return  # another installation is meant, whose other server is not to be had here
    environ.update(found)


class CommandLine(ManagementUtility):
    """Tells in a line why a command cannot do its work."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Return the command; `check` alone keeps its own report, which is its work."""
        command = super().fetch_command(subcommand)
        if subcommand != "check":
            # Django has no hook around it
            command.execute = partial(_execute, command.execute)  # type: ignore[method-assign]
        return command


def _execute(execute: Callable[..., Any], *args: object, **options: object) -> Any:  # noqa: ANN401
    try:
        return execute(*args, **options)
    except SystemCheckError as fault:
        raise CommandError(_refused_settings() or str(fault), returncode=CANNOT) from fault
    except ImproperlyConfigured as fault:
        raise CommandError(str(fault), returncode=CANNOT) from fault
    except (OperationalError, InterfaceError) as fault:
        reason = f"database: {first_line(fault)}{_whose_database(os.environ)}"
        raise CommandError(reason, returncode=CANNOT) from fault
    except ProgrammingError as fault:
        if getattr(fault.__cause__, "sqlstate", None) != UNDEFINED_TABLE:
            raise
        reason = f"database: {first_line(fault)}; has manage.py migrate been run?"
        raise CommandError(reason, returncode=CANNOT) from fault


def _whose_database(environ: Mapping[str, str]) -> str:
    if _is_given("DATABASE_URL", environ):
        return ""
    return "; DATABASE_URL is not set, and nothing runs in CHRONO_HOME"


def _is_given(name: str, environ: Mapping[str, str]) -> bool:
    return bool(environ.get(name) or environ.get(f"{name}_FILE"))


def _refused_settings() -> str:
    """Return what our own checks refuse, as a sentence."""
    issues = [issue for issue in run_checks() if issue.is_serious() and not issue.is_silenced()]
    own = [issue for issue in issues if str(issue.id).startswith("chrono.")]
    return "; ".join(f"{issue.msg}: {issue.hint}" for issue in own)
