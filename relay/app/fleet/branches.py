"""The members' agents' branches on the git remote that they share, so that whoever leads can try to merge them.

Invariants: only refs of relay's own move (`refs/relay/fleet/ROOM/MEMBER/AGENT`), and only a member's own by that
member; a branch that has something like a secret in a file stays at home. What does not succeed is said in the log
once, shown in the state, and tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.refs import FLEET, former_refs, member_refs, own_former_refs
from relay.app.runtime.room_token import room_secrets
from relay.base.terminal_text import safe_line
from relay.config.settings import LiveSettings, Settings
from relay.git.kept_snapshots import ref_component
from relay.git.merge_state import is_binary
from relay.git.remotes import address_of, fetch_refs, push_own_refs, remote_refs
from relay.git.run import Git, GitError
from relay.timeline.sync.privacy import Sharing
from relay.timeline.sync.tree_secrets import find_secrets

log = structlog.get_logger(__name__)
#: Where a remote's main branch is seen here, below the remote's name.
MAINS = "refs/relay/common/"
#: Seconds that others wait for a branch that is on its way; what takes longer is not tried until it has come.
WAIT_S = 5.0
#: Commits of a branch whose files are looked through for secrets; one with more is not brought to the remote.
MOST_COMMITS = 200
#: Bytes of the changed files of one agent that are read for their symbols.
MOST_TEXT = 4 * 1_048_576


class FleetBranches:
    """Of one member. `room`: the id of its room; `trouble`: why the last exchange came to nothing, "" = it did not,
    or there is no remote."""

    def __init__(self, settings: LiveSettings, registry: WorktreeRegistry, room: Callable[[], str]) -> None:
        self._settings, self._registry, self._room = settings, registry, room
        self.trouble = ""
        #: The own refs at the remote; None: not known.
        self._there: dict[str, str] | None = None
        #: When the push that is under way began (monotonic).
        self._began: float | None = None
        #: There is no remote, as far as is known: before the first push there may be one.
        self._alone = False
        #: The last push came to nothing.
        self._fails = False
        #: Commits in which something looks like a secret.
        self._secret: dict[str, str] = {}

    @property
    def remote(self) -> str:
        return self._settings.current.fleet.remote

    def has(self, work: SharedWork) -> bool:
        """Does the remote have this work?"""
        return bool(work.commit) and (self._there or {}).get(self._ref(work.agent)) == work.commit

    def will_have(self, work: SharedWork) -> bool:
        """Is this work on its way to the remote?"""
        if not work.commit or self._fails or self.has(work) or work.commit in self._secret:
            return False
        began = self._began
        return not self._alone and (began is None or time.monotonic() - began < WAIT_S)

    def wants(self, works: Iterable[SharedWork]) -> bool:
        """Is there something to bring to the remote?"""
        return self._there is None or self._there != self._wanted(works)

    async def push(self, works: Iterable[SharedWork]) -> bool:
        """Bring the branches of this member's agents to the remote, and take away those that have nothing any more.
        False: it is to be tried again."""
        self._began = time.monotonic()
        try:
            return await self._push(works)
        finally:
            self._began = None

    async def _push(self, works: Iterable[SharedWork]) -> bool:
        main = self._registry.main
        if main is None and not self._registry.surveyed.is_set():
            return True  # whether there is a clone, and a remote, is not known yet
        if main is None or await address_of(main.git, self.remote) is None:
            self._there, self._alone = {}, True
            return True
        self._alone = False
        git = replace(
            main.git,
            env={"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._registry.scratch.folder / "objects")},
        )
        try:
            if self._there is None:
                member = self._settings.current.member
                former = await own_former_refs(git, self.remote, FLEET, member)
                self._there = {**former, **await remote_refs(git, self.remote, self._ref(""))}
            works = [work for work in works if work.commit]
            await self._look_for_secrets(git, works)
            wanted = self._wanted(works)
            moved = {ref: commit for ref, commit in wanted.items() if self._there.get(ref) != commit}
            moves = {**moved, **dict.fromkeys(self._there.keys() - wanted.keys(), "")}
            if moves:
                await push_own_refs(git, self.remote, moves)
                self._there = wanted
        except GitError as error:
            self._there, self._fails = None, True
            return self._failed("pushed", error)
        self._fails = False
        self._secret = {commit: paths for commit, paths in self._secret.items() if self._now(commit, works)}
        self.trouble = "; ".join(self._secret.values())
        return True

    async def fetch(self, works: Iterable[SharedWork]) -> dict[str, Mapping[str, str]]:
        """Bring the branches of the other members here. The commits that are here then, each with the texts of the
        files that its agent changed."""
        main = self._registry.main
        if main is None:
            return {}
        git, wanted = self._registry.scratch.git(main), [work for work in works if work.commit]
        missing = [work for work in wanted if not await _there(git, work.commit)]
        address = await address_of(main.git, self.remote)
        if address is not None and any(work.pushed for work in missing):
            try:
                refs = f"{FLEET}{self._room()}/"
                await fetch_refs(git, address, refs, refs)
                await self._fetch_former(git, address, missing)
                self.trouble = ""
            except GitError as error:
                self._failed("fetched", error)
        return {work.commit: await _texts(git, work) for work in wanted if await _there(git, work.commit)}

    # -- inside

    async def _fetch_former(self, git: Git, address: str, missing: Iterable[SharedWork]) -> None:
        """What members push that are not updated yet, and whose refs do not name the room."""
        old = {work.member for work in missing if work.pushed and not await _there(git, work.commit)}
        for member in sorted(old):
            refs = former_refs(FLEET, member)
            await fetch_refs(git, address, refs, refs)

    def _ref(self, agent: str) -> str:
        own = member_refs(FLEET, self._room(), self._settings.current.member)
        return own + ref_component(agent) if agent else own

    def _wanted(self, works: Iterable[SharedWork]) -> dict[str, str]:
        return {
            self._ref(work.agent): work.commit
            for work in works
            if work.commit and work.commit not in self._secret
        }

    @staticmethod
    def _now(commit: str, works: Iterable[SharedWork]) -> bool:
        return any(work.commit == commit for work in works)

    def _failed(self, what: str, error: GitError) -> bool:
        said = f"The agents' branches cannot be {what}: {safe_line(str(error))}."
        if said != self.trouble:
            log.warning("no branches between members", remote=self.remote, reason=str(error))
        self.trouble = said
        return False

    async def _look_for_secrets(self, git: Git, works: Iterable[SharedWork]) -> None:
        there = (self._there or {}).values()
        for work in works:
            if work.commit in there or work.commit in self._secret:
                continue
            why = await why_it_stays(git, self._settings.current, work.commit)
            if why:
                said = f"The branch of {work.agent} stays here: {why.text}."
                if said not in self._secret.values():
                    log.warning("branch not pushed", agent=work.agent, reason=said)
                self._secret[work.commit] = said


@dataclass(frozen=True, slots=True)
class Stays:
    """Why a commit is not to go to the common remote. `secret`: something in it looks like one; else it has too many
    commits to look."""

    text: str
    secret: bool


async def why_it_stays(git: Git, settings: Settings, commit: str) -> Stays | None:
    """Why a commit is not to go to the common remote: what looks like a secret in what that has not got, with its
    digest; None = it may. Raises GitError."""
    remote = settings.fleet.remote
    own = await asyncio.to_thread(room_secrets, settings)
    seen = f"{MAINS}{ref_component(remote)}/"
    trees = await _trees(git, commit, remote, seen)
    sharing = Sharing.of((), own, settings.timeline.not_secret)
    # What has landed since this clone fetched last has left too.
    found = await find_secrets(git, trees, "", remote, sharing, known=seen)
    if paths := {path: digests for of_tree in found.values() for path, digests in of_tree.items()}:
        places = [f"{safe_line(path)} ({', '.join(digests)})" for path, digests in paths.items()]
        return Stays(f"a secret seems to stand in {', '.join(places)}", True)
    if len(trees) >= MOST_COMMITS:
        return Stays(f"it has {MOST_COMMITS} commits or more that the remote has not got", False)
    return None


async def _trees(git: Git, commit: str, remote: str, seen: str) -> list[str]:
    """The trees of the commits that the remote has not got, as far as this repository knows; the oldest first."""
    asked = (
        "log",
        f"-{MOST_COMMITS}",
        "--format=%T",
        "--reverse",
        commit,
        "--not",
        f"--remotes={remote}",
        f"--glob={seen}*",
    )
    return list(dict.fromkeys((await git.line(*asked)).split()))


async def _there(git: Git, commit: str) -> bool:
    return (await git.run("cat-file", "-e", f"{commit}^{{commit}}", ok=(0, 1, 128))).code == 0


async def _texts(git: Git, work: SharedWork) -> dict[str, str]:
    """The files that the agent changed, as it has them; none where they are too large to be read here."""
    paths = sorted({touch.new_path or touch.path for touch, _ in work.files if not touch.binary})
    try:
        listed = await git.run("ls-tree", "-z", work.commit, "--", *paths) if paths else None
        if listed is None:
            return {}
        entries = [entry.partition(b"\t") for entry in listed.out.split(b"\0") if entry]
        ids = {
            path.decode("utf-8", "backslashreplace"): about.split()[2].decode() for about, _, path in entries
        }
        blobs = await git.blobs(ids.values(), most=MOST_TEXT)
    except GitError:
        return {}
    return {
        path: blobs[id].decode("utf-8", "surrogateescape")
        for path, id in ids.items()
        if id in blobs and not is_binary(blobs[id])
    }
