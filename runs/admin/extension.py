"""Where the apps above runs hang what they know of a run into its page; they register here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from runs.models import Run


@dataclass(frozen=True, slots=True)
class Panel:
    """A block of a run's page."""

    title: str
    template: str
    context: Callable[[HttpRequest, Run], Mapping[str, Any]]


panels: list[Panel] = []
