"""Ends what a killed supervisor left behind. Its children have had their death signal already, so
mostly this waits; nothing is signalled unless it is certainly one of ours."""

import signal
import time
from collections.abc import Callable, Mapping

from chronoproject import linux
from chronoproject.linux import Identity
from chronoproject.up.faults import UpError
from chronoproject.up.home import Home

# Long enough for a shutdown checkpoint; a worker's drain is cut short, its runs' leases see to it.
PATIENCE_SEC = 10.0
LAST_WAIT_SEC = 10.0
STEP_SEC = 0.1


def end_leftovers(home: Home, recorded: Mapping[str, Identity], say: Callable[[str], None]) -> None:
    """Return once none of the recorded processes, nor any of their groups, lives."""
    if not _living(home, recorded):
        return
    say(f"waiting for what an earlier supervisor left: {', '.join(_living(home, recorded))}")
    for sig, patience in ((None, PATIENCE_SEC), (signal.SIGKILL, LAST_WAIT_SEC)):
        if sig is not None:
            for name in _living(home, recorded):
                say(f"{name} (group {recorded[name].pid}) does not end: killed")
                linux.signal_group(recorded[name].pid, sig)
        deadline = time.monotonic() + patience
        while living := _living(home, recorded):
            if time.monotonic() > deadline:
                break
            time.sleep(STEP_SEC)
        else:
            return
    raise UpError(f"an earlier {living[0]} (pid {recorded[living[0]].pid}) still lives")


def _living(home: Home, recorded: Mapping[str, Identity]) -> list[str]:
    return [name for name, one in recorded.items() if one.lives() or _group_is_ours(home, one)]


def _group_is_ours(home: Home, leader: Identity) -> bool:
    """A group outlives its leader. Its number is ours as long as only our processes are in it."""
    if leader.boot != linux.boot_id():
        return False
    members = linux.group_members(leader.pid)
    homes = {linux.environment(pid).get("CHRONO_HOME") for pid in members}
    return homes == {str(home.path)}
