"""The inbox of the room: what needs a person now, and what a person does about it.

Invariant: whatever a button does is an action of that person in the room, as if it had been typed. Nothing is kept
of a need but until when it is put off.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relay.airspace.advisories import table
from relay.airspace.live.service import AirspaceService
from relay.app.needs import found, since, since_worded, work
from relay.app.needs.answered import answered_tasks
from relay.app.needs.elsewhere import NeedsElsewhere
from relay.app.needs.merges import asking, collisions, merge_needs, standing, to_settle
from relay.app.needs.need import LATER, Kind, Need, in_order, meant, put_off
from relay.app.needs.runs import run_needs
from relay.app.needs.since import Came
from relay.app.needs.words import unheard
from relay.app.worktrees.desk import WorktreeDesk
from relay.base.durations import clock_time, parse_iso, rough_duration
from relay.base.terminal_text import flat
from relay.config.settings import LiveSettings
from relay.coordination import attached
from relay.log import events
from relay.log.encoding import dumps
from relay.merge.resolution import journal as conflicts
from relay.merge.resolution.wording import how_it_stands
from relay.model import Board, Fault, Refusal, references
from relay.model.actions import MarkAdvisory, Needing, PutOff, ShowNeeds, ShowSince
from relay.model.references import Thing
from relay.room.dispatch.budget import DAY_S
from relay.room.dispatch.permissions import PermissionBroker, code_span
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.steward import markdown
from relay.room.steward.meant import message_of
from relay.store.ports import Store, Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.service import entry_words

#: The setting of the database that says by whom what is put off was.
_LATER_BY = "needs_later_by"
#: Needs that one answer of the room shows.
MOST_SAID = 30


class NeedsInbox:
    """Reads in the caller's transaction."""

    def __init__(
        self,
        roster: Roster,
        turns: RunningTurns,
        board: Board,
        permissions: PermissionBroker,
        settings: LiveSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._roster, self._turns, self._board, self._permissions = roster, turns, board, permissions
        self._settings, self._clock = settings, clock
        #: What other members of the fleet have, and which of them cannot be reached.
        self.elsewhere: NeedsElsewhere | None = None
        #: The worktrees that are here; None = nothing runs in them.
        self.desk: WorktreeDesk | None = None

    async def read(self, tx: Tx) -> list[Need]:
        """What needs a person now, in the order of `in_order`."""
        now, later = self._clock(), await put_off(tx)
        return in_order([need for need in await self._all(tx, now) if not _off(need, later, now)], now)

    async def _all(self, tx: Tx, now: float) -> list[Need]:
        members = self._roster.members
        agents = await found.agent_needs(tx, members, self._board, now)
        windows = [session.agent for session in await attached.here(tx)]  # people's own, which ask as well
        questions = await found.questions(tx, (*members, *windows), now)
        trees, merging = (self.desk.trees(), self.desk.merging()) if self.desk else ({}, {})
        advisories = standing((await table.load_state(tx)).advisories.values(), merging)
        stuck = self.desk.conflicting(await conflicts.choices(tx)) if self.desk else ()
        merges, told, waiting = await merge_needs(tx, members, now, trees, advisories, stuck)
        asked = await asking(tx, members, advisories, told)
        # Of a branch that did not land, and the task that it was for, only one thing is to be decided.
        out = {need.about: need for need in merges if need.kind is Kind.NOT_LANDED}
        off = {id for id, until in (await put_off(tx)).items() if until > now}
        asks = {need.ref for need in questions if need.id not in off}
        first = to_settle(waiting, asked, off)
        answered, within = await answered_tasks(tx, self._board, asks, trees, first, out)
        needs = [
            *collisions(asked, members, merging),
            *found.permissions(self._permissions.pending),
            *await self._runs(tx, now),
            *await work.approval_needs(tx),
            *(need for need in merges if need.kind is not Kind.NOT_LANDED),
            *out.values(),
            *agents,
            *await found.unanswered(tx, members, agents, self._board, now),
            *await work.failed_tasks(tx, self._board),
            *answered,
            *questions,
            *work.silent(self._working(), self._settings.current.room.silent_after_s, now),
            *await work.handoff_needs(tx),
            *await work.exploration_needs(tx),
            *await work.held(tx),
            *(await self.elsewhere.read(tx) if self.elsewhere else ()),
        ]
        return [replace(need, tasks=within[need.id]) if need.id in within else need for need in needs]

    async def own(self, tx: Tx) -> list[Need]:
        """What only this member of the fleet knows of, as it tells it to the others."""
        quiet_s = self._settings.current.room.silent_after_s
        return [
            *found.permissions(self._permissions.pending, numbered=False),
            *work.silent(self._working(), quiet_s, self._clock()),
            *await self._runs(tx, self._clock()),
        ]

    async def _runs(self, tx: Tx, now: float) -> list[Need]:
        if self.desk is None:
            return []
        left = {id for id, until in (await put_off(tx)).items() if until > now}
        return run_needs(self.desk, self._roster.members, now, left)

    def _working(self) -> dict[str, tuple[float, float]]:
        working = {}
        asks = {asked.request.agent for asked in self._permissions.pending}  # it waits for a person
        for name, turn in self._turns.by_agent.items():
            if name in asks:
                continue
            last = self._turns.log_of(name, 1)
            heard = parse_iso(last[0]["ts"]) if last else 0.0
            working[name] = (turn.plan.started_at, heard)
        return working

    async def since(self, store: Store, after: str, *, reader: str) -> since.Since:
        """What came behind a message (`m12`), "" = the reader's last one, in a transaction of its own. Raises
        Refusal."""
        return await asyncio.to_thread(since.told, await self._came(store, after, reader))

    async def worded(self, store: Store, after: str, *, reader: str) -> dict[str, Any] | None:
        """The same in the words of the room's model (`since_worded.worded`). Raises Refusal."""
        came = await self._came(store, after, reader)
        talk = [one for one in await asyncio.to_thread(since.talk_of, came) if one.proven]
        return await since_worded.worded(self._settings.current.dispatcher, talk)

    async def _came(self, store: Store, after: str, reader: str) -> Came:
        async def work(tx: Tx) -> Came:
            waits = len(await self.read(tx))
            if after:
                return await since.read(tx, after, reader=reader, waits=waits)
            return await since.read_from_own(tx, reader, waits=waits)

        return await store.read(work)

    async def absent(self, tx: Tx, word: str) -> Refusal:
        """Why nothing in the inbox is what people mean by this word."""
        now, later = self._clock(), await put_off(tx)
        off = meant([need for need in await self._all(tx, now) if _off(need, later, now)], word)
        if off is not None:
            by = json.loads(await events.setting(tx, _LATER_BY) or "{}").get(off.id)
            until = f"{clock_time(later[off.id], now)}{f' by {by}' if by else ''}"
            text = f"{off.typed} is put off until {until}."
            if off.kind is Kind.QUESTION:
                text = f"{off.typed} needs no answer{f', said {by}' if by else ''}."
            back = PutOff(off.typed, undo=True).line()
            return Refusal(text, f"`{back}` in the room brings it back.", Fault.UNKNOWN)
        shown = word[:60]
        if so := await _what_is_so(tx, word):
            return Refusal(f"{shown} needs nobody any more. {so}", "Nothing was done.", Fault.UNKNOWN)
        text = f"Nothing in the inbox is {shown}: it is settled, or there never was such a thing."
        return Refusal(text, "`/inbox` and `relay inbox` show what needs you.", Fault.UNKNOWN)

    async def carry_out(self, tx: Tx, action: Needing, *, by: str, cause: Sequence[str] = ()) -> str:
        """`/inbox` and `/later`; the room's answer, as markdown. Raises Refusal."""
        if isinstance(action, ShowNeeds):
            return said(await self.read(tx), self._clock(), self.elsewhere.away if self.elsewhere else ())
        assert isinstance(action, PutOff)
        now = self._clock()
        later = {id: until for id, until in (await put_off(tx)).items() if until > now}
        needs = await self._all(tx, now)
        if action.undo:
            need = meant([need for need in needs if need.id in later], action.need)
            if later.pop(need.id if need else action.need, None) is None:
                raise Refusal(f"{action.need} is not put off.", "`/inbox` shows what needs you.")
            for part in need.parts if need else ():
                later.pop(part, None)
            called = _question(need) if need and need.kind is Kind.QUESTION else code_span(action.need)
            text = f"{called} is in the inbox again."
        else:
            if (need := meant(needs, action.need)) is None:
                raise await self.absent(tx, action.need)
            until = need.ends if need.kind is Kind.BUDGET and need.ends else now + DAY_S
            ids = (need.id, *need.parts)
            later |= dict.fromkeys(ids, until)
            who = json.loads(await events.setting(tx, _LATER_BY) or "{}")
            kept = {id: name for id, name in {**who, **dict.fromkeys(ids, by)}.items() if id in later}
            await events.put_setting(tx, _LATER_BY, dumps(kept))
            back = PutOff(need.typed, undo=True).line()
            # A question is in the inbox for a day from when it was asked, so that one is off for good.
            done = f"gives no answer to {_question(need)}." if need.kind is Kind.QUESTION else ""
            done = done or f"put {code_span(need.typed)} off until {clock_time(until, now)}."
            text = f"{by} {done} `{back}` brings it back."
        await events.put_setting(tx, LATER, dumps(later))
        return text


class SinceOrders:
    """`relay.model.ports.Timeline`, of `/since`: a look, for which the one transaction that writes need not wait."""

    def __init__(self, store: Store, inbox: NeedsInbox, clock: Callable[[], float]) -> None:
        self._store, self._inbox, self._clock = store, inbox, clock

    async def carry_out(self, action: ShowSince, *, by: str, source_key: str) -> str:
        """Raises Refusal."""
        return since.said(await self._inbox.since(self._store, action.after, reader=by), self._clock())


def _question(need: Need) -> str:
    """A question in words, as markdown: "AVA's question m12 (“Which one?”)"."""
    return f"{markdown.plain(need.about)}'s question {need.ref} (“{markdown.plain(need.text)}”)"


async def _what_is_so(tx: Tx, id: str) -> str:
    """A sentence about what the id of a need names that is in the inbox no more; empty where nothing more is known
    than that it needs nobody."""
    kind, _, rest = id.partition(":")
    name = rest.partition(":")[0]
    try:
        if kind == "conflict" and (named := references.read(name)) is not None:
            asked = await conflicts.conflict(tx, named[1])
            return f"{asked.name}: {how_it_stands(asked)}"
        if kind == "landing" and name.isdecimal():
            return f"{entry_words(await landings.load(tx, int(name)))}."
        if kind == "advisory":
            advisory = await table.advisory(tx, name)
            if advisory is not None and not advisory.open:
                return f"The collision is over: {advisory.closed_why}."
    except Refusal:
        return ""
    return ""


def _off(need: Need, later: Mapping[str, float], now: float) -> bool:
    """Is it put off, with all that is told in it?"""
    return all(later.get(id, 0.0) > now for id in (need.id, *need.parts))


def said(needs: Sequence[Need], now: float, away: Sequence[str] = ()) -> str:
    """The inbox for people, as markdown in which texts of others shape nothing. `away`: members of the fleet that
    cannot be reached. Pure."""
    unknown = f"\n\n{markdown.plain(unheard(away))}" if away else ""
    if not needs:
        return f"Nothing needs you.{unknown}"
    many = len(needs) != 1
    lines = [f"{len(needs)} thing{'s' * many} need{'s' * (not many)} you:", ""]
    for need in needs[:MOST_SAID]:
        age = rough_duration(max(0.0, now - need.at))
        lines.append(f"- **{markdown.plain(need.about)}**, {age} ago: {markdown.plain(need.text)}")
        lines += [
            f"  - {markdown.plain(button['label'])}: {markdown.path(_typed(button))}"
            for button in need.as_json()["actions"]
        ]
    if len(needs) > MOST_SAID:
        lines.append(f"- and {len(needs) - MOST_SAID} more: the page and `relay inbox` show all.")
    return "\n".join(lines) + unknown


def _typed(button: dict[str, Any]) -> str:
    asks = f" <{button['asks']}>" if button["asks"] else ""
    return flat(f"{button['command']}{asks}")


class AdvisoryMarks:
    """`/mark`, as a `relay.model.ports.Timeline`. Twice the same mark is one."""

    def __init__(self, store: Store, airspace: AirspaceService) -> None:
        self._store, self._airspace = store, airspace

    async def carry_out(self, action: MarkAdvisory, *, by: str, source_key: str) -> str:
        """Raises Refusal."""
        id, named = action.advisory, references.read(action.advisory)
        if named is not None and named[0] is Thing.MESSAGE:
            message = await self._store.read(lambda tx: message_of(tx, named[1]))
            id = str(message.meta.get("advisory", ""))
        marked = await self._airspace.mark(id, action.mark, by=by)
        if marked is None:
            fix = "Name the message of the room that tells of it, like `m12`."
            raise Refusal(f"{action.advisory[:60]} is no advisory.", fix)
        did = f"says that it is {action.mark}" if action.mark else "takes the mark off"
        return f"{by} {did}: {markdown.plain(marked['line'])}."
