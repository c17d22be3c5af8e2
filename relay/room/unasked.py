"""Why a message set nobody to work, or not everybody whom it names: for who waits for an answer to it.

Invariant: it only says what the room's rules decided (`relay.room.voices`, `relay.room.ledger`), and decides nothing.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.model import STEWARD
from relay.room import commands
from relay.room.ledger import Rules
from relay.room.mentions import mentions, strangers

#: Names of nobody that one answer speaks of: a text may be full of them.
MOST_STRANGERS = 5


def why(
    body: str,
    asked: Sequence[str],
    rules: Rules,
    *,
    speaker: str,
    person: bool,
    to_advisory: bool = False,
    away: Mapping[str, str] | None = None,
) -> str | None:
    """In sentences; None where all that it names were asked and are there. `away`: of agents that take no
    turn up now, what becomes of it."""
    if person and commands.parse(body, rules.agents) is not None:
        return None
    named = mentions(body, rules.agents, also=(STEWARD,) if person else ())
    unknown = strangers(body, (*rules.agents, STEWARD))[:MOST_STRANGERS]
    told = [f"@{one} is no agent of this room: `who` lists them." for one in unknown]
    if person:
        told += [] if named else ["It names no agent, so the room decides who answers."]
    else:
        told += _of_an_agent(named, asked, rules, speaker, to_advisory, bool(unknown))
    told += [f"{name} {how}." for name, how in (away or {}).items() if name in asked]
    return " ".join(told) or None


def _of_an_agent(
    named: Sequence[str],
    asked: Sequence[str],
    rules: Rules,
    speaker: str,
    to_advisory: bool,
    unknown: bool,
) -> list[str]:
    others = [name for name in named if name != speaker]
    if asked:
        return []
    if not named:
        return (
            []
            if unknown
            else ["It names no agent with @NAME, so nobody gets a turn for it; all may read it."]
        )
    if not others:
        return ["It names yourself alone."]
    if to_advisory:
        return ["What an agent answers to an advisory sets nobody to work."]
    if not rules.agent_mentions:
        return [
            "`room.agent_mentions` is off, so what agents write sets no agent to work; a person may ask them, "
            "and they read it in their next turn."
        ]
    return [
        f"Agents have asked each other {rules.hop_limit} times without a person: it waits for a person's `/continue`."
    ]
