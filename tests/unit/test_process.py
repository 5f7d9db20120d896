"""What stops a long-running process, and what does not."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from chronoproject.process import Stop, stop_on_signals


@pytest.fixture
def stop() -> Iterator[Stop]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield stop_on_signals()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(stop: Stop, number: signal.Signals) -> None:
    assert not stop.wait(0)
    began = time.monotonic()
    os.kill(os.getpid(), number)
    assert stop.wait(60)
    assert stop.is_set()
    assert time.monotonic() - began < 30
