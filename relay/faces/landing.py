"""The landing queue as the page and the command line see it: what is in it, and what would land.

Invariant: nothing here lands anything; what is shown is what the rows and git say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.worktrees.merging.own_files import own_files
from relay.airspace.worktrees.merging.refusals import own_files_named
from relay.airspace.worktrees.merging.takebacks import taken_back
from relay.airspace.worktrees.merging.wording import needless, some, would_undo
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.view import elsewhere, with_work
from relay.config.command_line import command
from relay.config.settings import LiveSettings
from relay.faces.worktrees import paths_of, put_out, rows_of
from relay.git.diff import changed_files, unified
from relay.git.run import Git, GitError, name_of
from relay.model import Fault, Refusal
from relay.store.ports import Tx
from relay.verification import present
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import EntryState
from relay.verification.landing.service import Landings, entry_words
from relay.verification.policies import Policy, route
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies

Json = dict[str, Any]
#: Bytes of one difference; commits whose files are remembered.
MOST_DIFF, REMEMBERED = 1_048_576, 500


async def _known(tx: Tx) -> Json:
    red = await present.of_main(tx)
    fails = None
    if red is not None:
        of = red.of
        fails = {"need": red.id, "reference": of.name, "reason": of.reason, "branch": red.branch}
    return {"main_fails": fails, "put_out": [entry.agent for entry in await put_out(tx)]}


async def said(tx: Tx) -> str:
    """The queue for people, as markdown."""
    entries, ended = await landings.open_entries(tx), await landings.newest_ended(tx, 5)
    back, now = await taken_back(tx, [entry.landed_as for entry in ended]), await tx.now()
    lines = [f"- {entry_words(entry)}" for entry in entries]
    if not entries:
        lines.append("Nothing is in the landing queue. `/land @AGENT` puts a branch into it.")
    if ended:
        lines += ["", "Last:"]
    for entry in ended:
        merge = back.get(entry.landed_as or "")
        lines.append(f"- {entry_words(entry)}" + (f", {merge.words(now)}" if merge else ""))
    return "\n".join(lines)


async def check_undone(registry: WorktreeRegistry, agents: Sequence[str]) -> None:
    """Raise Refusal where the work of one of these agents would undo what another landed, or bring back what somebody
    took back. What is half written says nothing yet, nor what is at another member of the fleet."""
    await registry.catch_up()
    found = dict[str, str]()
    for agent in agents:
        worktree = registry.find(agent)
        if worktree is None or worktree.work is None or worktree.name in registry.turn_trees:
            continue
        if hits := await registry.merge_trials.undone(worktree.name, worktree.work):
            found[worktree.name] = f"{worktree.name}'s branch {some(list(map(would_undo, hits)))}."
    if not found:
        return
    names, named = " ".join(found), " ".join(f"@{name}" for name in found)
    others = [name for name in agents if name not in found]
    fix = (
        f"`/land {named} anyway` in the room, or {command(f'land {names} --anyway')}, lands it all the same."
    )
    fix += f" `/land {' '.join(f'@{name}' for name in others)}` lands the others." if others else ""
    raise Refusal(f"Nothing is put into the landing queue: {' '.join(found.values())}", fix)


class LandingView:
    """Of one room. `protocol`: of a running one, as for `WorktreesService`."""

    def __init__(
        self,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        landings: Landings,
        policies: Policies,
        protocol: AdvisoryProtocol | None = None,
    ) -> None:
        self._settings, self._registry, self._protocol = settings, registry, protocol
        self._landings, self._policies = landings, policies
        #: By commit, what the entries of the queue change: a commit changes the same for ever.
        self._changed: dict[str, list[str]] = {}

    async def state(self) -> Json:
        """`{queue, ended, put_out, main_fails, required, batch, policies, merge_test, trouble}`. `put_out`: the
        agents whose work the queue took out and that is still to land; `main_fails`: `{need, reference, reason,
        branch}` while the main branch fails its tests, else null; `policies`: how many there are; `trouble`: why they
        cannot be used. Each entry of the queue has its `files`, and one that landed `taken_back`: `{by, at}` or
        null."""
        found, trouble = 0, ""
        try:
            found = len(await self._policies.all())
        except (BadPolicies, OSError) as error:
            trouble = f"The policies cannot be used: {error}"
        state = await self._landings.state()
        for entry in state["queue"]:
            entry["files"] = await self._files(entry)
        merges = [entry["commit"] for entry in state["ended"]]
        back = await self._landings.store.read(lambda tx: taken_back(tx, merges))
        for entry in state["ended"]:
            if entry["state"] == EntryState.LANDED:
                merge = back.get(entry["commit"])
                entry["taken_back"] = None if merge is None else merge.as_json()
        settings = self._settings.current
        more: Json = {"required": settings.landing.required, "batch": settings.landing.batch}
        more |= {"policies": found, "merge_test": bool(settings.merge.test), "trouble": trouble}
        return {**state, **more, **await self._landings.store.read(_known)}

    async def diff(self, number: int) -> Json:
        """`{diff, truncated}`: what an entry brings, or has brought, to the main branch. Raises Refusal."""
        entry, git = await self._landings.entry(number), self._git()
        try:
            base, tree = await self._ends(git, entry.at_commit, entry.landed_as)
            text, truncated = await unified(git, base, tree, MOST_DIFF)
        except GitError as error:
            raise Refusal(f"git could not show it: {error}.", "", Fault.UNKNOWN) from error
        return {"diff": text, "truncated": truncated}

    async def _files(self, entry: Json) -> list[str] | None:
        """The paths that an entry of the queue changes; None = its work is not looked at yet, or git cannot tell."""
        commit = entry["at_commit"]
        if commit is None or commit in self._changed:
            return self._changed.get(commit)
        try:
            git = self._git()
            records = await changed_files(git, *await self._ends(git, commit, None), renames=False)
        except (GitError, Refusal):
            return None
        paths = list(dict.fromkeys(name_of(record.path) for record in records))
        self._changed[commit] = paths
        while len(self._changed) > REMEMBERED:
            self._changed.pop(next(iter(self._changed)))
        return paths

    async def _ends(self, git: Git, commit: str, landed: str | None) -> tuple[str, str]:
        """The two trees between which an entry's change is. Raises GitError and Refusal."""
        if landed is not None:
            return f"{landed}^1", landed
        target = await self._registry.target()
        if target is None or not commit:
            raise Refusal("It is not known yet what it changes.", "", Fault.BUSY)
        return await git.line("merge-base", target.commit, commit), commit

    def _git(self) -> Git:
        main = self._registry.main
        if main is None:
            raise Refusal("There is no repository.", "", Fault.BUSY)
        return self._registry.scratch.git(main)

    async def plan(self, agents: Sequence[str] = ()) -> list[Json]:
        """What would be put into the queue for these agents, all with work where none is named, in the order in
        which it would be tested: `[{agent, member, branch, merges, collides, undoes, stands, files, policies,
        needs_approval, why}]`. `member`: the other member where it is, None = it is here; `undoes`, `stands`: as in
        the list of the worktrees; `why`: why it would not land, empty = it may. Raises Refusal for an agent without
        a worktree."""
        registry = self._registry
        for agent in agents:
            if registry.find(agent) is None and elsewhere(registry, agent) is None:
                raise Refusal(f"{agent} has no worktree, so there is no branch of it to land.")
        trouble, policies = "", tuple[Policy, ...]()
        try:
            policies = await self._policies.all()
        except (BadPolicies, OSError) as error:
            trouble = f"the policies cannot be used: {error}"
        shown, order = await rows_of(registry, self._protocol, self._landings.store, self._policies)
        wanted = agents or with_work(registry)
        # Of an agent that several members have, one row: that with work, and here.
        ranked = sorted(shown, key=lambda row: (bool(row["files"]), row["member"] is None))
        rows = {row["agent"]: row for row in ranked if row["agent"] in wanted}
        place = {step["agent"]: at for at, step in enumerate(order)}
        merge_test = ["merge.test"] if self._settings.current.merge.test else []
        plan = []
        for row in sorted(rows.values(), key=lambda row: (place.get(row["agent"], len(place)), row["agent"])):
            paths = paths_of(registry, row)
            own = await self._own(row, paths)
            routing = route(policies, paths)
            plan.append(
                {
                    "agent": row["agent"],
                    "member": row["member"],
                    "branch": row["branch"],
                    "merges": row["merges"],
                    "collides": row["collides"],
                    "undoes": row["undoes"],
                    "stands": row["stands"],
                    "files": paths,
                    "policies": [match.policy.name for match in routing.matches] + merge_test,
                    "needs_approval": routing.needs_approval,
                    "why": trouble or _why_not(row) or (own_files_named(own) if own else ""),
                }
            )
        return plan

    async def _own(self, row: Json, paths: Sequence[str]) -> list[str]:
        """The files of the room's own that landing this would change: then it does not land."""
        main, target = self._registry.main, await self._registry.target()
        if main is None or target is None:
            return []
        worktree = None if row["member"] else self._registry.worktrees.get(row["agent"])
        if worktree is not None and (work := worktree.work) is not None:
            git, tree = self._git(), work.snapshot.tree
            # As a merge does it: a renamed file is two, and what the main branch has already is none.
            ends = [await changed_files(git, at, tree, renames=False) for at in (work.base, target.commit)]
            ours, theirs = ([name_of(record.path) for record in records] for records in ends)
            paths = [path for path in ours if path in theirs]
        return await asyncio.to_thread(own_files, self._settings.current, main.top, paths)


def _why_not(row: Json) -> str:
    match row["merges"]:
        case "nothing":
            return "it has nothing to land"
        case "conflicts" if row.get("needless"):
            return needless(row.get("into") or "the main branch")
        case "conflicts":
            return f"it conflicts with {row.get('into') or 'the main branch'}"
        case None:
            return "git cannot tell whether it merges"
    return ""
