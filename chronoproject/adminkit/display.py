"""How values look on admin pages: instants with zone and distance, labels, links, JSON."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils.html import format_html
from django.utils.safestring import SafeString

F = TypeVar("F", bound=Callable[..., Any])

EMPTY = "-"
MINUTE, HOUR, DAY = 60, 3600, 86_400


def column(
    description: str,
    *,
    label: bool | Mapping[str, str] = False,
    boolean: bool | None = None,
    ordering: str | None = None,
) -> Callable[[F], F]:
    """Name a column; `label` maps its values to the kinds of label unfold draws."""

    def decorate(function: F) -> F:
        function.short_description = description  # type: ignore[attr-defined]
        if label:
            function.label = label  # type: ignore[attr-defined]
        if boolean is not None:
            function.boolean = boolean  # type: ignore[attr-defined]
        if ordering:
            function.admin_order_field = ordering  # type: ignore[attr-defined]
        return function

    return decorate


def span(seconds: float) -> str:
    """Return a length of time in its two leading units at most."""
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    whole = round(seconds)
    for unit, length, smaller, part in (
        ("d", DAY, "h", HOUR),
        ("h", HOUR, "min", MINUTE),
        ("min", MINUTE, "s", 1),
    ):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def distance(value: datetime, now: datetime) -> str:
    """Return how far `value` lies from `now`, in its leading unit."""
    seconds = (value - now).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    for unit, length, until in (("s", 1, 90), ("min", MINUTE, 5400), ("h", HOUR, 2 * DAY)):
        if size < until:
            text = f"{round(size / length)} {unit}"
            break
    else:
        text = f"{round(size / DAY)} d"
    return f"in {text}" if seconds > 0 else f"{text} ago"


def zone_of(name: str) -> ZoneInfo:
    """Return the zone, UTC for a name that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def clock(value: datetime, zone: str = "UTC") -> str:
    """Return the instant in the zone, with the zone's name at that instant."""
    local = value.astimezone(zone_of(zone))
    name = local.tzname() or zone
    return f"{local:%Y-%m-%d %H:%M:%S} {f'UTC{name}' if name[:1] in '+-' else name}"


def instant(
    value: datetime | None, now: datetime | None = None, zone: str = "UTC"
) -> SafeString | str:
    """Return the instant in its zone, its distance when `now` is given; UTC on hovering."""
    if value is None:
        return EMPTY
    name = "" if zone == "UTC" else f" · {zone}"
    exact = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
    far = "" if now is None else format_html('<span class="ch-far">{}</span>', distance(value, now))
    return format_html(
        '<span class="ch-when"><time class="ch-time" datetime="{}" title="{}{}">{}</time>{}</span>',
        value.isoformat(),
        exact,
        name,
        clock(value, zone),
        far,
    )


def elapsed(start: datetime | None, end: datetime | None) -> str:
    """Return the time between the two, EMPTY when either is missing."""
    if start is None or end is None:
        return EMPTY
    return span(max(end - start, timedelta()).total_seconds())


def link(url: str, text: object, title: str = "") -> SafeString:
    """Return a link cut to its column; the whole text shows on hovering."""
    whole = title or ("" if isinstance(text, SafeString) else text)
    return format_html('<a class="ch-link" href="{}" title="{}">{}</a>', url, whole, text)


def gist(error: str) -> str:
    """Return the line of an error that says most: the last one of a traceback, else the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def why(reason: str, error: str) -> SafeString | str:
    """Return a reason with the gist of its error, the error itself on hovering."""
    text = ": ".join(part for part in (reason, gist(error)) if part)
    if not text:
        return EMPTY
    return format_html('<span class="ch-clip" title="{}">{}</span>', error[:1000] or text, text)


def clipped(text: str, limit: int = 200) -> SafeString | str:
    """Return the first line, cut to its column, with more of it on hovering."""
    if not text:
        return EMPTY
    head = text.strip().splitlines()[0] if text.strip() else ""
    return format_html('<span class="ch-clip" title="{}">{}</span>', text[:1000], head[:limit])


def pretty(value: object) -> str:
    """Return JSON to read."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str)


def json_block(value: object) -> SafeString | str:
    """Return JSON as a block to read and copy."""
    return EMPTY if value is None else format_html('<pre class="ch-pre">{}</pre>', pretty(value))
