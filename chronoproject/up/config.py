"""What `bin/up` was asked for: the environment, read once and checked."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chronoproject.up.faults import UpError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Config:
    home: Path
    port: int
    flower_port: int
    dispatchers: int
    workers: int
    worker_concurrency: int
    drain_sec: float
    pools: str
    database_url: str | None
    redis_url: str | None
    http_allow: str
    has_own_secret_key: bool
    is_demo: bool = True

    @classmethod
    def read(cls, env: Mapping[str, str], *, is_demo: bool = True) -> "Config":
        config = cls(
            home=_home(env),
            port=_number(env, "CHRONO_PORT", 8000, 1, 65535),
            flower_port=_number(env, "CHRONO_FLOWER_PORT", 5555, 1, 65535),
            dispatchers=_number(env, "CHRONO_DISPATCHERS", 2, 0, 64),
            workers=_number(env, "CHRONO_WORKERS", 1, 0, 64),
            worker_concurrency=_number(env, "CHRONO_WORKER_CONCURRENCY", 4, 1, 512),
            drain_sec=_seconds(env, "CHRONO_DRAIN_SEC", 60),
            pools=env.get("CHRONO_POOLS", "").strip() or "default",
            database_url=_secret(env, "DATABASE_URL"),
            redis_url=_secret(env, "REDIS_URL"),
            http_allow=env.get("CHRONO_HTTP_ALLOW", ""),
            has_own_secret_key=bool(
                env.get("CHRONO_SECRET_KEY") or env.get("CHRONO_SECRET_KEY_FILE")
            ),
            is_demo=is_demo,
        )
        if config.port == config.flower_port:
            raise UpError(f"CHRONO_PORT and CHRONO_FLOWER_PORT are both {config.port}")
        return config

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def flower_url(self) -> str:
        return f"http://127.0.0.1:{self.flower_port}"


def _home(env: Mapping[str, str]) -> Path:
    given = env.get("CHRONO_HOME")
    return Path(os.path.abspath(given)) if given else ROOT / "var"


def _number(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise UpError(f"{name} must be a whole number from {low} to {high}, not {text!r}")
    return int(text)


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UpError(f"{name} must be a number of seconds, not {text!r}")
    return seconds


def _secret(env: Mapping[str, str], name: str) -> str | None:
    """A value, or the content of the file that NAME_FILE names."""
    if value := env.get(name, "").strip():
        return value
    file = env.get(f"{name}_FILE", "").strip()
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip() or None
    except OSError as fault:
        raise UpError(f"{name}_FILE: cannot read {file}: {fault.strerror}") from fault
