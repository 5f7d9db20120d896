"""What the documentation promises to be complete is, and what it points at is there."""

import re

import pytest

from tests.house.reading import ROOT

VARIABLE = re.compile(r"\b(?:CHRONO_[A-Z_]+[A-Z]|DATABASE_URL|REDIS_URL)\b")
READ = re.compile(
    r"(?:env\.(?:text|integer|seconds|boolean|words|get)|_(?:number|seconds|secret))"
    r'\(\s*(?:env, )?"([A-Z_]+)"'
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
READERS = ("chronoproject/settings.py", "chronoproject/up/config.py")
PAGES = [
    "README.md",
    *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_setting_has_a_row_and_every_row_a_setting() -> None:
    read = {name for reader in READERS for name in READ.findall(text_of(reader))}
    read = {name.removesuffix("_FILE") for name in read} | {"CHRONO_PYTHON"}  # bin/python.sh
    rows = [line for line in text_of("docs/reference/settings.md").splitlines() if line[:1] == "|"]
    described = {name for row in rows for name in VARIABLE.findall(row.split("|")[1])}
    assert len(read) > 40
    assert described == read


@pytest.mark.parametrize("page", PAGES)
def test_a_page_links_to_what_is_there(page: str) -> None:
    targets = LINK.findall(text_of(page))
    assert [one for one in targets if not (ROOT / page).parent.joinpath(one).exists()] == []


def test_the_readme_links_every_how_to_and_reference() -> None:
    linked = set(LINK.findall(text_of("README.md")))
    pages = {page for page in PAGES if page.startswith(("docs/howto/", "docs/reference/"))}
    assert pages <= linked
