"""A PID namespace for each command: the kernel itself leaves nothing of it behind.

The namespace's first process is a small init of ours. Once that ends, whatever the reason, the
kernel kills all others in there before anybody can see the end (pid_namespaces(7)); and it is
killed with its shim. A command sees only its own processes, and can signal no other.

The shim imports this module in a bare interpreter: the standard library only.
"""

from __future__ import annotations

import ctypes
import os

from runs.executors.proctree import libc_call

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


def own_namespace() -> int:
    """Open the PID namespace that this process lives in."""
    return os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)


def enter_new() -> None:
    """Let the next fork be the first process of a new PID namespace. Raises OSError."""
    libc_call("unshare", ctypes.c_int(_CLONE_NEWPID))


def return_to(namespace: int) -> None:
    """Let further forks stay in the namespace of `own_namespace`. Raises OSError."""
    libc_call("setns", ctypes.c_int(namespace), ctypes.c_int(_CLONE_NEWPID))


def mount_own_proc() -> None:
    """Give the new namespace a /proc of its own, which shows no process outside of it.

    Call in its first process. Raises OSError.
    """
    libc_call("unshare", ctypes.c_int(_CLONE_NEWNS))
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE)
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    libc_call("mount", source, target, kind, ctypes.c_ulong(flags), None)


def is_possible() -> bool:
    """Try it in a process of its own: root's rights are needed, and a container may lack them."""
    pid = os.fork()
    if pid == 0:
        try:
            enter_new()
            first = os.fork()
            if first == 0:
                mount_own_proc()
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
