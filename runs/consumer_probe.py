"""Notices a worker that takes no messages though it could: it is then restarted.

Celery's Redis consumer has more than once stopped to ask after a lost connection (celery#8030,
#8091, #9054, #10205), and nothing else shows it: the process lives and its heartbeat goes on.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from celery import signals

from runs import figures

DEAF_AFTER_SEC = 30.0


class ConsumerProbe:
    """Watches whether messages that lie there are taken while a pool child is free."""

    def __init__(
        self,
        queues: Sequence[str],
        is_free: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_free`: whether a pool child could execute something this moment."""
        self.queues = queues
        self.is_free = is_free
        self._monotonic = monotonic
        self._received = 0
        self._seen = 0
        self._since: float | None = None

    def connect(self) -> None:
        """Count what Celery receives from now on."""
        signals.task_received.connect(self.on_received, weak=False)

    def on_received(self, **kwargs: Any) -> None:  # noqa: ANN401 - Celery's signal
        """Count a message; called in Celery's event loop, so this is all."""
        self._received += 1

    def waiting(self) -> int:
        """Return how many messages lie in the queues; none that can be seen while Redis is away."""
        return sum(figures.depths_of(self.queues).values())

    def look(self) -> bool:
        """Look once; say whether nothing has been taken for too long."""
        has_received = self._received != self._seen
        self._seen = self._received
        if has_received or not self.is_free() or not self.waiting():
            self._since = None
            return False
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since >= DEAF_AFTER_SEC
