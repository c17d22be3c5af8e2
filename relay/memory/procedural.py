"""Procedural memory: which skills were used for tasks of a type, and how well they served.

Invariants:
- each use is counted, however many write at once; a use within a task counts once for that task and skill, however
  often it is told, and its last outcome stands. A task that fails or dies is a failure of the skills it names;
- a count, what the skill is found by, and the event that says why it is so commit together;
- best first is by `relay.memory.skill`.

(004, "Procedural Memory".)
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from relay.base.secret_text import masked
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.skill import Skill, ranked
from relay.memory.skill_index import index
from relay.model import Caller, Json
from relay.model.validation import text, texts
from relay.store.ports import Queries, Store, Tx

FOLDER = Path(__file__).parent
Q = Queries(FOLDER)
USED = "skill.used"
MOST_TYPE, MOST_NAME = 64, 200
MOST_STEPS, MOST_STEP = 50, 2000
#: Skills that one answer lists.
MOST_LISTED = 100

#: The id of the task of this type that a caller's session works on; None: of none, or of several.
Working = Callable[[Tx, Caller, str], Awaitable[str | None]]


class Heartbeat(Protocol):
    """The heartbeat of a call (`relay.coordination.sessions`)."""

    async def touch(self, tx: Tx, caller: Caller) -> Any: ...


class Skills:
    """The skills of the room. `working`: which task a caller works on."""

    def __init__(self, store: Store, *, sessions: Heartbeat, working: Working) -> None:
        self._store, self._sessions, self._working = store, sessions, working

    async def list(self, caller: Caller, task_type: str, *, name: str | None = None) -> Json:
        """`{success, skills: [SKILL]}` for tasks of a type, best first; `name`: that one only. Raises Refusal."""
        task_type, name = _type(task_type), None if name is None else _name(name)
        rows = await self._store.read(lambda tx: tx.all(Q.skills_of_type, task_type=task_type), actor=caller)
        return _shown(ranked(rows), name)

    async def use(
        self,
        caller: Caller,
        task_type: str,
        name: str,
        success: bool,
        *,
        steps: Sequence[str] | None = None,
    ) -> Json:
        """Count a use, for the task of this type that the caller's session works on where it is one; `{success,
        skills: [SKILL]}` with that skill. Raises Refusal: MALFORMED."""
        task_type, name = _type(task_type), _name(name)
        told = None if steps is None else _checked_steps(steps)

        async def work(tx: Tx) -> Sequence[Skill]:
            await self._sessions.touch(tx, caller)
            lane = Lane(caller.session, caller.agent)
            task = await self._working(tx, caller, task_type)
            use = _Use(task_type, name, success, caller.agent, told, task)
            if task is None:
                await _count(tx, use, lane)
            async with tx.as_room():
                # The use of a task may be another agent's, which had the task before.
                if task is not None:
                    await _count(tx, use, lane)
                return await self._reindexed(tx, use)

        return _shown(await self._store.write(work, actor=caller), name)

    async def ended(
        self,
        tx: Tx,
        task_id: str,
        task_type: str,
        success: bool,
        *,
        skill: str | None,
        by: str,
        lane: Lane,
        cause: Sequence[str] = (),
    ) -> None:
        """A task has ended (`relay.model.ports.TaskOutcomes`): count it for the skill that it was done by, and, where
        it failed, as a failure of each skill that was used for it. With the room's rights."""
        named = [] if skill is None else [skill]
        if not success:
            named += [row["name"] for row in await tx.all(Q.task_uses, task_id=task_id)]
        for name in dict.fromkeys(named):
            use = _Use(_type(task_type), name, success, by, None, task_id)
            await _count(tx, use, lane, cause)
            await self._reindexed(tx, use)

    async def _reindexed(self, tx: Tx, use: _Use) -> Sequence[Skill]:
        """The skills of a used one's type; what it is found by is written where that is new."""
        skills = ranked(await tx.all(Q.skills_of_type, task_type=use.task_type))
        skill = next(skill for skill in skills if skill.name == use.name)
        if skill.uses == 1 or use.steps is not None:
            await index(tx, skill)
        return skills


@dataclass(frozen=True, slots=True)
class _Use:
    task_type: str
    name: str
    success: bool
    agent: str
    steps: tuple[str, ...] | None
    task_id: str | None


async def _count(tx: Tx, use: _Use, lane: Lane, cause: Sequence[str] = ()) -> None:
    """Count a use, or set right what its task counted for; and record it."""
    now = await tx.now()
    what: dict[str, Any] = {"task_type": use.task_type, "name": use.name}
    before = None if use.task_id is None else await tx.one(Q.task_use, task_id=use.task_id, name=use.name)
    agent = use.agent if before is None else before["agent_id"]
    counts = {
        "uses": int(before is None),
        "successes": int(use.success) - (before["success"] if before else 0),
    }
    steps = None if use.steps is None else json.dumps(use.steps, ensure_ascii=False)
    told = {"steps": steps, "steps_at": None if steps is None else now}
    if before is None or counts["successes"] or steps is not None:
        await tx.execute(Q.count_use, **what, agent=agent, **counts, **told, now=now)
    if use.task_id is not None:
        done = {"task_id": use.task_id, "agent": agent, "success": int(use.success)}
        await tx.execute(Q.put_task_use, **what, **done, now=now)
    said = {**what, "success": use.success, "task_id": use.task_id, "agent_id": use.agent}
    said |= {"counted": before is None, "steps": None if use.steps is None else list(use.steps)}
    await events.append(tx, NewEvent(USED, lane, outputs={"skill": said}, parents=cause))


def skill_name(name: str) -> str:
    """A skill's name as it is kept. Raises Refusal."""
    return _name(name, "skill")


def _shown(skills: Sequence[Skill], name: str | None) -> Json:
    fitting = [skill.as_json() for skill in skills if name in (None, skill.name)]
    return {"success": True, "skills": fitting[:MOST_LISTED]}


def _type(task_type: str) -> str:
    return masked(unicodedata.normalize("NFC", text(task_type, "task_type", MOST_TYPE).strip()))


def _name(name: str, field: str = "name") -> str:
    return masked(unicodedata.normalize("NFC", " ".join(text(name, field, MOST_NAME).split())))


def _checked_steps(steps: Sequence[str]) -> tuple[str, ...]:
    return tuple(masked(step.strip()) for step in texts(steps, "steps", MOST_STEPS, MOST_STEP))
