"""What the steward is told of agents, from the database to its words."""

from __future__ import annotations

import pytest

from relay.coordination.tasks.board import Board
from relay.model import FailureClass
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import RunningTurns, TurnHooks
from relay.room.dispatch.turns import Outcome
from relay.room.journal.live_bus import Live
from relay.room.routing.local_model import Dispatcher
from relay.room.routing.router import Router
from relay.room.steward import answers
from relay.room.steward.overview import Overview
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Shelf
from tests.room.parts import end, plan_of, post

pytestmark = BOTH


async def who(store: Store, roster: Roster, now: float) -> str:
    live, clock = Live(), Clock(now)
    router = Router(store, live, Dispatcher("m"), roster, TurnHooks())
    overview = Overview(
        roster, RunningTurns(), Board(), Shelf(), live, router, config="config.json", clock=clock
    )
    return answers.render_who(await store.read(overview.read))


@pytest.mark.parametrize(
    ("failure", "retry_in_s", "says"),
    [
        (FailureClass.CRASH, None, "one attempt is made in 4 min"),
        (FailureClass.RATE_LIMIT, 1860, "has reached its rate limit and goes on in 30 min"),
    ],
)
async def test_when_an_agent_goes_on_is_said(
    store: Store, clock: Clock, failure: FailureClass, retry_in_s: float | None, says: str
) -> None:
    policy = Policy("ALPHA", threshold=1, reset_timeout=300.0)
    roster = Roster({"ALPHA": Member("ALPHA", "played", policy)})
    await post(store, "@ALPHA look", clock(), agents=["ALPHA"])
    plan = await plan_of(store, policy, clock())
    retry_at = None if retry_in_s is None else clock() + retry_in_s
    await end(store, plan, Outcome(failure=failure, detail="no", retry_at=retry_at), clock())
    assert says in await who(store, roster, clock.move(60))
