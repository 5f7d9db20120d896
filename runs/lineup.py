"""Runs of one message stand in line in a pool child, and leave it when one ahead takes long."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A message is worth sharing by runs that take milliseconds; behind any other, others may be free.
PATIENCE_SEC = 0.25


class Lineup(Generic[T]):
    """A line that one thread works off, and whose rest another gives back.

    Each item is taken once: by `take`, or by `give_back`, which gets all that still stand in line
    once the one taken last has lasted longer than `patience_sec`.
    """

    def __init__(
        self, give_back: Callable[[list[T]], None], patience_sec: float = PATIENCE_SEC
    ) -> None:
        self._give_back = give_back
        self._patience_sec = patience_sec
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._taken_at = 0.0
        self._is_giving_back = False
        self._watcher: threading.Thread | None = None

    def put(self, items: Iterable[T]) -> None:
        """Let the items stand in line."""
        with self._changed:
            self._items.extend(items)
            self._taken_at = time.monotonic()
            # A lone item waits for nothing.
            if len(self._items) > 1:
                if self._watcher is None:
                    self._watcher = threading.Thread(target=self._watch, name="lineup", daemon=True)
                    self._watcher.start()
                self._changed.notify_all()

    def take(self) -> T | None:
        """Take the next one; None when nothing is left, given back or not."""
        with self._changed:
            self._taken_at = time.monotonic()
            if self._items:
                return self._items.popleft()
            self._changed.wait_for(lambda: not self._is_giving_back)
            return None

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items)
                left_sec = self._taken_at + self._patience_sec - time.monotonic()
                if left_sec > 0:
                    self._changed.wait(left_sec)
                    continue
                items = list(self._items)
                self._items.clear()
                self._is_giving_back = True
            try:
                self._give_back(items)
            except Exception:
                # They stay claimed; their leases run out once this child holds them no more.
                logger.exception("%d runs could not be given back", len(items))
            finally:
                with self._changed:
                    self._is_giving_back = False
                    self._changed.notify_all()
