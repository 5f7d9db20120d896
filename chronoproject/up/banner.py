"""What a person reads when Chrono is ready."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from chronoproject.up.config import Config


def banner(config: Config, credentials: Mapping[str, str], up_json: Path, *, is_first: bool) -> str:
    """Addresses, login and a first job. Secrets are spelled out at the first start only."""
    token, password = credentials["api_token"], credentials["admin_password"]
    if not is_first:
        token = f'$(sed -n \'s/.*"api_token": "\\(.*\\)".*/\\1/p\' {shlex.quote(str(up_json))})'
        password = f"as at the first start; it is in {up_json}"
    base = config.base_url
    call = f'curl -sS -H "Authorization: Bearer {token}"'
    return f"""
Chrono is ready.

  API      {base}/v1/   (team {credentials["team"]}; described at {base}/v1/openapi.json)
  Admin    {base}/admin/   user {credentials["admin_user"]}, password {password}
  Flower   {config.flower_url}/
  Files    {config.home}   (up.json has all of the above; logs/ what every process says)

A first job, due in five seconds; paste it:

  {call} -H "Content-Type: application/json" {base}/v1/jobs \
-d '{{"name": "hello-'$(date +%s)'", "command": "echo hello from Chrono", \
"schedule": {{"runAt": "'$(date -u -d @$(($(date +%s) + 5)) +%Y-%m-%dT%H:%M:%SZ)'"}}}}'

Its run, with the "id" of that answer as JOB_ID; then the run's log, with its "id" as RUN_ID:

  {call} {base}/v1/jobs/JOB_ID/runs
  {call} {base}/v1/runs/RUN_ID/logs
"""
