"""What holds for every file: no trace of one machine, and sizes that can be read."""

import ast
import re
from pathlib import Path

import pytest

from tests.house.reading import app_modules, files, name_of, tree_of

# Homes and workplaces of one machine; system directories that every Linux has are fine.
MACHINE_PATH = re.compile(r"(?<![\w./~*-])/(?:root|home|work|workspace|Users|farm)/[\w.-]+")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # a picture


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("see /" + "root/secret", True),
        ('Path("/' + 'home/ann/x")', True),
        ("/etc/passwd and /tmp/x", False),
        ("docs/work/plan", False),
        ("https://example.org/home/page", False),
    ],
)
def test_a_machine_path_is_found(text: str, is_found: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is is_found


def test_no_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


def test_modules_are_short_enough_to_read() -> None:
    lengths = {name_of(path): len(text_of(path).splitlines()) for path in files(".py")}
    generated = {name for name in lengths if "/migrations/" in name}
    assert {n: size for n, size in lengths.items() if size > MAX_FILE_LINES}.keys() <= generated


def test_functions_are_short_enough_to_read() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {node.name} {(node.end_lineno or 0) - node.lineno + 1}"
        for path in app_modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert found == []
