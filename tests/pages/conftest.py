"""A browser for all tests of pages, and a tab that has signed in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.pages.browser import Page, Pipe, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Pipe]:
    """A Chromium."""
    with chromium() as pipe:
        yield pipe


@pytest.fixture
def store(settings: Settings, tmp_path: Path) -> None:
    """A log store of the test's own."""
    settings.CHRONO_STORAGE_URL = f"file://{tmp_path}/store"
    settings.CHRONO_SPOOL_DIR = tmp_path / "spool"


@pytest.fixture
def page(browser: Pipe, live_server: LiveServer, redis_url: str, store: None) -> Iterator[Page]:
    """A tab in which an operator has signed in and sees the overview."""
    User.objects.create_superuser("operator", password="secret")
    tab = Page(browser, live_server.url)
    tab.open("/admin/")
    tab.fill("[name=username]", "operator")
    tab.fill("[name=password]", "secret")
    tab.click("form [type=submit]")
    yield tab
    tab.close()
