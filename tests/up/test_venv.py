"""What bin/up does before there is a virtual environment."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from chronoproject.up import venv

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with requirement files, and an environment that notes what pip is asked for."""
    fake = tmp_path / ".venv" / "bin" / "python"
    fake.parent.mkdir(parents=True)
    script = [
        "#!/bin/sh",
        'case "$*" in *platform*) echo $FAKE_VERSION; exit ;; esac',
        f"echo pip >> {tmp_path}/asked",
        "exit ${FAKE_PIP:-0}",
    ]
    fake.write_text("\n".join(script), encoding="utf-8")
    fake.chmod(0o755)
    (tmp_path / "requirements.txt").write_text("django==5\n", encoding="utf-8")
    (tmp_path / "requirements-dev.txt").write_text(
        "-r requirements.txt\npytest==9\n", encoding="utf-8"
    )
    monkeypatch.setattr(venv, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(venv, "PYTHON", fake)
    monkeypatch.setattr(venv, "STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setenv("FAKE_VERSION", platform.python_version())
    return tmp_path


def asked(place: Path) -> int:
    path = place / "asked"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def test_an_install_is_skipped_until_a_requirement_changes(place: Path) -> None:
    files = [place / "requirements.txt"]
    venv.ensure(files)
    venv.ensure(files)
    assert asked(place) == 1
    files[0].write_text("django==6\n", encoding="utf-8")
    venv.ensure(files)
    assert asked(place) == 2


def test_what_an_included_file_installed_counts(place: Path) -> None:
    venv.ensure([place / "requirements-dev.txt"])
    venv.ensure([place / "requirements.txt"])
    assert asked(place) == 1


def test_a_failed_install_is_told_and_tried_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP", "7")
    for _ in range(2):
        with pytest.raises(venv.InstallError, match="pip ended with 7"):
            venv.ensure([place / "requirements.txt"])
    assert asked(place) == 2


def test_an_environment_of_another_python_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(venv, "make_venv", lambda: made.append("anew"))
    monkeypatch.setenv("FAKE_VERSION", "3.9.1")
    venv.ensure([place / "requirements.txt"])
    assert made == ["anew"]


def bin_up(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "bin" / "up", *words],
        env=dict(os.environ) | env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unfit_python_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit\nexit 1\n')
    old.chmod(0o755)
    done = bin_up(CHRONO_PYTHON=str(old))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"Python 3.11, 3.12 or 3.13 is needed; found: Python 3.9.2 ({old})" in done.stderr


def test_an_unknown_option_is_refused_before_anything_is_installed() -> None:
    done = bin_up("--demon")
    assert done.returncode == 2
    assert "unknown option --demon" in done.stderr


def test_help_names_every_option() -> None:
    done = bin_up("--help")
    assert done.returncode == 0
    for word in ("--detach", "--stop", "--status", "--no-demo", "CHRONO_HOME", "CHRONO_PORT"):
        assert word in done.stdout
