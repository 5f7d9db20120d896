"""How the house tests read the house: its files, syntax trees and SQL statements."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("chronoproject", "jobs", "runs", "dag")
SKIPPED_DIRS = frozenset({".git", ".venv", "var", "__pycache__", "staticfiles", ".hypothesis"})
STATEMENT = re.compile(r"\b(SELECT|UPDATE|INSERT INTO)\b[\s\S]*\b(FROM|SET|VALUES)\b")
NAME_LINE = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Files of the project with one of the suffixes, all of them when none is given."""

    def walk(directory: Path) -> Iterator[Path]:
        for entry in sorted(directory.iterdir()):
            if entry.is_symlink() or entry.name in SKIPPED_DIRS or entry.name.endswith("_cache"):
                continue
            if entry.is_dir():
                yield from walk(entry)
            elif not suffixes or entry.suffix in suffixes:
                yield entry

    return tuple(walk(ROOT))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def app_modules() -> list[Path]:
    """What ships: no tests, no benchmarks, no migrations."""
    return [
        path
        for path in files(".py")
        if path.relative_to(ROOT).parts[0] in APPS and "migrations" not in path.parts
    ]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement, from a named one of a .sql file or from a string in Python code."""

    where: str
    name: str
    text: str


def sql_files() -> list[Sql]:
    found = []
    for path in files(".sql"):
        pieces = NAME_LINE.split(path.read_text(encoding="utf-8"))
        for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
            found.append(Sql(name_of(path), name, bare(text)))
    return found


def sql_strings() -> list[Sql]:
    """Strings in Python code that look like statements."""
    return [
        Sql(name_of(path), f"line {node.lineno}", bare(node.value))
        for path in app_modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(
            r"\b(SELECT|UPDATE|INSERT INTO|DELETE FROM)\b[\s\S]*\b(FROM|SET|VALUES)\b", node.value
        )
    ]


def bare(sql: str) -> str:
    """A statement without comments and without what stands in quotes."""
    sql = re.sub(r"--[^\n]*", "", sql)
    sql = re.sub(r"/\*[\s\S]*?\*/", "", sql)
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


def levels(sql: str) -> list[str]:
    """The query levels of a statement: each without what stands in its parentheses."""
    done: list[str] = []
    stack = [""]
    for char in sql:
        if char == "(":
            stack[-1] += "("
            stack.append("")
        elif char == ")" and len(stack) > 1:
            done.append(stack.pop())
            stack[-1] += ")"
        else:
            stack[-1] += char
    return [*done, *stack]


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield node


def called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def chain(call: ast.Call) -> set[str]:
    """Names of the methods in `a.b().c().d()`."""
    found = set()
    node: ast.expr = call
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
            node = node.value
        else:
            node = node.func
    return found
