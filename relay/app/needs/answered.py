"""Tasks that wait for a person's word: their agent has answered, and nobody has said that they are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from relay.app.needs import found
from relay.app.needs.merges import First, to_settle_now
from relay.app.needs.need import Kind, Need, NeedAction, later, put_off
from relay.app.needs.words import prose, short, unmarked
from relay.app.tasks.card import turns_in, verdict
from relay.app.tasks.landed import MOST_JOBS, landed
from relay.app.verification.landing_words import MOST_LINES
from relay.base.terminal_text import fenced
from relay.log.encoding import dumps
from relay.model import Board, BoardTask, Message, actions, references
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState, message_of_row
from relay.store.ports import Tx
from relay.verification import journal, present
from relay.verification.verification import State, Verification, asked_for, last_lines

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
#: Seconds after an answer until which places outside wait for the verdict of what it changed, and for its beginning.
VERDICT_S, BEGINS_S = 120.0, 5.0
_RUNS = (State.QUEUED, State.RUNNING)
_NO_SUCCESS = (State.FAILED, State.ERROR)


class Waiting(NamedTuple):
    """A given task whose agent has answered and that nobody has ended. `job`: of its message; `first`: what is to be
    decided before anybody is asked whether it is done, None = nothing."""

    agent: str
    job: Job
    answer: Message
    first: First | None

    @property
    def says(self) -> str:
        """As every view says it: "BEN has answered (m12): is it done?"."""
        what = self.first.says if self.first else "is it done?"
        return f"{self.agent} has answered ({references.message(self.answer.number)}): {what}"


async def waiting(
    tx: Tx, task: BoardTask, questions: Collection[str], first: Mapping[str, First]
) -> Waiting | None:
    """What a task waits for; None: for no word of a person's. `questions`: answers (`m17`) of which another need says
    that they ask something; `first`: of `to_settle`, for work that is not in the main branch yet."""
    if task.given_to is None:
        return None
    message, _, agent = task.given[-1]
    jobs = [Job.of_row(row) for row in await tx.all(Q.jobs_of_message, message_id=message)]
    done = next((job for job in jobs if job.agent == agent and job.state is JobState.DONE), None)
    row = None if done is None or done.answer_id is None else await tx.one(Q.message, id=done.answer_id)
    if done is None or row is None:
        return None
    reference, before = references.message(row["number"]), first.get(agent)
    if reference in questions:
        before = First(f"question:{reference}", "it asks a question")
    elif before is not None and (await landed(tx, [task])).get(task.id) is not None:
        before = None
    return Waiting(agent, done, message_of_row(row), before)


async def waiting_now(tx: Tx, task: BoardTask) -> str:
    """The same in words, where nothing else of the inbox is read; "" = for nothing."""
    now = await tx.now()
    off = {id for id, until in (await put_off(tx)).items() if until > now}
    agents = [str(row["name"]) for row in await tx.all(Q.agents)]
    asks = {need.ref for need in await found.questions(tx, agents, now) if need.id not in off}
    one = await waiting(tx, task, asks, await to_settle_now(tx, agents, off))
    return "" if one is None else one.says


async def answered_tasks(
    tx: Tx,
    board: Board,
    questions: Collection[str],
    trees: Mapping[str, str],
    first: Mapping[str, First],
    not_landed: dict[str, Need],
) -> tuple[list[Need], dict[str, tuple[tuple[str, str], ...]]]:
    """Tasks that were given to an agent, which has answered the message and has not ended the task, whatever it works
    on meanwhile. Also, by the id of another need that stands for such a task, `Need.tasks`. `questions`, `first`: of
    `waiting`; `trees`: of `present.of_work`; `not_landed`: by agent, the need of its branch that did not land: it is
    taken out, and becomes one with that of its task."""
    needs, within = list[Need](), dict[str, tuple[tuple[str, str], ...]]()
    at_work = await _at_work(tx)
    for task in await board.in_hand(tx):
        one = await waiting(tx, task, questions, first)
        if one is None:
            continue
        agent, done, answer, said_of = one.agent, one.job, one.answer, ((task.ref, one.says),)
        if one.first is not None:
            within[one.first.need] = within.get(one.first.need, ()) + said_of
            continue
        title = short(task.title, MOST_TITLE)
        stands, bad, out, its, runs = "", False, None, None, False
        ended = done.ended_at or done.created_at
        if turns := await _changing(tx, task, agent):
            stands, bad, landed, its, runs = await _stands(tx, task, agent, turns, trees)
            out = None if landed else not_landed.pop(agent, None)
        # The agent hears why it has the task again.
        why = f"{stands}{f': {short(its.reason)}' if its.reason else ''}" if its is not None else ""
        why += "" if its is None else await _lines(tx, its)
        text = f"{agent} has answered {task.ref} “{title}” ({references.message(answer.number)})"
        said = short(unmarked(prose(answer.body)), MOST_ANSWER)
        text += f": “{said}”" if said else ""
        fails = out is not None and out.actions[0].name == "ask"
        if fails:
            stands = ""  # why it did not land says so
        text += f"; {stands}." if stands else "" if said.endswith((".", "!", "?", "…")) else "."
        text += " Is it done?"
        if busy := at_work.get(agent):
            text += f" {agent} is at work on {busy} now."
            # What it changes for that says nothing of this task.
            bad = bad and (its is not None or not trees.get(agent))
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
            needs.append(replace(out, text=f"{out.text} {text}", actions=(*ways, yes, leave), tasks=said_of))
            continue
        need = Need(id, Kind.ANSWERED, ended, agent, text, buttons, task.ref)
        news = f"{id}:{references.message(answer.number)}"
        tell_at = ended + (VERDICT_S if runs else BEGINS_S) if turns else None
        needs.append(replace(need, tasks=said_of, news=news, tell_at=tell_at))
    return needs, within


async def _at_work(tx: Tx) -> dict[str, str]:
    """By agent whose turn runs, the message that it works on (`m17`)."""
    jobs = [Job.of_row(row) for row in await tx.all(Q.active_jobs)]
    rows = await tx.all(Q.messages_by_ids, ids=dumps([job.message_id for job in jobs])) if jobs else []
    numbers = {row["id"]: references.message(row["number"]) for row in rows}
    return {job.agent: numbers[job.message_id] for job in reversed(jobs) if job.message_id in numbers}


async def _lines(tx: Tx, failed: Verification) -> str:
    """What its programs wrote last, as the agent of a branch that did not land is told it; "" = nothing."""
    lines = last_lines(asked_for(failed, await journal.results_of(tx, failed.number)), MOST_LINES)
    return f"\n\n{fenced(lines)}" if lines else ""


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
) -> tuple[str, bool, bool, Verification | None, bool]:
    """What became of what was changed for the task: whether it landed, or what the verifications say of the agent's
    work as it stands, "" = neither is known. Whether it is no success, and whether it landed. The verification that
    failed. Whether one is under way."""
    if (merge := (await landed(tx, [task])).get(task.id)) is not None:
        # A merge tests nothing.
        before = present.of_tree(
            [each for each in await present.telling(tx, agent) if each.at <= merge.at], ""
        )
        bad = before is not None and before.of.state in _NO_SUCCESS
        though = f", though {_VERDICTS[before.of.state]} ({before.of.name})" if before and bad else ""
        said = f"landed as {merge.commit[:DIGITS]}{though}"
        return said, bad, True, before.of if before and bad else None, False
    if trees.get(agent) == "":
        return "its branch has no changes now", True, False, None, False
    standing = await verdict(tx, task, agent, turns, trees, in_branch=True)
    if standing and standing.of.state in _VERDICTS:
        bad = standing.of.state in _NO_SUCCESS
        its = standing.of if bad else None
        if not standing.present:
            said = standing.said or f"It was changed since {standing.of.name}."
            return f"{said[0].lower()}{said[1:]}".rstrip("."), True, False, its, False
        runs = standing.of.state in _RUNS
        return f"{_VERDICTS[standing.of.state]} ({standing.of.name})", bad, False, its, runs
    return "", False, False, None, False
