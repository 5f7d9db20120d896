"""How the shim starts a command: forked, in its own session, as its user, maybe in a PID namespace.

The shim imports it in a bare interpreter: the standard library only.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
from collections.abc import Iterator

from runs.executors import namespace, proctree
from runs.executors.shim_wire import Request

TOLD = struct.Struct("=ii")  # errno of a failed start, wait status as told from in a namespace
EXIT_NOT_STARTED = 127


class Started:
    """A forked command; in a namespace, the init of that stands for it."""

    __slots__ = ("_is_isolated", "_told", "pid", "status")

    def __init__(self, pid: int, told: int, *, is_isolated: bool) -> None:
        self.pid = pid
        self.status: int | None = None  # once it has ended
        self._told = told
        self._is_isolated = is_isolated

    def close(self) -> tuple[int, int]:
        """Return the command's wait status, and the errno of a start that failed; once."""
        assert self.status is not None  # noqa: S101 - the caller has reaped it
        try:
            data = os.read(self._told, TOLD.size)
        except BlockingIOError:
            data = b""
        os.close(self._told)
        if data:
            number, status = TOLD.unpack(data)
            return status, number
        # An init that says nothing was killed, and its command with it.
        return (signal.SIGKILL if self._is_isolated else self.status), 0


class Spawner:
    """Starts the commands of one shim."""

    def __init__(self, user: tuple[int, int] | None, *, is_isolated: bool) -> None:
        self.user = user
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.namespace = namespace.own_namespace() if is_isolated else None

    def spawn(self, request: Request) -> Started:
        """Fork the command. Raises OSError.

        posix_spawn would do without the fork, but it takes the command's user over from the
        shim's own real uid, and for that moment the kernel lets every process of that user signal
        the shim, a stop included.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pid = self._fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if pid == 0:
            os.close(reading)
            try:
                if self.namespace is None:
                    self._become_command(request)
                else:
                    self._be_init(request, writing)
            except OSError as error:
                os.write(writing, TOLD.pack(error.errno or -1, 0))
            finally:
                os._exit(EXIT_NOT_STARTED)
        os.close(writing)
        return Started(pid, reading, is_isolated=self.namespace is not None)

    def _fork(self) -> int:
        if self.namespace is None:
            return os.fork()
        namespace.enter_new()
        pid = os.fork()
        if pid:
            namespace.return_to(self.namespace)
        return pid

    def _be_init(self, request: Request, told: int) -> None:
        """Start the command in the new namespace, and tell how it ended; raises OSError.

        Whatever it left behind ends with this process. SIGTERM goes past it: a first process gets
        no signal that it has no handler for, but a SIGKILL from outside.
        """
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        proctree.set_parent_death_signal(signal.SIGKILL)
        if not has_reader(told):
            return  # the shim died before that was asked
        namespace.mount_own_proc()
        command = os.fork()
        if command == 0:
            self._become_command(request)
        os.dup2(told, 3, inheritable=False)
        os.closerange(4, 1 << 16)  # above all the shim's sockets, whose end tells of its own
        while True:
            pid, status = os.wait()
            if pid == command:
                os.write(3, TOLD.pack(0, status))  # nothing, if the start has failed: that is first
                os._exit(0)

    def _become_command(self, request: Request) -> None:
        """Turn the forked child into the command; raises OSError when it cannot be started."""
        os.setsid()
        for number, source in ((0, self.null), (1, request.output), (2, request.output)):
            os.dup2(source, number)
        if self.user is not None:
            uid, gid = self.user
            os.setgroups([gid])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.chdir(request.cwd)
        failure: OSError = FileNotFoundError(errno.ENOENT, "not found")
        for file in candidates(request.argv[0], request.environment.get(b"PATH", b"")):
            try:
                os.execve(file, request.argv, request.environment)  # noqa: S606 - the very command
            except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                failure = error  # as execvp: the next folder of PATH may do
        raise failure


def candidates(program: bytes, path: bytes) -> Iterator[bytes]:
    """Yield the files that a program's name may mean, as execvp would."""
    if b"/" in program:
        yield program
        return
    for folder in path.split(b":"):
        file = os.path.join(folder or b".", program)
        if os.path.isfile(file):
            yield file


def has_reader(pipe: int) -> bool:
    """Say whether somebody still holds the reading end of a pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    return not poll.poll(0)
