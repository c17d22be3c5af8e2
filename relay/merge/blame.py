"""Who is behind each line of a file: an agent, a person, both sides of a merge, or an agent that settled a conflict
(docs/merge.md).

Invariants:
- `blame` is the one place that decides this: the command, HTTP and the page show what it says. Whose a commit is,
  `_behind` decides for it and for `made_by`, by which the room says whose a side of a conflict is;
- git says which commit a line comes from (`git blame`), through merges, renames, and the squashes of which the work
  is kept. Only a line that none of a merge's parents has is the merge's own, and only such a line is `merged` or
  `ai_resolved`;
- reads only; what a merge is tried anew with stands in the scratch of `git`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from relay.git.run import Git, name_of
from relay.git.signing import of_relay
from relay.git.trial_merge import ConflictPart, Join, merge_trees
from relay.log.commit_trailers import AGENT, SUGGESTIONS

#: Commits of the branch, along first parents, among which merges of agents' work are looked for, newest first.
MOST_LANDINGS = 5000
#: Lines of a place that is gone which are looked for in the history. What means more than itself in git's patterns.
MOST_GONE = 50
_SPECIAL = re.compile(r"[][\\.^$*+?(){}|]")
_GROUP = re.compile(r"([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?")
_FORMAT = f"%H%x00%P%x00%an%x00%ae%x00%cn%x00%at%x00%s%x00%(trailers:key={AGENT},valueonly,separator=%x2C)"


class Kind(StrEnum):
    """Whose a line is. MERGED: made of both sides by the ladder; AI_RESOLVED: written by an agent where both sides
    had changed the same."""

    AGENT = "agent"
    PERSON = "person"
    MERGED = "merged"
    AI_RESOLVED = "ai_resolved"


@dataclass(frozen=True, slots=True)
class Landing:
    """What the room recorded of a commit that merged an agent's work. `joined`: the steps by which the ladder joined
    a file, by path; `work`: the commit that a squash made one commit of, empty = it was none, or it is not kept."""

    agent: str
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)
    work: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody wrote in the place of a conflict. `ai`: an agent did."""

    path: str
    text: str
    by: str
    ai: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What a room knows beyond git, as far as there is one. `agents`: their names; `landings`: by commit; `brought`:
    contents of the file (blob ids) that are an agent's work and that a person brought onto the main branch by hand,
    with the agent; `unlanded`: the agent whose branch is looked at, and the main branch's commit."""

    agents: frozenset[str] = frozenset()
    landings: Mapping[str, Landing] = field(default_factory=dict)
    answers: Sequence[Answer] = ()
    brought: Mapping[str, str] = field(default_factory=dict)
    unlanded: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BlamedLines:
    """Lines of the file that follow each other and are alike, from 1. `who`: the agent or the person; of merged lines
    the agent whose work was merged in. `at`: when the commit's author made it, in UTC."""

    first: int
    last: int
    kind: Kind
    who: str
    commit: str
    at: str
    subject: str

    def as_json(self) -> dict[str, Any]:
        """`{first, last, kind, who, commit, at, subject}`."""
        return {
            "first": self.first,
            "last": self.last,
            "kind": str(self.kind),
            "who": self.who,
            "commit": self.commit,
            "at": self.at,
            "subject": self.subject,
        }


@dataclass(frozen=True, slots=True)
class _Commit:
    id: str
    parents: tuple[str, ...]
    author: str
    email: str
    committer: str
    at: int
    subject: str
    #: Whose work it is, as relay's trailer says; empty: it has none.
    agent: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Lines that git says come from one commit. `was`: the first one's number in the file `path` of that commit."""

    commit: str
    path: str
    was: int
    first: int
    last: int

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


async def blame(
    git: Git, commit: str, path: str, known: Known | None = None, join: Join | None = None
) -> list[BlamedLines]:
    """Who is behind each line of the file `path` (relative to the top) as `commit` has it. `join`: tries anew a merge
    of which nothing is recorded; without one its own lines are of who made it. Raises GitError."""
    known = known or Known()
    squashes = await _squashes(git, known)
    groups, texts = await _groups(git, commit, path, squashes)
    commits = await _commits(git, {group.commit for group in groups})
    commits |= {id: replace(commits[id], parents=squashes[id]) for id in squashes if id in commits}
    behind = await _on_agents_branches(git, commit, path, known, squashes)
    by_hand = await _brought(git, [(group.commit, group.path) for group in groups], known)
    told: list[BlamedLines] = []
    looked: dict[tuple[str, str], _MergedFile | None] = {}
    for group in groups:
        made = commits[group.commit]
        place = group.commit, group.path
        maker = _behind(made, known, behind, by_hand.get(place, ""))
        if place not in looked:
            own = {
                texts[line - 1] for each in groups if place == (each.commit, each.path) for line in each.lines
            }
            looked[place] = await _merged_file(git, made, group.path, own, known, join)
        merged, at = looked[place], datetime.fromtimestamp(made.at, UTC).isoformat()
        for line in group.lines:
            kind, who = maker if merged is None else merged.whose(line - group.first + group.was, maker)
            stem = merged.stems.get(texts[line - 1]) if merged is not None and kind is Kind.MERGED else None
            made_so = BlamedLines(line, line, kind, who, made.id, at, made.subject)
            told.append(made_so if stem is None else replace(stem, first=line, last=line))
    return _together(told, texts)


async def made_by(
    git: Git, commit: str, change: str, path: str, known: Known | None = None
) -> tuple[Kind, str]:
    """Who made the commit `change`, one that `commit` has, as far as the file `path` goes. Raises GitError."""
    known = known or Known()
    behind = await _on_agents_branches(git, commit, path, known, await _squashes(git, known))
    by_hand = await _brought(git, [(change, path)], known)
    return _behind((await _commits(git, [change]))[change], known, behind, by_hand.get((change, path), ""))


async def behind_lines(
    git: Git,
    main: str,
    side: str,
    part: ConflictPart,
    lines: Sequence[BlamedLines],
    known: Known | None = None,
) -> tuple[str, str]:
    """Who changed the lines in which `part` conflicts last on the main branch `main` since the branch `side` left it,
    and the subject of that commit; empty: git cannot tell. Where that applied a suggestion, or took one back, the
    subject is of the work before it. `lines`: who is behind those of the whole file there. Raises GitError."""
    place, since = part.places[1], dict[str, BlamedLines]()
    for each in lines if place is not None else ():
        if place is None or each.last < place[0] or each.first > place[1] or each.commit in since:
            continue
        asked = ("merge-base", "--is-ancestor", each.commit, side)
        if (await git.run(*asked, ok=(0, 1))).code:
            since[each.commit] = each
    log = ("log", "-1", "--format=%H%x00%s", "--full-history", f"{side}..{main}")
    if since:
        # Of several the newest; by the times of the commits, as their work may be in no line with the others'.
        work = [id for id, each in since.items() if not each.subject.startswith(SUGGESTIONS)]
        sort = await git.run("rev-list", "--no-walk=sorted", *(work or since))
        newest = since[sort.text.split()[0]]
        if not work:
            but = ("-E", "--invert-grep", *(f"--grep=^{words}" for words in SUGGESTIONS), "--no-merges")
            before = (await git.maybe(*log, *but, "--", part.path)) or ""
            return newest.who, before.partition("\0")[2] or newest.subject
        return newest.who, newest.subject
    # What stood there is gone: who took a line of it away, or put one there. Else who changed the file.
    gone = [_SPECIAL.sub(r"\\\g<0>", row) for row in part.base.splitlines()[:MOST_GONE] if row.strip()]
    # A merge changes no lines but its own; git's shorter history of a path would pass over whole branches.
    walks = [("--no-merges", "-E", f"-G^({'|'.join(gone)})\r?$")] if gone else []
    for walk in (*walks, ("--no-merges",), ()):
        commit, _, subject = ((await git.maybe(*log, *walk, "--", part.path)) or "").partition("\0")
        if commit:
            return (await made_by(git, main, commit, part.path, known))[1], subject
    return "", ""


def _together(told: Sequence[BlamedLines], texts: Sequence[str]) -> list[BlamedLines]:
    """Lines that are alike as one. A blank line that a merge set between its parts goes with what follows."""
    after: BlamedLines | None = None
    found: list[BlamedLines] = []
    for line in reversed(told):
        if after is not None and line.kind is Kind.MERGED and not texts[line.first - 1].strip():
            after = replace(after, first=line.first, last=line.last)
        else:
            after = line
        if found and replace(found[-1], first=after.first, last=after.last) == after:
            found[-1] = replace(found[-1], first=after.first)
        else:
            found.append(after)
    return found[::-1]


# -- what git says


async def _groups(
    git: Git, commit: str, path: str, squashes: Mapping[str, tuple[str, ...]]
) -> tuple[list[_Group], list[str]]:
    """The lines of the file by the commits that they come from, in order, and the texts of all. `squashes`: commits
    that are taken for merges of these parents."""
    grafts = "".join(f"{id} {' '.join(parents)}\n" for id, parents in squashes.items())
    named = ("-S", "/dev/stdin") if grafts else ()
    done = await git.run("blame", "--porcelain", *named, commit, "--", path, stdin=grafts.encode())
    groups, paths, texts = list[_Group](), dict[str, str](), list[str]()
    at: re.Match[str] | None = None
    for row in done.out.split(b"\n"):
        if row.startswith(b"\t"):
            at = None
            texts.append(name_of(row[1:]))
        elif at is None:
            at = _GROUP.fullmatch(name_of(row))
            if at is not None and at[4]:
                first = int(at[3])
                groups.append(_Group(at[1], "", int(at[2]), first, first + int(at[4]) - 1))
        elif row.startswith(b"filename "):
            # git names it with every group whose file it has not named yet.
            paths[at[1]] = _unquoted(row.removeprefix(b"filename "))
            groups[-1] = replace(groups[-1], path=paths[at[1]])
    return [group if group.path else replace(group, path=paths[group.commit]) for group in groups], texts


def _unquoted(name: bytes) -> str:
    """A path as git writes it into a line: one with unusual bytes stands in quotes, as in C."""
    if not name.startswith(b'"'):
        return name_of(name)
    return name_of(name[1:-1].decode("unicode_escape").encode("latin-1"))


async def _commits(git: Git, ids: Iterable[str]) -> dict[str, _Commit]:
    wanted = "".join(f"{id}\n" for id in ids)
    if not wanted:
        return {}
    asked = ("log", "--no-walk=unsorted", f"--format={_FORMAT}", "--stdin")
    done = await git.run(*asked, stdin=wanted.encode())
    return {made.id: made for made in map(_commit, done.text.split("\n")) if made is not None}


def _commit(line: str) -> _Commit | None:
    parts = line.split("\0")
    if len(parts) != 8:
        return None
    id, parents, author, email, committer, at, subject, agent = parts
    return _Commit(id, tuple(parents.split()), author, email, committer, int(at), subject, agent.strip())


async def _squashes(git: Git, known: Known) -> dict[str, tuple[str, ...]]:
    """The squashes of which the work is kept: the main branch's commit before, and the work."""
    asked = {id: landing.work for id, landing in known.landings.items() if landing.work}
    there = dict[str, tuple[str, ...]]()
    for id, work in asked.items():
        before = await git.maybe("rev-parse", "-q", "--verify", f"{id}^1")
        if before and await git.maybe("cat-file", "-t", work) == "commit":
            there[id] = before, work
    return there


async def _on_agents_branches(
    git: Git, commit: str, path: str, known: Known, squashes: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Whose branch the commits were made on that agents' branches have brought, by commit. An agent's own commits are
    signed by the person whose git it runs."""
    walk = ("log", "--first-parent", "--merges", f"--max-count={MOST_LANDINGS}", f"--format={_FORMAT}")
    done = await git.run(*walk, commit, "--")
    merges = {made.id: made for made in map(_commit, done.text.split("\n")) if made is not None}
    by_hand = await _brought(git, [(made.id, path) for made in merges.values() if not made.agent], known)
    tips = {made.parents[1]: made.agent or by_hand.get((made.id, path), "") for made in merges.values()}
    tips |= {work: known.landings[id].agent for id, (_, work) in squashes.items()}
    tips = {tip: agent for tip, agent in tips.items() if agent}
    main = commit
    if known.unlanded is not None:
        tips[commit], main = known.unlanded
    if not tips:
        return {}
    # Along first parents: what `main` reaches by its merges is what is looked for. (git's --exclude-first-parent-only
    # would say it, but not where a merge is no younger than what it merges.)
    floor = [made.parents[0] for made in merges.values()][-1:] or [main]
    way = ("--first-parent", "--format=%H %P", "--stdin")
    line = await git.run("log", *way, stdin=f"{main}\n^{floor[0]}\n".encode())
    mains = {row.partition(" ")[0] for row in line.text.split("\n")}
    brought = await git.run(
        "log", *way, stdin="".join(f"{tip}\n" for tip in tips).encode() + f"^{floor[0]}\n".encode()
    )
    rows = [row.split() for row in brought.text.split("\n") if row and row.partition(" ")[0] not in mains]
    before = {id: parents[:1] for id, *parents in rows}
    behind = dict[str, str]()
    for tip, agent in tips.items():
        at: str | None = tip
        while at in before and at not in behind:
            behind[at] = agent
            at = next(iter(before[at]), None)
    return behind


async def _brought(git: Git, places: Sequence[tuple[str, str]], known: Known) -> dict[tuple[str, str], str]:
    """Of these files (commit, path), whose work they are that a person has brought by hand."""
    places = [place for place in dict.fromkeys(places) if "\n" not in place[1]]
    if not known.brought or not places:
        return {}
    asked = "".join(f"{commit}:{path}\n" for commit, path in places).encode("utf-8", "surrogateescape")
    found = await git.run("cat-file", "--batch-check=%(objectname)", stdin=asked)
    blobs = zip(places, found.text.split("\n"), strict=True)
    return {place: known.brought[blob] for place, blob in blobs if blob in known.brought}


# -- who is behind it


def _behind(made: _Commit, known: Known, branches: Mapping[str, str], brought: str) -> tuple[Kind, str]:
    """Who made a commit: an agent by its name, by relay's trailer, by the branch it was made on, or by what the room
    recorded of the file (`brought`); else the person who signed it."""
    if made.author in known.agents or (
        made.agent == made.author and of_relay(made.author).email == made.email
    ):
        return Kind.AGENT, made.author
    # What was made elsewhere and picked (a rebase, a cherry-pick) keeps its author.
    if made.id in branches and made.author == made.committer:
        return Kind.AGENT, branches[made.id]
    if brought and len(made.parents) < 2:
        return Kind.AGENT, brought
    return Kind.PERSON, made.author


@dataclass(frozen=True, slots=True)
class _MergedFile:
    """A file in which git's merge conflicts, at the commit that merged it. `agent`: whose work was merged; `joined`:
    the ladder made it; `answers`: by line of that file, who wrote it in the place of a conflict; `stems`: by its
    text, who is behind a line that a parent has in another place."""

    agent: str
    joined: bool
    answers: Mapping[int, tuple[Kind, str]] = field(default_factory=dict)
    stems: Mapping[str, BlamedLines] = field(default_factory=dict)

    def whose(self, line: int, maker: tuple[Kind, str]) -> tuple[Kind, str]:
        """Of a line that no parent has."""
        if line in self.answers:
            return self.answers[line]
        if self.joined:
            return Kind.MERGED, self.agent
        # Nothing joined it: who committed it settled it by hand.
        return (Kind.AI_RESOLVED, maker[1]) if maker[0] is Kind.AGENT else maker


async def _merged_file(
    git: Git, made: _Commit, path: str, own: Collection[str], known: Known, join: Join | None
) -> _MergedFile | None:
    """None: no merge, or one in which this file did not conflict. `own`: the texts of its lines that git found in no
    parent. Raises GitError."""
    if len(made.parents) != 2:
        return None
    landing = known.landings.get(made.id)
    agent = landing.agent if landing is not None else made.agent or made.author
    if landing is not None and path in landing.joined:
        answered = "resolved" in landing.joined[path]
        answers = await _answered(git, made.id, path, known) if answered else {}
        return _MergedFile(agent, True, answers, await _stems(git, made, path, agent, own, known, join))
    merge = await merge_trees(git, *made.parents, join)
    if merge is None:
        return None
    if path in {file.path for file in merge.joined}:
        ids = [await git.maybe("rev-parse", "-q", "--verify", f"{at}:{path}") for at in (merge.tree, made.id)]
        if ids[0] == ids[1]:
            return _MergedFile(agent, True, {}, await _stems(git, made, path, agent, own, known, join))
        return _MergedFile(agent, False)
    return _MergedFile(agent, False) if path in merge.conflicts else None


async def _stems(
    git: Git, made: _Commit, path: str, agent: str, own: Collection[str], known: Known, join: Join | None
) -> dict[str, BlamedLines]:
    """Of these lines, those that a parent has, whose order the ladder changed: who is behind them there."""
    found = dict[str, BlamedLines]()
    sides = [None, (agent, made.parents[0]) if agent in known.agents or made.agent else None]
    for parent, unlanded in zip(made.parents, sides, strict=True):
        data = await git.run("cat-file", "blob", f"{parent}:{path}", ok=(0, 128))
        rows = name_of(data.out).split("\n")
        if not {row for row in rows if row.strip()} & ({*own} - {*found}):
            continue
        for each in await blame(git, parent, path, replace(known, unlanded=unlanded), join):
            for line in range(each.first, each.last + 1):
                if rows[line - 1].strip() and rows[line - 1] in own:
                    found.setdefault(rows[line - 1], each)
    return found


async def _answered(git: Git, commit: str, path: str, known: Known) -> dict[int, tuple[Kind, str]]:
    """By line of the file, who wrote it in the place of a conflict."""
    rows = name_of((await git.run("cat-file", "blob", f"{commit}:{path}")).out).split("\n")
    whose = dict[int, tuple[Kind, str]]()
    for answer in known.answers:
        wanted = answer.text.removesuffix("\n").split("\n")
        if answer.path == path and answer.text:
            who = (Kind.AI_RESOLVED if answer.ai else Kind.PERSON, answer.by)
            whose |= {
                line: who for first in _places(rows, wanted) for line in range(first, first + len(wanted))
            }
    return whose


def _places(rows: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """The lines, from 1, at which these rows stand."""
    for at in range(len(rows) - len(wanted) + 1):
        if rows[at] == wanted[0] and rows[at : at + len(wanted)] == list(wanted):
            yield at + 1
