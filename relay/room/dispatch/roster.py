"""The agents of the room and the rules for its messages, as they are now.

Invariant: `members` and `rules` of a `Roster` are replaced whole when the configuration or a probe changes. A reader
that takes one of them holds a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from relay.model import AccountLimit, Agent, Channel, Hears, Program
from relay.room.dispatch.budget import Budget
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import Q
from relay.store.ports import Tx


@dataclass(frozen=True, slots=True)
class Policy:
    """What the configuration says of one agent's dispatches. Times in seconds, `context_len` in characters."""

    agent: str
    threshold: int = 3
    reset_timeout: float = 300.0
    max_attempts: int = 3
    backoff_s: float = 2.0
    backoff_max_s: float = 60.0
    lease_s: float = 30.0
    context_len: int = 6000
    #: The folder of the files that messages name, as its agent finds it; "" = none.
    files: str = ""
    budget: Budget = field(default_factory=Budget)
    #: Why it cannot take a turn at all (not installed), with the fix; empty when it can.
    unable: str = ""
    agent_mentions: bool = False
    hop_limit: int = 4
    names: tuple[str, ...] = ()
    #: The role of its events (`agents[].role`).
    role: str = "agent"
    #: The member of the fleet that runs its turns; "" where a room has one relay.
    member: str = ""
    #: Another member may have this agent too.
    shared: bool = False
    #: When it hears what is urgent while it works; `next`: it hears `/steer` alone then.
    inbox: Hears = Hears.BOUNDARY


@dataclass(frozen=True, slots=True)
class Member:
    """An agent of the configuration, the result of its last probe, and what runs its turns.

    `agent` is None in a process that runs no turns, and when the agent could not be built (`detail` says why).
    `broken`: it is not installed since its own file has a fault. `timeout_s` limits a turn. `cwd` and `may_edit` hold
    for a turn without a worktree. `guarded`: the agent asks before each edit. `channel`: how it hears what is said
    while it works. `limits`: of its account.
    """

    name: str
    kind: str
    policy: Policy
    preset: str | None = None
    model: str | None = None
    effort: str | None = None
    enabled: bool = True
    installed: bool = True
    broken: bool = False
    detail: str = ""
    fix: str = ""
    version: str = ""
    about: str = ""
    agent: Agent | None = None
    timeout_s: float = 600.0
    cwd: Path | None = None
    may_edit: bool = False
    guarded: bool = False
    channel: Channel = field(default_factory=Channel)
    limits: tuple[AccountLimit, ...] = ()
    #: The member of the fleet where it lives, "" = here; why that one cannot be reached now, in words, "" = it can;
    #: and its last sign of life then, Unix seconds.
    home: str = ""
    absence: str = ""
    heard_at: float | None = None

    @property
    def away(self) -> bool:
        """Does what it is asked wait for its machine?"""
        return bool(self.absence)


class Roster:
    """The members by name, in the order of the configuration, and the rules. One object for the life of a room."""

    def __init__(self, members: Mapping[str, Member] | None = None, rules: Rules | None = None) -> None:
        self.members: Mapping[str, Member] = {}
        self.rules = Rules()
        #: The programs that relay knows, by the preset's name: what a person can add.
        self.programs: Mapping[str, Program] = {}
        self.update(members or {}, rules or Rules())

    def update(self, members: Mapping[str, Member], rules: Rules) -> None:
        """Take over these members and rules; `rules.agents` becomes the members' names."""
        self.members, self.rules = members, replace(rules, agents=tuple(members))

    @property
    def names(self) -> tuple[str, ...]:
        return self.rules.agents

    @property
    def own(self) -> Mapping[str, Member]:
        """Those whose turns run here, and at no other member of the fleet."""
        return {name: member for name, member in self.members.items() if not member.home}

    async def active(self, tx: Tx) -> list[Member]:
        """Who can be given work at all: enabled, installed, not paused and within reach."""
        members = self.members
        paused = {row["name"] for row in await tx.all(Q.agents) if row["paused"]}
        return [
            m for m in members.values() if m.enabled and m.installed and not m.away and m.name not in paused
        ]
