"""What a person's message opens: a command, jobs for whom it mentions, or a cycle.

Invariant: every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from relay.model import STEWARD, Fault, Message, Refusal, references
from relay.model.actions import Reply, SendReview, Steer
from relay.room.journal import hop_limit as hops
from relay.room.journal import ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import NewMessage, Q
from relay.room.journal.speakers import others_named, spoke
from relay.room.journal.visitors import told_apart, told_waits
from relay.room.parsing import commands
from relay.room.parsing.mentions import mentions, misspelt
from relay.store.ports import Tx

NONE: Mapping[str, str] = MappingProxyType({})
#: What an attached session does that nothing is told until its next prompt.
IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Opening:
    """What a message opens. `named`: agents of the room and attached sessions, `idle`: those of the sessions that do
    nothing now, `apart`: other visitors, `held`: nothing, since the hop limit is reached, `steer`: those named hear
    it while they work, `slip`: a name that nobody has, and the one that was meant, `told`: people, and no
    agent, whom it names."""

    command: bool = False
    named: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    held: bool = False
    steer: bool = False
    slip: tuple[str, str] | None = None
    idle: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def routes(self) -> bool:
        """It opens a cycle."""
        return not (self.command or self.named or self.apart or self.held or self.told)


async def opening(
    tx: Tx,
    new: NewMessage,
    rules: Rules,
    *,
    by_an_agent: bool = False,
    visitors: Sequence[str] = (),
    attached: Mapping[str, str] = NONE,
    people: Sequence[str] = (),
) -> Opening:
    """What a person's message is to open; a hop is counted where it takes one. Arguments as of `admit`."""
    command = commands.is_command(new.body)
    idle = {name for name in attached if attached[name] == IDLE}
    said = commands.parse(new.body, (*rules.agents, *attached)) if command else None
    if isinstance(said, Steer | SendReview) and "unverified" not in new.meta:
        waits = tuple(name for name in said.named() if name in idle)
        return Opening(named=said.named(), steer=isinstance(said, Steer), idle=waits)
    named = () if command else mentions(new.body, rules.agents, also=(STEWARD, *attached))
    others = [name for name in visitors if name not in attached]
    apart = () if command else mentions(new.body, (), also=others)
    open_to_all = not (command or named or apart)
    told = await _told(tx, new, people) if open_to_all else ()
    slip = misspelt(new.body, (*rules.agents, *attached)) if open_to_all and not told else None
    if new.in_reply_to is not None and open_to_all and not (told or slip):
        named = await _answered(tx, new.in_reply_to, (*rules.agents, *attached))
    routes = not (command or named or apart or told)
    # Where agents may ask each other, a line that proves nobody counts like their mentions.
    counted = (
        "unverified" in new.meta
        and not command
        and named != (STEWARD,)
        and (named or routes)
        and (by_an_agent or rules.agent_mentions)
    )
    if counted and not await hops.take_line(tx, rules.hop_limit):
        return Opening(named=named, held=True)
    return Opening(
        *(command, named, apart),
        slip=slip,
        idle=tuple(name for name in named if name in idle),
        told=told,
    )


async def _told(tx: Tx, new: NewMessage, people: Sequence[str]) -> tuple[str, ...]:
    """The other persons whom a message names: what is said to a person calls no agent. `people`: who is here, besides
    those who spoke."""
    if "@" not in new.body:
        return ()
    return others_named(new.body, (*await spoke(tx), *people), new.speaker)


async def _answered(tx: Tx, message_id: str, names: Sequence[str]) -> tuple[str, ...]:
    """Of these, whom an answer to this message is for when it mentions nobody: who wrote the message, else those that
    it was given to."""
    row = await tx.one(Q.message, id=message_id)
    if row is None:
        return ()
    if row["speaker"] in names:
        return (row["speaker"],)
    asked = [job["agent"] for job in await tx.all(Q.jobs_of_message, message_id=row["id"])]
    return tuple(name for name in asked if name in names)


async def _reply(tx: Tx, new: NewMessage, agents: Sequence[str]) -> NewMessage:
    """`/reply m12 TEXT` as what it is: TEXT, in answer to m12. Raises Refusal."""
    said = commands.parse(new.body, agents) if commands.is_command(new.body) else None
    if not isinstance(said, Reply):
        return new
    row = await tx.one(Q.message_by_number, number=said.message)
    if row is None:
        name = references.message(said.message)
        raise Refusal(f"There is no message {name} to reply to.", "Name one like m12.", Fault.UNKNOWN)
    return replace(new, body=said.text, in_reply_to=row["id"], parents=[row["event_id"]])


async def admit(
    tx: Tx,
    new: NewMessage,
    rules: Rules,
    *,
    by_an_agent: bool = False,
    visitors: Sequence[str] = (),
    attached: Mapping[str, str] = NONE,
    people: Sequence[str] = (),
) -> Message:
    """Put a person's message into the room and open what it asks for.

    `by_an_agent`: an agent may have written it, for all that is known: one works, or its bytes were there before a
    turn's end. `visitors`: who is here but not run by the
    room; a message for one of them alone opens nothing, and the room says how it gets there. `attached`: those of
    them that a message reaches by their program's hooks, and what each does (`relay.room.journal.visitors.reached`).
    `people`: persons who are here, whether they spoke or not.
    """
    new = await _reply(tx, new, (*rules.agents, *attached))
    what = await opening(
        tx, new, rules, by_an_agent=by_an_agent, visitors=visitors, attached=attached, people=people
    )
    return await admit_as(tx, new, what, rules)


async def admit_as(tx: Tx, new: NewMessage, what: Opening, rules: Rules) -> Message:
    """Put a message into the room and open this."""
    if what.held:
        return await _held(tx, replace(new, to=what.named, meta={**new.meta, "held": True}), rules)
    addressed = (*what.named, *what.apart)
    if what.steer:
        new = replace(new, meta={**new.meta, "steer": True})
    if what.told:
        new = replace(new, meta={**new.meta, "told": what.told})
    message, event = await ledger.put_message(tx, replace(new, to=addressed, routes=what.routes))
    if what.command or what.named:
        agents = (STEWARD,) if what.command else what.named
        extra = {"action": new.action.as_json()} if new.action is not None else None
        await ledger.queue_jobs(tx, message.id, agents, parents=[event.id], now=new.at, extra=extra)
    if what.idle:
        await ledger.say(
            tx,
            told_waits(what.idle, message.number),
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "visitor"},
        )
    if what.apart:
        await ledger.say(
            tx,
            _apart(message, what.apart, what.named, rules.agents),
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "visitor"},
        )
    if what.routes:
        await ledger.open_cycles(tx, [message], rules, now=new.at)
    if what.slip:
        await ledger.say(
            tx,
            f"There is no @{what.slip[0]} in this room, so nobody was called by that name. If you meant "
            f"@{what.slip[1]}: `/route {references.message(message.number)} @{what.slip[1]}`.",
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "misspelt"},
        )
    return message


def _apart(message: Message, apart: Sequence[str], named: Sequence[str], agents: Sequence[str]) -> str:
    text = told_apart(apart, message.number)
    if named:
        return text
    other = (
        f" `/route {references.message(message.number)} @{agents[0]}` asks one of the room's."
        if agents
        else ""
    )
    return f"{text} No other agent was asked.{other}"


async def _held(tx: Tx, new: NewMessage, rules: Rules) -> Message:
    """Show a message that the hop limit keeps from opening anything; the room says so once."""
    message, event = await ledger.put_message(tx, new)
    if await hops.hold(tx, message.id, message.to):
        await ledger.say(
            tx,
            f"Unverified lines have set agents to work {rules.hop_limit} times since a person last spoke in the "
            "page or with join.py. Further ones are held; `/continue` there releases them.",
            now=new.at,
            about=message.id,
            parents=[event.id],
            meta={"notice": "hop_limit"},
        )
    return message
