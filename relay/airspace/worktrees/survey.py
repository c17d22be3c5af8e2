"""What one checkout has in hand against the main branch: its working set, and how it stands.

Invariant: everything here follows from a snapshot, the main branch's commit and the files' times; so a survey is
made again only when one of the first two is another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from relay.git.checkout import Checkout
from relay.git.diff import Differ, Hunks, Record, attributes, changed_files, left_markers, touch_of
from relay.git.hunks import lines_before
from relay.git.merge_state import UnsettledFile
from relay.git.run import Git, GitError, name_of
from relay.git.snapshot import Snapshot, on_disk
from relay.model.working_set import WorkingSet, recency

#: Commits of a branch that are looked through for when its files were changed; older ones count as the oldest.
MOST_COMMITS = 1000
#: Commits of a branch whose messages are read for what its work is about.
MOST_MESSAGES = 50
#: Pairs of a head and a main branch whose history is remembered.
REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Work:
    """`base`: the merge base with the main branch at `main` (`main` itself when they have none in common).

    `changed_at`: Unix seconds of each path's last change. `generated`: paths that are in no working set.
    """

    snapshot: Snapshot
    main: str
    base: str
    records: tuple[Record, ...]
    hunks: Mapping[tuple[str, str], Hunks]
    changed_at: Mapping[bytes, float]
    generated: frozenset[bytes]
    started_at: float
    committed: int
    ahead: int
    behind: int
    #: Of its commits that the main branch has not got, the newest first.
    messages: tuple[str, ...] = ()
    #: Files in which a conflict is not settled: of a merge under way, with the lines of the branch's own file; or
    #: with markers that were committed.
    unsettled: tuple[UnsettledFile, ...] = ()
    #: Of those of a merge under way, by their path there, what the branch itself changes, against where it left the
    #: main branch.
    own: Mapping[bytes, Record] = field(default_factory=dict)
    #: The commit that `own` is against.
    own_base: str = ""

    @property
    def empty(self) -> bool:
        """Has it nothing that the main branch lacks?"""
        return not self.ahead and not self.snapshot.dirty

    @property
    def side(self) -> str:
        """The commit that is compared with the work of others. While conflicts of a merge stand in the files, the
        branch's own: git's markers, and what stands there of the other side, are not its agent's work."""
        head = self.snapshot.head.commit
        return head if head is not None and self.snapshot.unsettled else self.snapshot.commit

    @property
    def marked(self) -> tuple[UnsettledFile, ...]:
        """The files of `side` that have markers."""
        held = dict(self.snapshot.unsettled)
        return tuple(each for each in self.unsettled if each[0] not in held)

    @property
    def own_records(self) -> tuple[Record, ...]:
        """`records`, and of files with conflicts of a merge what the branch itself changes."""
        kept = [record for record in self.records if record.last_path not in self.own]
        return (*kept, *self.own.values()) if self.own else self.records

    @property
    def paths(self) -> frozenset[str]:
        """Every path that it touches, both sides of renames."""
        return frozenset(
            name_of(path) for record in self.own_records for path in (record.path, record.last_path)
        )

    def counts(self, record: Record) -> tuple[int, int]:
        """Lines that a file's work adds, and takes away; as in `own_records`."""
        own = self.own.get(record.last_path, record)
        hunks = self.hunks[own.old, own.new]
        return hunks.insertions, hunks.deletions

    @property
    def insertions(self) -> int:
        return sum(self.counts(record)[0] for record in self.records)

    @property
    def deletions(self) -> int:
        return sum(self.counts(record)[1] for record in self.records)

    def working_set(
        self, agent: str, churn: Mapping[bytes, int], *, now: float, half_life_s: float
    ) -> WorkingSet:
        """W_a at `now` (Unix seconds): weights are of this moment."""
        files = tuple(
            touch_of(
                record,
                self.hunks[record.old, record.new],
                weight=recency(now - self.changed_at[record.last_path], half_life_s),
                churn=churn.get(record.path, 0),
            )
            for record in self.own_records
            if record.last_path not in self.generated
        )
        return WorkingSet(agent, files, started_at=self.started_at, committed=float(self.committed))


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """What a branch is against the main branch. `began_at`: when its first commit was made, and `changed_at`: when
    its commits changed which paths, in Unix seconds; `committed`: files that its commits change; `messages`: of its
    commits, the newest first."""

    base: str
    began_at: float = float("inf")
    changed_at: Mapping[bytes, float] = field(default_factory=dict)
    committed: int = 0
    ahead: int = 0
    behind: int = 0
    messages: tuple[str, ...] = ()


class Surveyor:
    """Makes surveys. `ignored` says of a path that it is generated, by the configuration."""

    def __init__(self, differ: Differ, ignored: Callable[[str], bool]) -> None:
        self._differ = differ
        self._ignored = ignored
        self._known: OrderedDict[tuple[str | None, str], BranchHistory] = OrderedDict()

    async def survey(
        self,
        git: Git,
        checkout: Checkout,
        snapshot: Snapshot,
        main: str,
        first_seen: dict[bytes, float],
        now: float,
    ) -> Work:
        """`first_seen`: when a path that has no time of its own (a deleted one) was first found changed; kept
        from survey to survey. Raises GitError."""
        head = snapshot.head.commit
        past = await self._history(git, head, main)
        own_base = past.base
        own, own_hunks = await self._own(git, snapshot, own_base)
        if snapshot.merging:
            # What the merge brings in is not this branch's work.
            past = replace(past, base=await git.maybe("merge-base", main, snapshot.commit) or past.base)
        records = tuple(await changed_files(git, past.base, snapshot.tree))
        hunks, generated, open_work = await asyncio.gather(
            self._differ.hunks(git, past.base, snapshot.tree, records),
            self._generated(git, records),
            self._open_work(git, snapshot, past.base, records),
        )
        changed_at = await asyncio.to_thread(
            _changed_at,
            checkout,
            (*records, *own.values()),
            open_work,
            past.changed_at,
            first_seen,
            now,
        )
        earliest = min(
            (changed_at[record.last_path] for record in records if record.last_path in open_work), default=now
        )
        return Work(
            snapshot=snapshot,
            main=main,
            base=past.base,
            records=records,
            hunks={**hunks, **own_hunks},
            changed_at=changed_at,
            generated=generated,
            started_at=min(earliest, past.began_at) if records or past.ahead else 0.0,
            committed=past.committed,
            ahead=past.ahead,
            behind=past.behind,
            messages=past.messages,
            unsettled=tuple(
                {
                    **dict(await left_markers(git, records, hunks)),
                    **dict(await in_own_lines(self._differ, git, snapshot)),
                }.items()
            ),
            own=own,
            own_base=own_base,
        )

    async def _own(
        self, git: Git, snapshot: Snapshot, base: str
    ) -> tuple[dict[bytes, Record], Mapping[tuple[str, str], Hunks]]:
        """`Work.own`, with its hunks. `base`: where the branch left the main branch before that merge."""
        head, paths = snapshot.head.commit, {path for path, _ in snapshot.unsettled}
        if head is None or not paths:
            return {}, {}
        changed = await changed_files(git, base, head)
        own = {record.last_path: record for record in changed if name_of(record.last_path) in paths}
        if (elsewhere := paths - {name_of(path) for path in own}) and snapshot.merging:
            # What the other side has renamed stands under that side's name.
            before = {record.last_path: record for record in changed}
            for record in await changed_files(git, base, snapshot.merging[0]):
                if record.path in before and name_of(record.last_path) in elsewhere:
                    own[record.last_path] = before[record.path]
        return own, await self._differ.hunks(git, base, head, list(own.values()))

    async def _history(self, git: Git, head: str | None, main: str) -> BranchHistory:
        """What follows from two commits alone, and so is asked once."""
        if (head, main) in self._known:
            return self._known[head, main]
        base = (await git.maybe("merge-base", main, head) if head else None) or main
        if head is None:
            past = BranchHistory(base)
        else:
            (began_at, changed_at), committed, sides, texts = await asyncio.gather(
                _times(git, base, head),
                changed_files(git, base, head),
                git.line("rev-list", "--left-right", "--count", f"{main}...{head}"),
                messages(git, f"{main}..{head}", MOST_MESSAGES),
            )
            behind, ahead = (int(side) for side in sides.split())
            past = BranchHistory(base, began_at, changed_at, len(committed), ahead, behind, texts)
        self._known[head, main] = past
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return past

    async def _open_work(
        self, git: Git, snapshot: Snapshot, base: str, records: tuple[Record, ...]
    ) -> frozenset[bytes]:
        """The paths of what is not committed."""
        if not snapshot.dirty:
            return frozenset()
        if snapshot.head.commit not in (None, base):
            records = tuple(await changed_files(git, str(snapshot.head.commit), snapshot.tree))
        return frozenset(path for record in records for path in (record.path, record.last_path))

    async def _generated(self, git: Git, records: tuple[Record, ...]) -> frozenset[bytes]:
        generated = await attributes(git, ["linguist-generated"], [record.last_path for record in records])
        return frozenset(generated) | {
            record.last_path for record in records if self._ignored(name_of(record.last_path))
        }


async def in_own_lines(differ: Differ, git: Git, snapshot: Snapshot) -> tuple[UnsettledFile, ...]:
    """The files of a merge under way that are not settled, with the lines of the branch's own file: the numbers that
    they have for people before, while and after git's markers stand there. Raises GitError."""
    head = snapshot.head.commit
    if head is None or not any(places for _, places in snapshot.unsettled):
        return snapshot.unsettled
    records = await changed_files(git, head, snapshot.tree)
    hunks = await differ.hunks(git, head, snapshot.tree, records)
    spans = {name_of(record.last_path): hunks[record.old, record.new].spans for record in records}
    return tuple((path, lines_before(spans.get(path, ()), places)) for path, places in snapshot.unsettled)


async def messages(git: Git, commits: str, most: int) -> tuple[str, ...]:
    """The messages of these commits, merges left out, the newest first. Raises GitError."""
    done = await git.run("log", f"-{most}", "--no-merges", "--format=%B", "-z", commits, "--")
    texts = (message.decode("utf-8", "replace").strip() for message in done.out.split(b"\0"))
    return tuple(message for message in texts if message)


async def _times(git: Git, base: str, head: str) -> tuple[float, dict[bytes, float]]:
    """`began_at` and `changed_at` of a history."""
    first, of_path = float("inf"), dict[bytes, float]()
    if head == base:
        return first, of_path
    asked = ("log", f"-{MOST_COMMITS}", "--format=%x01%ct %at", "--name-only", "-z", "--no-renames")
    try:
        done = await git.run(*asked, f"{base}..{head}", "--")
    except GitError:
        return first, of_path
    for entry in done.out.split(b"\x01")[1:]:
        dates, *paths = entry.split(b"\0")
        committed, authored = dates.strip().split(b" ")
        first = min(first, float(authored))
        for path in paths:
            of_path.setdefault(path.removeprefix(b"\n"), float(committed))
    return first, of_path


def _changed_at(
    checkout: Checkout,
    records: tuple[Record, ...],
    dirty: frozenset[bytes],
    committed_at: Mapping[bytes, float],
    first_seen: dict[bytes, float],
    now: float,
) -> dict[bytes, float]:
    """When each path was last changed: its file's time while uncommitted, then its commit's."""
    changed_at = {}
    oldest = min(committed_at.values(), default=now)
    for record in records:
        path = record.last_path
        if path not in dirty:
            changed_at[path] = committed_at.get(path, oldest)
            first_seen.pop(path, None)
            continue
        try:
            # Not later than now: a clock may have been set back.
            changed_at[path] = min(now, on_disk(checkout.top, path).lstat().st_mtime)
        except OSError:
            changed_at[path] = first_seen.setdefault(path, now)
    return changed_at
