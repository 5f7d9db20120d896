"""manage.py with a Redis consumer that asks for nothing after its first message."""

import sys
from collections.abc import Callable
from typing import Any

import django
from django.core.management import execute_from_command_line
from kombu.transport.redis import Channel


def go_deaf() -> None:
    """Let the consumer read once, and then never ask again."""
    read: Callable[..., Any] = Channel._brpop_read

    def read_once(channel: Channel, **options: Any) -> Any:  # noqa: ANN401 - kombu's own
        found = read(channel, **options)
        setattr(Channel, "_brpop_start", lambda *_, **__: None)  # noqa: B010 - a stub for mypy
        return found

    setattr(Channel, "_brpop_read", read_once)  # noqa: B010 - as above


def main() -> None:
    """Be manage.py."""
    django.setup()
    from runs import consumer_probe

    consumer_probe.DEAF_AFTER_SEC = 1.5
    from runs import worker_process

    worker_process.WATCH_EVERY_SEC = 0.2
    go_deaf()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
