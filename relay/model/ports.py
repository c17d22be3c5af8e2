"""What one wing asks of another; the composition root fills it in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relay.model.actions import (
        AnswerHandoff,
        Decide,
        DeclareIntent,
        ForceRelease,
        Forget,
        HandOn,
        JudgeMemory,
        Recall,
        Remember,
        RequireLanding,
        RunPipeline,
    )
    from relay.model.guards import HeldPath
    from relay.model.messages import Message
    from relay.model.refusals import Caller, Refusal


class BoardTask(Protocol):
    """A task as the board shows it."""

    @property
    def number(self) -> int: ...

    @property
    def ref(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def body(self) -> str: ...

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def id(self) -> str: ...

    @property
    def given_to(self) -> str | None: ...

    @property
    def given(self) -> Sequence[tuple[str, int, str]]:
        """The messages by which people gave it to agents: id, number, agent; the last behind."""
        ...

    def as_json(self) -> dict[str, Any]: ...

    def as_listed(self) -> dict[str, Any]: ...


class BoardChange(Protocol):
    """A change of the board that was made."""

    @property
    def task(self) -> BoardTask: ...

    @property
    def before(self) -> Sequence[BoardTask | None]: ...

    @property
    def tasks(self) -> Sequence[BoardTask]: ...

    def summary(self) -> str: ...


class Board(Protocol):
    """The tasks of the room. Every method runs in the caller's transaction (`tx`); `lane` is the lane of who
    does it and `cause` the ids of the events that made them. Each raises Refusal."""

    async def create(
        self, tx: Any, title: str, *, by: str, lane: Any, cause: Sequence[str] = (), body: str = ""
    ) -> BoardChange: ...

    async def edit(
        self,
        tx: Any,
        numbers: Sequence[int],
        changes: Mapping[str, Any],
        *,
        by: str,
        lane: Any,
        cause: Sequence[str] = (),
    ) -> BoardChange:
        """`changes`: any of `title`, `body`, `priority`, `files`, `depends_on` (references of tasks)."""
        ...

    async def givable(self, tx: Any, number: int) -> BoardTask: ...

    async def origins(self, tx: Any, task: BoardTask, by: str) -> tuple[str, str]:
        """Whose words the title and the description are (`written by NAME`); "" = `by`'s own."""
        ...

    async def give(
        self,
        tx: Any,
        number: int,
        agent: str,
        message: tuple[str, int],
        *,
        by: str,
        lane: Any,
        cause: Sequence[str] = (),
    ) -> BoardChange:
        """`message`: its id and number."""
        ...

    async def archive(
        self, tx: Any, numbers: Sequence[int], *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def move_some(
        self, tx: Any, numbers: Sequence[int], to: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def get(self, tx: Any, number: int) -> BoardTask: ...

    async def move(
        self, tx: Any, number: int, to: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def move_all(
        self, tx: Any, to: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def rename(
        self, tx: Any, number: int, title: str, *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def clear_all(self, tx: Any, *, by: str, lane: Any, cause: Sequence[str] = ()) -> BoardChange: ...

    async def undo(
        self, tx: Any, of: Sequence[str] = (), *, by: str, lane: Any, cause: Sequence[str] = ()
    ) -> BoardChange: ...

    async def undoable(self, tx: Any) -> str:
        """What `undo` takes back now: who did what. Empty: there is nothing."""
        ...

    async def list(self, tx: Any) -> Sequence[BoardTask]: ...

    async def in_hand(self, tx: Any) -> Sequence[BoardTask]: ...

    async def counts(self, tx: Any) -> dict[str, int]: ...

    async def among(self, tx: Any, ids: Sequence[str]) -> Sequence[BoardTask]:
        """Those of these tasks (by their ids) that stand on the board."""
        ...

    async def landed(self, tx: Any, tasks: Sequence[BoardTask]) -> Mapping[str, str | None]:
        """By the id of a task, the commit with which the work for it came into the main branch; None: the work is in
        its agent's branch still."""
        ...

    async def story(self, tx: Any, number: int) -> Mapping[str, Any]:
        """A task with all that is known of it, as JSON: as on the board, with `input_data`, `result` and its
        `history`: `[{id, at, by, change, to, status, note}]`, oldest first; `more`: it began earlier."""
        ...


class Holds(Protocol):
    """What agents hold, as the room shows it and its commands ask for it. Every method runs in the caller's
    transaction (`tx`)."""

    async def locks(self, tx: Any) -> Sequence[Mapping[str, Any]]:
        """Every LOCK that holds now (docs/coordination.md), the oldest first, with `waiting`: who stands in line
        for something that meets it, `[{agent, session, since, until}]`, in order."""
        ...

    async def meeting(self, tx: Any, path: str) -> Sequence[Mapping[str, Any]]:
        """The LOCKs that hold now and meet `path` (a path, a pattern or a key), by the overlap that locks are decided
        by. Raises Refusal when it is no such thing."""
        ...

    async def sessions(self, tx: Any) -> Sequence[Mapping[str, Any]]:
        """Every SESSION that lives now, the latest first."""
        ...

    async def force_release(
        self, tx: Any, action: ForceRelease, *, by: str, cause: Sequence[str] = ()
    ) -> Sequence[Mapping[str, Any]]:
        """Take the locks on exactly this path from their holders, for a person; gives them as they were. Raises
        Refusal when nobody holds one, with what is held near it."""
        ...


class TaskOutcomes(Protocol):
    """What is learned from how tasks end."""

    async def ended(
        self,
        tx: Any,
        task_id: str,
        task_type: str,
        success: bool,
        *,
        skill: str | None,
        by: str,
        lane: Any,
        cause: Sequence[str] = (),
    ) -> None:
        """A task was completed (`success`), failed, or died. `skill`: by which one, as its agent says; `by`: the
        agent. Runs in the transaction that ends it, with the room's rights."""
        ...


class Handoffs(Protocol):
    """What people order about work that is handed on. Every method but `check`, which comes before, runs in the
    caller's transaction (`tx`) and gives what the room answers. Each raises Refusal, with nothing changed."""

    async def hand_on(self, tx: Any, action: HandOn, *, by: str, cause: Sequence[str] = ()) -> str: ...

    async def pipeline(self, tx: Any, action: RunPipeline, *, by: str, cause: Sequence[str] = ()) -> str: ...

    async def check(self, action: AnswerHandoff | RunPipeline) -> None: ...

    async def answer(self, tx: Any, action: AnswerHandoff, *, by: str, cause: Sequence[str] = ()) -> str: ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message that was put into the room, and the event that recorded it."""

    id: str
    number: int
    event_id: str


class TurnsAtWork(Protocol):
    """The turns that the room's agents are at."""

    def agents(self) -> Collection[str]:
        """The names of the room's agents."""
        ...

    def working(self) -> Mapping[str, float]:
        """Since when (Unix seconds) each agent at work is at its turn."""
        ...

    def guarded(self, agent: str) -> bool:
        """Is this agent asked before its edits?"""
        ...

    async def interrupt(self, agent: str, text: str) -> bool:
        """Begin an agent's turn anew, with this text in front; False when it is at none."""
        ...


class Voice(Protocol):
    """How a wing speaks in the room. Every method runs in the caller's transaction (`tx`)."""

    async def reach(self, tx: Any, names: Sequence[str]) -> Mapping[str, str | None]:
        """Who of these can be given a turn now: "" = can; a text = why this agent cannot; None = no agent of the
        configuration (a person)."""
        ...

    async def say(
        self,
        tx: Any,
        body: str,
        *,
        now: float,
        lane: Any,
        to: Sequence[str] = (),
        ask: Sequence[str] = (),
        cause: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Spoken:
        """An advisory from the room itself. `to` are those it addresses; `ask` the agents that get a turn for it,
        through breaker and budget like any. It opens no cycle, and neither do the answers to it. `now`: Unix
        seconds; `lane`: the (short) lane that it is recorded on."""
        ...

    async def withdraw(
        self, tx: Any, message_id: str, reason: str, *, now: float, agents: Sequence[str]
    ) -> Sequence[str]:
        """Take back the turns of these agents that wait for this message; gives whose. One that runs goes on."""
        ...

    async def message(self, tx: Any, message_id: str) -> Message | None: ...


class Credentials(Protocol):
    """What callers were let in by."""

    async def let_in(self, tx: Any, caller: Caller) -> Refusal | None:
        """Why this caller's key opens nothing any more, None = it does, or there is none. In a transaction of the
        caller's, so that nothing is granted that a revocation came before."""
        ...


class Checkouts(Protocol):
    """Where agents work."""

    def root_of(self, agent: str) -> Path | None:
        """The top of an agent's checkout; None for one that is not the room's: it works in the main one, or
        anywhere."""
        ...


class AgentConfig(Protocol):
    """The agents' entries in config.json."""

    async def set_agent(self, agent: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Write an agent's model, effort, `enabled` or limits of its budget, and take it over: `{success}`. Raises
        Refusal."""
        ...


class LandingConfig(Protocol):
    """What config.json says of landing."""

    async def require_landing(self, action: RequireLanding, *, by: str) -> dict[str, Any]:
        """Write whether agents' branches land by the queue only, and take it over: `{success}`. Raises Refusal."""
        ...


class HeldPaths(Protocol):
    """What the airspace asks of the locks."""

    async def held(self, tx: Any) -> Sequence[HeldPath]:
        """What holds now and is about files."""
        ...


class Timeline(Protocol):
    """What the room's commands ask of the timeline, of conflicts and of the configuration: what writes files or waits
    for git, so not in the transaction of an answer. `action`: one of those that the part knows."""

    async def carry_out(self, action: Any, *, by: str, source_key: str) -> str:
        """Do what a person orders, once for each `source_key`, also when the room is ended in between; gives the
        room's answer. Raises Refusal, with nothing changed."""
        ...


class Remembered(Protocol):
    """What the room's commands ask of the memory."""

    async def recall(self, action: Recall) -> str:
        """What is remembered that bears on it, as markdown in which no line passes for the room's own. Raises
        Refusal."""
        ...

    async def carry_out(
        self,
        tx: Any,
        action: Remember | Decide | Forget | JudgeMemory,
        *,
        by: str,
        message: Message,
        cause: Sequence[str],
    ) -> str:
        """Keep, forget or judge what a person orders in this message; gives the room's answer. Runs in the caller's
        transaction. Raises Refusal, with nothing changed."""
        ...


class Orders(Protocol):
    """What the room's commands ask of a wing: explorations, verification and landing, the inbox."""

    async def carry_out(self, tx: Any, action: Any, *, by: str, cause: Sequence[str] = ()) -> str:
        """Order what a person wants; gives the room's answer. `action`: one of those that the wing knows. What takes
        time is done afterwards. Runs in the caller's transaction. Raises Refusal, with nothing changed."""
        ...


class Airspace(Protocol):
    """What the room's commands ask of the airspace."""

    async def declare(
        self, tx: Any, action: DeclareIntent, *, by: str, cause: Sequence[str] = ()
    ) -> Sequence[str]:
        """Replace what an agent says it is about to touch. Gives the paths as they are kept.
        Runs in the caller's transaction. Raises Refusal."""
        ...

    def in_hand(self, agent: str, paths: Sequence[str], *, but: Collection[str] = ()) -> list[str]:
        """Who changes which of the files now, without `but`, a text each, for the agent that means to change them."""
        ...

    def who_is_near(self) -> str:
        """Who is near whom now, as markdown for the room."""
        ...

    async def go_first(self, tx: Any, agent: str, *, by: str, cause: Sequence[str] = ()) -> str:
        """A person says that this agent goes first where its work collides with others'; gives the room's answer.
        Runs in the caller's transaction. Raises Refusal."""
        ...

    async def take_main(self, tx: Any, agent: str, *, by: str, cause: Sequence[str] = ()) -> str:
        """A person asks an agent to take the main branch into its own; gives the room's answer. Runs in the caller's
        transaction. Raises Refusal."""
        ...
