"""Where the apps above jobs hang what they know of a job into its pages; they register here."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.utils.safestring import SafeString

from jobs.models import Job


@dataclass(frozen=True, slots=True)
class Panel:
    """A block of a job's page."""

    title: str
    template: str
    context: Callable[[HttpRequest, Job], Mapping[str, Any]]
    before_form: bool = False


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a job's page; it posts to the named URL with the job's id."""

    title: str
    icon: str
    url_name: str
    permission: str


@dataclass(slots=True)
class Extension:
    """What is registered."""

    panels: list[Panel] = field(default_factory=list)
    buttons: list[Button] = field(default_factory=list)
    # Actions of the list of jobs, in Django's form: methods of its page by name, or functions.
    actions: list[Callable[..., Any] | str] = field(default_factory=list)
    # How the last run of each job went, for a page of the list in one query.
    last_runs: Callable[[Sequence[Job]], Mapping[uuid.UUID, SafeString]] | None = None


extension = Extension()
