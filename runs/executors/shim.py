"""The process shim: starts a pool child's commands and sees to it that nothing outlives its run.

One shim lives beside each pool child, as a child of the worker's main process and a subreaper, so
orphans of a run are handed to it: when it has no child left, nothing of the run is left. It watches
the pool child's slot in shared memory about twice a second and ends what is late, cancelled, lost
or fenced: a command's whole tree by itself, a Python task or HTTP call by a signal to the pool
child. When the pool child dies it kills the tree and goes. It holds no secret: it starts with an
empty environment, and what a command may see comes with each request.

Run by path in a bare interpreter (python -I -S), so it imports the standard library and five of
its neighbours, and no framework.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from runs import slots
from runs.executors import proctree
from runs.executors.shim_wire import HELLO, REPLY, Request
from runs.executors.spawn import Spawner, Started

TICK_NS = 500_000_000
KILL_PAUSE_NS, KILL_PAUSE_MAX_NS = 5_000_000, 500_000_000
STOP_WAIT_SEC = 0.1
SECOND_NS = 1_000_000_000
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Running:
    """The command that runs now."""

    __slots__ = ("cause", "entry", "is_urgent", "kill_pause", "kills_at", "record", "started")

    def __init__(self, started: Started, entry: slots.Entry, record: slots.Record) -> None:
        self.started = started
        self.entry = entry
        self.record = record
        self.cause = slots.CAUSE_NONE
        self.is_urgent = False
        self.kills_at: int | None = None  # when SIGKILL begins; set once the run is to end
        self.kill_pause = KILL_PAUSE_NS


class Shim:
    """The loop of one shim."""

    def __init__(
        self,
        *,
        sock: socket.socket,
        table: slots.SlotTable,
        slot: int,
        child: tuple[int, int],
        spawner: Spawner,
    ) -> None:
        self.sock = sock
        self.table = table
        self.slot = table.slots[slot]
        self.child_pid, self.child_start = child
        self.spawner = spawner
        self.running: Running | None = None
        self.asked: tuple[int, int] | None = None  # seq and time of the last SIGUSR1 to the child
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)
        self._wake_on_signals()
        self.child_fd = self._watch_child_exit()

    def _wake_on_signals(self) -> None:
        self.wake_fd, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # No signal is ignored here, for a command would inherit that; handlers end with the exec.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, *IGNORED_BY_PYTHON):
            signal.signal(number, lambda *_: None)
        self.poll.register(self.wake_fd, select.POLLIN)

    def _watch_child_exit(self) -> int | None:
        try:
            fd = os.pidfd_open(self.child_pid)
        except OSError:
            return None  # an old kernel, or the child is gone; the tick looks at its start time
        self.poll.register(fd, select.POLLIN)
        return fd

    def serve(self) -> None:
        """Work until the pool child is gone."""
        self.sock.sendall(HELLO.pack(os.getpid(), own_start()))
        while True:
            ready = {fd for fd, _ in self.poll.poll(self._timeout_ms())}
            if self.wake_fd in ready:
                drain(self.wake_fd)
            if self._child_is_gone(ready):
                return
            if self.sock.fileno() in ready:
                try:
                    self._start(Request(self.sock))
                except (EOFError, ConnectionError):
                    return
            if self.running is not None:
                self._supervise(self.running)
            else:
                self._watch_child()

    def _child_is_gone(self, ready: set[int]) -> bool:
        if self.child_fd is not None:
            return self.child_fd in ready
        return not proctree.is_alive(self.child_pid, self.child_start)

    def _timeout_ms(self) -> int:
        now = slots.boottime_ns()
        until = now + TICK_NS
        if self.running is not None:
            if self.running.kills_at is not None:
                until = min(until, self.running.kills_at)
            else:
                until = min(until, self.running.record.deadline)
        else:
            record = self._child_attempt()[1]
            if record is not None and self.asked is None:
                until = min(until, record.deadline)
        return max(0, -(-(until - now) // 1_000_000))

    # --- commands ---------------------------------------------------------------------------

    def _start(self, request: Request) -> None:
        """Start the command, unless its lease has aged meanwhile."""
        entry = self.slot.entries[request.entry]
        record = entry.read()
        if record is None or record.seq != request.seq:
            os.close(request.output)
            self._reply(request.seq, cause=slots.CAUSE_LOST)
            return
        cause = slots.end_cause(entry, record, slots.boottime_ns(), self.table.fence_ns)
        if cause:
            os.close(request.output)
            self._reply(request.seq, cause=cause)
            return
        try:
            started = self.spawner.spawn(request)
        except OSError as error:
            self._reply(request.seq, number=error.errno or -1)
            return
        finally:
            os.close(request.output)
        self.running = Running(started, entry, record)

    def _supervise(self, running: Running) -> None:
        """Collect what ended, end what must, and answer when nothing of the run is left."""
        if not self._reap(running):
            status, number = running.started.close()
            self._reply(running.record.seq, status=status, cause=running.cause, number=number)
            self.running = None
            return
        now = slots.boottime_ns()
        if running.started.status is not None and running.kills_at is None:
            running.kills_at = now  # the command is done; whoever it left behind is not needed
        self._judge(running, now)
        if running.kills_at is not None and now >= running.kills_at:
            proctree.kill(os.getpid())
            running.kills_at = now + running.kill_pause
            running.kill_pause = min(2 * running.kill_pause, KILL_PAUSE_MAX_NS)

    def _judge(self, running: Running, now: int) -> None:
        """Begin to end the run if it must: with its grace, or at once."""
        cause = slots.end_cause(running.entry, running.record, now, self.table.fence_ns)
        if cause in slots.AT_ONCE:
            if not running.is_urgent:
                running.is_urgent = True
                running.kills_at = now
                if running.started.status is None and not running.cause:
                    running.cause = cause
        elif cause and running.kills_at is None:
            running.cause = cause
            running.kills_at = now + running.record.grace_ns
            proctree.terminate(os.getpid())

    def _reap(self, running: Running) -> bool:
        """Collect dead children; say whether any is left alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == running.started.pid:
                running.started.status = status

    def _reply(
        self, seq: int, *, status: int = 0, cause: int = slots.CAUSE_NONE, number: int = 0
    ) -> None:
        self.sock.sendall(REPLY.pack(seq, status, cause, number))

    # --- tasks and HTTP calls, which run in the pool child ------------------------------------

    def _child_attempt(self) -> tuple[slots.Entry | None, slots.Record | None]:
        entry = self.slot.current()
        record = entry.read() if entry is not None else None
        if record is None or record.kind == slots.KIND_COMMAND:
            return entry, None
        return entry, record if record.phase == slots.PHASE_EXECUTING else None

    def _watch_child(self) -> None:
        entry, record = self._child_attempt()
        if entry is None or record is None:
            self.asked = None
            return
        now = slots.boottime_ns()
        cause = slots.end_cause(entry, record, now, self.table.fence_ns)
        if cause == slots.CAUSE_NONE:
            self.asked = None
        elif cause in slots.AT_ONCE:
            self._kill_child(entry, record, cause)
        elif self.asked is None or self.asked[0] != record.seq:
            self.asked = (record.seq, now)
            proctree.send(self.child_pid, signal.SIGUSR1)
        elif now >= self.asked[1] + record.grace_ns:
            self._kill_child(entry, record, cause)

    def _kill_child(self, entry: slots.Entry, record: slots.Record, cause: int) -> None:
        """Kill the pool child, but only within this very attempt: stopped first, then looked at."""
        proctree.send(self.child_pid, signal.SIGSTOP)
        end = time.monotonic() + STOP_WAIT_SEC
        while time.monotonic() < end:
            found = proctree.look(self.child_pid)
            if found is None or found.state in "TtZX":
                break
            time.sleep(0.001)
        latest = entry.read()
        if (
            latest is not None
            and latest.seq == record.seq
            and latest.phase == slots.PHASE_EXECUTING
        ):
            entry.set_verdict(record.seq, cause)
            proctree.send(self.child_pid, signal.SIGKILL)
        else:
            proctree.send(self.child_pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """Leave nothing of the pool child's runs behind."""
        pause = KILL_PAUSE_NS
        while proctree.reap_children():
            proctree.kill(os.getpid())
            time.sleep(pause / SECOND_NS)
            pause = min(2 * pause, KILL_PAUSE_MAX_NS)
        # What a task spawned was handed to the main process, or to init where that died too; its
        # environment tells.
        for _, record in self.slot.held():
            if record.phase == slots.PHASE_EXECUTING:
                words = attempt_words(record)
                for process in proctree.carrying(words):
                    proctree.send(process.pid, signal.SIGKILL)


def attempt_words(record: slots.Record) -> tuple[bytes, bytes]:
    """Return the variables that stand in the environment of an attempt's processes alone."""
    digits = record.run_id.hex()
    cuts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return (
        b"CHRONO_RUN_ID=" + "-".join(cuts).encode(),
        b"CHRONO_ATTEMPT=" + str(record.attempt).encode(),
    )


def drain(fd: int) -> None:
    """Empty a non-blocking pipe."""
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def own_start() -> int:
    """Return this process's start time as /proc tells it."""
    found = proctree.look(os.getpid())
    assert found is not None  # noqa: S101 - a process sees itself
    return found.start


def main(arguments: list[str]) -> None:
    """Detach from the pool child, so that the main process is the parent, and serve."""
    sock_fd, table_fd, slot, child_pid, child_start, uid, gid, is_isolated = map(int, arguments)
    if os.fork():
        os._exit(0)
    for fd in (sock_fd, table_fd):
        os.set_inheritable(fd, False)
    proctree.set_subreaper(on=True)
    proctree.set_undumpable()
    shim = Shim(
        sock=socket.socket(fileno=sock_fd),
        table=slots.SlotTable(table_fd),
        slot=slot,
        child=(child_pid, child_start),
        spawner=Spawner((uid, gid) if uid >= 0 else None, is_isolated=bool(is_isolated)),
    )
    # Only now: the detour's own parent dies meanwhile, and the handler must stand by then.
    proctree.set_parent_death_signal(signal.SIGTERM)
    try:
        shim.serve()
    finally:
        shim.kill_all()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
