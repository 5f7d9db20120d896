"""Ends what a killed supervisor left behind. Its children have had their death signal already, so
mostly this waits; nothing is signalled unless it is certainly one of ours."""

import signal
import time
from collections.abc import Callable, Mapping

from chronoproject import linux
from chronoproject.linux import Identity
from chronoproject.up.faults import UpError
from chronoproject.up.home import Home

# A worker's drain is cut short: its database has gone, and its runs' leases see to the rest.
PATIENCE_SEC = 5.0
# A database may have much to write before it ends.
SERVER_PATIENCE_SEC = 30.0
SERVERS = ("postgres", "valkey")
LAST_WAIT_SEC = 10.0
STEP_SEC = 0.1


def end_leftovers(home: Home, recorded: Mapping[str, Identity], say: Callable[[str], None]) -> None:
    """Return once none of the recorded processes, nor any of their groups, lives."""
    began = time.monotonic()
    killed: set[str] = set()
    while left := living(home, recorded):
        waited = time.monotonic() - began
        for name, one in left.items():
            patience = SERVER_PATIENCE_SEC if name in SERVERS else PATIENCE_SEC
            # Without its leader a group has nobody who would end it.
            if name not in killed and (waited > patience or not one.lives()):
                say(f"an earlier {name} (group {one.pid}) did not end: killed")
                linux.signal_group(one.pid, signal.SIGKILL)
                killed.add(name)
            if waited > patience + LAST_WAIT_SEC:
                raise UpError(f"an earlier {name} (pid {one.pid}) still lives")
        time.sleep(STEP_SEC)


def living(home: Home, recorded: Mapping[str, Identity]) -> dict[str, Identity]:
    """Return those of the recorded processes of which anything lives."""
    return {name: one for name, one in recorded.items() if _lives(home, one)}


def _lives(home: Home, leader: Identity) -> bool:
    return leader.lives() or _group_is_ours(home, leader)


def _group_is_ours(home: Home, leader: Identity) -> bool:
    """A group outlives its leader. Its number is ours as long as only our processes are in it."""
    if leader.boot != linux.boot_id():
        return False
    members = linux.group_members(leader.pid)
    homes = {linux.environment(pid).get("CHRONO_HOME") for pid in members}
    return homes == {str(home.path)}
