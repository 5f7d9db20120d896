"""HTTP calls against a server of the test's own."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpcore
import pytest

from runs import slots
from runs.executors import http_guard, interrupt
from runs.executors.base import Outcome
from runs.executors.http_call import HttpExecutor, is_expected, retry_after_sec, shown
from runs.executors.http_guard import AddressRefusedError, AllowList, permitted
from runs.pool_child import PoolChild
from tests.worker.places import TICK, KeptLog, held_work, local_child


class Handler(BaseHTTPRequestHandler):
    """Answers as its path says: /status/503, /redirect?to=…, /slow, /drip, /echo."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name, _, argument = self.path.lstrip("/").partition("/")
        getattr(self, f"answer_{name.partition('?')[0]}")(argument)

    do_POST = do_PUT = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, *args: object) -> None: ...

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_echo(self, argument: str) -> None:
        length = int(self.headers.get("Content-Length", 0))
        heard = {
            "method": self.command,
            "headers": dict(self.headers),
            "body": self.rfile.read(length).decode(),
        }
        self.send(200, json.dumps(heard).encode(), Content_Type="application/json")

    def answer_status(self, argument: str) -> None:
        self.send(int(argument.partition("?")[0]), b"as asked", Retry_After="17", Set_Cookie="a=b")

    def answer_redirect(self, argument: str) -> None:
        self.send(302, b"", Location=self.path.partition("?to=")[2])

    def answer_slow(self, argument: str) -> None:
        self.server.stopped.wait(30)  # type: ignore[attr-defined]
        self.close_connection = True

    def answer_drip(self, argument: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.server.stopped.wait(0.05):  # type: ignore[attr-defined]
            try:
                self.wfile.write(b"1\r\nx\r\n")
            except OSError:
                return


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.stopped = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.stopped.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


class Caller:
    """Makes calls through one executor, as a pool child does."""

    def __init__(self, child: PoolChild, allowed: list[str]) -> None:
        self.child = child
        self.executor = HttpExecutor(child, AllowList(allowed))
        self.log = KeptLog()

    def __call__(self, url: str, *, timeout_sec: float = 10, **payload: Any) -> Outcome:  # noqa: ANN401
        work = held_work(
            self.child,
            "http",
            {"type": "http", "url": url, **payload},
            timeout_sec=timeout_sec,
        )
        self.work = work
        self.log = KeptLog()
        try:
            return self.executor.execute(work, self.log)
        finally:
            self.child.release([work.run_id])


@pytest.fixture
def call(tmp_path: Path, address: str) -> Iterator[Caller]:
    caller = Caller(local_child(tmp_path), [address])
    yield caller
    caller.executor.close()


def test_a_call_says_which_run_it_is(call: Caller, address: str) -> None:
    outcome = call(f"http://{address}/echo", method="post", body={"a": [1]}, headers={"X-Own": "1"})
    assert (outcome.result, outcome.http_status) == ("succeeded", 200)
    heard = outcome.output["body"]
    assert heard["method"] == "POST"
    assert json.loads(heard["body"]) == {"a": [1]}
    headers = {name.lower(): value for name, value in heard["headers"].items()}
    run_id = str(call.work.run_id)
    wanted = {
        "chrono-run-id": run_id,
        "chrono-job-id": str(call.work.job_id),
        "chrono-attempt": "2",
        "chrono-scheduled-for": "2031-02-03T04:05:06.000000Z",
        "chrono-logical-date": "2031-02-03T04:05:06.000000Z",
        "idempotency-key": run_id,
        "x-own": "1",
        "content-type": "application/json",
    }
    assert wanted.items() <= headers.items()
    assert TICK.isoformat() not in headers.values()


def test_the_response_is_the_log_and_the_output(call: Caller, address: str) -> None:
    outcome = call(f"http://user:secret@{address}/status/200?token=secret")
    assert outcome.output["status"] == 200
    assert outcome.output["body"] == "as asked"
    assert call.log.text.startswith("as asked\n[chrono] GET http://127.0.0.1:")
    assert ": 200 after " in call.log.text
    assert "secret" not in call.log.text


def test_a_text_body_is_sent_as_it_is(call: Caller, address: str) -> None:
    outcome = call(f"http://{address}/echo", method="PUT", body="plain")
    assert outcome.output["body"]["body"] == "plain"
    names = {name.lower() for name in outcome.output["body"]["headers"]}
    assert "content-type" not in names


def test_an_unexpected_status_fails(call: Caller, address: str) -> None:
    outcome = call(f"http://{address}/status/503")
    assert (outcome.result, outcome.reason) == ("failed", "http_status")
    assert (outcome.http_status, outcome.retry_after_sec) == (503, 17.0)
    assert "status 503" in outcome.error


def test_expected_statuses(call: Caller, address: str) -> None:
    assert call(f"http://{address}/status/404", expectStatus=[404, "5xx"]).result == "succeeded"
    assert call(f"http://{address}/status/200", expectStatus=201).result == "failed"


def test_no_cookie_goes_from_one_run_to_the_next(call: Caller, address: str) -> None:
    call(f"http://{address}/status/200")
    outcome = call(f"http://{address}/echo")
    assert "cookie" not in {name.lower() for name in outcome.output["body"]["headers"]}


def test_redirects_are_followed(call: Caller, address: str) -> None:
    outcome = call(f"http://{address}/redirect?to=/redirect?to=/status/200")
    assert (outcome.result, outcome.http_status) == ("succeeded", 200)


def test_a_loop_of_redirects_ends(call: Caller, address: str) -> None:
    outcome = call(f"http://{address}/redirect?to=/redirect?to=")
    assert outcome.result == "failed"


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:1/",
        "http://localhost:1/",
        "http://127.0.0.1:1/",
        "http://2130706433:1/",
        "http://[::ffff:127.0.0.1]:1/",
    ],
)
def test_every_hop_is_judged(call: Caller, address: str, target: str) -> None:
    for url in (target, f"http://{address}/redirect?to={target}"):
        outcome = call(url)
        assert (outcome.result, outcome.reason) == ("failed", "address_refused"), outcome
        assert "CHRONO_HTTP_ALLOW" in outcome.error


def test_other_schemes_are_refused(call: Caller) -> None:
    for url in ("file:///etc/passwd", "gopher://example.org/", "no url", "http://"):
        assert call(url).result == "failed"


def test_nobody_listens(call: Caller, address: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        call.executor.allowed._pairs.add(("127.0.0.1", port))
        outcome = call(f"http://127.0.0.1:{port}/")
    assert (outcome.result, outcome.reason) == ("failed", "connection")


@pytest.mark.parametrize("path", ["slow", "drip"])
def test_the_run_s_limit_holds_for_the_whole_call(call: Caller, address: str, path: str) -> None:
    started = time.monotonic()
    outcome = call(f"http://{address}/{path}", timeout_sec=0.5)
    assert (outcome.result, outcome.reason) == ("timeout", "timeout")
    assert 0.4 < time.monotonic() - started < 5


def test_a_cancel_interrupts_a_call(call: Caller, address: str) -> None:
    """The shim sends the signal; here the test does."""
    interrupt.install()

    def cancel() -> None:
        while not (held := call.child.slot.held()) or held[0][1].phase != slots.PHASE_EXECUTING:
            time.sleep(0.005)
        entry, record = held[0]
        entry.ask_cancel(record.seq)
        time.sleep(0.1)  # the call is on its way by now, though any moment would do
        interrupt_main()

    thread = threading.Thread(target=cancel)
    thread.start()
    outcome = call(f"http://{address}/slow")
    thread.join()
    assert (outcome.result, outcome.reason) == ("cancelled", "user")
    assert call(f"http://{address}/status/200").result == "succeeded"


def interrupt_main() -> None:
    """Send SIGUSR1 to the main thread."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGUSR1)


def test_a_name_is_judged_by_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "good.test": ["93.184.216.34", "10.1.2.3"],
        "bad.test": ["93.184.216.34", "127.0.0.1"],
        "nat64.test": ["64:ff9b::7f00:1"],
        "sixtofour.test": ["2002:7f00:1::"],
        "zero.test": ["0.0.0.0"],  # noqa: S104 - to be refused
        "azure.test": ["168.63.129.16"],
    }
    monkeypatch.setattr(http_guard, "resolve", lambda host, port: names[host])
    nobody = AllowList([])
    assert permitted("good.test", 80, nobody) == names["good.test"]
    for name in names.keys() - {"good.test"}:
        with pytest.raises(AddressRefusedError):
            permitted(name, 80, nobody)
    assert permitted("bad.test", 80, AllowList(["bad.test"]))
    assert permitted("bad.test", 80, AllowList(["127.0.0.1:80"]))
    with pytest.raises(AddressRefusedError):
        permitted("bad.test", 81, AllowList(["127.0.0.1:80"]))


def test_the_connection_goes_to_the_judged_address(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """A name that resolves to something else the second time gains nothing."""
    host, _, port = address.partition(":")
    answers = iter([[host], ["192.0.2.1"]])
    monkeypatch.setattr(http_guard, "resolve", lambda host, port: next(answers))
    backend = http_guard.GuardedBackend(AllowList(["rebinding.test"]))
    stream = backend.connect_tcp("rebinding.test", int(port), timeout=5)
    assert stream.get_extra_info("server_addr") == (host, int(port))
    stream.close()
    with pytest.raises((httpcore.ConnectError, httpcore.ConnectTimeout)):
        backend.connect_tcp("rebinding.test", 1, timeout=0.05)


@pytest.mark.parametrize(
    ("word", "host", "port", "is_named"),
    [
        ("localhost", "localhost", 1, True),
        ("LocalHost:80", "localhost", 80, True),
        ("localhost:80", "localhost", 81, False),
        ("[::1]:80", "::1", 80, True),
        ("[::1]", "::1", 9, True),
        ("::1", "::1", 9, True),
        ("10.0.0.1", "10.0.0.10", 80, False),
    ],
)
def test_the_allow_list(word: str, host: str, port: int, is_named: bool) -> None:
    assert AllowList([word]).names(host, port) is is_named


@pytest.mark.parametrize(
    "word",
    ["foo:bar", "127.0.0.1:99999", "http://127.0.0.1:80/", "127.0.0.0/8", "a b", ":80", "[x]:80"],
)
def test_a_word_that_names_no_host_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is neither host nor host:port"):
        AllowList([word])


@pytest.mark.parametrize(
    ("status", "expected", "is_met"),
    [
        (204, None, True),
        (302, None, False),
        (302, "3xx", True),
        (201, "200-204", True),
        (205, "200-204", False),
        (500, "500", True),
        (404, [200, "4xx"], True),
    ],
)
def test_expect_status(status: int, expected: object, is_met: bool) -> None:
    assert is_expected(status, expected) is is_met


def test_retry_after() -> None:
    assert retry_after_sec({"retry-after": "120"}) == 120
    dates = {
        "date": "Wed, 05 Feb 2031 10:00:00 GMT",
        "retry-after": "Wed, 05 Feb 2031 10:01:30 GMT",
    }
    assert retry_after_sec(dates) == 90
    assert retry_after_sec({"retry-after": dates["retry-after"]}) is None
    assert retry_after_sec({}) is None


def test_what_is_shown_of_a_url() -> None:
    assert shown("https://me:pw@host:1/path?key=1#f") == "https://host:1/path"
