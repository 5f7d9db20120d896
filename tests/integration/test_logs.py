"""What stands in web.log: a line for what a client may not do, a traceback for a defect."""

import io
import logging
from collections.abc import Iterator

import pytest
from django.test import Client

from chronoproject.logs import PlainFormatter

pytestmark = pytest.mark.django_db


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the handler of the settings writes."""
    (handler,) = (
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler.formatter, PlainFormatter)
    )
    assert isinstance(handler, logging.StreamHandler)
    text = io.StringIO()
    before = handler.setStream(text)
    yield text
    handler.setStream(before)


def test_what_a_client_may_not_do_is_a_line(admin_client: Client, written: io.StringIO) -> None:
    assert admin_client.get("/admin/jobs/pause/add/").status_code == 403
    assert written.getvalue() == (
        "WARNING django.request: Forbidden (Permission denied): /admin/jobs/pause/add/\n"
    )


def test_an_unknown_host_is_a_line(client: Client, written: io.StringIO) -> None:
    assert client.get("/v1/jobs", headers={"Host": "evil.example"}).status_code == 400
    (line,) = written.getvalue().splitlines()
    assert line.startswith("ERROR django.security.DisallowedHost: Invalid HTTP_HOST header")


def test_a_defect_keeps_its_traceback(
    client: Client, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.raise_request_exception = False
    monkeypatch.setattr("chronoproject.health.OK", b"no JSON value")
    assert client.get("/healthz").status_code == 500
    lines = written.getvalue().splitlines()
    assert lines[0] == "ERROR django.request: Internal Server Error: /healthz"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1].startswith("TypeError: ")
