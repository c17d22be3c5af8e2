"""What the room is told of an advisory, and whom it asks: each message with its row and its event.

Invariant: everything here is part of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from relay.airspace.advisories import table, wording
from relay.airspace.advisories.rules.advisory import Advisory, Asked
from relay.airspace.advisories.rules.observation import Observation, Step
from relay.config.airspace import AirspaceSettings
from relay.model import TAKE_MAIN, Board, Spoken, Voice
from relay.store.ports import Tx


class Announcer:
    """Speaks with the room's voice; `board` knows the free work that a steering agent may take."""

    def __init__(self, voice: Voice, board: Board | None = None) -> None:
        self._voice, self._board = voice, board

    async def advisory(
        self, tx: Tx, after: Advisory, step: Step, observation: Observation, settings: AirspaceSettings
    ) -> Advisory:
        now, roles = observation.at, after.roles
        reach = await self._voice.reach(tx, roles.agents)
        ask = [agent for agent in step.ask if reach[agent] == ""]
        unable = {agent: why for agent in step.ask if (why := reach[agent])}
        await self._withdraw(tx, after, ask, "a newer advisory takes its place", now)
        after = replace(
            after,
            asked={**after.asked, **dict.fromkeys(ask, Asked("", now))},
            not_asked=unable,
            deadline_at=now + settings.answer_s if ask else after.deadline_at,
        )
        free = await self._free_work(tx, after, observation) if roles.steer else None
        after = replace(after, text=wording.line(after, free))
        body = wording.message(after, ask=ask, answer_s=settings.answer_s, free_work=free)
        after = await table.save_change(tx, after, [*step.what, "said"])
        spoken = await self.speak(tx, after, body, now, to=roles.agents, ask=ask)
        await tx.execute(table.Q.put_advisory_message, message_id=spoken.id, advisory_id=after.id)
        asked = {
            agent: replace(asked_agent, message_id=spoken.id) if agent in ask else asked_agent
            for agent, asked_agent in after.asked.items()
        }
        return await table.save_change(
            tx,
            replace(after, message_id=spoken.id, number=spoken.number, asked=asked),
            ["asked"],
            cause=[spoken.event_id],
        )

    async def set_back(self, tx: Tx, after: Advisory, step: Step, observation: Observation) -> None:
        """Tell agents that their work does not merge into the main branch any more, and the people with them. Each
        that can be reached gets a turn to merge it; nothing is asked that has to be answered."""
        now, names = observation.at, step.set_back
        reach = await self.reach(tx, after)
        ask = [name for name in names if reach.get(name) == ""]
        unable = {name: why for name in names if (why := reach.get(name))}
        await self._withdraw(tx, after, ask, "what is in the main branch comes first", now)
        backs = {
            name: replace(back, told=tuple(dict.fromkeys([*back.told, *back.paths])))
            if name in names
            else back
            for name, back in after.set_back.items()
        }
        merged = [
            priority.agent
            for priority in after.latched
            if observation.gone(priority.agent)
            and priority.agent not in backs
            and not observation.has_work(priority.agent)
        ]
        new, offered = [backs[name] for name in names], after.choices(reach)
        body = wording.set_back(new, merged, ask=ask, unable=unable, steer=after.roles.steer, choices=offered)
        after = replace(after, set_back=backs)
        after = await table.save_change(tx, replace(after, text=wording.line(after)), ["told"])
        # Who has somebody else ahead takes it in later, when that one is merged.
        taking = [name for name in ask if name not in after.roles.steer]
        meta = {"actions": [choice.as_json() for choice in offered], TAKE_MAIN: taking}
        spoken = await self.speak(tx, after, body, now, to=names, ask=ask, meta=meta)
        if after.message_id is None or not after.contacts:
            await self._keep_message(tx, after, spoken)

    async def decided(
        self, tx: Tx, after: Advisory, agent: str, *, by: str, now: float, cause: Sequence[str]
    ) -> None:
        """Tell all of a resolution that a person has said who goes first; each that can be reached gets a turn."""
        agents = after.roles.agents
        reach = await self._voice.reach(tx, agents)
        ask = [name for name in agents if reach[name] == ""]
        await self._withdraw(tx, after, ask, f"{by} has decided", now)
        answered = {name: replace(asked_agent, answered=True) for name, asked_agent in after.asked.items()}
        after = replace(after, asked=answered, text=wording.line(after))
        after = await table.save_change(tx, after, ["decided"], cause=cause, by=by)
        body = wording.decided(after, agent, by)
        await self._keep_message(tx, after, await self.speak(tx, after, body, now, to=agents, ask=ask))

    async def clear(
        self,
        tx: Tx,
        after: Advisory,
        what: Sequence[str],
        now: float,
        *,
        clear: bool,
        merges_again: bool = False,
    ) -> None:
        for message_id in {asked_agent.message_id for asked_agent in after.asked.values()}:
            await self._voice.withdraw(tx, message_id, "all is clear", now=now, agents=[*after.asked])
        after = await table.save_change(tx, after, what)
        agents = [priority.agent for priority in after.latched]
        await self.speak(
            tx, after, wording.all_clear(after, clear=clear, merges_again=merges_again), now, to=agents
        )

    async def speak(
        self,
        tx: Tx,
        about: Advisory,
        body: str,
        now: float,
        *,
        to: Sequence[str] = (),
        ask: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Spoken:
        return await self._voice.say(
            tx,
            body,
            now=now,
            lane=table.lane_of(about.id),
            to=to,
            ask=ask,
            cause=[about.event_id] if about.event_id else [],
            meta={"advisory": about.id, "level": about.level.word, **(meta or {})},
        )

    async def _withdraw(
        self, tx: Tx, after: Advisory, agents: Sequence[str], reason: str, now: float
    ) -> None:
        """Take back what these agents were asked before: a new message asks them."""
        for agent in agents:
            if agent in after.asked:
                before = after.asked[agent].message_id
                await self._voice.withdraw(tx, before, reason, now=now, agents=[agent])

    async def _keep_message(self, tx: Tx, after: Advisory, spoken: Spoken) -> None:
        """The message that speaks for the advisory from now on."""
        after = replace(after, message_id=spoken.id, number=spoken.number)
        await table.save_change(tx, after, ["said"], cause=[spoken.event_id])

    async def reach(self, tx: Tx, about: Advisory) -> dict[str, str]:
        """Of those who are part of it, the room's agents: empty, or why one cannot be asked."""
        reach = await self._voice.reach(tx, about.part)
        return {name: why for name, why in reach.items() if why is not None}

    async def _free_work(self, tx: Tx, after: Advisory, observation: Observation) -> int | None:
        if self._board is None:
            return None
        tasks = []
        for task in await self._board.list(tx):
            row = task.as_json()
            if row["status"] == "pending" and not row["badge"] and not row["assignee"]:
                tasks.append((task.number, str(row["title"]), int(row["priority"])))
        mine = [
            path
            for agent in after.roles.steer
            if agent in observation.sets
            for touch in observation.sets[agent].files
            for path in touch.paths
            if path not in after.files
        ]
        return wording.nearest_free(tasks, after.files, mine)
