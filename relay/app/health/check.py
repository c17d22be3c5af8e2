"""Looks whether the room is well, and mends it when asked (`bash healthcheck.sh [--repair] [--json]`).

Invariant: the exit code is what the last look saw, after a repair too: 0 well (warnings and all), 1 not, 2
wrong use. Nothing is written without `--repair`; with a live daemon there, only the daemon mends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

import structlog

from relay.app.health import data, files, fleet, notify, outside, process
from relay.app.health.context import Check, CheckContext, Status, failed, survey, warning, with_store
from relay.app.health.repair import Repaired, repair_stopped
from relay.app.runtime.instance import DaemonState
from relay.config.command_line import about, script
from relay.config.locate import add_config_option, find
from relay.store.ports import StoreError

#: What follows the log, or the file, a moment later.
_LAGGING = ("transcript", "projections")
#: Seconds in which a daemon that is well has written a token again that was removed.
TOKEN_S = 6.0
Looking = Callable[[CheckContext], Awaitable[Check]]


@dataclass(frozen=True, slots=True)
class Report:
    """What the last look saw."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.status is not Status.FAILED for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [check.as_json() for check in self.checks]}


async def examine(config: str | None = None, *, repair: bool = False) -> Report:
    """Look at the room of that configuration; with `repair`, mend it and look again."""
    checks = await look(config)
    if repair:
        mended = await mend(survey(config, time.time()))
        checks = [_with_mended(check, mended) for check in await look(config)]
        undone = [step for step in mended if not step.done]
        if undone:
            text = "; ".join(f"{step.name}: {step.detail}" for step in undone)
            checks.append(warning("repair", text))
    return Report(tuple(checks))


def _with_mended(check: Check, mended: Sequence[Repaired]) -> Check:
    about = tuple(repair.detail for repair in mended if repair.done and repair.name == check.name)
    return replace(check, mended=about)


async def look(config: str | None) -> list[Check]:
    """Every check, in the order of the report."""
    async with with_store(survey(config, time.time())) as context:
        checks = [process.config(context), await process.daemon(context), process.lock(context)]
        checks += [files.folder(context), files.disk(context)]
        checks.append(await _guarded("transcript", files.transcript, context))
        checks.append(await _guarded("database", data.database, context))
        for check in data.OF_THE_DATABASE:
            checks.append(await _of_database(check.__name__, check, context))
        if context.store is not None:
            main = await _guarded("main", data.main_branch, context)
            checks += [main] if main.status is not Status.OK else []
        if context.settings.notify:
            checks.append(await _of_database("notify", notify.notify, context))
        if context.settings.storage == "postgres":
            checks.append(await _of_database("fleet", fleet.members, context))
        checks += [await outside.ollama(context), outside.agents(context), await outside.worktrees(context)]
        return checks


async def _of_database(name: str, check: Looking, context: CheckContext) -> Check:
    if context.store is None:
        status = Status.WARNING if context.store_is_missing else Status.FAILED
        return Check(name, status, "not checked: see `database`")
    return await _guarded(name, check, context)


async def _guarded(name: str, check: Looking, context: CheckContext) -> Check:
    """A table that is missing or unreadable, or a file that goes away meanwhile, is a finding."""
    of_the_engine = context.store.errors if context.store else StoreError
    try:
        seen = await check(context)
        # A daemon at work needs a moment for what was just written: its lag is no finding.
        answers = context.daemon_state is DaemonState.RUNNING
        for _ in range(8 if context.store and answers and name in _LAGGING else 0):
            if seen.status is Status.OK:
                break
            await asyncio.sleep(0.25)
            seen = await check(context)
        return seen
    except (StoreError, of_the_engine, OSError, ValueError, KeyError, TypeError) as error:
        return failed(name, f"it could not be checked: {type(error).__name__}: {error}")


async def mend(context: CheckContext) -> list[Repaired]:
    """Repair through the live daemon, or here when there is none."""
    if not context.live:
        return await repair_stopped(context.settings, context.now)
    mended = await _token_again(context)
    try:
        repairs = await process.ask_repair(context)
        return mended + [
            Repaired(repair["name"], repair["detail"], repair.get("done", True)) for repair in repairs
        ]
    except (OSError, KeyError, TypeError) as error:
        why = f"the daemon runs but repaired nothing: {error}"
        return [Repaired("daemon", f"{why}. {script('stop.sh')}, then repair again", done=False)]


async def _token_again(context: CheckContext) -> list[Repaired]:
    """A repair by the daemon needs the token. The daemon writes a missing one again within seconds."""
    name, give_up = context.settings.token_path.name, time.monotonic() + TOKEN_S
    if process.token(context):
        return []
    while not process.token(context):
        if time.monotonic() > give_up:
            return []
        await asyncio.sleep(0.1)
    return [Repaired("folder", f"the daemon wrote {name} again")]


_MARKS = {Status.OK: ("✓", "32"), Status.WARNING: ("!", "33"), Status.FAILED: ("✗", "31")}


def show(report: Report, out: TextIO) -> None:
    """Lines for people; colours on a terminal only."""
    coloured = out.isatty() and "NO_COLOR" not in os.environ
    width = max(len(check.name) for check in report.checks)
    gap = " " * (width + 4)
    for check in report.checks:
        mark, colour = _MARKS[check.status]
        mark = f"\x1b[{colour}m{mark}\x1b[0m" if coloured else mark
        print(f"{mark} {check.name:<{width}}  {_plain(check.detail, gap)}", file=out)
        for repair in check.mended:
            print(f"{gap}repaired: {_plain(repair, gap)}", file=out)
        if check.fix and check.status is not Status.OK:
            print(f"{gap}-> {_plain(check.fix, gap)}", file=out)
    print(_verdict(report), file=out)


def _plain(text: str, gap: str) -> str:
    """What is in a file or a database may hold escape sequences; a terminal must not see them."""
    lines = ["".join(c if c.isprintable() else "?" for c in line) for line in text.splitlines()]
    return f"\n{gap}".join(lines)


def _verdict(report: Report) -> str:
    names = [check.name for check in report.checks if check.status is Status.FAILED]
    warnings = sum(check.status is Status.WARNING for check in report.checks)
    if names:
        return f"\nThe room is not well: {', '.join(names)}."
    text = f" ({warnings} warning{'s' * (warnings != 1)})" if warnings else ""
    return f"\nThe room is well{text}."


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="healthcheck.sh", description="Check whether the room is well.")
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired, then check again")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_config_option(parser)
    given = parser.parse_args(arguments)
    # The report says what the log lines would; standard output is the report's alone.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    about(find(given.config))
    report = asyncio.run(examine(given.config, repair=given.repair))
    try:
        if given.json:
            print(json.dumps(report.as_json(), ensure_ascii=False, indent=1))
        else:
            show(report, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python must not try to flush it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if report.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
