"""What a supervisor leaves in writing: up.json for people and checkers, processes.json for the next
supervisor, which must know for certain whether a pid is still the process that we started."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from chronoproject.linux import Identity
from chronoproject.up.config import Config
from chronoproject.up.faults import UpError
from chronoproject.up.home import Home, write_private


def write_up_json(
    home: Home,
    config: Config,
    credentials: Mapping[str, str],
    urls: Mapping[str, str],
    processes: Mapping[str, Identity],
) -> None:
    state = {
        "api_url": config.base_url,
        "admin_url": f"{config.base_url}/admin/",
        "flower_url": config.flower_url,
        "admin_user": credentials["admin_user"],
        "admin_password": credentials["admin_password"],
        "api_token": credentials["api_token"],
        "team": credentials["team"],
        "database_url": urls["database_url"],
        "redis_url": urls["redis_url"],
        "processes": [{"name": name, "pid": one.pid} for name, one in processes.items()],
    }
    write_private(home.up_json, json.dumps(state, indent=2) + "\n")


def read_up_json(home: Home) -> dict[str, Any] | None:
    """None unless Chrono is ready."""
    try:
        return dict(json.loads(home.up_json.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise UpError(f"cannot read {home.up_json}: {fault}") from fault


def write_processes(home: Home, processes: Mapping[str, Identity]) -> None:
    write_private(
        home.processes, json.dumps({name: asdict(one) for name, one in processes.items()})
    )


def read_processes(home: Home) -> dict[str, Identity]:
    try:
        stored = json.loads(home.processes.read_text(encoding="utf-8"))
        return {name: Identity(**fields) for name, fields in stored.items()}
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise UpError(f"cannot read {home.processes}: {fault.strerror}") from fault
    except (ValueError, TypeError, AttributeError) as fault:
        raise UpError(f"{home.processes} is damaged ({fault}); remove it") from fault


def forget(home: Home) -> None:
    home.up_json.unlink(missing_ok=True)
    home.processes.unlink(missing_ok=True)
