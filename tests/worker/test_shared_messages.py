"""Messages that name many runs: claimed together, executed in turn; none waits for a long one."""

import base64
import json
from datetime import timedelta

import pytest
import redis
from django.db import connection

from chronoproject.clock import db_now
from runs import publisher
from runs.models import Run
from tests.factories import make_job, make_run, this_second
from tests.worker.harness import eventually
from tests.worker.workers import RunningWorker, attempts, current, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def test_a_message_may_name_many_runs(shared_worker: RunningWorker, valkey: redis.Redis) -> None:
    runs = [shared_worker.calls("chrono.noop", pool="nobody-serves") for _ in range(40)]
    raw = valkey.rpop("nobody-serves.normal")
    assert isinstance(raw, bytes)
    valkey.lpush(f"{shared_worker.pool}.low", message_for(raw, runs))
    done = [until(run, "succeeded") for run in runs]
    assert {run.worker_id for run in done} == {shared_worker.worker_id}
    assert len({run.claim_id for run in done}) == 2  # a pool child holds 32 at once


def test_runs_behind_a_long_one_are_given_back_unstarted(
    shared_worker: RunningWorker, valkey: redis.Redis
) -> None:
    runs = [shared_worker.calls("chrono.sleep", 3, pool="nobody-serves") for _ in range(4)]
    raw = valkey.rpop("nobody-serves.normal")
    assert isinstance(raw, bytes)
    valkey.delete("nobody-serves.normal")
    valkey.lpush(f"{shared_worker.pool}.low", message_for(raw, runs))
    eventually(lambda: valkey.llen("nobody-serves.normal") == 3)
    messages = [json.loads(found) for found in valkey.lrange("nobody-serves.normal", 0, -1)]
    named = {json.loads(base64.b64decode(message["body"]))[0][0][0][0] for message in messages}
    (long,) = [run for run in runs if str(run.run_id) not in named]
    assert current(long).status == "running"
    for run in runs:
        if run != long:
            back = current(run)
            assert (back.status, back.attempt, back.attempt_limit) == ("queued", 0, 1)
            assert (back.claim_id, back.started_at, back.lease_until) == (None, None, None)
            assert (back.lost_count, attempts(run)) == (0, [])
    assert until(long, "succeeded").status == "succeeded"


def test_what_ended_before_a_long_run_is_recorded_while_that_goes_on(
    shared_worker: RunningWorker, valkey: redis.Redis
) -> None:
    runs = [
        make_run(
            make_job(payload={"type": "task", "task": name, "args": args}, pool="nobody-serves"),
            this_second() - timedelta(seconds=ago),  # the order in which a message is worked off
        )
        for name, args, ago in (("chrono.noop", [], 2), ("chrono.sleep", [4], 1))
    ]
    raw = valkey.rpop("nobody-serves.normal")
    assert isinstance(raw, bytes)
    valkey.delete("nobody-serves.normal")
    valkey.lpush(f"{shared_worker.pool}.low", message_for(raw, runs))
    short, long = runs
    until(short, "succeeded")
    assert current(long).status == "running"
    assert until(long, "succeeded").status == "succeeded"


def test_runs_that_cannot_be_given_back_are_let_go_and_their_leases_run_out(
    shared_worker: RunningWorker, valkey: redis.Redis
) -> None:
    runs = [shared_worker.calls("chrono.sleep", 12, pool="nobody-serves") for _ in range(2)]
    raw = valkey.rpop("nobody-serves.normal")
    assert isinstance(raw, bytes)
    with connection.cursor() as cursor:
        cursor.execute(REFUSE_PUTTING_BACK)
    try:
        valkey.lpush(f"{shared_worker.pool}.low", message_for(raw, runs))
        eventually(lambda: [current(run).status for run in runs] == ["running"] * 2)
        eventually(lambda: 1 in [is_lease_over(run) for run in runs], within_sec=11)
        assert sorted(is_lease_over(run) for run in runs) == [0, 1]  # the one that runs is renewed
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse_putting_back CASCADE")
    eventually(lambda: [current(run).status for run in runs].count("succeeded") == 1)


REFUSE_PUTTING_BACK = """
CREATE FUNCTION refuse_putting_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END $$;
CREATE TRIGGER refuse_putting_back BEFORE UPDATE ON runs FOR EACH ROW
WHEN (OLD.status = 'running' AND NEW.status = 'queued') EXECUTE FUNCTION refuse_putting_back()
"""


def is_lease_over(run: Run) -> int:
    """Return 1 when the run's lease has not been renewed in time, else 0."""
    lease_until = current(run).lease_until
    return int(lease_until is not None and lease_until < db_now())


def message_for(raw: bytes, runs: list[Run]) -> bytes:
    """Return the message with the references of all these runs in it."""
    message = json.loads(raw)
    refs = [[str(run.run_id), run.scheduled_for.isoformat()] for run in runs]
    body = f"[[{json.dumps(refs)}], {publisher.EMBED}]".encode()
    return json.dumps({**message, "body": base64.b64encode(body).decode()}).encode()
