"""A turn of an agent as it is claimed and as it ends, and the text of messages as agents read them. Plain values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from relay.base.terminal_text import lines, safe
from relay.log.events import Lane
from relay.model import STEWARD, Changes, FailureClass, Message, UsagePart, references
from relay.room.dispatch.roster import Policy
from relay.room.journal.values import Job
from relay.room.parsing.file_names import with_paths
from relay.store.ports import Tx


@dataclass(frozen=True, slots=True)
class Given:
    """What an agent is given of the room's memory with a turn: `text` as it reads it; `memories` as an answer's
    `meta` names them, `[{id, memory_type, reference}]`; `events`: the ids of those that they come of."""

    text: str = ""
    memories: tuple[Mapping[str, Any], ...] = ()
    events: tuple[str, ...] = ()


class Recollection(Protocol):
    """What the room remembers that bears on the messages of a turn that may begin."""

    async def give(self, tx: Tx, lane: Lane, *, messages: Collection[str], seen: Collection[str]) -> Given:
        """What of it the agent on this lane is given with the turn that begins now, in the claim's transaction.
        `messages`: ids of those that ask; `seen`: ids of the events of all messages that it is shown."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn that was claimed. `primary` is the newest of its jobs: the answer replies to its message."""

    policy: Policy
    holder: str
    jobs: tuple[Job, ...]
    messages: tuple[Message, ...]
    context: str
    shown_number: int
    session: str
    resume: str | None
    event_id: str
    started_at: float
    given: Given = field(default_factory=Given)
    #: What its last turn was cut off for; it stands in front of the prompt.
    advice: str = ""
    #: What it was told while it ran, with the jobs of that.
    heard: tuple[tuple[Job, Message], ...] = ()

    @property
    def agent(self) -> str:
        return self.policy.agent

    @property
    def role(self) -> str:
        """The role of its events."""
        return self.policy.role

    @property
    def all_jobs(self) -> tuple[Job, ...]:
        """Those that it began with and those that it heard, as they end."""
        return (*self.jobs, *(job for job, _ in self.heard))

    @property
    def all_messages(self) -> tuple[Message, ...]:
        """The messages of `all_jobs`."""
        return (*self.messages, *(message for _, message in self.heard))

    @property
    def primary(self) -> Job:
        return self.jobs[-1]

    @property
    def asked(self) -> Message:
        return self.messages[-1]

    @property
    def interrupted(self) -> bool:
        return any(job.interruptions for job in self.jobs)

    @property
    def prompt(self) -> str:
        files = self.policy.files
        asked = [message_text(message, indent=False, files=files, asked=True) for message in self.messages]
        return "\n\n".join([tagged_text(f"[{STEWARD}]", self.advice), *asked] if self.advice else asked)

    @property
    def lane(self) -> Lane:
        return Lane(self.session, self.agent)


@dataclass(slots=True)
class Helper:
    """A helper of a turn's agent at work: its lane, the lane that started it, and the tools that it has used, a line
    each."""

    lane: Lane
    by: Lane
    tools: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Idle:
    """No turn now. `until`: when to look again (Unix seconds), None = when something changes."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended. `failure` None: `text` is the answer."""

    text: str = ""
    failure: FailureClass | None = None
    detail: str = ""
    retry_at: float | None = None
    #: Of a turn that was cancelled: messages with this room's number or a later one wait for the next turn.
    before: int | None = None
    truncated: bool = False
    tools: tuple[str, ...] = ()
    usage: UsagePart = field(default_factory=UsagePart)
    #: The helpers that had not ended.
    helpers: tuple[Helper, ...] = ()
    #: The job waits for another turn, and its agent is told that it was cut off: the daemon stops, or there is
    #: `advice` that it has to read before it goes on.
    interrupted: bool = False
    advice: str = ""
    #: What the turn changed in its agent's worktree.
    changes: Changes | None = None
    #: The agent was not asked, since nothing was left to do (`detail`); it reads the messages in its next turn.
    needless: bool = False


def message_text(
    message: Message, *, indent: bool = True, mark: str = "", files: str = "", asked: bool = False
) -> str:
    """A message as an agent reads it, with `mark` in its tag, and its files as paths in the folder `files`. No line
    of it but the first can pass for the beginning of another one. `asked`: it is for the agent that reads it; where
    it gives a task, it ends with how to end that."""
    marks = [word for word in ("unverified" if "unverified" in message.meta else "", mark) if word]
    tag = f"[{', '.join([message.speaker, *marks])}]"
    body = "(this message was deleted)" if "deleted" in message.meta else with_paths(message.body, files)
    given = message.meta.get("given")
    if asked and isinstance(given, dict) and "deleted" not in message.meta:
        ending = _ending(references.task(int(given["number"])))
        # A message of an older version holds the sentence itself.
        body = body if ending in body else f"{body}\n\n{ending}"
    return tagged_text(tag, body, indent=indent or "unverified" in message.meta)


def _ending(task: str) -> str:
    """Relay's own words, so never in the message's body: everything there was said by a person."""
    return (
        f"It is {task} on the board. When it is done (or cannot be), call relay's tool `complete_work` with "
        f"task_id `{task}`; without that tool, say here what you did."
    )


def tagged_text(tag: str, text: str, *, indent: bool = True) -> str:
    """`text` under a tag. Its further lines are moved in: all, or those that would pass for a tag of their own."""
    first, *rest = lines(text)
    moved = (f"  {line}" if indent or _POSES.match(_as_seen(line)) else line for line in rest)
    return "\n".join([f"{tag} {first}", *moved])


#: The first letter of the line stands behind a bracket.
_POSES = re.compile(r"[\W_]*\[")


def _as_seen(line: str) -> str:
    """The line's beginning without what nobody sees, and with compatibility forms (a wide bracket) as plain ones."""
    return unicodedata.normalize("NFKC", safe(line[:400]))
