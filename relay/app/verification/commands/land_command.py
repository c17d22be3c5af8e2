"""`relay land`: land agents' branches by the queue, see it, or see what would land.

Invariant: what is asked for is in the room's database before anything is waited for; a running room carries it, and
without one this command does. Exit code 0 = all of it landed (or was only shown), 1 = something did not, 2 = wrong
use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay.access.git_person import git_person
from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import agents_key, asked
from relay.base.durations import since
from relay.base.terminal_text import fail, indented, safe
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find
from relay.config.settings import LiveSettings, Settings
from relay.fleet import members as fleet
from relay.model import Refusal
from relay.store.ports import Store, StoreError, Tx
from relay.verification.landing import journal
from relay.verification.landing.entry import OPEN, Entry, EntryState

if TYPE_CHECKING:
    from relay.airspace.worktrees.merging.takebacks import TakenBack

#: Seconds between two looks at the queue, and for which nothing goes on before the command stops to wait.
LOOK_S, STILL_S = 0.3, 5.0
_AT_WORK = "its turn ends first"


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code."""
    args = _parser().parse_args(words)
    if args.all and args.agents:
        return fail("name agents, or say --all: not both", 2)
    if args.cancel and (args.all or len(args.agents) != 1):
        return fail("--cancel takes one AGENT", 2)
    if args.dry_run and args.cancel:
        return fail("--dry-run and --cancel do not go together", 2)
    if args.required and (args.all or args.agents or args.cancel or args.dry_run):
        return fail("--required stands alone: it lands nothing", 2)
    if agents_key():
        return fail(
            "an agent lands its own branch with the tool `land`, or `complete_work` with land: true", 1
        )
    settings = load_for_command(find(args.config))
    if args.required is not None:
        return _require(settings, args)
    try:
        return asyncio.run(_run(settings, args))
    except (Refusal, StoreError) as error:
        return fail(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay land",
        description="Land agents' branches on the main branch by the queue, which tests them together. Without an "
        "AGENT: show the queue.",
    )
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="whose branches")
    parser.add_argument("--all", action="store_true", help="those of all agents that have work")
    parser.add_argument("--squash", action="store_true", help="each as one commit, without a merge commit")
    parser.add_argument(
        "--anyway",
        action="store_true",
        help="although one undoes what another landed, or brings back what somebody took back",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would land, and land nothing")
    parser.add_argument("--cancel", action="store_true", help="take the AGENT's branch out of the queue")
    parser.add_argument(
        "--required",
        choices=["on", "off"],
        help="on: agents' branches land by the queue only; off: they may be merged directly, too (config.json, by "
        "the running room)",
    )
    parser.add_argument("--no-wait", action="store_true", help="ask, and leave the rest to the running room")
    parser.add_argument("--name", help="your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_config_option(parser)
    return parser


def _require(settings: Settings, args: argparse.Namespace) -> int:
    """As `/landing required` in the room."""
    by, body = (
        args.name or git_person(settings.repo, settings.agent_names),
        {"required": args.required == "on"},
    )
    done = asked(settings, "/api/landing", person=by, body=body, as_json=args.json, method="PATCH")
    how = "by the queue only" if body["required"] else "by the queue, or are merged directly"
    print(json.dumps(done) if args.json else f"Agents' branches now land {how}.")
    return 0


async def _run(settings: Settings, args: argparse.Namespace) -> int:
    from relay.app.wiring.schema import SCHEMAS
    from relay.faces.landing import check_undone
    from relay.store.open import opened_store

    async with opened_store(settings, SCHEMAS) as store:
        if not args.agents and not args.all and not args.dry_run:
            return await _show(store, args)
        async with _worktrees(settings, store) as parts:
            agents = await _agents(store, settings, parts, args)
            if args.dry_run:
                return await _plan(parts, agents, args)
            by = args.name or git_person(settings.repo, settings.agent_names)
            if args.cancel:
                return await _cancel(store, agents[0], by, args)
            if not args.anyway:
                await check_undone(parts.registry, agents)
            asked = await store.write(lambda tx: _ask(tx, agents, by, args.squash), durable=True)
            try:
                runs_here = instance.running(settings) is None and not await _others_run(store)
            except instance.DamagedRecord as error:
                raise Refusal(f"{error}, so it is not known whether the room runs.") from error
            if not (args.no_wait and not runs_here):
                await _carried(store, parts, [entry.number for entry in asked], runs_here, args)
            ended = await _entries(store, [entry.number for entry in asked])
    print(json.dumps(result_of(ended)) if args.json else _said(ended))
    done = (EntryState.LANDED, *OPEN) if args.no_wait else (EntryState.LANDED,)
    return 0 if all(entry.state in done for entry in ended) else 1


async def _others_run(store: Store) -> bool:
    """Does another relay of the fleet run? Then one of them leads, and lands it."""
    if store.engine != "postgres":
        return False
    return any(member.live for member in await store.read(fleet.members))


async def _agents(store: Store, settings: Settings, parts: Any, args: argparse.Namespace) -> list[str]:
    """Those that are named, as they are spelled; or all that have work, here and at the other members of a fleet.
    Raises Refusal."""
    from relay.airspace.worktrees.view import elsewhere, with_work
    from relay.app.fleet.told_works import read_others

    registry = parts.registry
    registry.merge_trials.others = await read_others(store, settings.member)
    if args.all or not args.agents:
        names = with_work(registry)
        if not names and not args.dry_run:
            raise Refusal(
                "No agent has work that could land.", f"{command('worktrees')} lists what there is."
            )
        return list(names)
    homes: set[str] = set()
    if await _others_run(store):
        others = [member for member in await store.read(fleet.members) if member.name != settings.member]
        homes = {str(agent["name"]) for member in others for agent in member.agents}
    found = []
    for agent in args.agents:
        worktree = registry.find(agent)
        other = elsewhere(registry, agent)
        at_home = next((name for name in (agent, agent.upper()) if name in homes), "")
        name = worktree.name if worktree else other.agent if other else at_home
        if not name:
            raise Refusal(f"There is no worktree of {agent}.", f"{command('worktrees')} lists them.")
        found.append(name)
    return list(dict.fromkeys(found))


class _Here:
    """The worktrees of a room, and what lands them, in this process."""

    def __init__(self, store: Store, settings: Settings, folder: Path) -> None:
        from relay.airspace.worktrees.actions import WorktreeActions
        from relay.airspace.worktrees.branch_updates import BranchUpdates
        from relay.airspace.worktrees.registry import WorktreeRegistry
        from relay.app.verification.parts import LandingParts
        from relay.app.wiring.merge_tools import MergeTools
        from relay.app.wiring.worktree_room import StoredWorktreeRoom
        from relay.app.worktrees.setups import WorktreeSetups
        from relay.base.case_folding import folds_case
        from relay.coordination.writes.fencing import LockCheck

        self.live = LiveSettings(settings)
        self.tools = MergeTools(lambda: settings.merge)
        judge = LockCheck(fold=folds_case(settings.repo))
        room = StoredWorktreeRoom(store, judge, self.tools, folder / "checks")
        self.registry = WorktreeRegistry(settings, room, scratch=folder / "scratch.git", make=False)
        updates = BranchUpdates(self.registry)
        actions = WorktreeActions(self.registry, updates)
        # Not the room's folder: a room that starts meanwhile would take the trees of what runs here for left ones.
        ports = WorktreeSetups(self.live, self.registry, _unsaid, lambda agent: None, lambda agent: None)
        self.landing = LandingParts(
            store, self.live, self.registry, actions, updates, folder=folder, lend=ports.lend
        )


async def _unsaid(agent: str, text: str, failed: str) -> None:
    """Nobody is told: no room runs."""


@asynccontextmanager
async def _worktrees(settings: Settings, store: Store) -> AsyncIterator[_Here]:
    with tempfile.TemporaryDirectory(prefix="relay-land-") as made:
        parts = _Here(store, settings, Path(made))
        try:
            await parts.registry.open()
            if parts.registry.main is None:
                raise Refusal(parts.registry.trouble)
            await parts.registry.refresh()
            yield parts
        finally:
            await parts.landing.close()
            await parts.tools.close()


async def _ask(tx: Tx, agents: Sequence[str], by: str, squash: bool) -> list[Entry]:
    return [(await journal.ask(tx, agent, by=by, squash=squash))[0] for agent in agents]


async def _entries(store: Store, numbers: Sequence[int]) -> list[Entry]:
    async def look(tx: Tx) -> list[Entry]:
        return [await journal.load(tx, number) for number in numbers]

    return await store.read(look)


async def _carried(
    store: Store, parts: _Here, numbers: Sequence[int], runs_here: bool, args: argparse.Namespace
) -> None:
    """Wait until these are over, or wait for somebody; do the work here where no room runs."""
    watching = asyncio.create_task(_watch(store, numbers, quiet=args.json))
    if not runs_here:
        await watching
        return
    try:
        await parts.landing.queue.drain([entry.agent for entry in await _entries(store, numbers)])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(store: Store, numbers: Sequence[int], *, quiet: bool) -> None:
    """Until these are over, or nothing goes on with them; what changes is printed."""
    told: dict[int, str] = {}
    still = time.monotonic()
    while True:
        entries = await _entries(store, numbers)
        for entry in entries:
            line = _line(entry)
            if told.get(entry.number) != line:
                # Between the test and the landing it waits for nothing that one could name.
                news = entry.number not in told or entry.note or entry.state is EntryState.TESTING
                told[entry.number], still = line, time.monotonic()
                if not quiet and entry.state in OPEN and news:
                    print(line, flush=True)
        left = [entry for entry in entries if entry.state in OPEN]
        if not left:
            return
        busy = any(entry.state is EntryState.TESTING or not entry.note for entry in left)
        if busy or any(_AT_WORK in entry.note for entry in left):
            still = time.monotonic()
        elif time.monotonic() - still > STILL_S:
            return
        await asyncio.sleep(LOOK_S)


def result_of(entries: Sequence[Entry], back: Mapping[str, TakenBack] | None = None) -> dict[str, Any]:
    """As of INTERFACES.md: `{landed, put_out, waiting}`. `back`: of the merges that were taken back, by whom; these
    say so beside, as `taken_back: {by, at}`."""
    gone = {commit: {"taken_back": merge.as_json()} for commit, merge in (back or {}).items()}
    return {
        "landed": [
            {"agent": entry.agent, "commit": entry.landed_as} | gone.get(entry.landed_as or "", {})
            for entry in entries
            if entry.state is EntryState.LANDED
        ],
        "put_out": [
            {"agent": entry.agent, "reason": entry.reason, "output": entry.output}
            for entry in entries
            if entry.state in (EntryState.PUT_OUT, EntryState.CANCELLED)
        ],
        "waiting": [entry.agent for entry in entries if entry.state in OPEN],
    }


def _line(entry: Entry, now: float | None = None, back: TakenBack | None = None) -> str:
    """`now`: say how long ago it ended; `back`: by whom its merge was taken back."""
    ago = "" if now is None or entry.ended is None else f", {since(entry.ended, now)}"
    match entry.state:
        case EntryState.LANDED:
            gone = "" if now is None or back is None else f"; {back.words(now)}"
            return f"{entry.agent}: landed as {(entry.landed_as or '')[:9]}{ago}{gone}"
        case EntryState.PUT_OUT:
            return safe(f"{entry.agent}: did not land{ago}. {entry.reason}")
        case EntryState.CANCELLED:
            return safe(f"{entry.agent}: taken out of the queue{ago}. {entry.reason}")
        case EntryState.TESTING:
            return f"{entry.agent}: is being tested"
    return safe(f"{entry.agent}: waits: {entry.note}" if entry.note else f"{entry.agent}: is in the queue")


def _said(entries: Sequence[Entry]) -> str:
    lines = []
    for entry in entries:
        lines.append(_line(entry))
        if entry.output:
            lines += [f"  {row}" for row in safe(entry.output).split("\n")]
    return "\n".join(lines)


async def _show(store: Store, args: argparse.Namespace) -> int:
    from relay.airspace.worktrees.merging.takebacks import taken_back

    open_ = await store.read(journal.open_entries)
    ended = await store.read(lambda tx: journal.newest_ended(tx, 10))
    back = await store.read(lambda tx: taken_back(tx, [entry.landed_as for entry in ended]))
    if args.json:
        print(json.dumps(result_of([*open_, *ended], back)))
    elif not open_ and not ended:
        print(f"Nothing is in the landing queue. {command('land AGENT')} puts a branch into it.")
    else:
        now = await store.read(lambda tx: tx.now())
        print(
            "\n".join(indented(_line(each, now, back.get(each.landed_as or ""))) for each in (*open_, *ended))
        )
    return 0


async def _cancel(store: Store, agent: str, by: str, args: argparse.Namespace) -> int:
    from relay.room.journal import ledger

    async def work(tx: Tx) -> Entry:
        entry = await journal.open_entry(tx, agent)
        ended = entry and await journal.end(
            tx, entry.number, EntryState.CANCELLED, reason=f"{by} took it out"
        )
        if ended is None:
            raise Refusal(f"{agent}'s branch is not in the landing queue.")
        text = f"{by} took {agent}'s branch out of the landing queue."
        await ledger.say(tx, text, meta={"notice": "landing", "agent": agent})
        return ended

    ended = await store.write(work, durable=True)
    print(json.dumps(result_of([ended])) if args.json else _line(ended))
    return 0


async def _plan(parts: _Here, agents: Sequence[str], args: argparse.Namespace) -> int:
    from relay.faces.landing import LandingView
    from relay.verification.landing.service import Landings

    landing = parts.landing
    view = LandingView(parts.live, parts.registry, Landings(landing.store), landing.policies)
    plan = await view.plan(agents)
    if args.json:
        waiting = [step["agent"] for step in plan if not step["why"]]
        print(json.dumps({"landed": [], "put_out": [], "waiting": waiting, "plan": plan}))
        return 0
    if not plan:
        print("No agent has work that could land.")
    for step in plan:
        how = f"not: {step['why']}" if step["why"] else "would be tested"
        by = (
            f" by {', '.join(step['policies'])}"
            if step["policies"]
            else ", by nothing: it lands as not tested"
        )
        asks = "; a person has to approve it" if step["needs_approval"] else ""
        line = f"{step['agent']} ({step['branch']}, {len(step['files'])} files): {how}"
        print(safe(line + ("" if step["why"] else by + asks)))
    return 0
