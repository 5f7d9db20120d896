"""Executes commands: under the shim, in their own session and directory, in a clean environment."""

import errno
import os
import select
import signal
from pathlib import Path

from runs import slots
from runs.executors import interrupt
from runs.executors.base import Log, Outcome, Work, ended_outcome, note
from runs.executors.shim_client import Command, Reply, ShimError
from runs.pool_child import SECOND_NS, Place, PoolChild

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"
READ_BYTES = 65536
NOT_FOUND, NOT_EXECUTABLE, SIGNAL_BASE = 127, 126, 128
# Celery's soft limit is the second line: it counts only when the shim is this late.
SHIM_MARGIN_NS = 10 * SECOND_NS


def words(command: object) -> list[bytes]:
    """Return the program and its arguments: a string is for the shell, a list is run as it is."""
    if isinstance(command, str):
        parts = ["/bin/sh", "-c", command]
    elif isinstance(command, list) and command and all(isinstance(part, str) for part in command):
        parts = command
    else:
        raise ValueError("command must be a string or a list of words")
    encoded = [part.encode() for part in parts]
    if any(b"\0" in part for part in encoded):
        raise ValueError("command holds a NUL character")
    return encoded


def environment(work: Work, home: Path) -> dict[str, str]:
    """Return all that a command sees: PATH, LANG, HOME, its definition's env, and who it is."""
    base = {"PATH": PATH, "LANG": LANG, "HOME": str(home)}
    merged = {**base, **work.env, **work.identity()}
    bad = [
        name for name, value in merged.items() if not name or "=" in name or "\0" in name + value
    ]
    if bad:
        raise ValueError(f"env: {bad[0]!r} cannot stand in an environment")
    return merged


class CommandExecutor:
    """Runs a command to its end and keeps its output."""

    def __init__(self, child: PoolChild) -> None:
        self.child = child

    def execute(self, work: Work, log: Log) -> Outcome:
        """Run the command. Raises ShimError when the shim is gone: the pool child must go too."""
        with self.child.directory(work) as home:
            try:
                argv = words(work.payload.get("command"))
                command = Command(argv, os.fsencode(home), environment(work, home))
            except ValueError as error:
                note(log, str(error))
                return Outcome("failed", reason="definition", error=str(error))
            with self.child.executing(work) as place:
                reply = self._run(command, place, log)
        return self._outcome(work, command, reply, log)

    def _run(self, command: Command, place: Place, log: Log) -> Reply:
        shim, fence_ns = self.child.shim, self.child.share.table.fence_ns
        margin_ns = place.record.grace_ns + SHIM_MARGIN_NS
        armed = interrupt.Armed(place.entry, place.record, fence_ns, margin_ns)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(reader, False)
            with interrupt.interruptible(armed):
                shim.start(command, entry=place.index, seq=place.record.seq, output=writer)
                os.close(writer)
                writer = -1
                return self._collect(reader, log)
        except interrupt.RunInterrupted as error:
            raise ShimError("the process shim does not end an overdue run") from error
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)

    def _collect(self, reader: int, log: Log) -> Reply:
        """Carry output into the log until the shim says that nothing of the run is left."""
        shim = self.child.shim
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.register(shim.socket, select.POLLIN)
        while True:
            due_in = log.flush_due_in()
            if due_in is not None and due_in <= 0:
                log.flush()
                continue
            ready = {fd for fd, _ in poll.poll(None if due_in is None else due_in * 1000 + 1)}
            if reader in ready and not read_into(reader, log):
                poll.unregister(reader)
            if shim.socket.fileno() in ready:
                reply = shim.reply()
                while read_into(reader, log):
                    pass
                return reply

    def _outcome(self, work: Work, command: Command, reply: Reply, log: Log) -> Outcome:
        if reply.start_errno:
            return not_started(command, reply.start_errno, log)
        code = os.waitstatus_to_exitcode(reply.status)
        exit_code = code if code >= 0 else SIGNAL_BASE - code
        if reply.cause != slots.CAUSE_NONE:
            return ended_outcome(reply.cause, work, exit_code)
        if exit_code == 0:
            return Outcome("succeeded", exit_code=0)
        error = f"exit code {exit_code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        return Outcome("failed", reason="exit_code", exit_code=exit_code, error=error)


def read_into(reader: int, log: Log) -> bool:
    """Carry what the pipe holds into the log; False when there is nothing more now."""
    try:
        data = os.read(reader, READ_BYTES)
    except BlockingIOError:
        return False
    if data:
        log.write(data)
    return bool(data)


def not_started(command: Command, number: int, log: Log) -> Outcome:
    """Return the outcome of a program that cannot be started, as a shell would tell it."""
    missing = number in {errno.ENOENT, errno.ENOTDIR}
    error = f"cannot start {os.fsdecode(command.argv[0])}: {os.strerror(number)}"
    note(log, error)
    return Outcome(
        "failed",
        reason="exit_code",
        exit_code=NOT_FOUND if missing else NOT_EXECUTABLE,
        error=error,
    )
