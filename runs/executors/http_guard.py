"""Keeps HTTP calls away from the host's own services and from cloud metadata.

The name is resolved here, every address is judged, and the connection goes to the very address that
was judged: a name that resolves to something else a moment later gains nothing. Each hop of a
redirect opens its connection here too.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable

import httpcore
import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_PORT = 65535
HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "168.63.129.16",  # Azure's host agent
        "192.0.0.192",  # Oracle Cloud
        "100.100.100.200",  # Alibaba Cloud
        "fd00:ec2::254",  # Amazon
        "fd20:ce::254",  # Google
    )
)
REFUSED_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "::/96", "fe80::/10")
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefusedError(httpcore.ConnectError):
    """The address is the host's own, link-local, or a cloud's metadata service."""


def embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 one stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return inner
    return address


def is_refused(address: Address) -> bool:
    """Say whether a job may not call this address."""
    for candidate in (address, embedded(address)):
        if candidate in METADATA or candidate.is_loopback or candidate.is_multicast:
            return True
        if any(
            candidate in network
            for network in REFUSED_NETWORKS
            if network.version == candidate.version
        ):
            return True
    return False


def is_host(text: str) -> bool:
    """Say whether it is an address (IPv6 maybe in brackets), or can be a host's name."""
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return HOST_NAME.fullmatch(text) is not None
    return True


class AllowList:
    """The hosts that CHRONO_HTTP_ALLOW names: `host`, or `host:port`; IPv6 in brackets."""

    def __init__(self, words: Iterable[str]) -> None:
        """Take the words of the setting. Raises ValueError for one that names no host."""
        self._pairs = {self._parse(word) for word in words}

    @staticmethod
    def _parse(word: str) -> tuple[str, int | None]:
        word = word.strip().lower()
        host, _, port = word.rpartition(":")
        if not (host and port.isdigit() and (host.endswith("]") or ":" not in host)):
            host, port = word, ""
        if not is_host(host) or int(port or 0) > MAX_PORT:
            raise ValueError(f"{word!r} is neither host nor host:port")
        return host.strip("[]"), int(port) if port else None

    def names(self, host: str, port: int) -> bool:
        """Say whether a host, as written or as resolved, is named."""
        host = host.lower().strip("[]")
        return (host, port) in self._pairs or (host, None) in self._pairs


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, in the resolver's order. Raises httpcore.ConnectError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"cannot resolve {host}: {error}") from error
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def permitted(host: str, port: int, allowed: AllowList) -> list[str]:
    """Return the addresses to try for a host. Raises AddressRefusedError, ConnectError."""
    addresses = resolve(host, port)
    if allowed.names(host, port):
        return addresses
    for text in addresses:
        # One bad address among good ones is no accident: the whole name is refused.
        if is_refused(ipaddress.ip_address(text)) and not allowed.names(text, port):
            raise AddressRefusedError(
                f"{host} resolves to {text}: loopback, link-local and metadata addresses are"
                " refused unless CHRONO_HTTP_ALLOW names them"
            )
    return addresses


class GuardedBackend(httpcore.NetworkBackend):
    """Opens connections to judged addresses only."""

    def __init__(self, allowed: AllowList) -> None:
        self._allowed = allowed
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first permitted address that answers."""
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in permitted(host, port, self._allowed):
            try:
                return self._plain.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class GuardedTransport(httpx.HTTPTransport):
    """httpx's transport on a pool whose every connection is judged."""

    def __init__(self, allowed: AllowList) -> None:
        context = httpx.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        # httpx has no argument for the network backend, so the pool is replaced by its like.
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=4,
            max_keepalive_connections=4,
            keepalive_expiry=15.0,
            network_backend=GuardedBackend(allowed),
        )
