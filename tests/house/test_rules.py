"""Rules 1, 5 and 8 of the house, asked of every file of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.house import rules
from tests.house.reading import ROOT, Sql, app_modules, bare, name_of, sql_files, sql_strings

LIFECYCLE = "runs/lifecycle.py"


def broken(rule: Callable[[Path], Iterator[str]], *, but: str = "") -> list[str]:
    return [fault for path in app_modules() if name_of(path) != but for fault in rule(path)]


def test_the_house_is_read_at_all() -> None:
    assert ROOT / "runs" / "lifecycle.py" in app_modules()
    assert {"claim_runs", "lock_slots"} <= {sql.name for sql in sql_files()}


def test_rule_1_no_code_but_the_lifecycle_writes_a_status() -> None:
    assert broken(rules.writes_status_in_python, but=LIFECYCLE) == []


def test_rule_1_no_statement_that_writes_a_status_is_called_from_elsewhere() -> None:
    writers = {sql.name for sql in sql_files() if rules.writes_status_in_sql(sql)}
    assert {"insert_runs", "claim_runs", "finish_runs", "cancel_runs"} <= writers
    callers = [
        f"{name_of(path)}:{line} uses {name}"
        for path in app_modules()
        if name_of(path) != LIFECYCLE
        for name, line in rules.statements_used(path)
        if name in writers
    ]
    assert callers == []


def test_rule_1_no_statement_in_a_string_writes_a_status() -> None:
    assert [sql for sql in sql_strings() if rules.writes_status_in_sql(sql)] == []


def test_rule_5_no_wait_is_left_to_celery() -> None:
    assert broken(rules.waits_in_celery) == []


def test_rule_8_no_statement_reads_runs_while_it_locks() -> None:
    statements = [*sql_files(), *sql_strings()]
    assert [fault for sql in statements for fault in rules.reads_while_locking(sql)] == []


def test_rule_8_no_queryset_counts_while_it_locks() -> None:
    assert broken(rules.counts_while_locking) == []


# --- the questions themselves: code that breaks a rule is found, code that keeps it is not --------


@pytest.mark.parametrize(
    ("code", "is_broken"),
    [
        ("from runs.models import Run\nrun.status = 'dead'", True),
        ("import django\nrun.status: str = 'dead'", True),
        ("from runs import models\na, run.status = 1, 'dead'", True),
        ("run.status = 'dead'\nrun.save()", True),
        ("self.status = os.waitstatus_to_exitcode(status)", False),
        ("Run.objects.filter(pk=1).update(status='dead')", True),
        ("run.save(update_fields=['status'])", True),
        ("setattr(run, 'status', 'dead')", True),
        ("Run.objects.filter(status='dead').update(reason='user')", False),
        ("assert run.status == 'dead'", False),
        ("response.status_code = 200", False),
    ],
)
def test_a_written_status_is_found(code: str, is_broken: bool, tmp_path: Path) -> None:
    assert bool(list(rules.writes_status_in_python(module(code, tmp_path)))) is is_broken


@pytest.mark.parametrize(
    ("statement", "is_broken"),
    [
        ("UPDATE runs SET status = 'dead' WHERE true", True),
        ("UPDATE runs r SET reason = '', status = 'dead' FROM x WHERE r.run_id = x.run_id", True),
        ("WITH d AS (UPDATE runs r SET status = 'dead' RETURNING 1) SELECT * FROM d", True),
        ("INSERT INTO runs (status) SELECT 'queued'", True),
        ("UPDATE runs SET published_at = NULL WHERE status = 'queued'", False),
        ("UPDATE runs SET reason = CASE WHEN status = 'x' THEN 1 END", False),
        ("INSERT INTO run_attempts (status) SELECT status FROM runs", False),
    ],
)
def test_a_statement_that_writes_a_status_is_found(statement: str, is_broken: bool) -> None:
    assert rules.writes_status_in_sql(Sql("x.sql", "x", bare(statement))) is is_broken


@pytest.mark.parametrize(
    ("code", "is_broken"),
    [
        ("task.apply_async(args=[1], countdown=5)", True),
        ("task.apply_async(args=[1], eta=later)", True),
        ("self.retry()", True),
        ("app.task(autoretry_for=(OSError,))", True),
        ("task.apply_async(args=[1], queue='low')", False),
    ],
)
def test_a_wait_in_celery_is_found(code: str, is_broken: bool, tmp_path: Path) -> None:
    assert bool(list(rules.waits_in_celery(module(code, tmp_path)))) is is_broken


@pytest.mark.parametrize(
    ("statement", "is_broken"),
    [
        ("WITH s AS (SELECT key FROM limit_slots FOR UPDATE) SELECT count(*) FROM runs, s", True),
        ("SELECT key FROM limit_slots WHERE (SELECT count(*) FROM runs) < 3 FOR UPDATE", True),
        ("SELECT 1 FROM jobs j JOIN runs r USING (j) WHERE r.status = '' FOR UPDATE OF j", True),
        ("WITH a AS (SELECT 1 FROM runs FOR UPDATE) SELECT status FROM runs JOIN a", True),
        ("SELECT run_id FROM runs WHERE status = 'queued' FOR UPDATE SKIP LOCKED", False),
        ("SELECT 1 FROM jobs j JOIN runs r USING (j) WHERE r.status = '' FOR UPDATE OF r", False),
        (
            "WITH a AS (SELECT 1 FROM runs FOR UPDATE) UPDATE runs SET x = 1 WHERE status = ''",
            False,
        ),
        ("SELECT count(*) FROM runs WHERE status = 'queued'", False),
        ("SELECT key FROM limit_slots FOR UPDATE", False),
    ],
)
def test_a_read_beside_a_lock_is_found(statement: str, is_broken: bool) -> None:
    found = list(rules.reads_while_locking(Sql("x.sql", "x", bare(statement))))
    assert bool(found) is is_broken


@pytest.mark.parametrize(
    ("code", "is_broken"),
    [
        ("Run.objects.select_for_update().filter(a=1).count()", True),
        ("Run.objects.select_for_update().filter(a=1)", False),
        ("Run.objects.filter(a=1).count()", False),
    ],
)
def test_a_count_beside_a_lock_is_found(code: str, is_broken: bool, tmp_path: Path) -> None:
    assert bool(list(rules.counts_while_locking(module(code, tmp_path)))) is is_broken


def module(code: str, directory: Path) -> Path:
    path = directory / "module.py"
    path.write_text(code, encoding="utf-8")
    return path
