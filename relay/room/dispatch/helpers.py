"""The helpers that agents start: each is a lane of its own, from its brief to its debrief (001, "Sub-Agent Edge
Semantics").

Invariants:
- a helper's lane is opened by a `spawn` on the lane that started it, with the brief, and folded by a `debrief` there,
  with the result; what stands on it begins with `helper.started` and ends with `helper.ended`;
- no helper outlives the turn in which it began: what is open at its end, however it ended, is folded, the innermost
  first;
- a helper's lane is named after what started it and a number that its agent had never (`CLAUDE.17`, and what that
  starts `CLAUDE.17.18`), so that one name is one helper.

What a helper changes stands in its agent's worktree, and is recorded as that agent's when the turn ends.
Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import BriefPart, DebriefPart
from relay.model.names import HELPER_ENDED, HELPER_STARTED
from relay.room.dispatch.running import whole_text
from relay.room.dispatch.turns import Helper, Plan
from relay.room.journal.ledger import Q
from relay.store.ports import Store, StoreError, Tx

log = structlog.get_logger(__name__)
#: Characters of a brief or a result that are kept, and lines of its tools.
MOST_TEXT, MOST_TOOLS = 16_384, 200


async def take(store: Store, plan: Plan, at_work: dict[str, Helper], part: BriefPart | DebriefPart) -> None:
    """Record what the agent's stream tells of a helper. `at_work`: those of the turn, by the ids of that stream."""
    try:
        if isinstance(part, BriefPart):
            by = at_work.get(part.by or "")
            at_work[part.helper] = await store.write(
                lambda tx: begin(tx, plan, part, by.lane if by else None)
            )
        elif (helper := at_work.get(part.helper)) is not None:
            await store.write(
                lambda tx: end(tx, helper, result=part.result, failed=part.failed, role=plan.role)
            )
            del at_work[part.helper]
    except (StoreError, store.transient) as error:
        # The turn is worth more than its helpers' lanes: one that stays open is folded with the turn.
        log.warning("helper not recorded", agent=plan.agent, error=str(error))


async def begin(tx: Tx, plan: Plan, part: BriefPart, by: Lane | None = None) -> Helper:
    """Open the lane of a helper of the turn's agent. `by`: the lane of the helper that started it, None = the agent.
    Raises LaneError when that was folded."""
    parent = by or plan.lane
    number = await events.next_number(tx, f"helper:{plan.agent}")
    lane = Lane(plan.session, f"{parent.name}.{number}")
    brief = {"brief": whole_text(part.brief[:MOST_TEXT]), "sort": whole_text(part.sort[:80])}
    await events.spawn(tx, parent, lane, inputs=brief)
    # The turn is the cause that a reader of the timeline sees; the brief edge is the lane's own `prev`.
    started = {"by": parent.name, **brief}
    await events.append(
        tx, NewEvent(HELPER_STARTED, lane, outputs=started, parents=[plan.event_id], role=plan.role)
    )
    return Helper(lane, parent)


async def end(
    tx: Tx, helper: Helper, *, result: str = "", failed: bool = False, why: str = "", role: str | None = None
) -> None:
    """Fold a helper's lane, and first those of the helpers that it started itself; nothing where that is done. `why`:
    what ended it, where it did not say itself that it ended."""
    row = await tx.one(events.Q.lane, session=helper.lane.session, lane=helper.lane.name)
    if row is None or row["folded"]:
        return
    await fold(tx, helper.lane, why or "the helper that started it ended", role=role)
    text = whole_text(result[:MOST_TEXT])
    outputs = {"by": helper.by.name, "result": text, "failed": failed, "tools": helper.tools[-MOST_TOOLS:]}
    if why:
        outputs["why"] = why
    await events.append(tx, NewEvent(HELPER_ENDED, helper.lane, outputs=outputs, role=role))
    await events.debrief(tx, helper.by, helper.lane, outputs=text)


async def fold(
    tx: Tx, lane: Lane, why: str, *, at_work: Iterable[Helper] = (), role: str | None = None
) -> int:
    """Fold the helpers that this lane has open; how many. `at_work`: what is known of them."""
    row = await tx.one(events.Q.lane, session=lane.session, lane=lane.name)
    if row is None or not row["open_children"]:
        return 0
    agent = lane.name.partition(".")[0]
    known = {helper.lane: helper for helper in at_work}
    # `/` is the character behind `.`.
    names = {"session": lane.session, "first": f"{agent}.", "behind": f"{agent}/", "parent": lane.key}
    children = [Lane(lane.session, open_row["lane"]) for open_row in await tx.all(Q.open_helpers, **names)]
    for child in children:
        await end(tx, known.get(child, Helper(child, lane)), failed=True, why=why, role=role)
    return len(children)
