"""Acts on many selected rows: small selections at once, large ones by a Celery operation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin import helpers
from django.db import OperationalError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from kombu.exceptions import OperationalError as BrokerError

from chronoproject.errors import ChronoError
from chronoproject.sql import LOCK_NOT_AVAILABLE, RETRIED, sqlstate

AT_ONCE = 100
AT_MOST = 100_000
BUSY = "Another process holds the row at the moment; try again."
BROKER_DOWN = "Redis does not answer, so nothing was handed over; try again."


class BusyError(ChronoError):
    """A lock was not to be had within its time-out."""


@contextmanager
def busy_told() -> Iterator[None]:
    """Raise BusyError for a lock that was not to be had."""
    try:
        yield
    except OperationalError as error:
        if sqlstate(error) in RETRIED | {LOCK_NOT_AVAILABLE}:
            raise BusyError(BUSY) from error
        raise


def is_across(request: HttpRequest) -> bool:
    """Return whether all rows that match were chosen, those of other pages too."""
    return request.POST.get("select_across") == "1"


@dataclass(frozen=True, slots=True)
class Selection:
    """The keys that an action is about; `has_more` when more match than one operation takes."""

    keys: list[Any]
    has_more: bool = False

    @property
    def is_large(self) -> bool:
        """Return whether it is too much for one request."""
        return len(self.keys) > AT_ONCE


def selection(queryset: QuerySet[Any], key: str = "pk") -> Selection:
    """Return the keys of the selected rows, the first of them when there are too many."""
    keys = list(queryset.values_list(key, flat=True)[: AT_MOST + 1])
    return Selection(keys[:AT_MOST], len(keys) > AT_MOST)


def selected_keys(request: HttpRequest) -> list[str]:
    """Return what was ticked on the page."""
    return request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)


def act_on_each(
    request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], str], *, done: Sequence[str]
) -> None:
    """Act on row after row and tell how many ended how; `done` are the words that are good news."""
    counts: Counter[str] = Counter()
    refusals: list[str] = []
    for row in rows:
        try:
            with busy_told():
                counts[act(row)] += 1
        except ChronoError as refused:
            refusals.append(f"{row}: {refused.detail}")
    tell(request, counts, refusals, done=done)


def tell(
    request: HttpRequest, counts: Counter[str], refusals: Sequence[str], *, done: Sequence[str]
) -> None:
    """Say what happened: "12 cancelled, 3 were already finished"."""
    if counts:
        text = ", ".join(f"{number} {words}" for words, number in counts.most_common() if number)
        good = any(counts[words] for words in done)
        messages.add_message(request, messages.SUCCESS if good else messages.WARNING, f"{text}.")
    for refusal in refusals[:5]:
        messages.error(request, refusal)
    if len(refusals) > 5:
        messages.error(request, f"… and {len(refusals) - 5} more were refused.")


def hand_over(
    request: HttpRequest, send: Callable[[list[Any]], str], chosen: Selection, what: str
) -> None:
    """Start a Celery operation and link to its result."""
    try:
        task_id = send(chosen.keys)
    except BrokerError:
        messages.error(request, BROKER_DOWN)
        return
    url = reverse("admin:django_celery_results_taskresult_changelist")
    messages.success(
        request,
        format_html(
            '{} {} were handed to an operation: <a class="ch-link" href="{}?q={}">its result</a>.',
            f"{len(chosen.keys):,}",
            what,
            url,
            task_id,
        ),
    )
    if chosen.has_more:
        messages.warning(
            request, f"More than {AT_MOST:,} match; run the action again for those left."
        )
