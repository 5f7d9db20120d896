"""run_finished: sent once per statement, inside the finishing transaction (PROTOCOL 20)."""

import functools
import logging
from collections.abc import Callable, Sequence

from django.db import transaction
from django.dispatch import Signal

from runs.records import Moved

logger = logging.getLogger(__name__)

run_finished = Signal()  # runs: Sequence[Moved], all terminal

Receiver = Callable[[Sequence[Moved]], None]


def in_savepoint(receiver: Receiver) -> Callable[..., None]:
    """Make a receiver whose failure rolls back it alone; a sweep reaches the same state."""

    @functools.wraps(receiver)
    def guarded(sender: object, runs: Sequence[Moved], **kwargs: object) -> None:
        try:
            with transaction.atomic():
                receiver(runs)
        except Exception:
            logger.exception("%s failed and was rolled back; its sweep follows", receiver.__name__)

    return guarded


def announce(runs: Sequence[Moved]) -> None:
    """Send run_finished for the runs that are terminal, if any."""
    if runs:
        run_finished.send(sender=None, runs=runs)
