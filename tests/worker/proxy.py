"""A small TCP proxy that a test can cut: what a partition looks like to a worker."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards connections to a server; while cut, it drops what lives and refuses what comes.

    While frozen it answers nothing and loses nothing: what was sent arrives when it thaws.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Partition the two sides."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Hold back what either side sends."""
        self._flows.clear()

    def heal(self) -> None:
        """Let connections through again."""
        self._flows.set()
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        """End everything."""
        self.cut()
        self._flows.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        for one in (source, target):
            with self._lock:
                self._open.discard(one)
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    """Run a proxy before a server."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    running = Proxy(parts.hostname, parts.port)
    try:
        yield running
    finally:
        running.close()


def behind(url: str, through: Proxy) -> str:
    """Return the URL of a server as reached through the proxy."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{through.port}"))
