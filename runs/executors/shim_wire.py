"""What a pool child and its process shim say to each other over their socket pair.

The shim imports it in a bare interpreter: the standard library only.
"""

from __future__ import annotations

import os
import socket
import struct

REQUEST = struct.Struct("=QIIII")  # seq, entry, number of words, of variables, bytes that follow
REPLY = struct.Struct("=Qiii")  # seq, wait status, cause, errno of a failed start
HELLO = struct.Struct("=QQ")  # pid, start time


class Request:
    """A command to start, as it came over the socket."""

    __slots__ = ("argv", "cwd", "entry", "environment", "output", "seq")

    def __init__(self, sock: socket.socket) -> None:
        head, fds, _, _ = socket.recv_fds(sock, REQUEST.size, 1)
        for fd in fds:  # recv_fds passes no flags on, so MSG_CMSG_CLOEXEC would do nothing
            os.set_inheritable(fd, False)
        if not head:
            raise EOFError
        head += receive(sock, REQUEST.size - len(head))
        self.seq, self.entry, words, variables, size = REQUEST.unpack(head)
        parts = receive(sock, size).split(b"\0")
        self.cwd = parts[0]
        self.argv = parts[1 : 1 + words]
        pairs = (part.partition(b"=") for part in parts[1 + words : 1 + words + variables])
        self.environment = {name: value for name, _, value in pairs}
        (self.output,) = fds


def receive(sock: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes."""
    chunks = []
    while size:
        chunk = sock.recv(size)
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
