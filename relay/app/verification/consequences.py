"""What follows when a change was verified: the task goes on or is open again, its agent is told, people are asked.

Invariant: it follows once, in the transaction that moves the cursor. What lands is told by the landing queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.app.verification.landing_words import shortened
from relay.base.terminal_text import fenced, flat
from relay.coordination.tasks.claims import Claims
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import By
from relay.log.events import Event
from relay.model import references
from relay.model.ports import Voice
from relay.room.journal import ledger
from relay.store.ports import Tx
from relay.verification import approvals, journal, present
from relay.verification.journal import lane_of
from relay.verification.landing import journal as landings
from relay.verification.verification import Source, State

#: Lines of a failed run that the room quotes; paths that a line names.
MOST_LINES, MOST_NAMED = 20, 4


class Consequences:
    """A follower of the log (`relay.log.follow`). `voice` reaches agents."""

    name = "verification-consequences"
    reads = frozenset({journal.ENDED, approvals.ASKED, landings.PUT_OUT})
    emits = frozenset({"message.posted", "task.changed", "skill.used"})

    def __init__(self, claims: Claims, voice: Voice) -> None:
        self._claims, self._voice = claims, voice

    async def apply(self, tx: Tx, event: Event) -> None:
        outputs = event.outputs or {}
        match event.type:
            case "approval.asked":
                await self._ask(tx, outputs, event)
            case "landing.put_out":
                if outputs.get("task") and outputs.get("output"):
                    await self._open_again(tx, outputs["task"], str(outputs["reason"]), event)
            case "verification.ended" if outputs["source"] == Source.LANDING:
                if (outputs.get("about") or {}).get("agents") == []:
                    await self._of_main(tx, outputs, event)
            case "verification.ended":
                match outputs["state"]:
                    case State.PASSED:
                        await self._passed(tx, outputs, event)
                    case State.FAILED:
                        await self._failed(tx, outputs, event)
                    case State.ERROR:
                        await self._error(tx, outputs, event)
                    case State.NOT_TESTED if _was_asked(outputs):
                        await self._say(tx, f"is not tested. {outputs['reason']}", outputs, event)

    async def _ask(self, tx: Tx, asked: Mapping[str, Any], event: Event) -> None:
        name, files = asked["reference"], [str(path) for path in asked["files"]]
        meta = {"notice": "approval", "approval": asked["number"], "agent": asked["agent"]}
        answers = f"`/approve {name}`, or `/reject {name} why`."
        approval = await approvals.load(tx, asked["number"])
        change = (await journal.load(tx, approval.verification)).change
        if change.about.get("part") == "join":
            text = f"{name}: {asked['agent']}'s branch is to land on {flat(change.branch)}. "
            text += (
                f"{flat(change.summary)}.\n\n{fenced(shortened(change.about['diff']), 'diff')}\n\n{answers}"
            )
            await ledger.say(tx, text, parents=[event.id], meta=meta)
            return
        named = ", ".join(f"`{flat(path)}`" for path in files[:MOST_NAMED])
        more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
        wanted = approval.wanted(change, f"{named}{more}", " needs a person")
        text = f"{name}: {wanted} ({', '.join(asked['policies'])}). {answers}"
        await ledger.say(tx, text, parents=[event.id], meta=meta)

    async def _of_main(self, tx: Tx, ended: Mapping[str, Any], event: Event) -> None:
        """Say that the main branch fails its tests, once for each commit and for who asks again, and that it passes
        them again."""
        known = {each.number: each for each in await present.newest_of_main(tx) if each.ended is not None}
        this = known.pop(ended["number"], None)
        if this is None or ended["state"] not in (State.PASSED, State.FAILED):
            return
        before = [each for each in known.values() if (each.ended, each.number) < (this.ended, this.number)]
        was, now = present.red(before), present.red([*before, this])
        name, into = ended["reference"], flat(str(ended["branch"])) or "the main branch"
        asked, failed = _was_asked(ended), this.state is State.FAILED
        known_red = was is not None and now is not None and was.of.change.commit == now.of.change.commit
        if failed and (asked or not known_red):
            fails = "fails" if was is None else "still fails"
            text = f"{name}: {into} {fails} its tests. {flat(str(ended['reason']))}"
            lines = "\n".join(str(ended.get("lines") or "").split("\n")[-MOST_LINES:])
            text += f"\n\n{fenced(lines)}" if lines else ""
        elif not failed and now is None and (was is not None or asked):
            text = f"{name}: {into} passes its tests{' again' if was is not None else ''}."
        else:
            return
        meta = {"notice": "verification", "verification": ended["number"]}
        # As "main's tests" in what a reader missed (`relay.app.needs.since`).
        also = {"agent": into, "failed": "tests"} if failed else {}
        await ledger.say(tx, text, parents=[event.id], meta=meta | also)

    async def _passed(self, tx: Tx, ended: Mapping[str, Any], event: Event) -> None:
        name = ended["reference"]
        # What an agent tells of itself, by a commit of its own choice, is no word on its task.
        if ended.get("task") and ended["source"] == Source.TASK:
            note = f"Verified: {ended['decides']} passed ({name})."
            await self._claims.verify(tx, ended["task"], note, _by(ended, event))
        if _was_asked(ended):
            await self._say(tx, f"passed ({ended['decides']}).", ended, event)
        elif await self._before(tx, ended) is State.FAILED:
            await self._say(tx, f"passes now ({ended['decides']}).", ended, event)

    async def _say(self, tx: Tx, how: str, ended: Mapping[str, Any], event: Event) -> None:
        """In the room, to people."""
        agent = str(ended["agent"])
        meta = {"notice": "verification", "verification": ended["number"], "agent": agent}
        text = f"{ended['reference']}: {agent}'s change {flat(how)}"
        await ledger.say(tx, text, parents=[event.id], meta=meta)

    async def _failed(self, tx: Tx, ended: Mapping[str, Any], event: Event) -> None:
        agent, reason = str(ended["agent"]), flat(str(ended["reason"]))
        text = f"{ended['reference']}: {agent}'s change did not pass. {reason}"
        if below := await present.fails_below(tx, ended.get("base")):
            text += f" What it stands on fails by itself ({below.name})."
        task = None
        if ended.get("task"):
            why = f"{ended['reference']} failed: {reason}"
            task = await self._open_again(tx, ended["task"], why, event)
        if task is not None:
            name = references.task(task.number)
            text += f" {name} is given up." if task.status is Status.DEAD else f" {name} is open again."
        lines = "\n".join(str(ended.get("lines") or "").split("\n")[-MOST_LINES:])
        text += f"\n\n{fenced(lines)}" if lines else ""
        # Only who has a task left to do is set to work: a turn costs, and a person may want it otherwise.
        asks = task is not None and task.status is not Status.DEAD
        await self._tell(tx, text, agent, ended, event, ask=asks)

    async def _error(self, tx: Tx, ended: Mapping[str, Any], event: Event) -> None:
        """Said once: the next change of this agent has the same missing tool."""
        agent = str(ended["agent"])
        known = await journal.newest_of_agent(tx, agent, 5)
        before = [each for each in known if each.number < ended["number"] and each.change.source != "landing"]
        if before and (before[0].state, before[0].reason) == (State.ERROR, ended["reason"]):
            return
        text = f"{ended['reference']}: {agent}'s change could not be verified. {flat(str(ended['reason']))}"
        meta = {"notice": "verification", "verification": ended["number"], "agent": agent, "failed": "tests"}
        await ledger.say(tx, text, parents=[event.id], meta=meta)

    async def _before(self, tx: Tx, ended: Mapping[str, Any]) -> State | None:
        """How the agent's change before this one came out."""
        known = await journal.newest_of_agent(tx, str(ended["agent"]), 10)
        states = [
            each.state
            for each in known
            if each.number < ended["number"]
            and each.state in (State.PASSED, State.FAILED)
            and each.change.source is not Source.LANDING
        ]
        return states[0] if states else None

    async def _open_again(self, tx: Tx, task_id: str, why: str, event: Event) -> Task | None:
        return await self._claims.unverify(
            tx, task_id, flat(why)[:300].rstrip("."), _by(event.outputs, event)
        )

    async def _tell(
        self, tx: Tx, text: str, agent: str, ended: Mapping[str, Any], event: Event, *, ask: bool
    ) -> None:
        meta = {"notice": "verification", "verification": ended["number"], "agent": agent, "failed": "tests"}
        if (await self._voice.reach(tx, [agent])).get(agent) is None:
            await ledger.say(tx, text, parents=[event.id], meta=meta)
            return
        reached: Sequence[str] = [agent] if ask else []
        lane = lane_of(ended["number"])
        await self._voice.say(
            tx, text, now=await tx.now(), lane=lane, to=[agent], ask=reached, cause=[event.id], meta=meta
        )


def _was_asked(ended: Mapping[str, Any]) -> bool:
    """Did a person ask for it, who waits for its end?"""
    return ended["source"] == Source.PERSON or "fresh" in (ended.get("about") or {})


def _by(ended: Mapping[str, Any], event: Event) -> By:
    """The room, on the short lane of what was verified or landed."""
    lane = lane_of(ended["number"]) if event.type == journal.ENDED else landings.lane_of(ended["number"])
    return By("RELAY", lane, [event.id])
