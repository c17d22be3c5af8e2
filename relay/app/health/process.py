"""The daemon and what says that it runs: its record, its pid file, its answer.

Invariant: a pid alone proves nothing (see relay.app.runtime.instance), and neither does a record: the daemon is
well only when its event loop has just answered.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from relay.app.health.context import Check, CheckContext, failed, ok, warning, worst
from relay.app.health.files import mends
from relay.app.runtime.instance import DaemonState, InstanceRecord
from relay.base.files import TOKEN_BYTES, read_regular
from relay.config.command_line import command, script
from relay.store.ports import StoreError

ANSWER_S = 5.0
#: A repair rebuilds projections, which takes its time in a big room.
REPAIR_S = 120.0
#: What GET /health says where the room runs and a part of it does not.
NOT_WELL = "not well"


def config(context: CheckContext) -> Check:
    if context.config_error:
        return failed("config", context.config_error, "Fix the file; the other checks use the defaults.")
    agents = len(context.settings.agents)
    return ok("config", f"{context.settings.path.name}: {agents} agent{'s' * (agents != 1)}")


def address(context: CheckContext) -> str | None:
    """Where the daemon serves HTTP: from state.json if that is its own, else from its record."""
    try:
        state = json.loads(read_regular(context.settings.state_path))
        if (
            context.record is not None
            and state["pid"] == context.record.pid
            and isinstance(state["url"], str)
        ):
            return str(state["url"]).rstrip("/")
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the record says it too
    return context.record.address.rstrip("/") if context.record and context.record.address else None


async def daemon(context: CheckContext) -> Check:
    """Is it there, and does its event loop answer?"""
    record = context.record
    if record is None or context.daemon_state is DaemonState.GONE:
        if other := await _elsewhere(context):
            return failed(
                "daemon",
                f"relay is not running here; another daemon has its place in the database: {other}",
                "Stop that one there, or give this one another name (`fleet.name`), before you start it.",
            )
        return failed("daemon", "relay is not running", f"{script('scripts/start.sh')} starts it.")
    who = f"pid {record.pid} on {record.host}"
    if context.daemon_state is DaemonState.SILENT:
        age = context.now - record.heartbeat_at
        return failed(
            "daemon",
            f"{who} exists, but its last heartbeat is {age:.0f} s old: it hangs or is suspended",
            f"{script('stop.sh')} ends it; {script('scripts/start.sh')} starts it again.",
        )
    url = address(context)
    if url is None:
        return failed("daemon", f"{who} runs but does not accept connections yet", "Check again in a moment.")
    began = time.monotonic()
    trouble, why = await _health(url, token(context))
    if trouble == NOT_WELL:
        # Where the database is away for this process too, `database` says why, once.
        if context.store_is_away or (not why and context.store is None):
            why = "its database cannot be opened"
        why = why or "a part of it keeps failing and is restarted"
        return failed(
            "daemon", f"{who} answers at {url} and is not well: {why}", f"{command('log')} says more."
        )
    if trouble:
        return failed(
            "daemon",
            f"{who} does not answer at {url}: {trouble}",
            f"{command('log')} says more; {script('stop.sh')} ends it.",
        )
    took = (time.monotonic() - began) * 1000
    return ok("daemon", f"{who} answers at {url} within {took:.0f} ms")


def token(context: CheckContext) -> str:
    """The room's token; empty when there is none to be read."""
    try:
        return read_regular(context.settings.token_path, TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


async def _elsewhere(context: CheckContext) -> str:
    """Whose daemon the database has; empty where it has none, or cannot be asked (`database` says so then)."""
    if context.store is None:
        return ""
    with contextlib.suppress(StoreError, context.store.errors, OSError):
        return await context.store.daemon(context.settings.member_name)
    return ""


async def _health(url: str, key: str) -> tuple[str, str]:
    """What is wrong with the answer of GET /health, empty when nothing is; and what the room says is wrong."""
    try:
        status, body = await _asked("GET", f"{url}/health", key, aiohttp.ClientTimeout(total=ANSWER_S))
        if status == 200 and json.loads(body).get("ok") is True:
            return "", ""
        if status == 503 and json.loads(body).get("ok") is False:
            return NOT_WELL, str(json.loads(body).get("trouble", ""))
        return f"HTTP {status}: {body[:200]}", ""
    except TimeoutError:
        return f"no answer within {ANSWER_S:g} s", ""
    except (ValueError, AttributeError):
        return "its answer is not a health report: another program may have the port", ""
    except (aiohttp.ClientError, OSError) as error:
        return str(error) or type(error).__name__, ""


async def _asked(method: str, url: str, key: str, limit: aiohttp.ClientTimeout) -> tuple[int, str]:
    """The status and the text of the daemon's answer."""
    headers = {"X-API-Key": key} if key else {}
    async with (
        aiohttp.ClientSession(timeout=limit, headers=headers) as client,
        client.request(method, url, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text()


async def ask_repair(context: CheckContext) -> list[dict[str, Any]]:
    """Have the live daemon mend (POST /api/repair). Raises OSError with why it did not."""
    url = address(context)
    if url is None:
        raise OSError("it does not accept connections")
    key = token(context)
    if not key:
        raise OSError(
            f"{context.settings.token_path.name} cannot be read; the daemon writes it again by itself"
        )
    try:
        limit = aiohttp.ClientTimeout(total=REPAIR_S, sock_connect=ANSWER_S)
        status, body = await _asked("POST", f"{url}/api/repair", key, limit)
        if status != 200:
            raise OSError(f"it said HTTP {status}: {body[:200]}")
        return list(json.loads(body)["repaired"])
    except TimeoutError:
        raise OSError("it did not answer in time") from None
    except (aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
        raise OSError(str(error) or type(error).__name__) from None


async def fleet_trouble(context: CheckContext) -> str | None:
    """What the live daemon says of the fleet's git remote (GET /api/state); None: it cannot be asked."""
    url = address(context) if context.live else None
    if url is None:
        return None
    try:
        limit = aiohttp.ClientTimeout(total=ANSWER_S)
        status, body = await _asked("GET", f"{url}/api/state", token(context), limit)
        return str(json.loads(body)["fleet"]["remote"]["trouble"]) if status == 200 else None
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):
        return None


def lock(context: CheckContext) -> Check:
    """The single-instance record and the pid file."""
    path, seen = context.settings.lock_path, []
    mend = mends()
    if context.record_error:
        seen.append(failed("lock", context.record_error, mend))
    record = context.record
    if record is not None and context.daemon_state is DaemonState.GONE:
        other = psutil.pid_exists(record.pid) and record.host == InstanceRecord.own().host
        what = f"pid {record.pid} is another program now" if other else f"pid {record.pid} is gone"
        seen.append(warning("lock", f"{path.name} is stale: {what}", mend))
    elif record is not None and context.daemon_state is DaemonState.SILENT:
        age = context.now - record.heartbeat_at
        seen.append(warning("lock", f"{path.name} has a heartbeat {age:.0f} s old"))
    elif record is not None and record.host != InstanceRecord.own().host:
        text = f"{path.name} is held from another machine, {record.host} (pid {record.pid})"
        seen.append(warning("lock", text, "Stop it there before you start it here."))
    pid = pid_of(context.settings.pid_path)
    if pid is not None and pid != (record.pid if record and context.live else None):
        text = f"{context.settings.pid_path.name} names pid {pid or 'nobody'}, which is not the daemon"
        seen.append(warning("lock", text, mends()))
    held = f"{path.name} is pid {record.pid}'s" if record else f"no {path.name}, as expected"
    return worst("lock", seen, held)


def pid_of(path: Path) -> int | None:
    """The pid file's pid, 0 when it is damaged, None when there is none."""
    try:
        return int(read_regular(path).split()[0])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, IndexError):
        return 0
