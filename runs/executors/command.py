"""Executes commands: under the shim, in their own session and directory, in a clean environment."""

import errno
import json
import os
import select
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runs import slots
from runs.executors import interrupt, output
from runs.executors.base import Log, Outcome, Work, ended_outcome, note
from runs.executors.shim_client import Command, Reply, ShimError, User
from runs.pool_child import SECOND_NS, Place, PoolChild

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"
INPUTS_FILE, OUTPUT_FILE = ".chrono-inputs.json", ".chrono-output.json"
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
    """Return all that a command sees: PATH, LANG, HOME, its definition's env, and who it is.

    And where it finds what its upstreams left, and may leave something itself.
    """
    base = {"PATH": PATH, "LANG": LANG, "HOME": str(home)}
    files = {"CHRONO_OUTPUT": str(home / OUTPUT_FILE)}
    if work.inputs is not None:
        files["CHRONO_INPUTS"] = str(home / INPUTS_FILE)
    merged = {**base, **work.env, **work.identity(), **files}
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
            if work.inputs is not None:
                write_inputs(work.inputs, home / INPUTS_FILE, self.child.share.user)
            with self.child.executing(work) as place:
                reply = self._run(command, place, log)
            outcome = self._outcome(work, command, reply, log)
            return with_output(outcome, home / OUTPUT_FILE, self.child.share.user, log)

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


def write_inputs(inputs: Mapping[str, Any], path: Path, user: User | None) -> None:
    """Write what the upstreams left where the command can read it, and nobody else."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(inputs, file, ensure_ascii=False, indent=2)
        file.write("\n")
        if user is not None:
            os.fchown(file.fileno(), user.uid, user.gid)


def with_output(outcome: Outcome, path: Path, user: User | None, log: Log) -> Outcome:
    """Return the outcome with what the command left in $CHRONO_OUTPUT.

    What cannot be kept fails a command that succeeded; one that failed has its reason already. One
    that was ended from outside may have been within the writing: nothing of it is kept.
    """
    if outcome.result not in {"succeeded", "failed"} or outcome.exit_code is None:
        return outcome
    try:
        return replace(outcome, output=output.read_file(path, None if user is None else user.uid))
    except output.OutputError as bad:
        error = f"$CHRONO_OUTPUT {bad}"
        note(log, error)
        if outcome.result == "failed":
            return outcome
        return replace(outcome, result="failed", reason="output", error=error)


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
