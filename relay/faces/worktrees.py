"""The worktrees as each interface asks for them: HTTP, and the command line without a running room.

Invariants: what git cannot do is a Refusal with git's reason. Nothing is changed while the room's database cannot
take a record of it: what the store raised comes out then, as of every other call. `stands` alone decides how a branch
stands, and whether it is ready to land.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from relay.airspace.advisories import table
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules.advisory import Advisory
from relay.airspace.readings import Level
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.lifecycle import CHANGED, DISCARDED, MERGED
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.airspace.worktrees.merging.wording import stuck
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.view import difference, missing, rows
from relay.airspace.worktrees.watcher import WorktreeWatcher
from relay.base.durations import parse_iso
from relay.git.run import GitError, name_of
from relay.log import events
from relay.model import Refusal
from relay.model.actions import DiscardWork, GiveUpMerge, MergeBranch, OnBranch, RestoreWork, TakeBackMerge
from relay.room.journal import ledger
from relay.store.ports import Store, StoreError, Tx
from relay.verification import present
from relay.verification.approvals import Answer
from relay.verification.landing import journal
from relay.verification.landing.entry import Entry, EntryState
from relay.verification.landing.service import asked_about
from relay.verification.policies import route
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies
from relay.verification.verification import OVER, State

#: A row that is really written: a disk that is full, or that may only be read, shows in nothing less.
_PROBE = "worktrees_asked"
#: Landings that ended, among which those that were put out are looked for; and changes of one agent's worktree.
MOST_ENDED, MOST_CHANGES = 50, 20


#: Of a worktree that is elsewhere, and of all where no room runs.
_NOTHING_RUNS: dict[str, Any] = {"ports": None, "setup": None, "app": None, "busy": "", "disk": None}
_UNKNOWN: dict[str, Any] = {"commands": {"setup": False, "run": False, "archive": False}, "disk": None}


class Desk(Protocol):
    """What the worktrees' desk says of them (`relay.app.worktrees.desk`), which stands above this floor."""

    async def rows(self) -> dict[str, dict[str, Any]]: ...

    def summary(self) -> dict[str, Any]: ...


class WorktreesService:
    """One room's worktrees. `policies`: what a person has to agree to, None = nobody knows. `watcher`, `protocol`
    and `desk` are of a running room only: they know why changes are polled for, whom an agent has the right of way
    over, and what runs in the worktrees."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        policies: Policies | None = None,
        watcher: WorktreeWatcher | None = None,
        protocol: AdvisoryProtocol | None = None,
        desk: Desk | None = None,
    ) -> None:
        self._store, self._registry, self._actions = store, registry, actions
        self._policies = policies
        self._watcher, self._protocol, self._desk = watcher, protocol, desk

    async def state(self) -> dict[str, Any]:
        """`{worktrees: [...], order: [...], surveyed, trouble, troubles, polling, commands, disk}`. Not `surveyed`:
        some worktrees were not looked at since the start, and are not among these yet."""
        registry = self._registry
        surveyed = registry.surveyed.is_set()  # before: the rows have what was looked at by then
        worktrees, order = await rows_of(registry, self._protocol, self._store, self._policies)
        more = {} if self._desk is None else await self._desk.rows()
        for row in worktrees:
            row.update(_NOTHING_RUNS if row["member"] is not None else more.get(row["agent"], _NOTHING_RUNS))
        unread = {name: worktree.trouble for name, worktree in registry.worktrees.items() if worktree.trouble}
        return {
            "worktrees": worktrees,
            "order": order,
            "surveyed": surveyed,
            "trouble": registry.trouble or registry.no_main,
            "troubles": {**registry.troubles, **unread},
            "polling": "" if self._watcher is None else self._watcher.polling,
            **(_UNKNOWN if self._desk is None else self._desk.summary()),
        }

    def check(self, agent: str, words: str) -> None:
        """Raise Refusal where the agent has no worktree here: there is none, or it is at another member of the fleet.
        `words`: of the command that does there what is wanted."""
        if self._registry.find(agent) is None:
            raise missing(self._registry, agent, words)

    async def diff(self, agent: str, path: str = "") -> dict[str, Any] | None:
        """What a worktree changes against its base, with the text of one file where `path` names it; None: no such
        worktree. Raises Refusal."""
        try:
            return await difference(self._registry, agent, path)
        except GitError as error:
            raise Refusal(f"git could not show it: {error}.") from error

    async def actions(self) -> WorktreeActions:
        """What changes a worktree. Raises what keeps the database from taking a record of a change."""
        await self._store.write(lambda tx: events.put_setting(tx, _PROBE, str(time.time())), durable=True)
        return self._actions


async def ordered(actions: WorktreeActions, action: OnBranch, by: str) -> dict[str, Any]:
    """Do what is ordered of an agent's branch, through whichever interface: `{success, reason, commit, ...}`. Raises
    Refusal, and then nothing was done."""
    agent = action.agent
    match action:
        case MergeBranch(_, squash, text, head, joined, untested, anyway):
            options = MergeOptions(squash, text, head, joined, untested, anyway)
            return await actions.merge(agent, by, options)
        case DiscardWork():
            return await actions.discard(agent, by)
        case RestoreWork(_, kept):
            return await actions.restore(agent, by, kept or "")
        case GiveUpMerge(_, settle):
            return await actions.abort(agent, by, settle=settle)
        case TakeBackMerge(_, commit):
            return await actions.take_back(agent, by, commit)


async def merge_order(
    registry: WorktreeRegistry, protocol: AdvisoryProtocol | None, store: Store
) -> list[str]:
    """The agents in the order in which their branches are best merged, as every interface shows it. `protocol`: knows
    whom an agent has the right of way over, and what people decided; None = nobody does."""
    return [str(step["agent"]) for step in (await rows_of(registry, protocol, store))[1]]


async def rows_of(
    registry: WorktreeRegistry,
    protocol: AdvisoryProtocol | None,
    store: Store,
    policies: Policies | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """As `rows`, by what the protocol, the verifications and the policies know, and how each branch `stands`."""

    async def verified(trees: Mapping[str, str]) -> dict[str, dict[str, Any]] | None:
        try:
            found = await store.read(lambda tx: present.of_work(tx, trees))
        except (StoreError, store.transient, store.errors):
            return None  # what git knows is told while the database is away
        return {agent: standing.as_json() for agent, standing in found.items()}

    yields, decided = (None, ()) if protocol is None else (protocol.behind, protocol.decided())
    shown, order = await rows(
        registry, lambda agent, other: yields is not None and agent in yields(other), decided, verified
    )
    beside: Beside | None = None
    try:
        if shown:
            known = () if policies is None else await policies.all()
            asks = {row["agent"] for row in shown if route(known, paths_of(registry, row)).needs_approval}
            beside = await store.read(lambda tx: _beside(tx, protocol, asks))
    except (StoreError, store.transient, store.errors, BadPolicies, OSError):
        pass  # as above; and then none is said to be ready
    for row in shown:
        if beside and row["member"] is not None:
            row["working"] |= row["agent"] in beside.at_work and row["agent"] not in registry.turn_trees
        row["stands"] = stands(row, beside)
    return shown, order


def paths_of(registry: WorktreeRegistry, row: Mapping[str, Any]) -> list[str]:
    """The files that the branch of a row changes, as far as that is known."""
    if row["member"]:
        other = registry.merge_trials.others.get(row["agent"])
        return [] if other is None else [touch.path for touch, _ in other.files]
    worktree = registry.worktrees.get(row["agent"])
    work = None if worktree is None else worktree.work
    return [] if work is None else [name_of(record.path) for record in work.records]


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of branches that is not in their rows. `advisories`: the open ones, the gravest first; `queued`:
    by agent, how its branch waits in the landing queue; `put_out`: whose branch the queue took out; `main_fails`:
    the main branch that fails its tests, empty = none; `at_work`: the agents that have a turn; `asks`: to whose
    change a person has to agree when it lands."""

    advisories: tuple[Advisory, ...] = ()
    queued: Mapping[str, str] = field(default_factory=dict)
    put_out: Collection[str] = ()
    main_fails: str = ""
    at_work: Collection[str] = ()
    asks: Collection[str] = ()


async def _beside(tx: Tx, protocol: AdvisoryProtocol | None, asks: Collection[str]) -> Beside:
    known = (await table.load_state(tx) if protocol is None else protocol.state).advisories.values()
    open_ = [each for each in known if each.open and each.level is not Level.CLEAR]
    queued = {}
    for entry in await journal.open_entries(tx):
        asked = await asked_about(tx, entry)
        waits = any(each.state is Answer.WAITING for each in asked)
        tested = entry.state is EntryState.TESTING
        said = "is tested for landing" if tested else "waits in the landing queue"
        queued[entry.agent] = "waits for an approval" if waits else said
    red = await present.of_main(tx)
    return Beside(
        tuple(sorted(open_, key=lambda each: (-each.level, -each.risk, -each.opened_at))),
        queued,
        {entry.agent for entry in await put_out(tx)},
        "" if red is None else red.branch,
        {job["agent"] for job in await tx.all(ledger.Q.active_jobs)},
        asks,
    )


def stands(row: Mapping[str, Any], beside: Beside | None) -> dict[str, Any] | None:
    """How a branch stands to the others and to the main branch, in one line: `{kind, text, tests}`. `kind`: collides,
    conflicts, queued, ready or changed; `tests`: it is what its tests say. `row`: as of `rows`; `beside`: None =
    that cannot be read now, and then no branch is ready. None: it has nothing to land. Pure."""

    def told(kind: str, text: str, *, tests: bool = False) -> dict[str, Any]:
        return {"kind": kind, "text": text, "tests": tests}

    name, into = row["agent"], row["into"] or "the main branch"
    known = beside or Beside()
    warning = next((one for one in known.advisories if name.upper() in map(str.upper, one.part)), None)
    # One advisory can be about more than two: where git names pairs, these.
    others = [hit["agent"] for hit in row["collides"]]
    if not others and warning is not None:
        others = [other for other in warning.part if other.upper() != name.upper()]
    blocked = stuck(into, is_needless=bool(row.get("needless")))
    if row.get("needless"):
        return told("conflicts", blocked)
    first, before = None if warning is None else warning.decided, ""
    if warning is not None and first is not None and first.agent.upper() == name.upper():
        # A person said that it goes first: the others steer for it, and it lands as if they were not there.
        behind = [other for other in others if first.agent in warning.roles.ahead.get(other, ())]
        before = f", before {', '.join(behind)}" if behind else ""
        others = [other for other in others if other not in behind]
    met = f"collides with {', '.join(others)}" if others else ""
    if others and first is not None and first.agent in others:
        met += f": {first.agent} goes first"
    if row["merges"] == "conflicts" or (warning is not None and not others and not before):
        return told("conflicts", f"{blocked}{met and ', '}{met}")
    if others:
        return told("collides", met)
    if not row["files"] or row["merges"] == "nothing":
        return None
    if name in known.queued:
        return told("queued", known.queued[name])
    if name in known.put_out:
        return told("conflicts", "did not land")
    if verdict := row.get("verified"):
        state, present_ = State(verdict["state"]), verdict["present"]
        if state in (State.FAILED, State.ERROR):
            return told("conflicts", f"its tests failed{'' if present_ else ', changed since'}", tests=True)
        if state not in OVER:
            waits = state is State.WAITING
            return told("changed", "waits for an approval" if waits else "is being tested", tests=True)
        if not present_:
            return told("changed", "changed since its tests passed", tests=True)
    if row["undoes"]:
        hit = row["undoes"][0]
        back = hit["did"] == "took back"
        did = f"bring back what {hit['agent']} took back" if back else f"undo {hit['agent']}'s landed lines"
        return told("conflicts", f"would {did} in {PurePosixPath(hit['path']).name}")
    busy = row["working"] or name in known.at_work or row["merging"] or row["unsettled"]
    if beside is None or busy or row["merges"] not in ("clean", "joins"):
        return told("changed", f"not merged yet{before}")
    if known.main_fails:
        return told("ready", f"ready, {known.main_fails} fails")
    return told("ready", f"ready{', wants an approval' if name in known.asks else ' to land'}{before}")


async def put_out(tx: Tx) -> list[Entry]:
    """The newest landing of each agent, where the queue took its branch out and its work is still to land."""
    inside = {entry.agent for entry in await journal.open_entries(tx)}
    last: dict[str, Entry] = {}
    for entry in await journal.newest_ended(tx, MOST_ENDED):
        last.setdefault(entry.agent, entry)
    return [
        entry
        for agent, entry in last.items()
        if entry.state is EntryState.PUT_OUT
        and agent not in inside
        and not await changed_since(tx, agent, entry.ended or entry.at, MERGED, DISCARDED)
    ]


async def changed_since(tx: Tx, agent: str, since: float, *changes: str) -> bool:
    """Did one of these changes of its worktree come since then (Unix seconds)?"""
    done = await events.about(tx, agent, types=[CHANGED], limit=MOST_CHANGES)
    return any(
        each.outputs["agent"] == agent and each.outputs["change"] in changes and parse_iso(each.at) >= since
        for each in done
    )
