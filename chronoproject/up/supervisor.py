"""Keeps processes alive: one thread, one loop. `pump` does what is due and returns."""

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from chronoproject.embedded import EmbeddedError
from chronoproject.up.child import Child, Service, ending
from chronoproject.up.console import Console
from chronoproject.up.faults import StopRequestedError, UpError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A second Ctrl-C leaves each process this long.
HURRY_SEC = 1.0
LOOK_SEC = 0.2  # between two looks at a condition that is waited for
TICK_SEC = 1.0


class Supervisor:
    """One thread on purpose: Linux ties a child's death signal to the thread that forked it."""

    def __init__(self, console: Console, on_change: Callable[[], None]) -> None:
        self.console = console
        self.children: dict[str, Child] = {}
        self._on_change = on_change
        self._selector = selectors.DefaultSelector()
        self._stops = 0
        self._is_stopping = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn signals into requests that pump() answers."""
        wake_read, wake_write = os.pipe()
        for end in (wake_read, wake_write):
            os.set_blocking(end, False)
        self._selector.register(wake_read, selectors.EVENT_READ)
        old_wakeup = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        handlers = dict.fromkeys(STOP_SIGNALS, self._stop_asked)
        handlers[signal.SIGCHLD] = _wake_only
        old_handlers = {sig: signal.signal(sig, handler) for sig, handler in handlers.items()}
        try:
            yield
        finally:
            for sig, handler in old_handlers.items():
                signal.signal(sig, handler)
            signal.set_wakeup_fd(old_wakeup)
            self._selector.unregister(wake_read)
            os.close(wake_read)
            os.close(wake_write)

    def add(self, service: Service) -> Child:
        """Start a service now, and again whenever it ends."""
        child = Child(service, lambda text: self.console.line(service.name, text))
        self.children[service.name] = child
        self._start_first(child)
        return child

    def run(self, service: Service, tell: Callable[[str], None]) -> int:
        """Run something to its end, keeping everything else going; returns its exit code."""
        child = Child(service, tell)
        self.children[service.name] = child
        self._start_first(child)
        while child.process is not None:
            self.pump()
        del self.children[service.name]
        return child.last_code if child.last_code is not None else 1

    def wait(self, is_done: Callable[[], bool], limit_sec: float) -> bool:
        """Keep everything going until a condition holds; False when time is up first."""
        deadline = time.monotonic() + limit_sec
        while not is_done():
            # Looking makes processes write lines, which wake the pump: it is not looked at each.
            look_at = time.monotonic() + LOOK_SEC
            while (left := look_at - time.monotonic()) > 0:
                self.pump(left)
            if time.monotonic() > deadline:
                return False
        return True

    def pump(self, limit_sec: float = TICK_SEC) -> None:
        """Wait for something to happen; pass lines on, see to the dead, start what is due."""
        if self._stops and not self._is_stopping:
            raise StopRequestedError
        for key, _ in self._selector.select(self._sleep_sec(limit_sec)):
            if key.data is None:
                os.read(key.fd, 4096)
            else:
                key.data.read()
                self._forget_closed(key.fd, key.data)
        for child in list(self.children.values()):
            if child.has_ended():
                self._bury(child)
        self._start_due()

    def stop(self, stages: Sequence[Sequence[str]]) -> None:
        """End every process, stage by stage; what has no stage goes first."""
        self._is_stopping = True
        asked = self._stops
        staged = {name for stage in stages for name in stage}
        others = [name for name in self.children if name not in staged]
        for stage in (others, *stages):
            self._stop_stage(
                [self.children[name] for name in stage if name in self.children], asked
            )
        self.children.clear()

    def _stop_stage(self, children: list[Child], asked: int) -> None:
        """A signal each, then a wait together; what has not ended after its grace is killed."""
        for child in children:
            child.signal(child.stop_signal)
        began = time.monotonic()
        killed: set[str] = set()
        while left := [child for child in children if child.process is not None]:
            is_hurry = self._stops > asked
            waited = time.monotonic() - began
            for child in left:
                service = child.service
                grace = HURRY_SEC if is_hurry and service.is_hurried else service.grace_sec
                if waited > grace and child.name not in killed:
                    self.console.say(f"{child.name} does not stop: killed after {waited:.0f} s")
                    child.kill()
                    killed.add(child.name)
            self.pump(0.2)

    def _stop_asked(self, _signal: int, _frame: FrameType | None) -> None:
        self._stops += 1

    def _sleep_sec(self, limit_sec: float) -> float:
        now = time.monotonic()
        waits = [child.starts_at - now for child in self._waiting()]
        return max(0.0, min([limit_sec, *waits]))

    def _waiting(self) -> list[Child]:
        """Services between two lives."""
        if self._is_stopping:
            return []
        children = self.children.values()
        return [child for child in children if child.process is None and not child.service.is_once]

    def _start_first(self, child: Child) -> None:
        try:
            self._start(child)
        except (OSError, EmbeddedError) as fault:
            raise UpError(f"{child.name} does not start: {fault}") from fault

    def _start(self, child: Child) -> None:
        child.start()
        self._selector.register(child.output, selectors.EVENT_READ, child)
        self._on_change()

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._waiting():
            if child.starts_at > now:
                continue
            try:
                self._start(child)
            except (OSError, EmbeddedError) as fault:
                delay = child.plan_restart(0.0)
                self.console.say(f"{child.name} does not start: {fault}; again in {delay:g} s")
            else:
                self.console.say(f"{child.name} started again, pid {child.pid}")

    def _forget_closed(self, output: int, child: Child) -> None:
        if output >= 0 and child.output < 0:
            self._selector.unregister(output)

    def _bury(self, child: Child) -> None:
        output = child.output
        child.read_rest()
        self._forget_closed(output, child)
        pid = child.pid
        lived = child.reap()
        what = f"{child.name} (pid {pid}) {ending(child.last_code)} after {lived:.1f} s"
        if self._is_stopping:
            self.console.say(what)
        elif not child.service.is_once:
            delay = child.plan_restart(lived)
            self.console.say(f"{what}; starting it again in {delay:g} s")


def _wake_only(_signal: int, _frame: FrameType | None) -> None:
    """A dead child interrupts the wait for output."""
