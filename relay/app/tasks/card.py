"""One task whole, with what it led to: the messages, the turns and what they changed, the verifications, the cost.

Invariants:
- it is told in one way, whoever made the task and however it was taken up: given by a person's message, or claimed by
  an agent's session;
- no fact is decided here: the board says what the task is, the queue what became of a message, an answer what its
  turn changed, the registry how a branch stands, the verifications what passed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.base.terminal_text import safe_line
from relay.coordination.tasks.board import Board
from relay.coordination.tasks.task import Status, Task
from relay.git.run import name_of
from relay.log.encoding import dumps
from relay.model import BoardTask, Message, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, message_of_row
from relay.store.ports import Row, Tx
from relay.verification import journal as verifications
from relay.verification.present import Standing, of_work
from relay.verification.verification import State, Verification

Json = dict[str, Any]
#: Characters of a message's text; jobs, turns, verifications and files of a branch that are looked at.
MOST_TEXT, MOST_JOBS, MOST_TURNS, MOST_VERIFICATIONS, MOST_FILES = 300, 100, 200, 100, 200


async def card(tx: Tx, board: Board, registry: WorktreeRegistry, number: int) -> Json:
    """TASK with its history (`Board.story`) and `work`: `{conversation, changes, branch, verifications, cost}`
    (docs/board.md). Runs in the caller's transaction. Raises Refusal."""
    task = await board.get(tx, number)
    turns = await _turns(tx, task, await tx.now())
    jobs = await _jobs(tx, task, turns)
    said = await _conversation(tx, task, jobs)
    work = {
        "conversation": [_entry(message, jobs) for message in said],
        "changes": [_change(message) for message in said if message.meta.get("worktree")],
        "branch": _branch(task, registry),
        "verifications": [one.as_json() for one in await verifications_of(tx, task, turns_in(jobs))],
        "cost": _cost(turns, jobs),
    }
    return {**await board.story(tx, number), "work": work}


async def verdict(
    tx: Tx, task: BoardTask, agent: str, turns: Collection[int], trees: Mapping[str, str], *, in_branch: bool
) -> Standing | None:
    """What the tests say of the work that this agent did for a task and that has not landed: while it is `in_branch`,
    of the branch as it stands, whoever's message that was tested for, unless for another task; else what was tested
    last for the task. `turns`: those for it, by their jobs; `trees`: as of `present.of_work`, as far as they are
    known. The page has the same rule (`taskVerdict`)."""
    own = next(iter(await verifications_of(tx, task, turns)), None)
    if in_branch and (now := (await of_work(tx, {agent: trees.get(agent, "")})).get(agent)) is not None:
        if (now.of.change.task or now.of.change.about.get("task") or task.id) == task.id:
            return now
        return None if own is None else Standing(own, present=False)
    return None if own is None else Standing(own)


async def failed_when_done(tx: Tx, task: Task, *, landed: str | None, in_branch: bool) -> str:
    """What is wrong with a task that is done: "done, not landed, tests failed (v44)"; "" = nothing. `landed`,
    `in_branch`: as of `Board.story`."""
    if task.status is not Status.COMPLETED or landed:
        return ""
    jobs = await _jobs(tx, task, await _turns(tx, task, await tx.now()))
    agent = task.given[-1].agent if task.given else task.claimed_by or ""
    standing = await verdict(tx, task, agent, turns_in(jobs), {}, in_branch=in_branch)
    if standing is None or standing.of.state is not State.FAILED or not standing.present:
        return ""
    return f"done, not landed, tests failed ({standing.of.name})"


def turns_in(jobs: Sequence[Job]) -> set[int]:
    """The jobs by which the turns that answered these are known."""
    return {job.id for job in jobs} | {job.folded_into for job in jobs if job.folded_into is not None}


async def _turns(tx: Tx, task: Task, now: float) -> list[Row]:
    """The turns for it that have ended, the oldest first: those of the messages by which it was given, and those of
    the agent whose session claimed it, while it had it."""
    found = dict[int, Row]()
    for message, _, agent in task.given:
        jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message)]
        mine = [job for job in jobs if job.agent == agent]
        wanted = {job.folded_into or job.id for job in mine}
        for turn in await _turns_of(tx, agent, min((job.created_at for job in mine), default=now), now):
            if turn["job"] in wanted:
                found[turn["id"]] = turn
    if task.claimed_by is not None and task.claimed_session is not None and task.claimed_at is not None:
        for turn in await _turns_of(tx, task.claimed_by, task.claimed_at, task.completed_at or now):
            found[turn["id"]] = turn
    return [found[id] for id in sorted(found)]


async def _turns_of(tx: Tx, agent: str, since: float, until: float) -> Sequence[Row]:
    return await tx.all(Q.turns_between, agent=agent, since=since, until=until, limit=MOST_TURNS)


async def _jobs(tx: Tx, task: Task, turns: Sequence[Row]) -> list[Job]:
    """The jobs of its messages, and of those turns."""
    messages = dict.fromkeys(given.message for given in task.given)
    for turn in turns:
        row = await tx.one(Q.job, id=turn["job"])
        if row is not None:
            messages.setdefault(row["message_id"])
    if not messages:
        return []
    rows = await tx.all(Q.jobs_of_messages, ids=dumps(list(messages)), limit=MOST_JOBS)
    agents = {given.agent for given in task.given} | {task.claimed_by}
    jobs = [Job.of_row(row) for row in rows]
    return sorted((job for job in jobs if job.agent in agents), key=lambda job: job.id)


async def _conversation(tx: Tx, task: Task, jobs: Sequence[Job]) -> list[Message]:
    """The messages that asked for it, and their answers, in the order of the room."""
    ids = {given.message for given in task.given}
    ids |= {job.message_id for job in jobs} | {job.answer_id for job in jobs if job.answer_id}
    if not ids:
        return []
    return [message_of_row(row) for row in await tx.all(Q.messages_by_ids, ids=dumps(sorted(ids)))]


def _entry(message: Message, jobs: Sequence[Job]) -> Json:
    """`jobs`: of the message, with what became of each."""
    # What a person wrote is told by its first paragraph: of a given task the rest is the task's own description.
    text = message.body.split("\n\n")[0] if message.kind == "human" else message.body
    return {
        "id": message.id,
        "number": message.number,
        "speaker": message.speaker,
        "kind": str(message.kind),
        "at": message.ts,
        "text": safe_line(text, MOST_TEXT),
        "jobs": [job.as_json() for job in jobs if job.message_id == message.id],
    }


def _change(answer: Message) -> Json:
    """What the turn of this answer changed, as the answer says it (docs/http.md, `meta.worktree`)."""
    changed = answer.meta["worktree"]
    where = {"message": references.message(answer.number), "agent": answer.speaker, "at": answer.ts}
    return {**where, **(changed if isinstance(changed, dict) else {})}


def _branch(task: Task, registry: WorktreeRegistry) -> Json | None:
    """The branch of who has it, or had it last, as it stands against the main branch: with all that is on it, also
    for other tasks. None: it has no worktree here."""
    worktree = registry.find(task.claimed_by) if task.claimed_by else None
    work = None if worktree is None else worktree.work
    if work is None:
        return None
    files = [(record, work.hunks[record.old, record.new]) for record in work.records]
    return {
        "agent": task.claimed_by,
        "branch": work.snapshot.head.branch,
        "ahead": work.ahead,
        "behind": work.behind,
        "files": len(files),
        "insertions": work.insertions,
        "deletions": work.deletions,
        "changed": [
            {
                "path": name_of(record.last_path),
                "change": str(record.change),
                "insertions": hunks.insertions,
                "deletions": hunks.deletions,
            }
            for record, hunks in files[:MOST_FILES]
        ],
    }


async def verifications_of(tx: Tx, task: BoardTask, jobs: Collection[int]) -> list[Verification]:
    """Of the task itself, and of the turns for it; the newest first."""
    found = {one.number: one for one in await verifications.newest_of_task(tx, task.id, MOST_VERIFICATIONS)}
    agents = dict.fromkeys(agent for _, _, agent in task.given)
    if isinstance(task, Task) and task.claimed_by is not None:
        agents[task.claimed_by] = None
    for agent in agents:
        for one in await verifications.newest_of_agent(tx, agent, MOST_VERIFICATIONS):
            if one.change.about.get("job") in jobs:
                found[one.number] = one
    return [found[number] for number in sorted(found, reverse=True)]


def _cost(turns: Sequence[Row], jobs: Sequence[Job]) -> Json:
    """What its turns cost that have ended, in tokens by kind and in US dollars. `unpriced`: so
    many of the turns reported no price; `shared`: so many answered another message as well."""
    kinds = ("input", "cache_write", "cache_read", "output")
    heads = {job.folded_into for job in jobs if job.folded_into is not None}
    return {
        "turns": len(turns),
        **{kind: sum(turn[f"{kind}_tokens"] for turn in turns) for kind in kinds},
        "usd": round(sum(turn["cost_usd"] for turn in turns), 4),
        "unpriced": sum(not turn["cost_usd"] for turn in turns),
        "shared": sum(turn["job"] in heads for turn in turns),
        "seconds": round(sum(turn["ended_at"] - turn["started_at"] for turn in turns), 1),
    }
