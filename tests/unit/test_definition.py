"""Every field of a job's definition that is refused, by the name that a client wrote."""

from typing import Any

import pytest

from jobs.definition import clean
from jobs.errors import FieldErrors

HTTP = {"type": "http", "url": "https://example.org/"}

REFUSED: list[tuple[dict[str, Any], set[str]]] = [
    ({"name": ""}, {"name"}),
    ({"name": " \t "}, {"name"}),
    ({"name": "x" * 201}, {"name"}),
    ({"name": 5}, {"name"}),
    ({"name": None}, {"name"}),
    ({"name": "a\nb"}, {"name"}),
    ({"nope": 1}, {"nope"}),
    ({"nope": 1, "timeoutSec": 0}, {"nope", "timeoutSec"}),
    ({"payload": HTTP, "command": "x"}, {"command", "payload"}),
    ({"command": None}, {"command", "payload"}),
    ({"command": ""}, {"command"}),
    ({"command": []}, {"command"}),
    ({"command": ["", "x"]}, {"command[0]"}),
    ({"command": ["a", 5]}, {"command[1]"}),
    ({"command": {"run": "x"}}, {"command"}),
    ({"command": "x" * 120_001}, {"command"}),
    ({"schedule": "61 * * * *"}, {"schedule"}),
    ({"schedule": "* * * *"}, {"schedule"}),
    ({"schedule": ""}, {"schedule"}),
    ({"schedule": "0 0 31 2 *"}, {"schedule"}),
    ({"schedule": "* " * 5000}, {"schedule"}),
    ({"schedule": 5}, {"schedule"}),
    ({"schedule": {}}, {"schedule.runAt", "schedule.everySec"}),
    ({"schedule": {"cron": "@daily"}}, {"schedule.runAt", "schedule.everySec"}),
    ({"schedule": {"everySec": 0}}, {"schedule.everySec"}),
    ({"schedule": {"everySec": "5"}}, {"schedule.everySec"}),
    (
        {"schedule": {"everySec": 5, "runAt": "2090-01-01T00:00:00Z"}},
        {"schedule.runAt", "schedule.everySec"},
    ),
    ({"schedule": {"runAt": "2090-01-01T00:00:00Z", "anchor": None}}, {"schedule.anchor"}),
    ({"schedule": {"anchor": "2030-01-01T00:00:00Z"}}, {"schedule.everySec"}),
    ({"schedule": {"everySec": 5, "anchor": "2030-01-01T00:00:00"}}, {"schedule.anchor"}),
    ({"schedule": {"runAt": "tomorrow"}}, {"schedule.runAt"}),
    ({"schedule": {"runAt": "0001-01-01T00:00:00+23:59"}}, {"schedule.runAt"}),
    ({"schedule": {"runAt": "9999-12-31T23:59:59-23:59"}}, {"schedule.runAt"}),
    ({"schedule": {"runAt": 5}}, {"schedule.runAt"}),
    ({"timezone": "Mars/Olympus"}, {"timezone"}),
    ({"timezone": "../../etc/passwd"}, {"timezone"}),
    ({"timezone": "Mars/Olympus", "schedule": "* * * * *"}, {"timezone"}),
    ({"timezone": None}, {"timezone"}),
    ({"timeoutSec": 0}, {"timeoutSec"}),
    ({"timeoutSec": 604_801}, {"timeoutSec"}),
    ({"timeoutSec": "60"}, {"timeoutSec"}),
    ({"timeoutSec": 1.5}, {"timeoutSec"}),
    ({"timeoutSec": True}, {"timeoutSec"}),
    ({"timeoutSec": None}, {"timeoutSec"}),
    ({"retries": -1}, {"retries"}),
    ({"retries": 101}, {"retries"}),
    (
        {"backoff": {"baseSec": -1, "factor": 0.5, "jitter": 2}},
        {"backoff.baseSec", "backoff.factor", "backoff.jitter"},
    ),
    ({"backoff": {"base": 1}}, {"backoff.base"}),
    ({"backoff": 5}, {"backoff"}),
    ({"maxConcurrency": 0}, {"maxConcurrency"}),
    ({"concurrencyPolicy": "drop"}, {"concurrencyPolicy"}),
    ({"concurrencyKey": ""}, {"concurrencyKey"}),
    ({"misfirePolicy": "RUN_ONCE"}, {"misfirePolicy"}),
    ({"misfireGraceSec": -1}, {"misfireGraceSec"}),
    ({"maxCatchup": 1001}, {"maxCatchup"}),
    ({"dependsOn": "x"}, {"dependsOn"}),
    ({"dependsOn": ["x"]}, {"dependsOn[0]"}),
    (
        {"dependsOn": [{"jobId": "8a3ee4ea-9d86-4d1c-8d86-b6c4b20ab2c1", "match": "week"}]},
        {"dependsOn[0].match"},
    ),
    ({"dependsOn": ["8a3ee4ea-9d86-4d1c-8d86-b6c4b20ab2c1"] * 2}, {"dependsOn[1]"}),
    ({"triggerRule": 1}, {"triggerRule"}),
    ({"priority": "urgent"}, {"priority"}),
    ({"pool": "a.b"}, {"pool"}),
    ({"pool": ""}, {"pool"}),
    ({"env": {"A": 1}}, {"env.A"}),
    ({"env": {"1A": "x"}}, {"env.1A"}),
    ({"env": {"CHRONO_RUN_ID": "x"}}, {"env.CHRONO_RUN_ID"}),
    ({"killGraceSec": -1}, {"killGraceSec"}),
    ({"retryOn": ["never"]}, {"retryOn[0]"}),
    ({"retryOn": "exit"}, {"retryOn"}),
    ({"dstPolicy": "twice"}, {"dstPolicy"}),
    ({"dependencyTimeoutSec": 0}, {"dependencyTimeoutSec"}),
    ({"slaSec": 0}, {"slaSec"}),
    ({"startsAt": "2030-01-01"}, {"startsAt"}),
    ({"startsAt": "2031-01-01T00:00:00Z", "endsAt": "2030-01-01T00:00:00Z"}, {"endsAt"}),
    ({"enabled": 1}, {"enabled"}),
    ({"tags": ["", "x" * 65, 5]}, {"tags[0]", "tags[1]", "tags[2]"}),
    ({"tags": ["x"] * 51}, {"tags"}),
    ({"description": "x" * 10_001}, {"description"}),
    ({"payload": {"type": "soap"}}, {"payload.type"}),
    ({"payload": {"type": ["http"]}}, {"payload.type"}),
    ({"payload": []}, {"payload"}),
    ({"payload": {"type": "http"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "ftp://example.org"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://[::1"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://x:99999/"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://x/ y"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://0177.0.0.1:5623/"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://256.1.1.1/"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://[::zz]/"}}, {"payload.url"}),
    ({"payload": HTTP | {"url": "http://" + 64 * "é" + ".org/"}}, {"payload.url"}),
    ({"payload": HTTP | {"method": "BREW"}}, {"payload.method"}),
    ({"payload": HTTP | {"headers": {"A": 1}}}, {"payload.headers.A"}),
    ({"payload": HTTP | {"headers": {"A": "x\r\nB: y"}}}, {"payload.headers.A"}),
    ({"payload": HTTP | {"headers": {"A b": "x"}}}, {"payload.headers.A b"}),
    ({"payload": HTTP | {"headers": {"Content-Length": "0"}}}, {"payload.headers.Content-Length"}),
    ({"payload": HTTP | {"expectStatus": 42}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"expectStatus": [200, "x"]}}, {"payload.expectStatus[1]"}),
    ({"payload": HTTP | {"expectStatus": True}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"expectStatus": "200"}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"expectStatus": "6xx"}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"expectStatus": "204-200"}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"expectStatus": []}}, {"payload.expectStatus"}),
    ({"payload": HTTP | {"verb": "GET"}}, {"payload.verb"}),
]


@pytest.mark.parametrize(
    ("fields", "named"),
    REFUSED,
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_bad_field_is_refused_by_name(fields: dict[str, Any], named: set[str]) -> None:
    command = {} if "payload" in fields and "command" not in fields else {"command": "true"}
    with pytest.raises(FieldErrors) as refusal:
        clean({"name": "a job", **command, **fields}, owner="data")
    assert {error.field for error in refusal.value.errors} == named
    assert all(error.message for error in refusal.value.errors)


MESSAGES: list[tuple[dict[str, Any], str, str]] = [
    ({"name": "a\nb"}, "name", "must not hold control characters, such as a line break"),
    ({"name": "  "}, "name", "must not be blank"),
    (
        {"schedule": {}},
        "schedule.runAt",
        "runAt and everySec are both missing; give exactly one",
    ),
    (
        {"schedule": {"everySec": 60, "runAt": "2090-01-01T00:00:00Z"}},
        "schedule.everySec",
        "runAt and everySec are both given; give exactly one",
    ),
    (
        {"schedule": {"runAt": "2090-01-01T00:00:00Z", "anchor": None}},
        "schedule.anchor",
        "is for everySec only; remove it",
    ),
    (
        {"payload": HTTP | {"expectStatus": "x"}},
        "payload.expectStatus",
        'must be a status, "2xx", a range such as "200-204", or a list of these',
    ),
    ({"payload": HTTP | {"expectStatus": 99}}, "payload.expectStatus", "must be from 100 to 599"),
    (
        {"payload": HTTP | {"url": "http://0177.0.0.1:5623/"}},
        "payload.url",
        "cannot be called: Invalid IPv4 address: '0177.0.0.1'",
    ),
    ({"owner": "other"}, "owner", "is not data, the team of the token; leave it out"),
    ({"owner": None}, "owner", "is not data, the team of the token; leave it out"),
]


@pytest.mark.parametrize(("fields", "field", "message"), MESSAGES, ids=lambda one: str(one)[:40])
def test_a_refusal_says_what_would_do(fields: dict[str, Any], field: str, message: str) -> None:
    command = {} if "payload" in fields else {"command": "true"}
    with pytest.raises(FieldErrors) as refusal:
        clean({"name": "a job", **command, **fields}, owner="data")
    assert (field, message) in refusal.value.errors


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(FieldErrors) as refusal:
        clean({"nope": 1, "timeoutSec": 0, "backoff": {"factor": 0}, "tags": [1]}, owner="data")
    assert [error.field for error in refusal.value.errors] == [
        "nope",
        "name",
        "tags[0]",
        "timeoutSec",
        "backoff.factor",
    ]


def test_a_thousand_bad_fields_make_an_answer_of_bounded_length() -> None:
    with pytest.raises(FieldErrors) as refusal:
        clean({f"{'x' * 200}{number}": 1 for number in range(1000)}, owner="data")
    assert len(refusal.value.errors) == 100
    assert max(len(error.field) for error in refusal.value.errors) <= 101


def test_a_definition_is_not_shared_between_jobs() -> None:
    first, second = (clean({"name": "a", "command": "x"}, owner="data") for _ in range(2))
    first["env"]["A"] = "x"
    first["backoff"]["factor"] = 9
    assert (second["env"], second["backoff"]["factor"]) == ({}, 2)
