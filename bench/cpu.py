"""What processes have cost so far, read from /proc; standard library only, for the peers too."""

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def spent_sec(pids: Iterable[int]) -> float:
    """Return the CPU seconds of these processes, and of the children they have waited for."""
    return sum(sum(map(int, _fields(pid)[11:15])) for pid in set(pids)) / TICKS


def tree(root: int) -> list[int]:
    """Return a process and its living descendants."""
    parents = {pid: int(fields[1]) for pid in _all() if (fields := _fields(pid))[1] != "0"}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """Return what follows the name in /proc/pid/stat: state, parent, …; zeros once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ["0"] * 15
