"""Worktrees as the interfaces show them (docs/airspace.md): those of this relay, and those of the other members of
its fleet as these tell of them.

Invariant: nothing is done here with a worktree that is at another member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.merging.order import best_order
from relay.airspace.worktrees.merging.wording import merge_under_way
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.survey import Work
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.config.command_line import command
from relay.git import diff
from relay.git.run import Git, GitError, name_of
from relay.git.trial_merge import Trial, Verdict
from relay.model import Fault, Refusal

#: By agent, what the tests say of its work (`relay.verification.present.Standing.as_json`), of its tree by agent;
#: None: that cannot be read now.
Verified = Callable[[Mapping[str, str]], Awaitable[Mapping[str, dict[str, Any]] | None]]
#: Bytes of a difference that an interface shows.
MOST_DIFF = 1_048_576


#: Pairs that git is asked about for one answer: at 20 ms each some 3 s on two cores; the rest with the next one.
MOST_PAIRS = 256
#: Seconds that an order waits for the first look at all worktrees: less than people wait for an answer.
SURVEY_S = 15.0
#: The code of a refusal to do what can only be done at another member.
ELSEWHERE = "elsewhere"


def with_work(registry: WorktreeRegistry) -> tuple[str, ...]:
    """The agents that have work which can land, at whichever member of the fleet. Every way to land all asks here."""
    there = registry.worktrees.items()
    own = (name for name, each in there if each.work and each.work.records and name not in registry.guests)
    others = (name for name, each in registry.merge_trials.others.items() if each.changed)
    return tuple(dict.fromkeys([*own, *others]))


def elsewhere(registry: WorktreeRegistry, agent: str) -> SharedWork | None:
    """Of an agent that has its worktree at another member of the fleet, and none here."""
    others = registry.merge_trials.others
    return None if registry.find(agent) is not None else others.get(agent) or others.get(agent.upper())


def missing(registry: WorktreeRegistry, agent: str, words: str = "") -> Refusal:
    """Why nothing is done with the worktree of an agent that has none here. `words`: of the command that does it."""
    if (other := elsewhere(registry, agent)) is None:
        return Refusal(f"There is no worktree of {agent[:64]}.", f"{command('worktrees')} lists them.")
    away = f" {other.member} is away now." if other.away else ""
    # Without the configuration of this machine: it is run on another one.
    do = f"run `relay {words}` there" if words else "do it there"
    return Refusal(
        f"The worktree of {other.agent} is at {other.member}, not here.{away}",
        f"Log in where {other.member} runs, and {do}.",
        code=ELSEWHERE,
    )


async def looked_for(registry: WorktreeRegistry, agent: str) -> None:
    """Wait until it is known whether the agent has a worktree: right after a start, none is known yet. Raises
    Refusal: that takes longer than `SURVEY_S`."""
    if registry.find(agent) is not None:
        return
    try:
        async with asyncio.timeout(SURVEY_S):
            await registry.surveyed.wait()
    except TimeoutError:
        message = "The room has just started, and is still looking for the worktrees."
        raise Refusal(message, "Try again in a moment.", Fault.BUSY) from None


async def rows(
    registry: WorktreeRegistry,
    yields: Callable[[str, str], bool] = lambda agent, other: False,
    decided: Collection[str] = (),
    verified: Verified | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row for each worktree that was looked at, and the order to merge those in that are here (`best_order`).
    Those of other members follow, as these list them. `verified` gives what the tests say of each. A person's own
    session has none: its checkout is its person's, and stands only among what the others collide with."""
    # What a worktree has and how it merges are told of one commit of the main branch.
    await registry.catch_up()
    # Taken once: what is looked at meanwhile changes neither.
    surveyed = {
        name: (worktree, worktree.work)
        for name, worktree in registry.worktrees.items()
        if worktree.work is not None
    }
    target = await registry.target()
    trials = await registry.merge_trials.trials(target)
    pairs = [pair for pair in registry.merge_trials.pairs() if set(pair) <= surveyed.keys()]
    merges = await registry.merge_trials.merges(pairs, trials, most=MOST_PAIRS)
    collisions = {pair: merge.conflicts for pair, merge in merges.items() if merge.conflicts}
    joins = {pair: merge.joined for pair, merge in merges.items() if merge.clean and merge.joined}
    untried = [pair for pair in pairs if pair not in merges]
    into = target.branch if target is not None else None
    shown = []
    for name, (worktree, work) in surveyed.items():
        if name in registry.guests:
            continue
        trial = trials.get(name) or Trial(None)
        row = _row(registry, worktree, work, trial, into)
        row["collides"] = [
            {"agent": other, "paths": list(collisions[pair])} for pair, other in _partners(name, collisions)
        ]
        row["joins"] = [
            {"agent": other, "files": [file.as_json() for file in joins[pair]]}
            for pair, other in _partners(name, joins)
        ]
        row["untried"] = [other for _, other in _partners(name, untried)]
        # What is half written says nothing yet.
        row["undoes"] = [] if row["working"] else await registry.merge_trials.undone(name, work)
        shown.append(row)
    about = await _about(registry, {row["agent"]: surveyed[row["agent"]][1] for row in shown})
    landed = await registry.room.landed([row["agent"] for row in shown if row["merges"] == Verdict.NOTHING])
    for row in shown:
        row["about"] = about.get(row["agent"])
        row["landed"] = landing.commit if (landing := landed.get(row["agent"])) else None
    merging = [
        row["agent"] for row in shown if trials.get(row["agent"], Trial(None)).verdict is Verdict.CLEAN
    ]
    behind = [row["agent"] for row in shown if trials.get(row["agent"], Trial(None)).conflicts]
    others = registry.merge_trials.others
    # Of an agent that several members have, that of another one counts where it has work there.
    shown += [_told(other, others) for name, other in others.items() if name not in surveyed or other.changed]
    # Of what has nothing to land no verdict speaks; the tree of what stands elsewhere is not known here.
    trees = {row["agent"]: row["tree"] for row in reversed(shown) if row["files"]}
    verdicts = {} if verified is None else await verified(trees)
    failed = dict[str, str]()
    if verdicts is not None:
        for row in shown:
            row["verified"] = verdicts.get(row["agent"]) if row["files"] else None
        failed = {name: each["reference"] for name, each in verdicts.items() if each["state"] == "failed"}
    undoes = {row["agent"]: row["undoes"] for row in reversed(shown)}
    turns = best_order(merging, behind, collisions, yields, decided, failed, undoes)
    return shown, [turn.as_json() for turn in turns]


def _partners(name: str, pairs: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], str]]:
    """The pairs that `name` is in, with the other one, by the other one's name."""
    partners = [(pair, pair[1] if pair[0] == name else pair[0]) for pair in pairs if name in pair]
    return sorted(partners, key=lambda partner: partner[1])


def _row(
    registry: WorktreeRegistry, worktree: TrackedWorktree, work: Work, trial: Trial, into: str | None
) -> dict[str, Any]:
    return {
        "agent": worktree.name,
        "path": str(worktree.checkout.top),
        "branch": work.snapshot.head.branch,
        "base": work.base,
        "tree": work.snapshot.tree,
        "ahead": work.ahead,
        "behind": work.behind,
        "dirty": work.snapshot.dirty,
        "files": len(work.records),
        "insertions": work.insertions,
        "deletions": work.deletions,
        "own": worktree.own,
        "working": worktree.name in registry.turn_trees,
        "into": into,
        "merges": trial.answer,
        "joined": [file.as_json() for file in trial.joined],
        "conflicts": list(trial.paths),
        "lines": {path: [list(span) for span in lines] for path, lines in trial.lines.items()},
        "left_out": list(work.snapshot.left_out),
        "unsettled": trial.unsettled,
        "merging": bool(work.snapshot.merging),
        "needless": trial.needless,
        "member": None,
        "away": False,
    }


async def _about(registry: WorktreeRegistry, works: Mapping[str, Work]) -> dict[str, dict[str, Any]]:
    """By agent, the request that its branch is about: `{number, text}` (`WorktreeRoom.subjects`). Without those that
    change nothing, or of which that is not known."""
    paths = {agent: [name_of(record.last_path) for record in work.records] for agent, work in works.items()}
    branches = {agent: (works[agent].started_at, changed) for agent, changed in paths.items() if changed}
    return {agent: asked.as_json() for agent, asked in (await registry.room.subjects(branches)).items()}


def _told(work: SharedWork, others: Mapping[str, SharedWork]) -> dict[str, Any]:
    """The row of a worktree at another member; `path` and `base` mean something there only."""
    trial = work.trial or Trial(None)
    merges = {
        other: merge
        for other, told in others.items()
        if told.member == work.member
        for merge in (work.merges.get(other), told.merges.get(work.agent))
        if merge is not None
    }
    return {
        "agent": work.agent,
        "path": "",
        "branch": work.branch or None,
        "base": "",
        "tree": "",
        "ahead": work.ahead,
        "behind": work.behind or 0,
        "dirty": work.dirty,
        "files": work.changed,
        "insertions": work.insertions,
        "deletions": work.deletions,
        "own": work.own,
        "working": False,
        "into": work.target.branch if work.target is not None else None,
        "merges": trial.answer,
        "joined": [file.as_json() for file in trial.joined],
        "conflicts": list(trial.paths),
        "lines": {path: [list(span) for span in lines] for path, lines in trial.lines.items()},
        "left_out": [],
        "unsettled": trial.unsettled,
        "merging": work.merging,
        "needless": trial.needless,
        "member": work.member,
        "away": work.away,
        "collides": [
            {"agent": other, "paths": list(merge.conflicts)}
            for other, merge in sorted(merges.items())
            if merge.conflicts
        ],
        "joins": [
            {"agent": other, "files": [file.as_json() for file in merge.joined]}
            for other, merge in sorted(merges.items())
            if merge.clean and merge.joined
        ],
        "untried": [],
        "about": None,
        "undoes": [],
        "landed": None,
    }


def _paths(record: diff.Record) -> set[str]:
    """Both sides of a rename, else the one path."""
    return {name_of(record.path), name_of(record.last_path)}


async def _text(git: Git, work: Work, records: Sequence[diff.Record], *, named: bool) -> tuple[str, bool]:
    """The difference of these files as text, those in conflict first, and whether it was cut. `named`: they are not
    all of the work's; else git is not told their names, which may be too many."""
    mine = {*work.own.values()}
    own = [record for record in records if record in mine]
    kept = [record for record in records if record not in mine]
    text, cut = "", False
    for before, after, part in (
        (work.own_base, work.snapshot.head.commit, own),
        (work.base, work.snapshot.tree, kept),
    ):
        if part and after:
            paths = {side for record in part for side in _paths(record)} if named or work.own else ()
            more, beyond = await diff.unified(git, before, after, MOST_DIFF, sorted(paths))
            text, cut = text + more, cut or beyond
    return text, cut


async def difference(registry: WorktreeRegistry, agent: str, path: str = "") -> dict[str, Any] | None:
    """What a worktree changes against its base, as it stands now: what of it would land. Of a file with conflicts of
    a merge under way, what the branch itself changes. `path`: with the text of this file alone. None: no such
    worktree. Raises GitError."""
    worktree = registry.find(agent)
    if worktree is None:
        return None
    worktree.mark_stale(None)
    await registry.survey(worktree)
    work = worktree.work
    if work is None:
        raise GitError("diff", 1, worktree.trouble or "the worktree has not been read yet")
    # Without the snapshot's index, which the next snapshot writes meanwhile.
    git, snapshot = registry.scratch.git(worktree.checkout), work.snapshot
    own = {*work.own.values()}
    shown = [work.own.get(record.last_path, record) for record in work.records]
    read = [record for record in shown if not path or path in _paths(record)]
    text, truncated = await _text(git, work, read, named=bool(path))
    open_work = []
    if snapshot.dirty:
        open_work = await diff.changed_files(git, snapshot.head.commit or work.base, snapshot.tree)
    open_paths = {side for record in open_work for side in _paths(record)}
    files = [
        {
            "path": name_of(record.last_path),
            "old_path": None if record.new_path is None else name_of(record.path),
            "change": str(record.change),
            "insertions": (counts := work.counts(record))[0],
            "deletions": counts[1],
            "binary": work.hunks[record.old, record.new].binary,
            "old": record.old if record.old.strip("0") else None,
            "new": record.new if record.new.strip("0") else None,
            "old_mode": record.old_mode if record.old_mode.strip("0") else None,
            "new_mode": record.new_mode if record.new_mode.strip("0") else None,
            "uncommitted": record not in own and not open_paths.isdisjoint(_paths(record)),
        }
        for record in shown
    ]
    target = await registry.target()
    return {
        "agent": worktree.name,
        "branch": snapshot.head.branch,
        "base": work.own_base if work.own else work.base,
        "head": snapshot.head.commit,
        "into": target.branch if target is not None else None,
        "tree": snapshot.tree,
        "about": (await _about(registry, {worktree.name: work})).get(worktree.name),
        "path": str(worktree.checkout.top),
        "dirty": snapshot.dirty,
        "under_way": merge_under_way(worktree.name, snapshot.unsettled) if snapshot.merging else "",
        "diff": text,
        "files": files,
        "truncated": truncated,
    }
