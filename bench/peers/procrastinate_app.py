"""Procrastinate's task for bench.throughput: each execution leaves a byte in PEER_HOME/done."""

import os

from procrastinate import App, PsycopgConnector

DONE = os.open(f"{os.environ['PEER_HOME']}/done", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

app = App(connector=PsycopgConnector(conninfo=os.environ["DB"]))


@app.task(name="noop")
async def noop() -> None:
    """Do nothing but be counted."""
    os.write(DONE, b".")
