"""Typed readers of the environment; a secret may also come from the file that NAME_FILE names."""

import math
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})


def text(name: str, default: str = "") -> str:
    """Return the variable `name`, or the content of the file that `name`_FILE names."""
    value = os.environ.get(name)
    if value is not None:
        return value
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return default
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE: cannot read {path}: {error.strerror}") from error


def integer(name: str, default: int, *, minimum: int = 0) -> int:
    """Return the variable `name` as a whole number of at least `minimum`."""
    return int(_number(name, default, minimum, int))


def seconds(name: str, default: float, *, minimum: float = 0.0) -> float:
    """Return the variable `name` as a span in seconds of at least `minimum`."""
    return float(_number(name, default, minimum, float))


def _number(name: str, default: float, minimum: float, kind: type[int] | type[float]) -> float:
    raw = text(name)
    if not raw:
        return default
    try:
        value = kind(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {raw!r} is not a number") from error
    if not math.isfinite(value):
        raise ImproperlyConfigured(f"{name}: {raw} is not a number that can be counted to")
    if value < minimum:
        raise ImproperlyConfigured(f"{name}: {raw} is below {minimum}")
    return value


def boolean(name: str, *, default: bool) -> bool:
    """Return the variable `name` as a yes or no."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    word = raw.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name}: {raw!r} is neither yes nor no")


def words(name: str, default: str = "", *, pattern: str = "", rule: str = "") -> list[str]:
    """Return the comma-separated words of the variable `name`, each of the pattern, if any."""
    found = [word.strip() for word in text(name, default).split(",") if word.strip()]
    for word in found:
        if pattern and not re.fullmatch(pattern, word):
            raise ImproperlyConfigured(f"{name}: {word!r} {rule}")
    return found


def database(url: str) -> dict[str, Any]:
    """Return Django's database settings for a postgresql:// URL.

    Query parameters go to libpq as they are. Raises ImproperlyConfigured for another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL: scheme {parts.scheme!r} is not supported, use postgresql://"
        )
    try:
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL: {error}") from error
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "chrono",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
