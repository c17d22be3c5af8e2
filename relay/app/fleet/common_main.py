"""The main branch that the members of a fleet have in common: the one of their git remote, which every landing moves.

Invariants:
- the remote's branch is what main is. It moves forward by one push, which is refused where somebody else was first;
  so two who lead for a moment never make two things of it;
- the main checkout of each member follows it, and no work of a person there is written over: where it cannot follow,
  it stays as it is, and it is said what a person has to do;
- a branch that is to land is brought under a ref of relay's own, which one member writes; no branch or tag there is
  touched but main.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from relay.airspace.worktrees.lifecycle import in_the_way, is_ancestor
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.wording import some_paths
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.branches import MAINS, why_it_stays
from relay.app.fleet.fleet import Fleet
from relay.app.fleet.refs import LANDING, former_refs, member_refs, own_former_refs
from relay.config.command_line import command
from relay.config.settings import LiveSettings
from relay.fleet.members import NAMES_ROOM, Main
from relay.git import remotes
from relay.git.kept_snapshots import ref_component
from relay.git.run import Git, GitError
from relay.model import Refusal
from relay.verification.landing.entry import Carried, Entry

#: Seconds within which all members have told of the work that an agent has.
TOLD_S = 5.0
#: Commits of people that are told with an agent's work.
MOST_CARRIED = 100


class MainMoved(Exception):
    """Somebody else has moved the main branch at the remote, or leads by now."""


class CommonMain:
    """Of this member's clone."""

    def __init__(self, fleet: Fleet, settings: LiveSettings, registry: WorktreeRegistry) -> None:
        self._fleet, self._settings, self._registry = fleet, settings, registry
        #: What was left at the remote under former names is gone.
        self._pruned = False
        #: Why main here did not follow the remote's when that was tried last.
        self._behind = ""
        #: Main here when the remote did not take what was to land on it, and what it said.
        self._refused: tuple[str, str] | None = None
        #: Main here, and the work that could not land on it for a person's files in this checkout.
        self._in_the_way: tuple[str, str, bool] | None = None

    @property
    def remote(self) -> str:
        return self._settings.current.fleet.remote

    @property
    def folder(self) -> Path:
        assert self._registry.main is not None
        return self._registry.main.top

    @property
    def _git(self) -> Git:
        assert self._registry.main is not None
        return self._registry.main.git

    async def kind(self) -> Main:
        """What main here is to the other members, should there be some."""
        if self._registry.main is None:
            return Main.NO_CLONE
        if not self._settings.current.fleet.push_main:
            return Main.OWN
        return Main.SHARED if await remotes.is_remote(self._git, self.remote) else Main.NO_REMOTE

    async def is_shared(self) -> bool:
        """Does this member share main with others? If not, it lands here alone, as in a room of one relay."""
        return bool(self._fleet.others) and await self.kind() is Main.SHARED

    async def stay_whole(self) -> None:
        """Raise Refusal where a landing here alone would part main from what others share."""
        if why := self._fleet.without_remote(await self.kind()):
            raise Refusal(why)

    async def cannot_land(self, merger: Callable[[], Awaitable[BranchMerger]]) -> str:
        """Why this member can land nothing, as far as that is known; empty: it can."""
        if self._registry.main is None:
            return self.no_clone(self._registry.trouble)
        try:
            await self.stay_whole()
            _, here = await (await merger()).target(moves=True)
            if self._in_the_way is not None:
                before, work, merged = self._in_the_way
                if before == here and merged:
                    await (await merger()).move_files(here, work, dry=True)
                elif before == here and (paths := await self._unknown_files(here, work)):
                    return f"{self.folder} has untracked files where what lands would write: {some_paths(paths)}."
                self._in_the_way = None
            if self._refused is not None and self._refused[0] == here:
                return self._refused[1]
        except Refusal as refusal:
            return str(refusal)
        except GitError as error:
            return f"git does not read {self.folder}: {error.last_words}"
        return self._behind if await self.is_shared() else ""

    def note_in_the_way(self, here: str, work: str, *, merged: bool = False) -> None:
        """A person's files here are in the way of this work, which others may be able to land. `merged`: it is the
        commit that main was to become."""
        self._in_the_way = (here, work, merged)

    async def _unknown_files(self, before: str, after: str) -> list[str]:
        assert self._registry.main is not None
        return await in_the_way(self._registry.scratch, self._registry.main, before, after)

    def is_shared_agent(self, agent: str) -> bool:
        """Do other members have this agent beside this one?"""
        return bool(self._fleet.sharing(agent))

    async def is_here(self, entry: Entry) -> bool:
        """Is the branch that is to land in this clone? In a room of one relay every branch is."""
        if not self._fleet.others:
            return True
        if self._fleet.home_of(entry.agent) is not None or self._registry.find(entry.agent) is None:
            return False
        if not self.is_shared_agent(entry.agent):
            return True
        member = (await self._fleet.place_of(entry.agent)).member
        if member is None:
            # A turn may have ended that moment; later, the one who leads says that there is nothing.
            return self._fleet.leads and self._fleet.now() - entry.at > TOLD_S
        return member.name == self._fleet.name

    def no_clone(self, trouble: str) -> str:
        """Why a leader that has no clone lands nothing, with what to do. `trouble`: why it has none."""
        if not self._fleet.others:
            return trouble
        return (
            f"{self._fleet.name} has no clone to land in. Start it in a clone of the code, or have another member "
            f"lead, which lands then. {trouble}"
        )

    async def too(self, agent: str) -> tuple[str, ...]:
        """The other members that have work of this agent."""
        place = await self._fleet.place_of(agent)
        named = (*((place.member.name,) if place.member else ()), *place.too)
        return tuple(name for name in named if name != self._fleet.name)

    async def why_not_here(self, agent: str) -> str:
        """Where a branch is that is not here, and why it does not come; empty: it comes by itself."""
        home = self._fleet.home_of(agent) or (await self._fleet.place_of(agent)).member
        if home is not None and home.name == self._fleet.name:
            home = None
        where = f"its branch is in the clone of {home.name}" if home else "its branch is not in this clone"
        if not await remotes.is_remote(self._git, self.remote):
            return (
                f"{where}, and {self.folder} has no git remote `{self.remote}` by which it could come here: "
                "docs/fleet.md says how clones share one"
            )
        if not self._settings.current.fleet.push_main:
            return f"{where}, and `fleet.push_main` is false: nothing is landed by the remote `{self.remote}`"
        if home is not None and home.live and home.main is Main.NO_REMOTE:
            return f"{where}, which has no git remote `{self.remote}`: it comes when that is added there"
        if home is not None and home.live and home.main is Main.OWN:
            return f"{where}, where `fleet.push_main` is false: it comes when that is true"
        if home is not None and not home.live:
            return f"{where}, which is away: it is brought here when {home.name} is here again"
        return ""

    # -- branches that are to land

    async def hand_over(self, agent: str, commit: str) -> None:
        """Bring the branch of an agent of this member to the remote. Raises Refusal: something in it looks like a
        secret; GitError."""
        ref = member_refs(LANDING, self._fleet.room, self._fleet.name) + ref_component(agent)
        settings, at = self._settings.current, self._fleet.name
        if why := await why_it_stays(self._git, settings, commit):
            if why.secret:
                fix = (
                    "Take it out of the branch's commits too. What is none: its digest in `timeline.not_secret` at "
                    f"{at}."
                )
                if not settings.landing.required:
                    fix += f" Or land it there by hand: {command(f'worktrees merge {agent}')}, and push main."
            else:
                fix = (
                    f"If all of them may go there, `git push {self.remote} HEAD` in {agent}'s worktree at {at} "
                    "brings them. Or make fewer of them: `git reset --soft` and one commit."
                )
            raise Refusal(f"{agent}'s branch stays at {at}: {why.text}.", fix)
        # Those from before refs named their room; every open entry is handed over anew since then.
        former = (
            {} if self._pruned else await own_former_refs(self._git, self.remote, LANDING, self._fleet.name)
        )
        await remotes.push_own_refs(self._git, self.remote, {**dict.fromkeys(former, ""), ref: commit})
        self._pruned = True

    async def take_over(self, agent: str, commit: str) -> bool:
        """Bring what is to land of an agent here; False: no member has brought it to the remote. Raises GitError."""
        if not await self._has(commit):
            refs = member_refs(LANDING, self._fleet.room, "*") + ref_component(agent)
            await remotes.fetch(self._git, self.remote, refs, refs)
        older = [member.name for member in self._fleet.others if member.protocol < NAMES_ROOM]
        if older and not await self._has(commit):
            there = await remotes.remote_refs(self._git, self.remote, LANDING)
            former = {former_refs(LANDING, name) + ref_component(agent) for name in older}
            for ref in sorted(there.keys() & former):
                await remotes.fetch(self._git, self.remote, ref, ref)
        return await self._has(commit)

    async def carried(self, commit: str) -> list[Carried]:
        """The commits of people on main here that the remote has not got, and that this work of an agent has."""
        head = await self._registry.main_head()
        if head.branch is None or head.commit is None:
            return []
        base = await self._git.maybe("merge-base", commit, head.commit)
        asked = ("log", "--no-merges", "--reverse", f"-{MOST_CARRIED}", "--format=%H%x09%an%x09%s")
        listed = base and await self._git.maybe(*asked, f"{self._main(head.branch)}..{base}", "--")
        found = [line.split("\t", 2) for line in (listed or "").splitlines() if line.count("\t") >= 2]
        return [Carried(id, author, subject, self._fleet.name) for id, author, subject in found]

    async def _has(self, commit: str) -> bool:
        return await self._git.maybe("rev-parse", "-q", "--verify", f"{commit}^{{commit}}") is not None

    # -- main

    async def follow(self, merger: Callable[[], Awaitable[BranchMerger]]) -> str:
        """Bring the main branch here, and its files, to where it is at the remote; its commit. Raises Refusal, which
        says what a person has to do, and GitError."""
        try:
            main = await self._followed(merger)
        except Refusal as refusal:
            self._behind = str(refusal)
            raise
        self._behind = ""
        return main

    async def _followed(self, merger: Callable[[], Awaitable[BranchMerger]]) -> str:
        into, here = await (await merger()).target(moves=True)
        there = await self._seen(into)
        while there != here:
            async with self._registry.exclusive:
                now = await merger()
                _, here = await now.target(moves=True)
                if there == here or await is_ancestor(self._git, here, there):
                    await self._forward(now, into, here, there)
                    return there
            # Something may have landed since the remote was asked.
            before, there = there, await self._seen(into)
            if there == before:
                raise await self._apart(into, here, there)
        return here

    async def _seen(self, into: str) -> str:
        """What main is at the remote; its commit is here then. Raises Refusal."""
        ref = f"refs/heads/{into}"
        try:
            there = await remotes.remote_commit(self._git, self.remote, ref)
            if there is not None and not await self._has(there):
                await remotes.fetch(self._git, self.remote, ref, self._main(into))
                there = await self._git.line("rev-parse", f"{self._main(into)}^{{commit}}")
            elif there is not None:
                await self._git.run("update-ref", self._main(into), there)
        except GitError as error:
            raise Refusal(f"`{self.remote}` cannot be asked what {into} is: {error.last_words}.") from error
        if there is None:
            raise Refusal(
                f"`{self.remote}` has no branch {into}, on which the members of the fleet land.",
                f"`git push {self.remote} {into}` in {self.folder} makes it.",
            )
        await self._track(ref, there)
        return there

    async def _track(self, ref: str, commit: str) -> None:
        """Say to git what the remote has, as `git fetch` does in this clone; forward only."""
        git = self._git
        if (kept := await remotes.tracking_ref(git, self.remote, ref)) is None:
            return
        before = await git.maybe("rev-parse", "-q", "--verify", f"{kept}^{{commit}}")
        if commit == before or (before is not None and not await is_ancestor(git, before, commit)):
            return
        with suppress(GitError):  # somebody fetches at this moment
            await git.run("update-ref", "-m", "relay: seen", kept, commit, before or "")

    def _main(self, into: str) -> str:
        return f"{MAINS}{ref_component(self.remote)}/{into}"

    async def _forward(self, merger: BranchMerger, into: str, here: str, there: str) -> None:
        if here == there:
            return
        if paths := await self._unknown_files(here, there):
            top = self.folder
            raise Refusal(
                f"{top} cannot follow {into}: files that git does not know are in the way: {some_paths(paths)}.",
                "Move them away first.",
            )
        await merger.move_main(into, here, there)

    async def _apart(self, into: str, here: str, there: str) -> Refusal:
        top = self.folder
        if await is_ancestor(self._git, there, here):
            return Refusal(
                f"{into} in {top} has commits that `{self.remote}` has not.",
                f"`git push {self.remote} {into}` there shares them.",
            )
        return Refusal(
            f"{into} in {top} and at `{self.remote}` have parted.",
            f"`git pull {self.remote} {into}` there, and push what comes of it.",
        )

    async def push(self, into: str, before: str, commit: str) -> None:
        """Move main at the remote from the one commit to the other. Raises MainMoved, Refusal: it is not taken."""
        if not self._fleet.leads:
            raise MainMoved
        ref = f"refs/heads/{into}"
        try:
            await remotes.push_commit(self._git, self.remote, commit, ref)
            await self._track(ref, commit)
        except GitError as error:
            try:
                there = await remotes.remote_commit(self._git, self.remote, ref)
            except GitError:
                there = before  # who cannot be asked does not say that it moved
            if there == commit:
                return  # its answer was lost
            if there != before:
                raise MainMoved from error
            refusal = Refusal(
                f"`{self.remote}` does not take what is to land on {into}: {error.last_words}.",
                f"`git push {self.remote} {into}` in {self.folder} shows why.",
            )
            self._refused = (before, str(refusal))
            raise refusal from error
        self._refused = None
