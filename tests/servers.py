"""The private PostgreSQL and Valkey of a test run: addresses at once, processes when needed."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chronoproject.embedded import EmbeddedPostgres, EmbeddedValkey, running

# Given these, a test run uses servers that run already (and must hold nothing of value).
GIVEN = ("CHRONO_TEST_DATABASE_URL", "CHRONO_TEST_REDIS_URL")
DATABASE = "chrono_test"


@dataclass(frozen=True, slots=True)
class Addresses:
    database_url: str
    redis_url: str


class PrivateServers:
    """Ports and passwords are known from the start, since settings want them; data comes later."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="chrono-test-"))
        atexit.register(shutil.rmtree, self.home, ignore_errors=True)
        self.postgres = EmbeddedPostgres(self.home / "postgres", durable=False)
        self.valkey = EmbeddedValkey(self.home / "valkey", durable=False)
        for server in (self.postgres, self.valkey):
            server.reserve()

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.postgres.url_of(DATABASE), self.valkey.url)

    @contextmanager
    def started(self) -> Iterator[Addresses]:
        promised = self.addresses
        with (
            (self.home / "servers.log").open("ab") as log,
            running(self.postgres, log),
            running(self.valkey, log),
        ):
            if self.addresses != promised:
                raise RuntimeError("another process took a port of the test servers; run again")
            yield promised


def export(servers: PrivateServers | None) -> Addresses:
    """Put the addresses where the settings look for them, and hide the caller's own settings."""
    for name in [name for name in os.environ if name.startswith("CHRONO_")]:
        if not name.startswith("CHRONO_TEST_"):
            del os.environ[name]
    if servers is None:
        addresses = Addresses(os.environ[GIVEN[0]], os.environ[GIVEN[1]])
    else:
        addresses = servers.addresses
        os.environ["CHRONO_HOME"] = str(servers.home / "chrono")
    os.environ["DATABASE_URL"] = addresses.database_url
    os.environ["REDIS_URL"] = addresses.redis_url
    os.environ["CHRONO_SECRET_KEY"] = "of-a-test-run"
    os.environ["PYTHONTZPATH"] = ""
    return addresses


private = None if all(os.environ.get(name) for name in GIVEN) else PrivateServers()
addresses = export(private)
