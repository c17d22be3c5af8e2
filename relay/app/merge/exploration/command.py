"""`relay explore`: try a task in several ways at once, compare what comes of it, and keep the best.

Invariant: with a running room the room does the work and this command watches; without one it is done here, with the
same rows and events, and a killed command is gone on from by the next one or by the room. Exit code 0 = did it (what
came of it can be compared), 1 = could not, 2 = wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.access.git_person import git_person
from relay.app.merge.exploration import orders
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import agents_key
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import fail, indented, safe_line
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import LiveSettings, Settings
from relay.merge.exploration import journal, wording
from relay.merge.exploration.config import MOST, ExplorationConfig, Policy
from relay.merge.exploration.config_file import BadFile, load_exploration
from relay.merge.exploration.journal import OVER, Exploration, State, Status, VariantRun
from relay.model import Fault, Refusal, references
from relay.model.references import Thing
from relay.store.open import opened_store
from relay.store.ports import Store, StoreMissing

#: Words that are an action, and no task.
ACTIONS = ("compare", "take", "end", "list")
#: Seconds between two looks at an exploration that the room carries.
LOOK_S = 0.5
#: Explorations that `list` shows.
MOST_LISTED = 50


def _starter() -> argparse.ArgumentParser:
    text = (
        "Do a task in several ways at once, each in a worktree of its own, and keep the best. Or: "
        "`compare ID`, `take ID VARIANT`, `end ID`, `list`."
    )
    parser = argparse.ArgumentParser(prog="relay explore", description=text)
    parser.add_argument(
        "what", metavar="FILE|TASK", help="a YAML file (docs/explore.md), or what is to be done, in quotes"
    )
    of_task = parser.add_argument_group("with a TASK")
    of_task.add_argument("--variants", type=int, default=3, metavar="N", help=f"how many (3; {MOST} at most)")
    of_task.add_argument("--select", choices=[*Policy], help="how the winner is chosen (human_review)")
    of_task.add_argument("--seconds", type=float, metavar="S", help="that each variant may take (1800)")
    of_task.add_argument("--tokens", type=int, metavar="N", help="that each may use (no limit)")
    of_task.add_argument("--tool-calls", type=int, metavar="N", help="that each may make (no limit)")
    of_task.add_argument("--usd", type=float, metavar="USD", help="that each may cost (no limit)")
    return parser


def _actor(action: str) -> argparse.ArgumentParser:
    text = {
        "compare": "The comparison of an exploration's variants.",
        "take": "Merge a variant, with single files from others where wanted.",
        "end": "End an exploration that waits for a choice, and merge nothing.",
        "list": "The newest explorations.",
    }[action]
    parser = argparse.ArgumentParser(prog=f"relay explore {action}", description=text)
    if action != "list":
        parser.add_argument("id", metavar="ID", help="as the room named it: x3")
    if action == "take":
        parser.add_argument("variant", metavar="VARIANT", help="the variant's name")
        parser.add_argument(
            "--file",
            action="append",
            default=[],
            metavar="PATH=VARIANT",
            help="take this file from another variant (again for more)",
        )
    return parser


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    action = next((word for word in words if not word.startswith("-")), "")
    action = action if action in ACTIONS else ""
    parser = _actor(action) if action else _starter()
    add_config_option(parser)
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    if action:
        words = list(words)
        words.remove(action)
    args = parser.parse_args(words)
    settings = load_for_command(args.config)
    try:
        return asyncio.run(_act(settings, action, args))
    except StoreMissing as missing:
        return fail(f"{missing}; the room has not run yet")
    except BadFile as bad:
        return fail(str(bad), 2)
    except Refusal as refusal:
        return fail(str(refusal), 2 if refusal.fault is Fault.MALFORMED else 1)
    except OSError as error:
        return fail(f"{error.filename or args.config}: {error.strerror}", 2)


async def _act(settings: Settings, action: str, args: argparse.Namespace) -> int:
    if action in ("compare", "list"):
        async with opened_store(settings, SCHEMAS, create=False) as store:
            return await (_compare if action == "compare" else _list)(store, args)
    if agents_key():
        raise Refusal("Only a person orders that, and this is an agent's turn.", "Ask a person.")
    by = args.name or git_person(settings.repo, settings.agent_names)
    config = None if action else _wanted(settings, args)
    async with opened_store(settings, SCHEMAS) as store:
        if config is not None:
            number = (await store.write(lambda tx: orders.begin(tx, settings, config, by=by))).number
        else:
            number = _number(args.id)
            if action == "end":
                text = await store.write(lambda tx: orders.end(tx, number, by=by))
            else:
                files = _files(args.file)
                text = await store.write(lambda tx: orders.take(tx, number, args.variant, files, by=by))
            if not args.json:
                print(indented(text))
        await _carried(store, settings, number, None if args.json else _printer())
        exploration, runs = await _read(store, number)
    print(json.dumps(exploration.as_json(runs)) if args.json else _shown(exploration, runs))
    if action == "end":
        return 0 if exploration.state is State.ENDED else 1
    if action == "take":
        return 0 if exploration.state is State.DONE else 1
    return 0 if any(run.status is Status.COMPLETED for run in runs) else 1


def _wanted(settings: Settings, args: argparse.Namespace) -> ExplorationConfig:
    """What is to be explored: of the file, or of the task. Raises BadFile, OSError, Refusal."""
    path = Path(args.what)
    if path.suffix in (".yaml", ".yml") or (len(args.what) < 256 and path.is_file()):
        given = [args.select, args.seconds, args.tokens, args.tool_calls, args.usd]
        if any(value is not None for value in given):
            raise Refusal("A file says its own budget and policy.", "Change them there.", Fault.MALFORMED)
        return load_exploration(path)
    if not args.what.strip():
        raise Refusal("The task is empty.", "Say what is to be done, in quotes.", Fault.MALFORMED)
    if args.select == Policy.AGENT_REVIEW:
        raise Refusal("An agent that reviews is named in a file.", "See docs/explore.md.", Fault.MALFORMED)
    config = orders.of_words(settings, args.variants, args.what)
    limits = {
        "max_duration_seconds": args.seconds,
        "max_tokens": args.tokens,
        "max_tool_calls": args.tool_calls,
        "max_cost_usd": args.usd,
    }
    wanted = {name: value for name, value in limits.items() if value is not None}
    if any(not value > 0 for value in wanted.values()):
        raise Refusal("A limit must be above 0.", "", Fault.MALFORMED)
    policy = config.policy if args.select is None else Policy(args.select)
    return replace(config, budget=replace(config.budget, **wanted), policy=policy)


def _number(text: str) -> int:
    found = references.read(text, Thing.EXPLORATION)
    if found is None or found[0] is not Thing.EXPLORATION:
        raise Refusal(f"{text[:60]!r} is no exploration.", "Write it as the room did: x3.", Fault.MALFORMED)
    return found[1]


def _files(words: list[str]) -> Mapping[str, str]:
    files = {}
    for word in words:
        path, cut, variant = word.rpartition("=")
        if not cut or not path or not variant:
            raise Refusal(f"{word[:200]!r} is not PATH=VARIANT.", "", Fault.MALFORMED)
        files[path] = variant
    return files


async def _carried(
    store: Store, settings: Settings, number: int, tell: Callable[[list[VariantRun]], None] | None
) -> None:
    """Wait until the exploration is over or waits for people; do the work here where no room runs."""
    try:
        runs_here = instance.running(settings) is None
    except instance.DamagedRecord as error:
        raise Refusal(f"{error}, so it is not known whether the room runs.") from error

    async def watch() -> None:
        while True:
            exploration, runs = await _read(store, number)
            if tell is not None:
                tell(runs)
            if exploration.state in (*OVER, State.WAITING):
                return
            await asyncio.sleep(LOOK_S)

    if not runs_here:
        await watch()
        return
    async with _explorer(store, settings) as go:
        watching = asyncio.create_task(watch())
        try:
            await go(number)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    if tell is not None:
        tell((await _read(store, number))[1])  # what came after the last look


@asynccontextmanager
async def _explorer(store: Store, settings: Settings) -> AsyncIterator[Callable[[int], Any]]:
    """What carries explorations without a daemon: the worktrees that are there; none of an agent is made."""
    from relay.airspace.worktrees.registry import WorktreeRegistry
    from relay.app.merge.exploration.explorer import BusyElsewhere, Explorer, ExplorerParts
    from relay.app.merge.exploration.winner import merge_by_git
    from relay.app.wiring.worktree_room import StoredWorktreeRoom
    from relay.base.case_folding import folds_case
    from relay.checks.runner import CheckRunner
    from relay.coordination.writes.fencing import LockCheck

    with tempfile.TemporaryDirectory(prefix="relay-explore-") as made:
        room = StoredWorktreeRoom(store, LockCheck(fold=folds_case(settings.repo)))
        registry = WorktreeRegistry(settings, room, scratch=Path(made) / "scratch.git", make=False)
        await registry.open()
        if registry.main is None:
            raise Refusal(registry.trouble)
        runner = CheckRunner(store, registry.scratch.git(registry.main), Path(made) / "checks")
        parts = ExplorerParts(store, LiveSettings(settings), registry, runner, merge_by_git(registry))

        async def go(number: int) -> None:
            try:
                await Explorer(parts).go(number)
            except BusyElsewhere as error:
                raise Refusal(f"Another command carries {references.exploration(number)}.") from error

        yield go


async def _read(store: Store, number: int) -> tuple[Exploration, list[VariantRun]]:
    exploration = await store.read(lambda tx: journal.load(tx, number))
    return exploration, await store.read(lambda tx: journal.variants_of(tx, number))


async def _compare(store: Store, args: argparse.Namespace) -> int:
    exploration, runs = await _read(store, _number(args.id))
    print(json.dumps(exploration.as_json(runs)) if args.json else _shown(exploration, runs))
    return 0


async def _list(store: Store, args: argparse.Namespace) -> int:
    found = await store.read(lambda tx: journal.newest(tx, MOST_LISTED))
    if args.json:
        listed = [
            {"name": each.name, "state": each.state, "task": each.config.task, "winner": each.winner}
            for each in found
        ]
        print(json.dumps(listed))
        return 0
    for each in found:
        winner = f" ({each.winner})" if each.winner else ""
        print(indented(f"{each.name}  {each.state}{winner}  {safe_line(each.config.task, 100)}"))
    if not found:
        print(f"Nothing was explored yet. {command('explore --help')} says how.")
    return 0


def _shown(exploration: Exploration, runs: list[VariantRun]) -> str:
    """The comparison for a terminal: a line for each variant, and what is next."""
    names = [metric.name for metric in exploration.config.metrics]
    head = ["variant", "agent", "status", "tests", *names, "seconds", "tokens", "calls", "usd", "score"]
    rows = [head]
    for run in runs:
        usage = run.usage
        tests = {True: "pass", False: "fail", None: "not run"}[run.passing]
        figures = [wording.figure(run.metrics.get(name)) for name in names]
        used = [f"{usage.seconds:.1f}", wording.figure(usage.tokens), str(usage.tool_calls)]
        used.append(wording.figure(usage.cost_usd))
        score = "-" if run.score is None else f"{run.score:.3f}"
        mark = "* " if run.name == exploration.winner else ""
        rows.append([mark + run.name, run.agent, wording.standing(run), tests, *figures, *used, score])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines = [f"{exploration.name}  {exploration.state}  {safe_line(exploration.config.task, 100)}", ""]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines += ["", *wording.parts(exploration, runs)]
    lines += ["", *(note for run in runs if (note := wording.missing(run)))]
    lines += [text for text in (exploration.recommendation, exploration.trouble) if text]
    if exploration.merged:
        lines.append(f"{exploration.winner} is merged: {exploration.merged[:12]}")
    if exploration.state is State.WAITING:
        first = next((run.name for run in runs if run.at_commit), "VARIANT")
        lines.append(f"{command(f'explore take {exploration.name} {first}')} merges a variant.")
    return "\n".join(indented(line.rstrip()) for line in lines)


def _printer() -> Callable[[list[VariantRun]], None]:
    """Says on standard error whenever a variant stands otherwise."""
    said: dict[str, str] = {}

    def tell(runs: list[VariantRun]) -> None:
        for run in runs:
            standing = wording.standing(run)
            if run.status is not Status.WAITING and said.get(run.name) != standing:
                said[run.name] = standing
                print(indented(f"{run.name} ({run.agent}): {standing}"), file=sys.stderr, flush=True)

    return tell
