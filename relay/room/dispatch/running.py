"""The turns that run in this process: who can see them, and how one is ended early.

Invariants:
- a turn that a person has cancelled is not interrupted, and a turn is interrupted for one advice at a time;
- who cancels takes back what was said before, and nothing that was said since.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.base.durations import now_iso
from relay.model import Changes, Inbox, Location, Message, Workplace
from relay.room.dispatch.turns import Plan, Recollection
from relay.store.ports import Tx

#: Lines kept of an agent's log.
LOG_LINES = 500


class TurnHooks:
    """What the daemon does around turns and decisions. Every method does nothing here; a subclass overrides some.

    The coroutines are awaited by the turn: a place to work in before it, and its changes after it.
    """

    async def recollect(self, agent: str, messages: Sequence[Message]) -> Recollection | None:
        """What the room remembers that bears on these messages, which may become a turn of this agent. Waited for as
        long as a turn may be kept waiting by it, and never raises."""
        return None

    async def before_turn(self, plan: Plan, *, take_main: bool) -> Workplace | None:
        """Where the turn that begins works; None: where its configuration says. `take_main`: it is to merge the
        main branch into the agent's own. Never raises."""
        return None

    async def bring(self, text: str) -> str:
        """Have the room's files that a text names by their paths. Which do not come, and why, in words; waited for as
        long as that takes, and never raises."""
        return ""

    async def processes_ended(self) -> None:
        """A turn's processes have ended and its jobs have not: what they wrote is still the agent's."""

    async def after_turn(self, plan: Plan) -> Changes | None:
        """What the turn that ends changed in its worktree; None: nothing, or unknown."""
        return None

    async def record_changes(self, tx: Tx, plan: Plan, changes: Changes) -> None:
        """Record what the turn changed, in the transaction that records its end."""

    def state_changed(self, agent: str) -> None:
        """The agent begins or ends a turn."""

    def locations_named(self, agent: str, locations: Sequence[Location]) -> None:
        """A tool of the turn named these places. Paths are relative to the top of the checkout, none is outside."""

    def command_run(self, agent: str, command: str) -> None:
        """A shell of the turn runs this, as far as the agent's stream has it in one line."""

    def turn_ended(self, agent: str, result: str, seconds: float) -> None:
        """`result`: done, interrupted, or the class of the failure."""

    def cycle_decided(self, action: str) -> None:
        """The router decided who answers a message. `action`: route, absorb, clarify or fallback."""


@dataclass(slots=True)
class RunningTurn:
    """A turn under way. `stopped_by` is the person who cancelled it, and what was said from the room's number
    `before` on (None: nothing) is not taken back with it; `advice` is what it is interrupted for. `inbox`:
    what it is told; `news`: something was said in the room."""

    plan: Plan
    task: asyncio.Task[None]
    inbox: Inbox = field(default_factory=Inbox)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    #: The ids of what was put into its inbox.
    told: set[str] = field(default_factory=set)
    #: Held while what it heard is recorded, and from its end on (`over_soon`).
    hearing: asyncio.Lock = field(default_factory=asyncio.Lock)
    over_soon: bool = False
    text: list[str] = field(default_factory=list)
    length: int = 0
    #: Its last tool, with what it is used for.
    tool: str = ""
    stopped_by: str | None = None
    before: int | None = None
    advice: str = ""
    #: It ended because of the advice.
    cut_off: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jobs(self) -> frozenset[int]:
        return frozenset(job.id for job in self.plan.all_jobs)

    def stream(self, text: str, offset: int, tool: str = "") -> dict[str, Any]:
        """A piece of its answer, as docs/http.md has a `stream`. `offset`: of `text`, in UTF-16 units."""
        data = {
            "job": self.plan.primary.id,
            "agent": self.plan.agent,
            "message_id": self.plan.asked.id,
            "text": whole_text(text),
            "offset": offset,
        }
        return {**data, "tool": tool} if tool else data


class RunningTurns:
    """The running turn of each agent, and the last lines of each agent's log."""

    def __init__(self) -> None:
        self.by_agent: dict[str, RunningTurn] = {}
        #: The daemon stops: no turn is interrupted any more, since none begins again.
        self.stopping = False
        #: This member of a fleet may count as gone soon: turns of agents that others have too wait.
        self.unsure = False
        self._logs: dict[str, deque[dict[str, str]]] = {}
        #: By agent: the turn that was cancelled between its claim and its start, as `cancel` was called.
        self._cancelled: dict[str, tuple[str, int, float | None, int | None]] = {}

    @property
    def jobs(self) -> set[int]:
        """The jobs whose turns run here."""
        return {job for turn in self.by_agent.values() for job in turn.jobs}

    def streams(self) -> list[dict[str, Any]]:
        """What the running turns have said so far: of each one piece, from the beginning. Not of those whose end is
        being recorded, since their answers may stand in the room already."""
        return [
            turn.stream("".join(turn.text), 0, turn.tool)
            for turn in self.by_agent.values()
            if (turn.length or turn.tool) and not turn.over_soon
        ]

    def begin(self, plan: Plan, task: asyncio.Task[None]) -> None:
        """The task of a claimed turn was made. It is cancelled if one of its jobs was cancelled meanwhile."""
        turn = self.by_agent[plan.agent] = RunningTurn(plan, task)
        cancelled = self._cancelled.pop(plan.agent, None)
        if cancelled is not None:
            by, job, began, before = cancelled
            # A job that is tried again later is not the turn that was meant.
            if job in turn.jobs and began in (None, plan.started_at):
                self.cancel(plan.agent, by, before=before)

    def end(self, agent: str) -> None:
        self.by_agent.pop(agent).over.set()

    def cancel(
        self,
        agent: str,
        by: str,
        job: int | None = None,
        began: float | None = None,
        before: int | None = None,
    ) -> bool:
        """End the running turn of an agent, with `job` only if it is at that job; False when it has none. `before`:
        those of its messages that have this room's number or a later one wait for the next turn.

        A turn that is claimed and has not begun is ended as soon as it would begin, if it is of the claim `began`.
        """
        turn = self.by_agent.get(agent)
        if turn is None:
            if job is not None:
                self._cancelled[agent] = (by, job, began, before)
            return False
        if turn.stopped_by is not None or (job is not None and job not in turn.jobs):
            return False
        turn.stopped_by, turn.before = by, before
        turn.inbox.close()
        turn.task.cancel()
        return True

    async def interrupt(self, agent: str, advice: str) -> bool:
        """Cut off the running turn of an agent. It begins again at once in the same conversation, with `advice` (not
        empty) before its prompt. This is no failure: neither its attempts nor its breaker count it.

        Returns when its processes have ended and its jobs wait again. False when there was nothing to interrupt: the
        agent has no turn, its turn is being cancelled, or it has just ended.
        """
        turn = self.by_agent.get(agent)
        if turn is None or self.stopping or turn.stopped_by is not None or turn.advice:
            return False
        turn.advice = advice
        turn.task.cancel()
        await turn.over.wait()
        return turn.cut_off

    def log_of(self, agent: str, limit: int) -> list[dict[str, str]]:
        """The last lines of an agent's log, oldest first: `[{ts, text}]`."""
        return list(self._logs.get(agent, ()))[-limit:]

    def note(self, agent: str, text: str) -> None:
        """Append a line to an agent's log."""
        lines = self._logs.setdefault(agent, deque(maxlen=LOG_LINES))
        lines.append({"ts": now_iso(), "text": whole_text(text[:2000])})


def whole_text(text: str) -> str:
    """`text` without lone surrogates, which an agent's JSON may hold and no database or socket takes. A pair becomes
    one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
