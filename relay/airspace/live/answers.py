"""What agents answer to an advisory: their intent goes to the others and into what they have declared.

Invariant: an answer's effects commit with the follower's cursor, so each counts once; nothing here sets an agent
to work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from relay.airspace.advisories import intents, table, wording
from relay.airspace.advisories.intents import Source
from relay.airspace.advisories.rules.advisory import Advisory, Answer
from relay.airspace.live.service import AirspaceService
from relay.log.events import Event
from relay.model import Message, Voice
from relay.model.actions import DeclareIntent
from relay.store.ports import Tx

#: The room's events about its jobs (docs/http.md, JOB), which say how an agent's turn for a message went.
TURN_ENDED = "turn.ended"
JOB_CHANGED = "dispatch.changed"
#: Characters of an answer that are kept with the advisory; the message has all of it.
MOST_TEXT = 500


class AnswerFollower:
    """A follower of the log (`relay.log.follow`). `service` knows who else changes the files of an intent."""

    name = "airspace-answers"
    reads = frozenset({TURN_ENDED, JOB_CHANGED})
    emits = frozenset({table.CHANGED, intents.DECLARED, "message.posted"})

    def __init__(
        self,
        voice: Voice,
        service: AirspaceService | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._voice = voice
        self._service = service
        self._clock = clock

    async def apply(self, tx: Tx, event: Event) -> None:
        for job in (event.outputs or {}).get("jobs", ()):
            advisory = await table.of_message(tx, job["message_id"])
            if advisory is not None and job["agent"] in advisory.asked:
                await self._heard(tx, advisory, job, event)

    async def _heard(self, tx: Tx, advisory: Advisory, job: Mapping[str, Any], event: Event) -> None:
        agent, asked = job["agent"], advisory.asked[job["agent"]]
        latest = asked.message_id == job["message_id"]
        if job["state"] == "done" and job.get("answer_id"):
            message = await self._voice.message(tx, job["answer_id"])
            known = advisory.answers.get(agent)
            if message is not None and (known is None or known.message_id != message.id):
                # An answer to an earlier question says what the agent is about, but not yet what it was asked for.
                await self._answered(tx, advisory, agent, message, event, latest=latest)
            return
        if not latest:
            return
        failed = (job.get("reason") or str(job["state"])) if job["state"] in ("skipped", "dead") else ""
        if failed != asked.failed:
            asks = {**advisory.asked, agent: replace(asked, failed=failed)}
            await table.save_change(tx, replace(advisory, asked=asks), ["unreached"], cause=[event.id])

    async def _answered(
        self, tx: Tx, advisory: Advisory, agent: str, message: Message, event: Event, *, latest: bool
    ) -> None:
        now = self._clock()
        paths = intents.parse(message.body)
        answer = Answer(paths or (), message.body[:MOST_TEXT], message.id, now)
        advisory = replace(
            advisory,
            answers={**advisory.answers, agent: answer},
            asked={**advisory.asked, agent: replace(advisory.asked[agent], answered=True, failed="")}
            if latest
            else advisory.asked,
        )
        advisory = await table.save_change(tx, advisory, ["answered"], cause=[event.id])
        if paths is None:
            return
        assert advisory.event_id is not None
        await intents.declare(
            tx,
            DeclareIntent(agent, paths),
            source=Source.ANSWER,
            by=agent,
            now=now,
            cause=[advisory.event_id],
            session="" if event.session == table.ROOM else event.session,
        )
        others = [other for other in advisory.roles.agents if other != agent]
        # The advisory has named its own agents.
        held = self._service.in_hand(agent, paths, but=others) if paths and self._service is not None else ()
        if held:
            lane, cause = table.lane_of(advisory.id), [advisory.event_id]
            await self._voice.say(tx, "\n\n".join(held), now=now, lane=lane, to=[agent], cause=cause)
        if paths and others and advisory.open:
            await self._voice.say(
                tx,
                wording.intent(agent, paths, advisory.number),
                now=now,
                lane=table.lane_of(advisory.id),
                to=others,
                cause=[advisory.event_id],
                meta={"advisory": advisory.id, "intent": {"agent": agent, "paths": list(paths)}},
            )
