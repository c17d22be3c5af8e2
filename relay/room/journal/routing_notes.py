"""Why a message set nobody to work, or not everybody whom it names, told to whoever posted it.

Invariant: it explains what the room's rules decided (`relay.room.callers`, `relay.room.journal.ledger`) and decides
nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relay.model import STEWARD
from relay.room.journal.admission_rules import Rules
from relay.room.journal.speakers import others_named
from relay.room.journal.visitors import told_apart
from relay.room.parsing import commands
from relay.room.parsing.mentions import mentions, strangers

#: The most unknown names that one answer mentions: a text may be full of them.
MOST_STRANGERS = 5


@dataclass(frozen=True, slots=True)
class Present:
    """The names of those in the room besides its own agents; `attached`: those of the visitors that a message reaches
    by their program's hooks, and what each does."""

    visitors: Sequence[str] = ()
    people: Sequence[str] = ()
    attached: Mapping[str, str] = field(default_factory=dict)


NOBODY = Present()


def why(
    body: str,
    asked: Sequence[str],
    rules: Rules,
    *,
    number: int,
    speaker: str,
    person: bool,
    to_advisory: bool = False,
    away: Mapping[str, str] | None = None,
    present: Present = NOBODY,
) -> str | None:
    """The reasons in sentences; None when everybody whom it names was asked and is available. `number`: the
    message's; `away`: for each agent that starts no turn now, what becomes of its turn; `present`: who else is in the
    room."""
    if person and commands.is_command(body):
        return None
    own = (*((STEWARD,) if person else ()), *present.attached)
    named = mentions(body, rules.agents, also=own)
    apart = mentions(body, (), also=[name for name in present.visitors if name not in present.attached])
    humans = mentions(body, (), also=present.people)
    # A name of two words is no stranger by its first one.
    known = (
        *rules.agents,
        STEWARD,
        *present.attached,
        *apart,
        *humans,
        *(name.split()[0] for name in (*apart, *humans)),
    )
    unknown = strangers(body, known)[:MOST_STRANGERS]
    others = [name for name in apart if name != speaker]
    reasons = [told_apart(others, number)] if others else []
    reasons += [
        f"@{name} is a person, not an agent: people read the room themselves."
        for name in humans
        if name != speaker
    ]
    reasons += [f"@{name} is not an agent of this room: `who` lists them." for name in unknown]
    if person:
        # A message that names only visitors asks nobody else (`admitting.admit`).
        if not (named or apart):
            told = others_named(body, humans, speaker)
            reasons += [
                f"It is for {', '.join(told)}; no agent is asked."
                if told
                else "It names no agent, so the room decides who answers."
            ]
    else:
        mine = [name for name in (*apart, *humans) if name == speaker]
        reasons += _of_an_agent((*named, *mine), asked, rules, speaker, to_advisory, bool(reasons))
    reasons += [f"{name} {how}." for name, how in (away or {}).items() if name in asked]
    return " ".join(reasons) or None


def _of_an_agent(
    named: Sequence[str],
    asked: Sequence[str],
    rules: Rules,
    speaker: str,
    to_advisory: bool,
    elsewhere: bool,
) -> list[str]:
    """`elsewhere`: it also names others, about whom there is a reason already."""
    if asked or (elsewhere and not set(named) - {speaker}):
        return []
    if not named:
        return ["It names no agent with @NAME, so nobody gets a turn for it; all may read it."]
    if not set(named) - {speaker}:
        return ["It names only you."]
    if to_advisory:
        return ["An agent's answer to an advisory gives nobody a turn."]
    if not rules.agent_mentions:
        return [
            "`room.agent_mentions` is off, so what agents write sets no agent to work; a person may ask them, "
            "and they read it in their next turn."
        ]
    return [
        f"Agents have asked each other {rules.hop_limit} times without a person: it waits for a person's `/continue`."
    ]
