"""Logs over the API: by attempt and offset, and followed without holding a connection."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings
from rest_framework.test import APIClient

from runs import lifecycle, log_follow, log_stream, storage
from runs.models import Run
from runs.records import ClaimedRun
from tests.api.support import fields_of, problem_of
from tests.factories import claim_run, finish_run, make_client, make_job, make_run


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Iterator[Path]:
    """An empty store and spool."""
    settings.CHRONO_STORAGE_URL = f"file://{tmp_path / 'store'}"
    settings.CHRONO_SPOOL_DIR = tmp_path / "spool"
    yield tmp_path / "store"
    storage._backend_of.cache_clear()


def writer(claimed: ClaimedRun) -> log_stream.LogWriter:
    """Return what the worker writes the attempt's output with."""
    prefix = log_stream.log_prefix(
        claimed.scheduled_for, claimed.run_id, claimed.attempt, claimed.claim_id
    )
    chunks = storage.ChunkStore(storage.backend(), Path("/nowhere"))
    return log_stream.LogWriter(chunks, prefix, max_bytes=1_000_000)


def written(run: Run, text: bytes) -> ClaimedRun:
    """Claim the run and write the output of an attempt."""
    claimed = claim_run(run)
    log = writer(claimed)
    log.write(text)
    log.close()
    return claimed


def body_of(response: Any) -> bytes:  # noqa: ANN401 - the test client's response
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    return b"".join(response.streaming_content)


@pytest.mark.django_db
def test_a_run_that_never_started_has_an_empty_log(api: APIClient) -> None:
    run = make_run(make_job())
    response = api.get(f"/v1/runs/{run.run_id}/logs")
    assert (response.status_code, body_of(response)) == (200, b"")


@pytest.mark.django_db
def test_the_latest_attempt_is_read_and_any_by_its_number(api: APIClient) -> None:
    run = make_run(make_job(retries=1))
    path = f"/v1/runs/{run.run_id}/logs"
    finish_run(written(run, "eins ü\n".encode()), "retrying", retry_in_sec=0.0)
    assert body_of(api.get(path)).decode() == "eins ü\n"
    lifecycle.promote()
    assert body_of(api.get(path)).decode() == "eins ü\n"
    finish_run(written(run, b"two\n"))

    assert body_of(api.get(path)) == b"two\n"
    assert body_of(api.get(f"{path}?attempt=1")).decode() == "eins ü\n"
    assert body_of(api.get(f"{path}?attempt=2&offset=2")) == b"o\n"
    assert body_of(api.get(f"{path}?offset=99")) == b""
    assert problem_of(api.get(f"{path}?attempt=3"))["status"] == 404


@pytest.mark.django_db
def test_a_rerun_keeps_the_log_before_it_readable(api: APIClient) -> None:
    run = make_run(make_job())
    finish_run(written(run, b"first\n"), "dead")
    api.post(f"/v1/runs/{run.run_id}/rerun")
    assert body_of(api.get(f"/v1/runs/{run.run_id}/logs")) == b"first\n"


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["attempt=0", "attempt=x", "offset=-1", "follow=1", "tail=5"])
def test_bad_parameters_are_refused_by_name(api: APIClient, query: str) -> None:
    run = make_run(make_job())
    response = api.get(f"/v1/runs/{run.run_id}/logs?{query}")
    assert fields_of(response) == {query.partition("=")[0]}


@pytest.mark.django_db
def test_a_store_that_is_away_is_a_503(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(make_job())
    written(run, b"x")

    def refuse(*args: object) -> bytes:
        raise log_stream.LogsUnavailableError("away")

    monkeypatch.setattr(log_stream, "read", refuse)
    response = api.get(f"/v1/runs/{run.run_id}/logs")
    assert problem_of(response)["status"] == 503
    assert response.headers["Retry-After"] == "5"


# --- followed -------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often."""
    monkeypatch.setattr(log_follow, "LOOK_SEC", 0.02)
    monkeypatch.setattr(log_stream, "FOLLOW_SEC", 0.02)


class Reader(threading.Thread):
    """Follows a log as a client of its own, and keeps what it gets."""

    def __init__(self, api: APIClient, path: str) -> None:
        super().__init__(daemon=True)
        self.pieces: list[bytes] = []
        self.came = threading.Condition()
        self._call = (api, path)
        self.has_connection: list[bool] = []

    def run(self) -> None:
        api, path = self._call
        response: Any = api.get(path)
        for piece in response.streaming_content:
            self.has_connection.append(connection.connection is not None)
            with self.came:
                self.pieces.append(piece)
                self.came.notify_all()
        response.close()
        connection.close()

    def await_text(self, text: bytes) -> None:
        with self.came:
            assert self.came.wait_for(lambda: text in b"".join(self.pieces), timeout=20)


@pytest.mark.django_db(transaction=True)
def test_a_follower_sees_output_as_it_comes_and_every_attempt_to_the_end(quick: None) -> None:
    run = make_run(make_job(retries=1))
    reader = Reader(make_client(), f"/v1/runs/{run.run_id}/logs?follow=true")
    reader.start()
    claimed = claim_run(run)
    log = writer(claimed)
    for text in (b"one\n", b"two\n"):
        log.write(text)
        log.flush()
        reader.await_text(text)
    finish_run(claimed, "retrying", retry_in_sec=0.0)
    lifecycle.promote()
    assert reader.is_alive()
    finish_run(written(run, b"again\n"))

    reader.join(timeout=20)

    assert not reader.is_alive()
    assert b"".join(reader.pieces) == b"one\ntwo\nagain\n"
    assert reader.has_connection
    assert not any(reader.has_connection), "a follower holds no connection while it waits"


@pytest.mark.django_db(transaction=True)
def test_a_follower_of_one_attempt_ends_with_it(quick: None) -> None:
    run = make_run(make_job(retries=1))
    claimed = written(run, b"one\n")
    reader = Reader(make_client(), f"/v1/runs/{run.run_id}/logs?follow=true&attempt=1")
    reader.start()
    reader.await_text(b"one\n")
    finish_run(claimed, "retrying", retry_in_sec=60.0)
    reader.join(timeout=20)
    assert not reader.is_alive()


@pytest.mark.django_db(transaction=True)
def test_a_follower_of_an_ended_run_reads_it_and_ends(quick: None) -> None:
    run = make_run(make_job())
    finish_run(written(run, b"all of it\n"))
    response = make_client().get(f"/v1/runs/{run.run_id}/logs?follow=true&offset=4")
    assert body_of(response) == b"of it\n"


@pytest.mark.django_db(transaction=True)
def test_places_for_followers_are_few_and_given_back(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follow, "_places", threading.BoundedSemaphore(1))
    path = f"/v1/runs/{make_run(make_job()).run_id}/logs?follow=true"
    api = make_client()
    first: Any = api.get(path)  # never read from: its client went away at once

    refused = api.get(path)
    assert problem_of(refused)["status"] == 429
    assert refused.headers["Retry-After"] == "5"

    first.close()
    second: Any = api.get(path)
    assert next(iter(second.streaming_content)) == b""
    second.close()
    assert api.get(path).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_a_store_that_goes_away_is_told_in_the_stream(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(make_job())
    written(run, b"one\n")

    def cut(*args: object, **kwargs: object) -> Iterator[bytes]:
        yield b"one\n"
        raise log_stream.LogsUnavailableError("away")

    monkeypatch.setattr(log_stream, "follow", cut)
    response = make_client().get(f"/v1/runs/{run.run_id}/logs?follow=true")
    assert body_of(response) == b"one\n" + log_follow.CUT_OFF
