"""Logs in a bucket: moto's server stands for the object store."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from runs.log_stream import LogReader, LogsUnavailableError, LogWriter
from runs.storage import Backend, ChunkStore, build, spooled, upload_spool

PREFIX = "logs/2031-02-03/run/1-claim/"
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    before = {name: os.environ.get(name) for name in KEYS}
    os.environ.update(KEYS)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture
def store(endpoint: str) -> Backend:
    backend = build(f"s3://chrono-logs/some/prefix?endpoint_url={endpoint}")
    backend.storage.connection.create_bucket(Bucket="chrono-logs")  # type: ignore[attr-defined]
    return backend


def test_output_is_stored_and_read_back(store: Backend, tmp_path: Path) -> None:
    log = LogWriter(ChunkStore(store, tmp_path), PREFIX, max_bytes=10**6)
    for piece in (b"first ", b"second ", b"third"):
        log.write(piece)
        log.flush()
    assert log.close() == PREFIX
    reader = LogReader(store, tmp_path)
    assert reader.read(PREFIX) == b"first second third"
    assert reader.read(PREFIX, 8, 8) == b"cond thi"
    assert reader.size(PREFIX) == 18
    assert reader.read("logs/2031-02-03/run/2-claim/") == b""
    names = [item.key for item in store.storage.bucket.objects.all()]  # type: ignore[attr-defined]
    assert f"some/prefix/{PREFIX}{6:020d}.log" in names
    assert spooled(tmp_path) == []


def test_a_bucket_that_is_missing_costs_no_output(store: Backend, tmp_path: Path) -> None:
    prefix = "logs/2031-02-03/other-run/1-claim/"
    missing = build(
        f"s3://no-such-bucket/?endpoint_url={store.storage.endpoint_url}"  # type: ignore[attr-defined]
    )
    log = LogWriter(ChunkStore(missing, tmp_path), prefix, max_bytes=10**6)
    log.write(b"kept")
    assert log.close() == prefix
    assert len(spooled(tmp_path)) == 1
    assert upload_spool(missing, tmp_path) == 0
    with pytest.raises(LogsUnavailableError):
        LogReader(missing, tmp_path).read(prefix)
    assert upload_spool(store, tmp_path) == 1
    assert LogReader(store, tmp_path).read(prefix) == b"kept"


def test_a_store_that_hangs_delays_an_end_by_five_seconds_at_most(
    endpoint: str, tmp_path: Path
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        backend = build(f"s3://b/?endpoint_url=http://127.0.0.1:{silent.getsockname()[1]}")
        assert backend.storage.connection  # type: ignore[attr-defined] # made once a pool child
        log = LogWriter(ChunkStore(backend, tmp_path), PREFIX, max_bytes=10**6)
        started = time.monotonic()
        log.write(b"one")
        log.flush()
        log.write(b"two")
        assert log.close() == PREFIX
        assert time.monotonic() - started < 5
    assert len(spooled(tmp_path)) == 2
