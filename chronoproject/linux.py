"""Processes as Linux shows them: who lives, since when, and who dies with whom."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1

# Loaded before any fork: between fork and exec nothing may be imported.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Account:
    """An existing user that a child process becomes."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """All that is needed to start a process, again if need be, and to stop it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stop_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None
    stdin: bytes = field(default=b"", repr=False)
    prepare: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A pid is reused, a pid with its start time is not; the boot tells ages of uptime apart."""

    pid: int
    started: int
    boot: str

    def lives(self) -> bool:
        return self.boot == boot_id() and start_ticks(self.pid) == self.started


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Start of a live process in clock ticks since boot; None for a dead one or a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return int(fields[19])


def identify(pid: int) -> Identity | None:
    started = start_ticks(pid)
    return None if started is None else Identity(pid, started, boot_id())


def group_members(pgid: int) -> list[int]:
    """Live processes of a group, whose leader may be gone."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        fields = _stat_fields(int(entry.name))
        if fields is not None and fields[0] not in "ZX" and int(fields[2]) == pgid:
            members.append(int(entry.name))
    return members


def command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def working_dir(pid: int) -> Path | None:
    """Where a process stands; None when it is gone or another user's."""
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None


def environment(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it may not be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def signal_group(pgid: int, sig: signal.Signals) -> bool:
    """False when nothing of the group is left."""
    try:
        os.killpg(pgid, sig)
    except ProcessLookupError:
        return False
    return True


def spawn(launch: Launch, stdout: int | IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start a child in a process group of its own that ends when the calling thread does.

    To be called from the main thread: the death signal comes when the thread that forked ends.
    """
    if launch.prepare is not None:
        launch.prepare()
    account = launch.account
    child = subprocess.Popen(  # noqa: S603 - our own argument lists, no shell
        launch.argv,
        env=dict(launch.env),
        cwd=launch.cwd,
        stdin=subprocess.PIPE if launch.stdin else subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        process_group=0,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        # Runs after the change of user, which would have cleared the death signal.
        preexec_fn=_die_with(os.getpid(), launch.stop_signal),
    )
    if child.stdin is not None:
        child.stdin.write(launch.stdin)  # a few lines: they fit into the pipe
        child.stdin.close()
    return child


def _die_with(parent: int, sig: signal.Signals) -> Callable[[], None]:
    def arm() -> None:
        if _libc.prctl(PR_SET_PDEATHSIG, int(sig), 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)

    return arm


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/pid/stat from the state on; the name before it may hold any character."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()
