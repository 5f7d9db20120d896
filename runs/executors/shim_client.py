"""The pool child's side of its process shim."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runs import slots
from runs.executors import proctree
from runs.executors.shim_wire import HELLO, REPLY, REQUEST

PROGRAM = Path(__file__).with_name("shim.py")
START_TIMEOUT_SEC = 20.0
# The shim itself needs none of it, but libraries look for PATH and LANG.
SHIM_ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8"}


class ShimError(Exception):
    """The shim died or did not start; whoever held it must go too."""


@dataclass(frozen=True, slots=True)
class User:
    """The uid and gid that commands run under."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """What the shim is to start."""

    argv: Sequence[bytes]
    cwd: bytes
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of it; `start_errno` when it could not be started at all."""

    seq: int
    status: int
    cause: int
    start_errno: int


class ShimClient:
    """One pool child's shim: started once, asked for each command."""

    def __init__(
        self, table: slots.SlotTable, slot: slots.Slot, user: User | None, *, is_isolated: bool
    ) -> None:
        """Start the shim and wait for its greeting. Raises ShimError.

        `is_isolated`: it gives each command a PID namespace.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self.socket = ours
            self._launch(table, slot, theirs, user, is_isolated=is_isolated)
        ours.settimeout(START_TIMEOUT_SEC)
        self.pid, start = HELLO.unpack(self._receive(HELLO.size))
        ours.settimeout(None)
        slot.set_shim(self.pid, start)

    def _launch(
        self,
        table: slots.SlotTable,
        slot: slots.Slot,
        theirs: socket.socket,
        user: User | None,
        *,
        is_isolated: bool,
    ) -> None:
        pid, start = slot.child
        uid, gid = (user.uid, user.gid) if user else (-1, -1)
        numbers = (theirs.fileno(), table.fd, slot.index, pid, start, uid, gid, int(is_isolated))
        # The shim forks once and becomes a child of the nearest subreaper, which shall be the main
        # process: so a pool child has no children but those of a Python task.
        proctree.set_subreaper(on=False)
        try:
            launcher = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(PROGRAM), *map(str, numbers)],
                pass_fds=(theirs.fileno(), table.fd),
                env=SHIM_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                check=False,
                timeout=START_TIMEOUT_SEC,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ShimError(f"the process shim does not start: {error}") from error
        finally:
            proctree.set_subreaper(on=True)
        if launcher.returncode != 0:
            raise ShimError(f"the process shim exits with {launcher.returncode}")

    def start(self, command: Command, *, entry: int, seq: int, output: int) -> None:
        """Ask for a command; its output goes to the descriptor `output`. Raises ShimError."""
        environment = [f"{name}={value}".encode() for name, value in command.environment.items()]
        body = b"\0".join([command.cwd, *command.argv, *environment])
        head = REQUEST.pack(seq, entry, len(command.argv), len(environment), len(body))
        try:
            sent = socket.send_fds(self.socket, [head + body], [output])
            self.socket.sendall((head + body)[sent:])
        except OSError as error:
            raise ShimError(f"the process shim is gone: {error}") from error

    def reply(self) -> Reply:
        """Wait for the end of the command and of everything it started. Raises ShimError."""
        return Reply(*REPLY.unpack(self._receive(REPLY.size)))

    def _receive(self, size: int) -> bytes:
        data = b""
        try:
            while len(data) < size:
                chunk = self.socket.recv(size - len(data))
                if not chunk:
                    raise ShimError("the process shim is gone")
                data += chunk
        except OSError as error:
            raise ShimError(f"the process shim is gone: {error}") from error
        return data

    def close(self) -> None:
        """Let the shim go; it ends by itself."""
        with contextlib.suppress(OSError):
            self.socket.close()
