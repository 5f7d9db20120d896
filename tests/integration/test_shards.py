"""Shards: shared out evenly, handed over, taken over; and never what safety rests on."""

import itertools
from datetime import timedelta

import pytest
from django.db import connection

from chronoproject.clock import db_now
from jobs.models import BUCKETS
from runs.batch import dispatch
from runs.models import Lease, Run
from runs.shards import RENEWALS_A_LEASE, Shards, bucket_range, fair_share
from runs.sweeps import housekeeping
from tests.integration import support

pytestmark = pytest.mark.django_db
LEASE_SEC = 60.0


def replica(name: str, count: int = 16) -> Shards:
    return Shards(name, count, LEASE_SEC)


def look_again(*replicas: Shards) -> None:
    """Let each look as if the time for it had come."""
    for one in replicas:
        one._renewed_at -= LEASE_SEC / RENEWALS_A_LEASE
        one.refresh()


def lapse(name: str) -> None:
    """Let a replica's leases run out, as those of a dead one do."""
    Lease.objects.filter(holder=name).update(lease_until=db_now() - timedelta(seconds=1))


@pytest.mark.parametrize("shards", [1, 2, 3, 16, 1000, BUCKETS])
def test_every_bucket_is_in_one_shard(shards: int) -> None:
    buckets = [bucket for shard in range(shards) for bucket in bucket_range(shard, shards)]
    assert buckets == list(range(BUCKETS))


@pytest.mark.parametrize(("shards", "names"), [(16, "ab"), (16, "abc"), (1, "abc"), (5, "a")])
def test_shares_differ_by_one_at_most_and_are_all_there_is(shards: int, names: str) -> None:
    shares = [fair_share(name, list(names), shards) for name in names]
    assert sum(shares) == shards
    assert max(shares) - min(shares) <= 1


def test_a_lone_replica_holds_all() -> None:
    one = replica("a")
    one.refresh()
    assert one.held == tuple(range(16))
    assert one.buckets() is None


def test_a_second_one_gets_its_half_once_the_first_has_looked() -> None:
    one, two = replica("a"), replica("b")
    one.refresh()
    two.refresh()
    assert two.held == ()
    assert two.buckets() == []
    look_again(one, two)
    assert (len(one.held), len(two.held)) == (8, 8)
    assert sorted(one.held + two.held) == list(range(16))
    buckets = [one.buckets() or [], two.buckets() or []]
    assert sorted(itertools.chain(*buckets)) == list(range(BUCKETS))


def test_one_shard_is_a_plain_leader() -> None:
    one, two = replica("a", 1), replica("b", 1)
    two.refresh()
    one.refresh()
    look_again(two, one)
    assert (one.held, two.held) == ((0,), ())
    one.hand_over()
    look_again(two)
    assert two.held == (0,)


def test_a_clean_stop_hands_over_at_once() -> None:
    one, two = replica("a"), replica("b")
    for _ in range(2):
        look_again(one, two)
    one.hand_over()
    assert (one.held, one.buckets()) == ((), [])
    assert not Lease.objects.filter(name="replica/a").exists()
    look_again(two)
    assert two.held == tuple(range(16))


def test_a_dead_ones_shards_are_taken_over_and_it_finds_them_gone() -> None:
    one, two = replica("a"), replica("b")
    for _ in range(2):
        look_again(one, two)
    lapse("a")
    look_again(two)
    assert two.held == tuple(range(16))
    look_again(one)
    assert one.held == ()
    look_again(two, one)
    assert sorted(one.held + two.held) == list(range(16))
    assert len(one.held) == 8


def test_what_is_looked_at_already_is_not_looked_at_again() -> None:
    one = replica("a")
    one.refresh()
    Lease.objects.all().delete()
    one.refresh()
    assert not Lease.objects.exists()


def test_another_count_of_shards_strands_nobody() -> None:
    """While replicas of both counts live, both cover all buckets: the row locks keep them apart."""
    one, two = replica("a", 4), replica("b", 6)
    for _ in range(2):
        look_again(one, two)
    lapse("a")
    look_again(two)
    assert two.buckets() is None


def test_own_jobs_are_dispatched_at_once_and_others_only_when_left_lying() -> None:
    due = db_now().replace(microsecond=0)
    schedule = f"{due.second} {due.minute} * * * *"
    jobs = [support.job(schedule=schedule, next_run_at=due) for _ in range(8)]
    own = sorted({job.next.bucket for job in jobs})[:3]
    at = due + timedelta(milliseconds=100)
    done = dispatch(at, None, lambda days: None, own)
    mine = {job.job_id for job in jobs if job.next.bucket in own}
    assert done.recorded == len(mine)
    assert set(Run.objects.values_list("job_id", flat=True)) == mine
    assert dispatch(at, None, lambda days: None, []).recorded == 0
    late = due + timedelta(seconds=1)
    assert dispatch(late, None, lambda days: None, []).recorded == len(jobs) - len(mine)
    assert Run.objects.count() == len(jobs)


def test_the_presence_of_replicas_that_are_gone_is_forgotten() -> None:
    one = replica("a")
    one.refresh()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE leases SET lease_until = now() - interval '2 hours'")
    assert housekeeping.purge_leases() == 1
    assert Lease.objects.count() == 16
