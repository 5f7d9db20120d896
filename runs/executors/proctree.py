"""Processes, seen through /proc: start times, descendants, and killing all of them.

The shim imports this module in a bare interpreter: standard library only, and little of it.
"""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def libc_call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 when it is good. Raises OSError."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _prctl(option: int, value: int) -> None:
    libc_call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def set_parent_death_signal(number: int) -> None:
    """Ask for a signal when the thread that is this process's parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def set_subreaper(*, on: bool) -> None:
    """Become (or stop being) the process that orphaned descendants are handed to."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(on))


def set_undumpable() -> None:
    """Close /proc/<pid>/environ, mem and fd to processes of the same user (PROTOCOL 32)."""
    _prctl(_PR_SET_DUMPABLE, 0)


class Process:
    """What /proc/<pid>/stat says of a process."""

    __slots__ = ("parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int, start: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session
        self.start = start

    @property
    def is_dead(self) -> bool:
        """Say whether only the exit status is left of it."""
        return self.state in "ZX"


def look(pid: int) -> Process | None:
    """Return what is known of a process; None when there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        raw = os.read(fd, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    # The command name may hold spaces and parentheses; the fields follow its last one.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Process(pid, chr(fields[0][0]), int(fields[1]), int(fields[3]), int(fields[19]))


def is_alive(pid: int, start: int) -> bool:
    """Say whether the process of that pid and start time still runs."""
    found = look(pid) if pid else None
    return found is not None and found.start == start and not found.is_dead


def resident_bytes() -> int:
    """Return how much memory this process holds."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def all_processes() -> list[Process]:
    """Return every process that /proc lists."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [found for found in map(look, pids) if found is not None]


def descendants(root: int) -> list[Process]:
    """Return the living descendants of a process, zombies left out."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    ahead = [root]
    while ahead:
        of_this = children.pop(ahead.pop(), [])
        ahead.extend(process.pid for process in of_this)
        found.extend(process for process in of_this if not process.is_dead)
    return found


def carrying(words: tuple[bytes, ...]) -> list[Process]:
    """Return the processes whose environment holds each of the words (NAME=value)."""
    found = []
    for process in all_processes():
        try:
            fd = os.open(f"/proc/{process.pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # gone, or not ours to look into
        try:
            environment = os.read(fd, 1 << 20)
        except OSError:
            continue
        finally:
            os.close(fd)
        have = set(environment.split(b"\0"))
        if not process.is_dead and all(word in have for word in words):
            found.append(process)
    return found


def send(pid: int, number: int) -> bool:
    """Signal a process; False when it is gone or not ours to signal."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def terminate(root: int) -> None:
    """Ask all descendants to end, stopped ones too."""
    for process in descendants(root):
        send(process.pid, signal.SIGTERM)
        send(process.pid, signal.SIGCONT)


def kill(root: int) -> int:
    """Send SIGKILL to all descendants and return how many there were.

    Call it until it returns 0: what forks meanwhile is found by the next call, for a subreaper
    is handed every orphan.
    """
    found = descendants(root)
    for process in found:
        send(process.pid, signal.SIGKILL)
    return len(found)


def reap_children(spare: frozenset[int] = frozenset()) -> bool:
    """Collect every dead child but the spared; say whether any living child is left."""
    while True:
        try:
            waiting = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if waiting is None or waiting.si_pid in spare:
            return True
        os.waitpid(waiting.si_pid, 0)
