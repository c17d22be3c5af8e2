"""What `relay worktrees` says of what runs in worktrees. Light: every call of the command imports it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relay.base.terminal_text import tame
from relay.config.command_line import command

#: The actions of `relay worktrees` that need a running room.
RUNNING = ("run", "stop", "setup", "output")
#: Seconds between two looks, and for which the command looks: whether an app listens, how a setup ends.
LOOK_S, APP_S, SETUP_S = 0.3, 30.0, 86_400.0

Json = dict[str, Any]


async def follow(action: str, answer: Json, look: Callable[[], Json]) -> Json:
    """The answer to `run` or `setup`, with what came of it: `app` or `setup`, as the room shows them. `look` asks the
    room, and blocks."""
    part, until = ("app", APP_S) if action == "run" else ("setup", SETUP_S)
    give_up = time.monotonic() + until
    while True:
        told = (await asyncio.to_thread(look))[part]
        over = told is not None and told["state"] not in ("starting", "running", "due", "stopping")
        if over or time.monotonic() > give_up:
            break
        await asyncio.sleep(LOOK_S)
    if told is None:
        return answer
    failed = told["state"] in ("exited", "failed")
    said = _app(told) if part == "app" else _setup(told)
    last = _last(told["output"]) if failed else []
    reason = "\n".join([f"{answer['reason']} {said[:1].upper()}{said[1:]}.", *last])
    return {**answer, "success": not failed, "reason": reason, part: told}


def stands_with(worktree: Mapping[str, Any]) -> list[str]:
    """Lines of a worktree's row: its disk use and ports, its setup where it is not well, its app where it runs."""
    lines, parts = [], []
    if (disk := worktree.get("disk")) is not None:
        parts.append(f"{'' if disk['whole'] else 'at least '}{_size(disk['bytes'])} on disk")
    if (ports := worktree.get("ports")) is not None:
        parts.append(f"ports {ports[0]}-{ports[1]}" if ports[1] > ports[0] else f"port {ports[0]}")
    if parts:
        lines.append("; ".join(parts))
    setup, app = worktree.get("setup"), worktree.get("app")
    if setup is not None and (setup["state"] != "done" or setup["notes"]):
        lines.append(_setup(setup))
    if app is not None and app["state"] != "stopped":
        run = command(f"worktrees run {worktree['agent']}")
        lines.append(_app(app) + f"; {run} starts it again" * (app["state"] == "interrupted"))
    return lines


def taken(disk: Mapping[str, Any] | None) -> list[str]:
    """The line of all worktrees together, where there is a limit; and what could be removed, where it is reached."""
    if disk is None or disk["cap"] is None:
        return []
    text = f"All take {_size(disk['bytes'])} of {_size(disk['cap'])}"
    if not disk["full"]:
        return [f"{text}."]
    names = disk["removable"]
    first = f" Landed and idle: {', '.join(names)}. {command(f'worktrees remove {names[0]}')} removes one."
    return [f"{text}: no new worktree is made.{first if names else ''}"]


def printed(told: Mapping[str, Any]) -> str:
    """What the setup and the app of a worktree printed."""
    blocks = []
    for name, part, said in (("Setup", told["setup"], _setup), ("App", told["app"], _app)):
        if part is not None:
            blocks.append(f"{name}: {said(part)}.\n{part['output'].rstrip()}".rstrip())
    return "\n\n".join(blocks) or "Nothing has run in it."


def _app(app: Mapping[str, Any]) -> str:
    if app["state"] == "listening":
        return f"the app listens at {app['url']}"
    if app["state"] in ("exited", "interrupted"):
        return f"the app {app['reason']}"
    return {
        "starting": "the app is being started",
        "running": "the app runs, and listens on no port yet",
        "stopping": "the app is being ended",
        "stopped": "the app is stopped",
    }[app["state"]]


def _setup(setup: Mapping[str, Any]) -> str:
    notes = f"; not copied: {'; '.join(setup['notes'])}" if setup["notes"] else ""
    if setup["state"] == "failed":
        return f"the setup failed: {setup['reason']}{notes}"
    words = {"due": "the setup is due", "running": "the setup runs", "done": "the setup is done"}
    return f"{words[setup['state']]}{notes}"


def _last(output: str) -> Sequence[str]:
    lines = str(tame(output)).rstrip().splitlines()
    return [f"  {line}" for line in lines[-10:]]


def _size(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
