"""Makes .venv and installs what the named requirement files pin; called by bin/up and bin/test.

A script of its own on the standard library alone: nothing is installed yet when it runs.
"""

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# Which files, in which content, have been installed.
STAMP = VENV / "chrono-installed.json"


class InstallError(Exception):
    """The environment cannot be made; the message is one clear line."""


def main(names: list[str]) -> int:
    try:
        with alone():
            ensure([ROOT / name for name in names])
    except InstallError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


@contextmanager
def alone() -> Iterator[None]:
    """Two starts of one clone do not install at once."""
    directory = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def ensure(files: list[Path]) -> None:
    wanted = {path.name: digest(path) for file in files for path in with_included(file)}
    installed = read_stamp()
    if all(installed.get(name) == value for name, value in wanted.items()):
        return
    if not has_pip():
        make_venv()
        installed = {}
    tell(f"installing {', '.join(file.name for file in files)} into {VENV} (a minute or two)")
    arguments: list[str] = [word for file in files for word in ("-r", str(file))]
    pip = [str(PYTHON), "-I", "-m", "pip", "install", "--quiet", "--no-input"]
    done = subprocess.run(  # noqa: S603 - our own requirement files
        [*pip, "--disable-pip-version-check", *arguments], check=False
    )
    if done.returncode != 0:
        raise InstallError(f"pip ended with {done.returncode}; its reason is above")
    STAMP.write_text(json.dumps(installed | wanted, indent=1), encoding="utf-8")


def with_included(file: Path) -> list[Path]:
    """A requirement file and those that it includes."""
    found = [file]
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            found += with_included(file.parent / line[3:].strip())
    return found


def digest(path: Path) -> str:
    content = path.read_bytes() + platform.python_version().encode()
    return hashlib.sha256(content).hexdigest()


def read_stamp() -> dict[str, str]:
    """Empty when unknown; then pip looks, and finds what is there already."""
    try:
        return dict(json.loads(STAMP.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}


def has_pip() -> bool:
    """Whether .venv is whole, of this Python version, and not what an interrupted start left."""
    question = "import platform, pip; print(platform.python_version())"
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [PYTHON, "-I", "-c", question], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == platform.python_version()


def make_venv() -> None:
    tell(f"making {VENV} with Python {platform.python_version()}")
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-I", "-m", "venv", "--clear", VENV],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return
    said = (done.stdout + done.stderr).strip()
    if "ensurepip" in said:
        raise InstallError(
            f"{sys.executable} cannot make virtual environments;"
            " on Debian and Ubuntu `apt install python3-venv` adds what it lacks"
        )
    raise InstallError(
        f"cannot make {VENV}: {said.splitlines()[-1] if said else 'no reason given'}"
    )


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
