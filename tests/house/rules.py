"""The house's rules as questions to code: each returns what breaks the rule, in words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.reading import Sql, called_name, calls, chain, levels, name_of, tree_of

LOCK = re.compile(
    r"\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|SHARE|KEY\s+SHARE)\b(?:\s+OF\s+([\w\s,]+?))?"
    r"(?=\s*(?:$|SKIP|NOWAIT|;|\)))",
    re.IGNORECASE,
)
FROM_RUNS = re.compile(r"\b(?:FROM|JOIN)\s+runs\b(?:\s+(?:AS\s+)?(\w+))?", re.IGNORECASE)
WRITES_RUNS = re.compile(r"\bUPDATE\s+(?:ONLY\s+)?runs\b[\s\S]*?\bSET\b([\s\S]*)", re.IGNORECASE)
INSERTS_RUNS = re.compile(r"\bINSERT\s+INTO\s+runs\b", re.IGNORECASE)
END_OF_SET = re.compile(r"\b(?:FROM|WHERE|RETURNING)\b", re.IGNORECASE)
SETS_STATUS = re.compile(r"(?:^|,)\s*status\s*=", re.IGNORECASE)
QUERYSET_WRITERS = frozenset(
    {"update", "create", "get_or_create", "update_or_create", "bulk_create", "aupdate", "acreate"}
)
STRING_WRITERS = frozenset({"save", "bulk_update", "setattr"})
WAITING_KEYWORDS = frozenset(
    {"eta", "countdown", "autoretry_for", "retry_backoff", "retry_kwargs", "default_retry_delay"}
)


def writes_status_in_sql(sql: Sql) -> bool:
    """Rule 1: does it make a run, or set the status of one?"""
    for level in levels(sql.text):
        if INSERTS_RUNS.search(level):
            return True
        found = WRITES_RUNS.search(level)
        if found and SETS_STATUS.search(END_OF_SET.split(found.group(1))[0]):
            return True
    return False


def writes_status_in_python(path: Path) -> Iterator[str]:
    """Rule 1: assignments to .status, and querysets told to write it."""
    for target in _targets(path) if _meets_rows(path) else ():
        if isinstance(target, ast.Attribute) and target.attr == "status":
            yield f"{name_of(path)}:{target.lineno} assigns .status"
    for call in calls(path):
        name = called_name(call)
        has_keyword = any(word.arg == "status" for word in call.keywords)
        has_string = "status" in _strings(call)
        if (name in QUERYSET_WRITERS and has_keyword) or (name in STRING_WRITERS and has_string):
            yield f"{name_of(path)}:{call.lineno} {name}() writes status"


def _meets_rows(path: Path) -> bool:
    """Whether a .status here can be a row's; the shim's is a process's, and it knows no Django."""
    for node in ast.walk(tree_of(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call):
            names = ["django"] if called_name(node) in STRING_WRITERS - {"setattr"} else []
        if any(name.split(".")[0] == "django" or "models" in name.split(".") for name in names):
            return True
    return False


def _targets(path: Path) -> Iterator[ast.AST]:
    """Whatever is assigned to, inside tuples too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from ast.walk(target)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield from ast.walk(node.target)


def statements_used(path: Path) -> Iterator[tuple[str, int]]:
    """Names in SQL["name"], wherever the mapping comes from."""
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and _last_name(node.value).upper().endswith("SQL")
        ):
            yield node.slice.value, node.lineno


def waits_in_celery(path: Path) -> Iterator[str]:
    """Rule 5: a wait that would live in a message, where Redis can lose it."""
    for call in calls(path):
        for word in call.keywords:
            if word.arg in WAITING_KEYWORDS:
                yield f"{name_of(path)}:{call.lineno} {called_name(call)}({word.arg}=…)"
        if called_name(call) == "retry":
            yield f"{name_of(path)}:{call.lineno} .retry(…)"


def reads_while_locking(sql: Sql) -> Iterator[str]:
    """Rule 8: under READ COMMITTED a read beside the lock sees the time before the lock."""
    all_levels = levels(sql.text)
    if not any(LOCK.search(level) for level in all_levels):
        return
    for level in all_levels:
        if not re.search(r"\bSELECT\b", level, re.IGNORECASE):
            continue
        is_counting = re.search(r"\bcount\s*\(", level, re.IGNORECASE)
        is_asking = re.search(r"\bstatus\b", level, re.IGNORECASE)
        if not (is_counting or is_asking) or not _reads_unlocked_runs(level):
            continue
        what = "counts" if is_counting else "reads the status of"
        yield f"{sql.where} {sql.name}: {what} runs in the statement that locks"


def counts_while_locking(path: Path) -> Iterator[str]:
    """Rule 8, for querysets."""
    for call in calls(path):
        methods = chain(call)
        if "select_for_update" in methods and methods & {"count", "aggregate", "exists"}:
            yield f"{name_of(path)}:{call.lineno} counts in the query that locks"


def _reads_unlocked_runs(level: str) -> bool:
    """A locked row itself is looked at again after the wait; any other row of runs is not."""
    aliases = {(alias or "runs").lower() for alias in FROM_RUNS.findall(level)} or None
    if aliases is None:
        return False
    lock = LOCK.search(level)
    if lock is None:
        return True
    if re.search(r"\bcount\s*\(", level, re.IGNORECASE):
        return True
    locked = {word.strip().lower() for word in (lock.group(1) or "").split(",") if word.strip()}
    return bool(locked) and not aliases <= locked | {"where", "order", "join", "for"}


def _strings(call: ast.Call) -> set[str]:
    return {
        node.value
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
