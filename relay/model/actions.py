"""What people and agents order, as values: parsed from a command's text, or made by any other interface.

One function carries an action out, whoever ordered it: `ActionHandlers.handle` calls it for a person in the room, an
operation for its caller. Invariants: `commands.parse(action.line(), agents) == action`, and
`of_json(action.as_json()) == action`. Pure.

An action is its command's word and its fields. In its line they stand in the order in which the class has them, each
written by its name (`_WRITTEN`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.model import references
from relay.model.orders.action import COMMAND_WORD, Action, Answer, OfAgent, OfAgents, mentioned
from relay.model.orders.board import (
    AddTask,
    Archive,
    ClearAll,
    EditTasks,
    Field,
    Give,
    MoveAll,
    MoveTask,
    MoveTasks,
    OfBoard,
    ShowTask,
    ShowTasks,
    Status,
    Undo,
)
from relay.model.orders.entries import (
    DeleteMessage,
    EditMessage,
    OnEntries,
    Pin,
    Reply,
    ShowPins,
    ShowThread,
    Unpin,
)
from relay.model.orders.needs import (
    MarkAdvisory,
    Needing,
    PutOff,
    RaiseBudget,
    SetAgent,
    ShowNeeds,
    ShowSince,
)
from relay.model.orders.review import ApplySuggestion, MarkReviewed, SendReview, ShowReview
from relay.model.orders.verification import (
    Approve,
    Land,
    Reject,
    ShowLanding,
    TakeFromQueue,
    Verify,
    Verifying,
)
from relay.model.orders.worktrees import (
    DiscardWork,
    GiveUpMerge,
    InWorktrees,
    MergeBranch,
    OnBranch,
    RestoreWork,
    RunApp,
    SetUp,
    ShowApps,
    ShowOutput,
    StopApp,
    TakeBackMerge,
)


class ShowWho(Action, word="/who"):
    """Who is here, and how the agents are."""


class ShowQueue(Action, word="/queue"):
    """What runs, what waits and what went wrong."""


class ShowCost(Action, word="/cost"):
    """What the agents' turns cost since midnight."""


class ShowAirspace(Action, word="/airspace"):
    """Who is near whom in the code."""


@dataclass(frozen=True)
class ShowHelp(Action, word="/help"):
    """`command` is a known one, with its slash, or None for all."""

    command: str | None = None


@dataclass(frozen=True)
class ShowLocks(Action, word="/locks"):
    """`path`: only the locks near it; None = all."""

    path: str | None = None


class Cancel(OfAgents, word="/cancel"):
    """End the running turns of these agents."""


class Stop(OfAgents, word="/stop"):
    """End the running turns of these agents, and start no new ones: messages wait."""


class Pause(OfAgents, word="/pause"):
    """Start no new turns of these agents; without agents: of all."""


class Resume(OfAgents, word="/resume"):
    """Start turns of these agents again; without agents: of all."""


class TryNow(OfAgents, word="/try"):
    """Make the one attempt of these agents' open circuits now."""


@dataclass(frozen=True)
class Steer(OfAgents, word="/steer"):
    """Say something to these agents that they hear while they work. It is a message; its receipts are its answer."""

    text: str

    def line(self) -> str:
        # A text that begins with a name is not for whoever has it.
        colon = ":" if self.text.startswith(("@", ",", ":")) else ""
        return f"{self.word} {mentioned(self.agents)}{colon} {self.text}"


class TakeMain(OfAgents, word="/update"):
    """Ask these agents to take the main branch into their own."""


@dataclass(frozen=True)
class Route(OfAgents, word="/route"):
    """Send a message (`message` is its room number) to these agents, at least one."""

    message: int

    def line(self) -> str:
        return f"{self.word} {references.message(self.message)} {mentioned(self.agents)}"


@dataclass(frozen=True)
class Retry(Action, word="/retry"):
    """`of` is "job" or "message" when the person said which, else "any": look for a message first, since
    those are the numbers that people see."""

    number: int
    of: str = "any"

    def line(self) -> str:
        shown = {"job": references.job, "message": references.message}.get(self.of, str)(self.number)
        return f"{self.word} {shown}"


class Continue(Action, word="/continue"):
    """Lift the hop limit of the conversation among agents."""


class GoFirst(OfAgent, word="/first"):
    """This agent goes first where its work collides with another's."""


class RetryAll(OfAgent, word="/retry"):
    """Try again all that the agent did not answer in the last day."""


@dataclass(frozen=True)
class DeclareIntent(OfAgent, word="/intent"):
    """What an agent is about to touch; no paths = nothing any more."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class Permit(Action, word="/allow"):
    """Answer what an agent asks for. `request`: its number or id; `option`: its id, name or place, None = the first
    that fits `allow`."""

    request: str
    option: str | None
    allow: bool

    def line(self) -> str:
        return f"{self.word if self.allow else '/deny'} {self.request} {self.option or ''}".rstrip()


@dataclass(frozen=True)
class ForceRelease(Action, word="/unlock"):
    """Take the locks of `path` (a path, a pattern or a key) from whoever holds them."""

    path: str
    reason: str


@dataclass(frozen=True)
class HandOn(Action, word="/handoff"):
    """Hand the work of `source` on to `target`, each an agent with its @ or a role. `text`: for the receiver."""

    source: str
    target: str
    text: str | None = None

    def named(self) -> tuple[str, ...]:
        return tuple(name[1:] for name in (self.source, self.target) if name.startswith("@"))


class HandoffAnswer(StrEnum):
    """What is to be done about a handoff that did not pass (003, section 4.3)."""

    RETRY = "retry"
    ESCALATE = "escalate"
    SKIP = "skip"
    BRANCH = "branch"


@dataclass(frozen=True)
class AnswerHandoff(Action, word="/handoff"):
    """Say what becomes of a handoff (its room number). `value`: the reason of skip, the name of branch."""

    handoff: int
    answer: HandoffAnswer
    value: str | None = None


@dataclass(frozen=True)
class RunPipeline(Action, word="/pipeline"):
    """Run a task through the configured roles with the room's agents."""

    text: str


class Exploring(Action):
    """An action on explorations."""


@dataclass(frozen=True)
class Explore(Exploring, word="/explore"):
    """Do a task in so many ways at once, by the room's agents in turn."""

    variants: int
    text: str


@dataclass(frozen=True)
class ShowExploration(Exploring, word="/explore"):
    """How the variants of an exploration (its room number) compare."""

    exploration: int


@dataclass(frozen=True)
class TakeVariant(Exploring, word="/explore"):
    """Merge a variant of an exploration. `paths`: files from other variants, each as `PATH=VARIANT`."""

    exploration: int
    variant: str
    paths: tuple[str, ...] = ()

    def line(self) -> str:
        files = "".join(f" {shlex.quote(path)}" for path in self.paths)
        return f"{self.word} take {references.exploration(self.exploration)} {self.variant}{files}"


@dataclass(frozen=True)
class EndExploration(Exploring, word="/explore"):
    """End an exploration that waits for a choice, and merge nothing."""

    exploration: int

    def line(self) -> str:
        return f"{self.word} end {references.exploration(self.exploration)}"


@dataclass(frozen=True)
class Rewind(Action, word="/rewind"):
    """Take back what `lane` (an agent, a person, a lane's key) did since the moment `to`. `into`: new, worktree or
    main; None = where it stands. `partial`: also where some files conflict; `preview`: say what it would do, and do
    nothing."""

    lane: str
    to: str
    into: str | None = None
    partial: bool = False
    preview: bool = False

    def line(self) -> str:
        into = f" into {self.into}" if self.into else ""
        return f'{self.word} "{self.lane}" to "{self.to}"{into}{_how(self)}'


@dataclass(frozen=True)
class Resolve(Action, word="/resolve"):
    """Answer a conflict by one of its five choices (docs/landing.md); without one: show it; without a conflict: list
    those that are open. `agent`: who is to write it (choice 3); `lines`: what is to stand there (choice 4)."""

    conflict: int | None = None
    choice: int | None = None
    agent: str | None = None
    lines: str | None = None


@dataclass(frozen=True)
class UndoRewind(Action, word="/rewind"):
    """Undo the newest rewind that stands. `partial`, `preview`: as for `Rewind`."""

    partial: bool = False
    preview: bool = False

    def line(self) -> str:
        return f"{self.word} undo{_how(self)}"


@dataclass(frozen=True)
class RedoRewind(Action, word="/rewind"):
    """Redo the rewind that was undone last. `partial`, `preview`: as for `Rewind`."""

    partial: bool = False
    preview: bool = False

    def line(self) -> str:
        return f"{self.word} redo{_how(self)}"


@dataclass(frozen=True)
class MakeCheckpoint(Action, word="/checkpoint"):
    """Call the files of the main branch, or of the worktree of `agent`, by a name."""

    name: str
    agent: str | None = None

    def line(self) -> str:
        return f'{self.word} "{self.name}"' + (f" of @{self.agent}" if self.agent else "")

    def named(self) -> tuple[str, ...]:
        return (self.agent,) if self.agent else ()


@dataclass(frozen=True)
class Recall(Action, word="/recall"):
    """What is remembered that bears on `text`; empty = the newest."""

    text: str = ""


@dataclass(frozen=True)
class Remember(Action, word="/remember"):
    """Keep this for whoever it concerns later."""

    text: str


@dataclass(frozen=True)
class Decide(Action, word="/decide"):
    """Record that this is decided, and why."""

    text: str
    because: str | None = None

    def line(self) -> str:
        return f"{self.word} {self.text}" + (f" because {self.because}" if self.because else "")


@dataclass(frozen=True)
class Forget(Action, word="/forget"):
    """Tell this memory (its room number) or this entry of the knowledge (its id) to nobody any more."""

    memory: int | str


def _how(action: Rewind | UndoRewind | RedoRewind) -> str:
    return " partial" * action.partial + " preview" * action.preview


def of_json(value: Mapping[str, Any]) -> Action:
    """The action that `Action.as_json` wrote. Raises KeyError or TypeError when this version has no such action."""
    fields: dict[str, Any] = {
        name: tuple(field) if isinstance(field, list) else field for name, field in value.items()
    }
    kind = Action.kinds[fields.pop("kind")]
    if "status" in fields:
        fields["status"] = Status(fields["status"])
    if "what" in fields and kind is EditTasks:
        fields["what"] = Field(fields["what"])
    if "answer" in fields:
        fields["answer"] = HandoffAnswer(fields["answer"])
    return kind(**fields)
