"""The SQL statements of dag by name."""

from pathlib import Path

from chronoproject import sql

SQL = sql.load(Path(__file__).parent / "sql")
