"""A browser for all tests of pages, and a tab that has signed in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
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
def tab(browser: Pipe, live_server: LiveServer, redis_url: str, store: None) -> Iterator[Page]:
    """A tab of nobody's."""
    opened = Page(browser, live_server.url)
    yield opened
    opened.close()


@pytest.fixture
def page(tab: Page, client: Client) -> Page:
    """A tab in which an operator has signed in and sees the overview."""
    client.force_login(User.objects.create_superuser("operator", password="secret"))
    tab.keep_cookie("sessionid", client.cookies["sessionid"].value)
    tab.open("/admin/")
    return tab
