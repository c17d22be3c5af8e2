"""Tasks that wait for a person's word: their agent has answered, and nobody has said that they are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import prose, short, unmarked
from relay.app.tasks.card import turns_in, verdict
from relay.app.tasks.landed import MOST_JOBS, landed
from relay.log.encoding import dumps
from relay.model import Board, BoardTask, actions, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx
from relay.verification import present
from relay.verification.verification import State, Verification

#: Characters of a title and of an answer, and digits of a commit.
MOST_TITLE, MOST_ANSWER, DIGITS = 80, 160, 7
_VERDICTS = {
    State.QUEUED: "its tests run",
    State.RUNNING: "its tests run",
    State.WAITING: "its change waits for an approval",
    State.PASSED: "its tests passed",
    State.FAILED: "its tests failed",
    State.ERROR: "its tests could not run",
}
_NO_SUCCESS = (State.FAILED, State.ERROR)


async def answered_tasks(
    tx: Tx,
    board: Board,
    questions: Collection[str],
    trees: Mapping[str, str],
    unsettled: Collection[str],
    not_landed: dict[str, Need],
) -> list[Need]:
    """Tasks that were given to an agent, which has answered the message and has not ended the task. Not while the
    agent is at work again, unless on another task. `questions`: answers (`m17`) of which another need says that they
    ask something; `trees`: of `present.of_work`; `unsettled`: agents with a conflict to settle first; `not_landed`:
    by agent, the need of its branch that did not land: it is taken out, and becomes one with that of its task."""
    found, at_work = [], await _at_work(tx)
    for task in await board.in_hand(tx):
        if task.given_to is None or task.given[-1][2] in unsettled:
            continue
        message, _, agent = task.given[-1]
        jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message)]
        done = next((job for job in jobs if job.agent == agent and job.state is JobState.DONE), None)
        row = None if done is None or done.answer_id is None else await tx.one(Q.message, id=done.answer_id)
        if done is None or row is None or references.message(row["number"]) in questions:
            continue
        if at_work.get(agent, 0) in (None, task.number):
            continue
        title, answer = short(task.title, MOST_TITLE), message_of_row(row)
        stands, bad, out, its = "", False, None, None
        if turns := await _changing(tx, task, agent):
            stands, bad, landed, its = await _stands(tx, task, agent, turns, trees)
            out = None if landed else not_landed.pop(agent, None)
        # The agent hears why it has the task again.
        why = f"{stands}{f': {short(its.reason)}' if its.reason else ''}" if its is not None else ""
        text = f"{agent} has answered {task.ref} “{title}” ({references.message(answer.number)})"
        said = short(unmarked(prose(answer.body)), MOST_ANSWER)
        text += f": “{said}”" if said else ""
        fails = out is not None and out.actions[0].name == "ask"
        if fails:
            stands = ""  # why it did not land says so
        text += f"; {stands}." if stands else "" if said.endswith((".", "!", "?", "…")) else "."
        id = f"answered:{task.ref}"
        yes = NeedAction("done", "It is done", actions.MoveTask(task.number, actions.Status.DONE))
        again = NeedAction("again", "Give it again", actions.Give((task.number,), agent, why))
        buttons = (
            *((again, yes) if bad else (yes, again)),
            later("Later", id),
        )
        if out is not None:
            *lands, leave = out.actions
            ways = (again, *lands[1:]) if fails else (*lands, again)
            text = f"{out.text} {text} Is it done?"
            found.append(replace(out, text=text, actions=(*ways, yes, leave)))
            continue
        at = done.ended_at or done.created_at
        found.append(Need(id, Kind.ANSWERED, at, agent, f"{text} Is it done?", buttons, task.ref))
    return found


async def _at_work(tx: Tx) -> dict[str, int | None]:
    """By agent whose turn runs, the number of the task that its message gave it, None = none."""
    jobs = [Job.of_row(row) for row in await tx.all(Q.active_jobs)]
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id for job in jobs])) if jobs else []
    given = {message.id: message.meta.get("given") for message in map(message_of_row, rows)}
    return {
        job.agent: told["number"] if isinstance(told := given.get(job.message_id), dict) else None
        for job in jobs
    }


async def _changing(tx: Tx, task: BoardTask, agent: str) -> set[int]:
    """The turns in which the agent answered the messages that gave it the task, by their jobs; empty = it changed
    nothing in any of them."""
    ids = [message for message, _, to in task.given if to == agent]
    rows = await tx.all(Q.jobs_of_messages, ids=dumps(ids), limit=MOST_JOBS * len(ids))
    jobs = [job for job in map(Job.of_row, rows) if job.agent == agent]
    answers = [job.answer_id for job in jobs if job.answer_id]
    told = await tx.all(Q.messages_by_ids, ids=dumps(answers))
    changed = any(message_of_row(row).meta.get("worktree") for row in told)
    return turns_in(jobs) if changed else set()


async def _stands(
    tx: Tx, task: BoardTask, agent: str, turns: Collection[int], trees: Mapping[str, str]
) -> tuple[str, bool, bool, Verification | None]:
    """What became of what was changed for the task: whether it landed, or what the verifications say of the agent's
    work as it stands, "" = neither is known. Whether it is no success, and whether it landed. The verification that
    failed."""
    if (merge := (await landed(tx, [task])).get(task.id)) is not None:
        # A merge tests nothing.
        before = present.of_tree(
            [each for each in await present.telling(tx, agent) if each.at <= merge.at], ""
        )
        bad = before is not None and before.of.state in _NO_SUCCESS
        though = f", though {_VERDICTS[before.of.state]} ({before.of.name})" if before and bad else ""
        said = f"landed as {merge.commit[:DIGITS]}{though}"
        return said, bad, True, before.of if before and bad else None
    if trees.get(agent) == "":
        return "its branch has no changes now", True, False, None
    standing = await verdict(tx, task, agent, turns, trees, in_branch=True)
    if standing and standing.of.state in _VERDICTS:
        bad = standing.of.state in _NO_SUCCESS
        its = standing.of if bad else None
        if not standing.present:
            said = standing.said or f"It was changed since {standing.of.name}."
            return f"{said[0].lower()}{said[1:]}".rstrip("."), True, False, its
        return f"{_VERDICTS[standing.of.state]} ({standing.of.name})", bad, False, its
    return "", False, False, None
