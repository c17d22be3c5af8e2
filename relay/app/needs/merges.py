"""What keeps an agent's work out of the main branch, as one need for each cause: a conflict that waits for an answer
has with it that its branch is set back, and that it did not land.

Invariant: `merge_needs` alone decides which need such a fact is part of. What git, the merge and the queue say is
theirs (`relay.app.needs.found`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from relay.airspace.advisories import table, wording
from relay.airspace.advisories.rules.advisory import Advisory, Choice, Steering, asks_to_take_in
from relay.airspace.advisories.rules.set_back import SetBack
from relay.airspace.worktrees.lifecycle import DISCARDED, MERGED, TAKEN_IN
from relay.app.needs.main_fails import main_fails
from relay.app.needs.need import Kind, Need, NeedAction, gives_up, later, settles
from relay.app.needs.words import sentence, short
from relay.base.durations import parse_iso
from relay.base.terminal_text import flat
from relay.faces.worktrees import changed_since, put_out
from relay.git.merge_state import line_ranges
from relay.log import events
from relay.merge.resolution import journal as conflicts
from relay.merge.resolution.journal import AskedConflict
from relay.model import Message, actions, references
from relay.room.dispatch.budget import DAY_S
from relay.room.journal.ledger import Q
from relay.room.journal.values import message_of_row
from relay.store.ports import Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.entry import Entry

#: Entries among which the answers of agents that were asked about a conflict are looked for.
MOST_ENTRIES = 500


class Asking(NamedTuple):
    """An open advisory about which people can decide something, and have not: with the `choices`, and the id of its
    need."""

    advisory: Advisory
    choices: tuple[Choice, ...]
    id: str


async def asking(
    tx: Tx, agents: Iterable[str], advisories: Iterable[Advisory], told: Collection[str]
) -> list[Asking]:
    """`told`: agents of which another need says that they are set back."""
    names, found = frozenset(agents), []
    paused = {str(row["name"]) for row in await tx.all(Q.agents) if row["paused"]}
    for stored in advisories:
        others = {name: back for name, back in stored.set_back.items() if name not in told}
        advisory = replace(stored, set_back=others)
        choices = advisory.choices(names) if advisory.open and advisory.founded else ()
        if not choices or _settled(advisory, paused):
            continue
        left = tuple(each for each in choices if not (each.name == "stop" and each.agent in paused))
        # What does not merge any more is a need of its own: who has heard of the collision before it hears of that.
        found.append(Asking(advisory, left, ":".join(["advisory", advisory.id, *sorted(others)])))
    return found


def collisions(asked: Iterable[Asking], agents: Iterable[str], here: Collection[str]) -> list[Need]:
    """`here`: agents whose worktree is here."""
    names, found = frozenset(agents), []
    make: Mapping[str, Callable[[str], actions.Action]] = {
        "first": actions.GoFirst,
        "stop": lambda agent: actions.Stop((agent,)),
        "update": lambda agent: actions.TakeMain((agent,)),
    }
    for advisory, choices, id in asked:
        back = advisory.set_back
        buttons = [
            NeedAction(
                f"{choice.name}-{choice.agent}",
                choice.label,
                make[choice.name](choice.agent),
                undo=actions.Resume((choice.agent,)) if choice.name == "stop" else None,
            )
            for choice in choices
        ]
        stuck = [name for name, each in back.items() if each.merging and name in names]
        own = [
            name
            for name in back
            if name in stuck or (name in here and name in names and not back[name].unsettled)
        ]
        # First what ends a merge that is under way: to be asked for one again helps least.
        buttons[:0] = [
            button
            for name in own
            for button in (
                *(() if back[name].needless else (settles(name, f"settle-{name}", of_several=len(own) > 1),)),
                *((gives_up(name, f"abort-{name}"),) if name in stuck else ()),
            )
        ]
        # As the room says it: by the message that told of it.
        name = references.message(advisory.number) if advisory.number else advisory.id[-6:]
        said = ":".join(["advisory", name, *sorted(back)])
        buttons.append(later("Leave it", said))
        since = max([advisory.resolved_at or advisory.opened_at, *(each.since for each in back.values())])
        about = " and ".join(advisory.part)
        line = sentence(wording.in_words(advisory))
        found.append(Need(id, Kind.COLLISION, since, about, line, tuple(buttons), advisory.id, said=said))
    return found


def _settled(advisory: Advisory, paused: Collection[str]) -> bool:
    """Have people said what becomes of everybody in it? An agent that gives way by their word and does not leave is
    asked about again."""
    obeys = advisory.steering is not Steering.STAYED
    return all(
        name in paused or (obeys and name not in advisory.set_back and advisory.decided_against(name))
        for name in {*advisory.roles.steer, *advisory.set_back}
    )


def standing(advisories: Iterable[Advisory], merging: Mapping[str, bool]) -> list[Advisory]:
    """Open advisories without what was given up since the last look at their branches. `merging`: by agent whose
    worktree is here, whether a merge is under way there. Pure."""

    def now(back: SetBack) -> SetBack:
        # Its lines are those of the markers.
        over = back.merging and not merging.get(back.agent, True)
        return replace(back, merging=False, unsettled=False, needless=False, lines={}) if over else back

    return [
        replace(each, set_back={name: now(back) for name, back in each.set_back.items()})
        for each in advisories
    ]


async def merge_needs(
    tx: Tx,
    members: Collection[str],
    now: float,
    trees: Mapping[str, str] = MappingProxyType({}),
    advisories: Sequence[Advisory] = (),
    stuck: Collection[str] = (),
) -> tuple[list[Need], frozenset[str], dict[str, str]]:
    """Conflicts that wait for one of the five answers (docs/landing.md), branches that did not land, and a main
    branch that fails its tests. Also the agents whose being set back is part of these, or is decided: no other need
    says that; and by agent, its first open conflict (`c1`). `trees`: of `present.of_work`; `advisories`: the open
    ones; `stuck`: whose work, as it stands, is known to conflict: what was settled in it does not hold any more."""
    asked = await _asked(tx)
    open_ = [each for each in asked if each.state == conflicts.OPEN]
    backs = {name: back for advisory in advisories for name, back in advisory.set_back.items()}
    queue = await landings.open_entries(tx)
    inside = {entry.agent for entry in queue}
    out = {each.agent: each for each in await put_out(tx) if now - (each.ended or each.at) <= DAY_S}
    found, waiting = list[Need](), set[str]()
    left_to = await _left_to_agents(tx, open_)
    for each in open_:
        agent = each.question.agent
        first = agent not in waiting  # what is known of the branch is said once, with its first conflict
        waiting.add(agent)
        beside = (backs.get(agent), out.get(agent)) if first else (None, None)
        clash = _conflict(each, *beside, asks=agent in members, queued=first and agent in inside)
        found.append(replace(clash, text=clash.text + left_to.get(each.number, "")))
    found += [
        need
        for agent, entry in out.items()
        if agent not in waiting
        and (need := _not_landed(entry, asked, trees.get(agent), can=agent in members, stuck=agent in stuck))
    ]
    found += await main_fails(tx, queue, members)
    found += await _decided(tx, asked, {*waiting, *inside, *out, *stuck}, members, now)
    return found, *_told(asked, advisories, stuck)


async def _asked(tx: Tx) -> list[AskedConflict]:
    """The open conflicts, the oldest first, and behind them those that are answered, the newest first."""
    open_ = sorted(await conflicts.newest(tx, only_open=True), key=lambda asked: asked.number)
    return [*open_, *(each for each in await conflicts.newest(tx) if each.state != conflicts.OPEN)]


def _told(
    asked: Sequence[AskedConflict], advisories: Iterable[Advisory], stuck: Collection[str] = ()
) -> tuple[frozenset[str], dict[str, str]]:
    """Of `merge_needs`: whose being set back these say, or somebody has decided, and the first open conflicts."""
    waiting = dict[str, str]()
    for each in asked:
        if each.state == conflicts.OPEN:
            waiting.setdefault(each.question.agent, each.name)
    backs = {name: back for advisory in advisories for name, back in advisory.set_back.items()}
    told = {
        name for name, back in backs.items() if name in waiting or _is_decided(back, asked, name in stuck)
    }
    return frozenset(told), waiting


class First(NamedTuple):
    """What is decided before anybody is asked whether an agent's task is done. `need`: the id of the need that asks
    for it; `says`: in words."""

    need: str
    says: str


def to_settle(waiting: Mapping[str, str], asked: Iterable[Asking], off: Collection[str]) -> dict[str, First]:
    """By agent, the conflict of its branch that is to be settled first, or the merge that is under way there.
    `waiting`: of `merge_needs`; `off`: the ids of needs that are put off. Pure."""
    found = {
        name: First(
            one.id,
            "a merge is under way in its worktree"
            if back.needless
            else f"its branch conflicts with {flat(back.branch)}",
        )
        for one in asked
        if one.id not in off
        for name, back in one.advisory.set_back.items()
        if back.merging
    }
    return found | {
        name: First(f"conflict:{conflict}", f"{conflict} is to be settled first")
        for name, conflict in waiting.items()
    }


async def to_settle_now(tx: Tx, agents: Collection[str], off: Collection[str]) -> dict[str, First]:
    """The same, where nothing else of the inbox is read."""
    advisories = (await table.load_state(tx)).advisories.values()
    told, waiting = _told(await _asked(tx), advisories)
    return to_settle(waiting, await asking(tx, agents, advisories, told), off)


async def _left_to_agents(tx: Tx, open_: Sequence[AskedConflict]) -> dict[int, str]:
    """Of open conflicts, which agents were asked to write what is to stand there, and whose last answer to that
    settled nothing: " BEN has answered (m67) and not settled it."."""
    if not any(each.askees for each in open_):
        return {}
    rows = await tx.all(Q.messages_before, before=await events.last_pos(tx) + 1, limit=MOST_ENTRIES)
    said = [message_of_row(row) for row in rows]
    replies = {(each.in_reply_to, each.speaker): each for each in said if each.kind == "agent"}
    asked = dict[tuple[int, str], Message]()
    for message in said:  # the newest first; one that is urgent asks people
        if message.meta.get("notice") == "conflict" and "urgent" not in message.meta:
            for name in message.to:
                asked.setdefault((message.meta.get("conflict", 0), name), message)

    def told(conflict: AskedConflict, name: str) -> str:
        question = asked.get((conflict.number, name))
        if question is None:
            return f" {flat(name)} was asked to write it."
        if answer := replies.get((question.id, name)):
            return f" {flat(name)} has answered ({references.message(answer.number)}) and not settled it."
        return f" {flat(name)} was asked to write it ({references.message(question.number)})."

    return {
        each.number: "".join(
            told(each, name)
            for name in each.askees
            if name not in {answer["agent"] for answer in each.answers}
        )
        for each in open_
    }


def _is_decided(back: SetBack, asked: Sequence[AskedConflict], stuck: bool) -> bool:
    """Has somebody said, since the branch is set back, what becomes of each of its files? `stuck`: it conflicts as it
    stands, so what was settled does not hold."""
    decisive = (conflicts.REJECTED,) if stuck else (conflicts.SETTLED, conflicts.REJECTED)
    decided = {
        each.part.path
        for each in asked
        if each.question.agent == back.agent and each.state in decisive and parse_iso(each.at) >= back.since
    }
    return set(back.paths) <= decided


async def _decided(
    tx: Tx, asked: Sequence[AskedConflict], but: Collection[str], members: Collection[str], now: float
) -> list[Need]:
    """Work all of whose conflicts are decided in the last day, and that is to be landed still. `but`: agents of which
    another need says so, or whose branch is in the queue."""
    found = []
    for agent in dict.fromkeys(each.question.agent for each in asked):
        mine = [each for each in asked if each.question.agent == agent]
        newest = max(mine, key=lambda each: parse_iso(each.at))
        at = parse_iso(newest.at)
        if agent in but or agent not in members or newest.state != conflicts.SETTLED or now - at > DAY_S:
            continue
        if await changed_since(tx, agent, at, MERGED, DISCARDED, TAKEN_IN, "removed"):
            continue
        work = [each for each in mine if each.question.theirs_at == newest.question.theirs_at]
        if any(each.state == conflicts.REJECTED for each in work):
            continue
        names = " and ".join(each.name for each in sorted(work, key=lambda each: each.number))
        id = f"decided:{newest.name}"
        text = f"{names} {'are' if len(work) > 1 else 'is'} settled, and {flat(agent)}'s work is not in "
        text += f"{flat(newest.question.into_name)} yet. Land it?"
        buttons = (NeedAction("land", "Land it", actions.Land((agent,))), later("Leave it", id))
        found.append(Need(id, Kind.SETTLED, at, agent, text, buttons, newest.name))
    return found


def _conflict(
    asked: AskedConflict, back: SetBack | None, out: Entry | None, *, asks: bool, queued: bool
) -> Need:
    """`back`, `out`: what is part of it; `asks`: its agent can be asked; `queued`: its branch is in the queue."""
    question, part = asked.question, asked.part
    agent, number, into = question.agent, asked.number, flat(question.into_name)
    where = short(part.path, 200) + (f", {short(part.entity, 120)}" if part.entity else "")
    place = part.places[2]
    if place is not None and place[0] <= place[1]:
        where += f" ({line_ranges([place])})"
    text = f"{asked.name}: {flat(agent)} cannot be merged into {into}: in {where}, {flat(part.kind)}."
    if back is not None:
        text += f" {sentence(wording.finds(back))}"
    if out is not None:
        known = _names(out, asked)
        text += f" So {flat(agent)}'s branch did not land." if known else f" {_why_not(out)}"
    choices = {1: f"Keep {short(question.ours.name or question.into_name, 40)}'s", 2: f"Keep {agent}'s"}
    choices |= {} if part.whole else {3: f"Let {agent} write it", 4: "Write it yourself"}
    choices[5] = "Keep both branches apart"
    buttons = [
        NeedAction(
            f"choice-{choice}",
            label,
            actions.Resolve(number, choice, agent if choice == 3 else None, "" if choice == 4 else None),
            *(("lines", "the lines that are to stand there") if choice == 4 else ()),
        )
        for choice, label in choices.items()
    ]
    if back is not None and asks:
        if back.merging:
            buttons.append(gives_up(agent))
        if not back.needless:
            label = asks_to_take_in(agent, into, unsettled=back.unsettled)
            buttons.append(NeedAction(f"update-{agent}", label, actions.TakeMain((agent,))))
    if queued:
        buttons.append(NeedAction("cancel", "Take it out of the queue", actions.TakeFromQueue(agent)))
    at = parse_iso(asked.at)
    return Need(f"conflict:{asked.name}", Kind.CONFLICT, at, agent, text, tuple(buttons), asked.name)


def _not_landed(
    entry: Entry, asked: Sequence[AskedConflict], tree: str | None, *, can: bool, stuck: bool
) -> Need | None:
    """None: a person keeps the branches apart. `tree`: what stands in its worktree; `can`: the agent is one of the
    room's."""
    mine = [each for each in asked if _names(entry, each)]
    if any(each.state == conflicts.REJECTED for each in mine):
        return None
    text = _why_not(entry)
    if mine and not stuck:
        many = len(mine) > 1
        text = (
            f"Its branch did not land, since it conflicted with {flat(mine[0].question.into_name)}. "
            f"{' and '.join(each.name for each in mine)} {'are' if many else 'is'} settled now: land it again."
        )
    id = f"landing:{entry.number}"
    leave = later("Leave it", id)
    again = NeedAction("land", "Land again", actions.Land((entry.agent,), squash=entry.squash))
    buttons = [again, leave] if can else [leave]
    if can and entry.verification is not None and tree == entry.tree:
        # Landed again as it is, it fails again.
        why = sentence(f"Your branch did not land: {short(entry.reason)}")
        mend = actions.Steer((entry.agent,), f"{why} Mend it there.")
        buttons.insert(0, NeedAction("ask", f"Ask {entry.agent} to mend it", mend))
    ended = entry.ended or entry.at
    return Need(id, Kind.NOT_LANDED, ended, entry.agent, sentence(text), tuple(buttons), str(entry.number))


def _why_not(entry: Entry) -> str:
    return sentence(f"Its branch did not land: {short(entry.reason) or 'no reason is known'}")


def _names(entry: Entry, asked: AskedConflict) -> bool:
    """Did the branch not land because of this conflict? What put it out names those that the room asks about."""
    return asked.question.agent == entry.agent and bool(re.search(rf"\b{asked.name}\b", entry.reason))
