"""What an agent's work was asked for: the requests that name a branch and make its merge's message.

Invariants:
- a merge's message has only words of the time in which the work was made; an answer that changed no file says nothing
  of it;
- a restart forgets nothing of it: where no turn since the files' own times changed them, those since the work last
  left the branch are asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from relay.airspace.advisories import table
from relay.airspace.worktrees.commit_message import Asked, WorkSummary, asked_of, by_weight
from relay.airspace.worktrees.lifecycle import CHANGED, DISCARDED, FORWARDED, MERGED, RESTORED, TAKEN_BACK
from relay.airspace.worktrees.merging.takebacks import taken_merge
from relay.base.durations import parse_iso
from relay.coordination.tasks import claims
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane
from relay.model import Kind, Message
from relay.room.dispatch.view_queries import task_in_short
from relay.room.journal import ledger
from relay.store.ports import Tx
from relay.timeline.projection import CHANGED as FILES_CHANGED

#: Answers and tasks that are looked at, the work of many days; and events of files of each turn's lane.
_MOST, _MOST_CHANGES = 200, 500
#: Seconds by which a file's time may be before that of the turn which wrote it: git keeps whole seconds.
_COARSE_S = 2.0


async def _last_gone(tx: Tx, agent: str) -> float:
    """When the agent's work last left its branch, by a merge or a discard that stands, or unseen by the room; in Unix
    seconds, 0 = never.

    What stands in the branch was asked for since then. The times of its files do not say when: a merge of main, a
    takeback and a restore write them anew."""
    left = list[tuple[str, float]]()
    # Of this agent alone: the list of worktrees asks it of each branch that nobody is known to have asked for.
    its = f'"agent":{dumps(agent)}'
    for event in reversed(await events.about(tx, its, types=[CHANGED], limit=_MOST_CHANGES)):
        told, change = event.outputs, event.outputs["change"]
        if told["agent"] != agent:
            continue
        if change in (MERGED, DISCARDED, FORWARDED):
            left.append((told["commit"] if change == MERGED else change, parse_iso(event.at)))
        elif change in (TAKEN_BACK, RESTORED):
            # What left is there again; that the branch was found empty since is over, too.
            back = taken_merge(told) if change == TAKEN_BACK else DISCARDED
            at = next((at for at, each in enumerate(left) if each[0] == back), len(left))
            left = [
                each for each in left if each[0] != back and (each[0] != FORWARDED or left.index(each) < at)
            ]
    return left[-1][1] if left else 0.0


async def subject(tx: Tx, agent: str, since: float, paths: Collection[str]) -> Asked | None:
    """The request that names the agent's work: `since`, `paths` as of `WorktreeRoom.subjects`."""
    found = await _subject_since(tx, agent, since - _COARSE_S, paths)
    return found or await _subject_since(tx, agent, await _last_gone(tx, agent), paths)


async def _subject_since(tx: Tx, agent: str, since: float, paths: Collection[str]) -> Asked | None:
    taken = await claims.taken_since(tx, agent, since, limit=_MOST)
    asked = list[Asked]()
    for answer in reversed(await ledger.answers_since(tx, agent, since, limit=_MOST)):
        if "worktree" in answer.meta and (turn := await _turn(tx, answer)).concerns(paths):
            asked += reversed(_asked_in(agent, turn, taken))
            # No older one can name it.
            if any(each.title and not each.is_review for each in asked):
                break
    return next(iter(by_weight(asked)), None)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that changed files. `asked`: what it was asked, the first one first; `began`, `ended`: Unix seconds;
    `paths`: what it changed, None = not known."""

    answer: Message
    asked: Sequence[Message]
    began: float
    ended: float
    paths: frozenset[str] | None = None

    def concerns(self, paths: Collection[str] | None) -> bool:
        """Has it changed one of these, as far as that is known?"""
        return self.paths is None or paths is None or not self.paths.isdisjoint(paths)


async def summary(tx: Tx, agent: str, since: float, paths: Collection[str] | None) -> WorkSummary:
    """`since`, `paths`: as of `WorktreeRoom.summary`."""
    since -= _COARSE_S
    answers, turns = await _turns_since(tx, agent, since, paths)
    if not turns and paths:
        since = await _last_gone(tx, agent)
        answers, turns = await _turns_since(tx, agent, since, paths)
    taken = await claims.taken_since(tx, agent, since, limit=_MOST)
    asked = [each for turn in turns for each in _asked_in(agent, turn, taken)]
    # Each once, where it was asked last: what was asked for again is the newest.
    last = {each.text: each for each in asked}
    requests = [each for each in dict.fromkeys(asked) if last[each.text] == each]
    advisories = (await table.load_state(tx)).advisories.values()
    decided = next((words for advisory in advisories if (words := advisory.decided_against(agent))), "")
    answer = turns[-1].answer.body if turns else ""
    tasks = tuple(
        text
        for text, took, done_at in taken
        # Of an attached session nobody knows the turns.
        if not any(each.job for each in answers)
        or any((took or 0.0) <= turn.ended and turn.began <= (done_at or turn.ended) for turn in turns)
    )
    return WorkSummary(tasks, tuple(requests), answer, decided)


async def _turns_since(
    tx: Tx, agent: str, since: float, paths: Collection[str] | None
) -> tuple[Sequence[Message], Sequence[_Turn]]:
    """The agent's answers since then, and its turns that have to do with these paths."""
    answers = await ledger.answers_since(tx, agent, since, limit=_MOST)
    turns = [await _turn(tx, answer) for answer in answers if "worktree" in answer.meta]
    return answers, [turn for turn in turns if turn.concerns(paths)]


def _asked_in(
    agent: str, turn: _Turn, taken: Sequence[tuple[str, float | None, float | None]]
) -> list[Asked]:
    """What a turn was asked, what weighs most last. `taken`: as of `claims.taken_since`."""
    people = [message for message in turn.asked if message.kind == Kind.HUMAN]
    number = people[-1].number if people else 0
    # A task that the agent took or completed meanwhile says it better than "take the next task".
    done = {text for text, *at in taken if any(each and turn.began <= each <= turn.ended for each in at)}
    if len(done) == 1:
        return [Asked(done.pop(), number)]
    # Of several that one turn was asked at once, the first is what it began with.
    return [Asked(asked_of(agent, task_in_short(each.body)), each.number) for each in reversed(people)]


async def _turn(tx: Tx, answer: Message) -> _Turn:
    """The turn that an answer ended; where the log does not say more, with the message that it answers alone."""
    at = parse_iso(answer.ts)
    row = await tx.one(ledger.Q.event_of_message, id=answer.id)
    event = await events.get(tx, row["event_id"]) if row else None
    ended = await events.get(tx, event.parents[0]) if event is not None and event.parents else None
    began = await events.get(tx, ended.inputs["turn"]) if ended and ended.type == ledger.TURN_ENDED else None
    if ended is None or began is None:
        ids = [answer.in_reply_to] if answer.in_reply_to else []
        return _Turn(answer, await _messages(tx, ids), at, at)
    lane = Lane(ended.session, ended.lane)
    changes = await events.of_lane(tx, lane, FILES_CHANGED, limit=_MOST_CHANGES)
    known = len(changes) < _MOST_CHANGES or changes[-1].seq < began.seq
    paths = {path for each in changes if began.seq < each.seq < ended.seq for path in each.file_touches or ()}
    asked = await _messages(tx, began.inputs["messages"])
    found = frozenset(paths) if known and paths else None
    return _Turn(answer, asked, parse_iso(began.at), at, found)


async def _messages(tx: Tx, ids: Sequence[str]) -> list[Message]:
    found = [await ledger.message(tx, id) for id in ids]
    return [message for message in found if message is not None]
