"""The room as one person's terminal shows it: frames in, lines to print and a live part out.

Invariant: a printed line is never taken back, so only final facts are printed (an entry, a failure, who was asked).
What still changes (a running turn, a queue, a message that is being sent) is shown above the input and in the toolbar
until it is over. An entry is printed once, however often it arrives.

Pure but for its own state: no clock, no terminal; `now` is Unix time in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from relay.base.durations import clock_time, elapsed
from relay.base.terminal_text import safe, safe_line
from relay.faces.terminal import text
from relay.faces.terminal.client import Frame, Post, Wire
from relay.faces.terminal.entry import PATIENCE_S, Folding, clock, group_lines, natural
from relay.faces.terminal.held_locks import HeldLocks
from relay.faces.terminal.text import Fragments, note
from relay.faces.terminal.wrap import cropped
from relay.model import references
from relay.model.terms import used_in

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
#: Characters of a running answer that are kept for the live part.
PREVIEW = 4000
#: Message ids that are remembered, for their numbers and so that no entry is printed twice.
REMEMBERED = 20_000
_OVER = ("done", "skipped", "dead")


def seconds(ts: Any, now: float) -> int:
    """Whole seconds since `ts` (ISO 8601); 0 when it is no time or in the future."""
    at = clock(ts) if isinstance(ts, str) else None
    return max(0, int(now - at.timestamp())) if at else 0


@dataclass(slots=True)
class Stream:
    """An answer that an agent is writing."""

    agent: str
    text: str = ""
    tool: str = ""


@dataclass(slots=True)
class RoomView:
    """`name` is the person's own. `posts` are their messages that are being sent; the sender adds and removes
    them."""

    name: str
    #: The folder of the files that messages name; "" = their ids are shown.
    files: str = ""
    #: Of the terminal.
    columns: int = 80
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    people_at: dict[str, str] = field(default_factory=dict)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    locks: HeldLocks = field(default_factory=HeldLocks)
    #: The kinds of the things that need a person.
    needs: list[str] = field(default_factory=list)
    #: Does the main branch fail its tests? Whoever put that need off sees it still.
    main_fails: bool = False
    jobs: dict[Any, dict[str, Any]] = field(default_factory=dict)
    streams: dict[Any, Stream] = field(default_factory=dict)
    routing: dict[str, float] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    wire: Wire = field(default_factory=lambda: Wire("connecting"))
    wire_until: float = 0.0
    _numbers: dict[str, int] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)
    _skipped: dict[str, None] = field(default_factory=dict)
    _fold: Folding = field(default_factory=Folding)
    _explained: set[str] = field(default_factory=set)
    _day: str = ""
    _was: str = "connecting"

    # --- what happens -------------------------------------------------------------------------------------

    def on_wire(self, wire: Wire, now: float) -> list[Fragments]:
        """Take a change of the connection; the lines to print. A state is printed once, not at every attempt."""
        before, self._was = self._was, wire.state
        self.wire, self.wire_until = wire, now + wire.wait_s
        if wire.state == before:
            return []
        if wire.state == "live":
            past = self._groups(self._fold.flush())
            return past if before == "connecting" else [*past, *note("good", "· the room is back")]
        self.streams.clear()
        self.routing.clear()
        self.jobs.clear()
        if wire.state == "refused":
            return note("bad", f"· the room refused you: {safe_line(wire.detail)}")
        if wire.state == "cut":
            kept = "What you write is kept here and sent when the room is back; leaving lists what was not."
            return note("warn", f"· {safe_line(wire.detail)} {kept}")
        return note("warn", f"· the room is down: {safe_line(wire.detail)}; trying again")

    def on_frame(self, frame: Frame, now: float) -> list[Fragments]:
        """Take a frame; the lines to print. A frame of an unknown type is ignored."""
        data = frame.get("data")
        if frame.get("type") == "entry" and isinstance(data, dict):
            return self._entry(data, now, past=bool(frame.get("history")))
        late = self._fold.flush() if now - self._fold.since > PATIENCE_S else []
        return [*self._groups(late), *self._other(frame, now)]

    def _other(self, frame: Frame, now: float) -> list[Fragments]:
        data = frame.get("data")
        match frame.get("type"):
            case "receipt" if isinstance(data, dict):
                return self._receipt(data)
            case "cycle" if isinstance(data, dict):
                return self._cycle(data, now)
            case "stream" if isinstance(data, dict):
                self._stream(data)
            case "state" if isinstance(data, dict):
                self.agents = {str(each.get("name")): each for each in _dicts(data.get("agents"))}
                self.commands = _dicts(data.get("commands"))
                self.tasks = _dicts(data.get("tasks"))
                self._meet(data)
                self.locks.anew(_dicts(data.get("locks")), _dicts(data.get("sessions")))
            case "jobs":
                self.jobs = {job.get("id"): job for job in _dicts(data) if job.get("state") not in _OVER}
                self.streams = {job: each for job, each in self.streams.items() if job in self.jobs}
            case "agent" if isinstance(data, dict):
                self.agents[str(data.get("name"))] = data
                # The toolbar says "circuit open".
                return self._explain(agent_state(data, now)[1])
            case "task" if isinstance(data, dict):
                return self._board(data)
            case "lock" if isinstance(data, dict):
                self.locks.change(data)
            case "session" if isinstance(data, dict):
                self.locks.session(data)
            case "people" if isinstance(data, dict):
                self._meet(data)
        return []

    def _meet(self, data: dict[str, Any]) -> None:
        self.people, at = _names(data.get("people")), data.get("people_at")
        self.people_at = {str(name): str(at[name]) for name in at} if isinstance(at, dict) else {}

    def on_written(self, post: Post, now: float) -> list[Fragments]:
        """A post was written to the transcript. It is shown now, and not again when the room has read it."""
        self._written.add(post.id)
        ts = datetime.fromtimestamp(now).astimezone().isoformat()
        entry = {"id": post.id, "ts": ts, "speaker": self.name, "kind": "human", "body": post.body}
        notice = "the room is down; it is written to the transcript, and answered when the room is back"
        shown = [*self._entry(entry, now), *self._groups(self._fold.flush())]
        return [*shown, [("class:warn", f"· {notice}")]]

    # --- one kind of frame each ---------------------------------------------------------------------------

    def _entry(self, entry: dict[str, Any], now: float, *, past: bool = False) -> list[Fragments]:
        key, number = str(entry.get("id")), natural(entry.get("number"))
        self.streams.pop(entry.get("job"), None)
        known = key in self._numbers
        self._remember(key, number)
        if known:
            # Our own message, written while the room was down: it is on the screen already.
            back = key in self._written and number
            self._written.discard(key)
            notice = f"· the room has read what you wrote ({references.message(number)})"
            return note("quiet", notice) if back else []
        if _notice(entry) in ("skip", "skipped") and entry.get("in_reply_to") in self._skipped:
            return []  # its receipt was printed
        return self._groups(self._fold.take(entry, now, past=past))

    def _groups(self, groups: list[list[dict[str, Any]]]) -> list[Fragments]:
        shown: list[Fragments] = []
        for group in groups:
            shown += self._new_day(group[0])
            shown += group_lines(group, self._numbers, files=self.files, columns=self.columns)
            if group[-1].get("kind") in ("system", "dispatcher", "advisory"):
                shown += self._explain(str(group[-1].get("body") or ""))
        return shown

    def _explain(self, said: str) -> list[Fragments]:
        """One line for each domain word that appears for the first time."""
        new = [term for term in used_in(said) if term.id not in self._explained]
        self._explained |= {term.id for term in new}
        return [[("class:quiet", f"  ? {term.text}")] for term in new]

    def _remember(self, key: str, number: int) -> None:
        self._numbers[key] = number
        if len(self._numbers) > REMEMBERED:
            del self._numbers[next(iter(self._numbers))]

    def _new_day(self, entry: dict[str, Any]) -> list[Fragments]:
        at = clock(str(entry.get("ts")))
        day = f"{at:%A, %d %B %Y}" if at else self._day
        if day == self._day:
            return []
        self._day = day
        return note("quiet", f"── {day} ──")

    def _receipt(self, job: dict[str, Any]) -> list[Fragments]:
        known = self.jobs.get(job.get("id"), {})
        state, before = job.get("state"), known.get("state")
        if state in _OVER:
            self.jobs.pop(job.get("id"), None)
            self.streams.pop(job.get("id"), None)
        else:
            self.jobs[job.get("id")] = job
        agent, reason = safe_line(str(job.get("agent")), 40), safe_line(str(job.get("reason") or ""))
        about = f"{agent}{self._about(job.get('message_id'))}"
        why = f": {reason.rstrip('. ')}" if reason else ""
        if state == "skipped":
            self._skipped = {**dict([*self._skipped.items()][-200:]), str(job.get("message_id")): None}
            return note("warn", f"· skipped {about}{why}")
        if state == "dead":
            retry = f"/retry {references.job(natural(job.get('id')))}"
            return note("bad", f"· failed for good, {about}{why} ({retry})")
        if state == "active" and job.get("heard_at") and not known.get("heard_at"):
            tool = safe_line(str(job.get("heard_after") or ""), 80)
            told = self._about(job.get("message_id")) or " a message"
            return note("quiet", f"· {agent} heard{told} in its turn{f', after {tool}' if tool else ''}")
        if state == "failed" and before != "failed":
            return note("warn", f"· failed, {about}{why}; it will be tried again")
        return []

    def _cycle(self, cycle: dict[str, Any], now: float) -> list[Fragments]:
        key, state = str(cycle.get("message_id")), cycle.get("state")
        self.routing.pop(key, None)
        agents = ", ".join(safe_line(name, 40) for name in _names(cycle.get("agents")))
        about = self._about(key)
        if state == "routing":
            self.routing[key] = now
        elif state == "routed" and agents:
            reason = safe_line(str(cycle.get("reason") or ""))
            return note("quiet", f"·{about} → {agents}{f' · {reason}' if reason else ''}")
        elif state == "folded":
            into = self._numbers.get(str(cycle.get("folded_into")), 0)
            later = references.message(into) if into else "a later one"
            return note("quiet", f"·{about} is answered together with {later}")
        elif state == "none":
            reason = safe_line(str(cycle.get("reason") or "nobody is here who could"))
            return note("warn", f"· nobody answers{about}: {reason}")
        return []

    def _stream(self, data: dict[str, Any]) -> None:
        piece, offset = str(data.get("text") or ""), natural(data.get("offset"))
        stream = self.streams.setdefault(data.get("job"), Stream(str(data.get("agent"))))
        if offset == 0 and piece:
            stream.text = ""  # a second attempt starts anew
        stream.text = (stream.text + piece)[-PREVIEW:]
        stream.tool = str(data.get("tool") or ("" if piece else stream.tool))

    def _board(self, data: dict[str, Any]) -> list[Fragments]:
        """The board changed. Only a failed task is printed."""
        changed, gone = _dicts(data.get("changed")), set(_names(data.get("gone")))
        before = {str(task.get("id")): task for task in self.tasks if task.get("id") not in gone}
        self.tasks = list((before | {str(task.get("id")): task for task in changed}).values())
        return [
            [("class:warn", _failed(task))]
            for task in changed
            if task.get("badge") == "failed" and before.get(str(task.get("id")), {}).get("badge") != "failed"
        ]

    def _about(self, message_id: Any) -> str:
        number = self._numbers.get(str(message_id), 0)
        return f" {references.message(number)}" if number else ""

    # --- what is shown ------------------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """Does the live part change with time alone?"""
        moves = self.jobs or self.streams or self.routing or self.posts or self._fold.held
        return bool(moves) or self.wire.state != "live"

    def live(self, now: float, columns: int, most: int = 10) -> list[Fragments]:
        """The lines above the input, each within `columns`; at most `most`."""
        lines = [cropped(line, columns) for line in self._live(now, columns)]
        if len(lines) > most:
            more = len(lines) - most + 1
            lines = [*lines[: most - 1], [("class:quiet", f"  … and {more} more")]]
        return lines

    def _live(self, now: float, columns: int) -> Iterator[Fragments]:
        spin = SPINNER[int(now * 4) % len(SPINNER)]
        waiting: list[str] = []
        for key, job in self.jobs.items():
            if job.get("state") == "active" and job.get("heard_at"):
                continue  # its turn stands there
            agent = safe_line(str(job.get("agent")), 40)
            if job.get("state") != "active" or _waits_for(self.agents.get(str(job.get("agent")))):
                again = " again" if job.get("state") == "failed" else ""
                again = _waits_for(self.agents.get(str(job.get("agent")))) or again
                waiting.append(f"{agent}{self._about(job.get('message_id'))}{again}")
                continue
            stream = self.streams.get(key, Stream(agent))
            since = elapsed(seconds(job.get("started_at"), now))
            tool = f" · {safe_line(stream.tool, 60)}" if stream.tool else ""
            yield [
                ("class:working", f"{spin} "),
                (f"bold {text.colour(agent)}", agent),
                (
                    "class:quiet",
                    f" is working on{self._about(job.get('message_id')) or ' it'} · {since}{tool}",
                ),
            ]
            tail = [line for line in safe(stream.text).split("\n") if line.strip()][-3:]
            for line in tail:
                yield [("class:bar", "  │ "), ("class:quiet", line[-(columns - 6) :])]
        for key, since_ts in self.routing.items():
            yield [("class:quiet", f"{spin} who answers{self._about(key)}? · {elapsed(int(now - since_ts))}")]
        if waiting:
            yield [("class:quiet", f"· queued: {', '.join(waiting)}")]
        for entry in self._fold.held:
            yield [("class:quiet", f"· {safe_line(str(entry.get('body') or ''), 60)}")]
        for post in self.posts:
            if not post.id:  # else the room has it, and its entry arrives soon
                what = "not sent yet" if post.waits else "sending"
                what = "sent, but not confirmed; asking again" if post.reached else what
                yield [("class:quiet", f"↑ {what}: {safe_line(post.body, 60)}")]

    def toolbar(self, now: float) -> Fragments:
        """The connection, what needs people, the agents (the room's, then visitors), tasks, locks and people."""
        left = max(0, round(self.wire_until - now))
        shown = {
            "live": [("class:good", " ● live ")],
            "down": [("class:bad", f" ○ down, trying again in {left} s ")],
            "cut": [("class:bad", " ○ cut off from the database ")],
            "refused": [("class:bad", " ○ refused ")],
        }.get(self.wire.state, [("class:warn", " ○ connecting ")])
        parts: Fragments = list(shown)
        if self.main_fails:
            parts.append(("class:bad", " main fails "))
        if count := len(self.needs):
            parts.append(("class:warn", f" {count} need{'s' * (count == 1)} you: /inbox "))
        for agent in self.agents.values():
            style, state = agent_state(agent, now)
            parts += [("", " "), (text.colour(str(agent.get("name"))), safe_line(str(agent.get("name")), 32))]
            parts += [(style, f" {state}")]
        for visitor in self.locks.visitors(self.agents):
            parts += [("", " "), (text.colour(visitor.name), safe_line(visitor.name, 32))]
            state = safe_line(visitor.state or "on its own", 80)
            parts += [("class:quiet", f" {state}{f', {visitor.holds}' if visitor.holds else ''}")]
        open_tasks = sum(task.get("status") != "done" for task in self.tasks)
        if self.tasks:
            parts.append(("", f"  {open_tasks} open task{'' if open_tasks == 1 else 's'}"))
        if held := self.locks.count(now):
            parts.append(("", f"  {held} lock{'' if held == 1 else 's'}"))
        places = {name: f" at {safe_line(member, 32)}" for name, member in self.people_at.items()}
        others = [safe_line(name, 32) + places.get(name, "") for name in self.people if name != self.name]
        if others:
            parts.append(("", f"  with {', '.join(others[:5])}{' …' if len(others) > 5 else ''}"))
        return parts


def agent_state(agent: dict[str, Any], now: float) -> tuple[str, str]:
    """The style and the word or sign for an agent's state, in the order of the page's side bar (ui/agents.tsx)."""
    breaker = agent.get("breaker")
    if agent.get("away"):
        return "class:warn", f"away with {safe_line(str(agent.get('member')), 32)}"
    if agent.get("enabled") is False:
        return "class:quiet", "off"
    if agent.get("installed") is False:
        return "class:warn", "broken" if agent.get("broken") else "not installed"
    if agent.get("paused"):
        return "class:warn", "paused"
    if isinstance(agent.get("running"), dict):
        return "class:working", f"▶ {elapsed(seconds(agent['running'].get('since'), now))}"
    state = breaker.get("state") if isinstance(breaker, dict) else None
    if state in ("open", "half_open"):
        return ("class:bad", "circuit open") if state == "open" else ("class:warn", "trial next")
    until = clock(str(agent.get("parked_until")))
    if until and until.timestamp() > now:
        return "class:warn", f"rate limited until {clock_time(until.timestamp(), now)}"
    budget = agent.get("budget")
    meters = [meter for meter in budget.values() if meter] if isinstance(budget, dict) else []
    if any(meter["used"] >= meter["limit"] for meter in meters):
        return "class:warn", "budget spent"
    queued = natural(agent.get("queued"))
    return ("class:quiet", f"{queued} queued") if queued else ("class:good", "✓")


def _notice(entry: dict[str, Any]) -> Any:
    meta = entry.get("meta")
    return meta.get("notice") if isinstance(meta, dict) else None


def _waits_for(agent: dict[str, Any] | None) -> str:
    """Behind the name of an agent whose machine cannot be reached."""
    return f" (waits for {safe_line(str(agent.get('member')), 32)})" if agent and agent.get("away") else ""


def _failed(task: dict[str, Any]) -> str:
    by = f" ({safe_line(str(task['assignee']), 40)})" if task.get("assignee") else ""
    why = f": {safe_line(str(task['error_message']))}" if task.get("error_message") else ""
    named = references.task(natural(task.get("number")))
    return f"· task {named} failed{by}, {safe_line(str(task.get('title')), 80)}{why}"


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
