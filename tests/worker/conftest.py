"""A worker for the tests of a module that do not hurt it."""

from collections.abc import Iterator

import pytest

from tests.worker.workers import RunningWorker, worker


@pytest.fixture(scope="module")
def shared_worker(
    django_db_setup: None, django_db_blocker: pytest.FixtureRequest
) -> Iterator[RunningWorker]:
    """One worker for the tests that do not hurt it."""
    with django_db_blocker.unblock(), worker(concurrency=2) as running:  # type: ignore[attr-defined]
        yield running
