"""The daemon's side of attached sessions: it hears their hooks, keeps who is here, and tells them what is for them.

Invariants:
- a session is known from the first hook that names it, whichever that is, until its program says that it ends, its
  process is dead, or nothing was heard of it for `SILENT_S`;
- its locks and tasks are those of its own session of the room. That one lives while the program does;
- a message is given to one hook at a time (`GIVEN_S`), and is heard when that hook says so (told_messages.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from relay.access.git_person import git_person
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.attach import told_messages
from relay.app.attach.shell_writes import ShellWrites
from relay.app.attach.texts import greeting, messages_text
from relay.app.guard.hook import SHELLS, paths_of
from relay.app.mcp.parent_process import lives_here, machine
from relay.base.git_checkouts import top_of
from relay.config.settings import LiveSettings
from relay.coordination import attached
from relay.coordination.attached import AttachedSession, Doing
from relay.coordination.sessions import Sessions
from relay.git.run import Git, GitError
from relay.model import RESERVED_NAMES, STEWARD, Caller, Holds, Kind, Message
from relay.room.dispatch.queue import skip_all
from relay.room.dispatch.recovery import SESSION_HOLDER
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.steering import is_urgent
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job
from relay.room.journal.visitors import visitors
from relay.room.parsing.file_names import FOLDER
from relay.store.ports import Store, StoreError, Tx, is_away

log = structlog.get_logger(__name__)
Json = dict[str, Any]

PROGRAMS = ("claude", "codex")
#: Seconds for which a message is one hook's to print: longer than a hook lives (relay/app/attach/hook.py).
GIVEN_S = 5.0
#: Seconds between two looks who is still here, and after which what waits for a session that is gone is given up: a
#: session that is cleared begins anew at once, under the same name.
SWEEP_S, GRACE_S = 10.0, 15.0
#: Seconds without a hook after which a session is gone whose process cannot be seen.
SILENT_S = 8 * 3600.0
#: Seconds that a listener's question is kept open, and between two looks meanwhile.
LISTEN_S, LOOK_S = 25.0, 5.0

#: Hooks by what they say of the session. Any other leaves it as it is.
_STATES = {
    "SessionStart": Doing.IDLE,
    "UserPromptSubmit": Doing.WORKING,
    "PreToolUse": Doing.WORKING,
    "PostToolUse": Doing.WORKING,
    "PostToolBatch": Doing.WORKING,
    "PermissionRequest": Doing.WAITING,
    "Stop": Doing.IDLE,
    "Interrupt": Doing.IDLE,
    "SessionEnd": Doing.GONE,
}
_NOTIFIED = {
    "permission_prompt": Doing.WAITING,
    "elicitation_dialog": Doing.WAITING,
    "idle_prompt": Doing.IDLE,
}
#: Hooks at which all that waits is told, and those at which what is urgent is.
_ALL = ("SessionStart", "UserPromptSubmit", "Stop")
_BOUNDARY = ("PostToolBatch", "PostToolUse")
#: Hooks at which the session's branch may have changed.
_LOOKS = ("SessionStart", "UserPromptSubmit", "Stop")
#: Why a session ended whose process goes on with another one.
_GOES_ON = ("clear", "resume")
#: Characters of a command that whoever it concerns is told.
MOST_COMMAND = 300
_EDITS = ("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch")


@dataclass(frozen=True, slots=True)
class HookCall:
    """What a hook was given by its program. `process`: the program's, as JSON, "" = it cannot be seen."""

    program: str
    session: str
    event: Json
    process: str = ""

    @property
    def name(self) -> str:
        return str(self.event.get("hook_event_name", ""))

    @property
    def folder(self) -> Path:
        return Path(str(self.event.get("cwd") or "/"))

    @property
    def inside(self) -> bool:
        """It comes from a helper that the session's agent started, which is told nothing."""
        return bool(self.event.get("agent_id"))


class SessionDesk:
    """`sessions`: the room's; `holds`: its locks and who is here; `registry`: whose work is looked at."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        roster: Roster,
        sessions: Sessions,
        holds: Holds,
        registry: WorktreeRegistry,
        writes: ShellWrites,
    ) -> None:
        self._store, self._settings, self._roster = store, settings, roster
        self._sessions, self._holds, self._registry = sessions, holds, registry
        self._writes = writes
        #: Until when a job is one hook's to print (monotonic seconds).
        self._given: dict[int, float] = {}
        #: Set when a session has come or gone.
        self._moved = asyncio.Event()
        #: The latest listener of each session.
        self._listeners: dict[tuple[str, str], object] = {}

    # -- hooks

    async def hook(self, call: HookCall) -> Json:
        """`{agent, session, context, messages}`: what the hook prints, and the ids of the messages in it, which it
        acknowledges by `heard`."""
        session = await self._met(call)
        answer: Json = {"agent": session.agent, "session": session.session, "context": "", "messages": []}
        caller = _caller(session)
        if call.name == "SessionEnd":
            if call.event.get("reason") not in _GOES_ON:
                await self._sessions.end(caller, reason="its program ended")
            return answer
        await self._sessions.touch(caller)
        if call.event.get("tool_name") in SHELLS:
            self._writes.look_at(session, _ran(call) if call.name in _BOUNDARY else "")
        if call.name == "Stop":
            await self._stopped(session, call)
        if call.inside:
            return answer
        texts = []
        if call.name == "SessionStart" and call.event.get("source") != "compact":
            texts.append(await self._greeting(session))
        if call.name in _ALL or call.name in _BOUNDARY:
            told, answer["messages"] = await self._give(
                session, lambda message: call.name in _ALL or is_urgent(message, session.agent)
            )
            texts.append(told)
        answer["context"] = "\n\n".join(text for text in texts if text)
        return answer

    async def _met(self, call: HookCall) -> AttachedSession:
        """The session as it is after this hook, on record."""
        known = await self._store.read(lambda tx: attached.find(tx, call.program, call.session))
        checkout = Path(known.checkout) if known else await asyncio.to_thread(top_of, call.folder)
        branch = known.branch if known else ""
        if known is None or call.name in _LOOKS:
            branch = await _branch(checkout)
        person = known.person if known else await asyncio.to_thread(git_person, checkout, self._roster.names)

        async def work(tx: Tx) -> AttachedSession:
            now = await tx.now()
            before = await attached.find(tx, call.program, call.session)
            if before is None:
                who = (call.program, call.session, "", call.session, person)
                before = AttachedSession(*who, str(checkout), branch, Doing.GONE, now, now, now)
            after = _after(before, call, now)
            after = replace(after, branch=branch, process=call.process or before.process)
            if before.state is Doing.GONE and after.state is not Doing.GONE:
                after = await self._came(tx, after, now)
            elif not after.agent:
                after = replace(after, agent=attached.free_name(person, call.program, ()))
            await attached.put(tx, after)
            return after

        session = await self._store.write(work)
        if known is None or Doing.GONE in {known.state, session.state}:
            self._moved.set()
        return session

    async def _came(self, tx: Tx, session: AttachedSession, now: float) -> AttachedSession:
        """Name a session that comes: as the one before it in its process, as itself before, else by the first name
        that is nobody's."""
        others = {other.agent for other in await attached.here(tx)}
        if session.program == "claude" and session.process:
            last = await attached.before_in(tx, session.program, session.process, now - GRACE_S)
            if last is not None and last.agent not in others:
                return replace(session, agent=last.agent, session=last.session)
        return replace(session, agent=await self._name(tx, session), session=session.id)

    async def _name(self, tx: Tx, session: AttachedSession) -> str:
        others = {other.agent for other in await attached.here(tx)}
        here = {str(other["agent_id"]) for other in await self._holds.sessions(tx)} - {session.agent}
        taken = {*others, *here, *self._roster.names, *RESERVED_NAMES}
        if session.agent and session.agent not in taken:
            return session.agent
        return attached.free_name(session.person, session.program, taken)

    async def _stopped(self, session: AttachedSession, call: HookCall) -> None:
        text, unasked = call.event.get("last_assistant_message"), self._settings.current.attach.say == "all"
        rules = self._roster.rules
        await self._store.write(
            lambda tx: told_messages.answered(
                tx, session, text if isinstance(text, str) else "", rules, unasked=unasked
            ),
            durable=True,
        )

    async def _greeting(self, session: AttachedSession) -> str:
        async def look(tx: Tx) -> tuple[list[Json], list[Json]]:
            working = {row["agent"] for row in await tx.all(Q.active_jobs)}
            others: list[Json] = [
                {"name": name, "doing": "works now"} for name in self._roster.names if name in working
            ]
            for visitor in visitors(await self._holds.sessions(tx), self._roster.names):
                if visitor.name != session.agent:
                    parts = [part for part in (visitor.state, visitor.holds) if part]
                    others.append(
                        {"name": visitor.name, "doing": f"is here: {', '.join(parts)}" if parts else ""}
                    )
            held = [dict(lock) for lock in await self._holds.locks(tx) if lock["session"] != session.session]
            return others, held

        others, held = await self._store.read(look)
        return greeting(session.agent, others, held, room=self._settings.current.room_name)

    # -- messages

    async def _give(
        self, session: AttachedSession, wanted: Callable[[Message], bool]
    ) -> tuple[str, list[str]]:
        """The text of the messages that are for a hook now, and their ids."""
        waiting = await self._store.read(lambda tx: told_messages.waiting(tx, session.agent))
        now = time.monotonic()
        self._given = {job: until for job, until in self._given.items() if until > now}
        free = [(job, message) for job, message in waiting if job.id not in self._given and wanted(message)]
        files = str(self._settings.current.runtime_dir / FOLDER)
        text, ids = messages_text([message for _, message in free], session.agent, files)
        self._given |= {job.id: now + GIVEN_S for job, message in free if message.id in ids}
        return text, ids

    async def heard(self, program: str, id: str, ids: Sequence[str], after: str | None = None) -> Json:
        """The program was told these messages: inside a turn `after` this tool, None = with a prompt. `{heard: how
        many were new}`."""

        async def work(tx: Tx) -> list[Job]:
            session = await attached.find(tx, program, id)
            return [] if session is None else await told_messages.heard(tx, session, ids, after)

        taken = await self._store.write(work, durable=True)
        for job in taken:
            self._given.pop(job.id, None)
        return {"heard": len(taken)}

    async def listen(self, program: str, id: str) -> Json:
        """What wakes an idle session: `{context, messages}` as soon as a person names it, `{}` when there was nothing
        for `LISTEN_S`, `{end: true}` when it is gone, another listens for it, or nothing is to wake it."""
        key, me = (program, id), object()
        self._listeners[key] = me
        until = time.monotonic() + LISTEN_S
        with contextlib.closing(self._store.wakeup([ledger.QUEUED])) as wakeup:
            while True:
                session = await self._store.read(lambda tx: attached.find(tx, program, id))
                # One that nobody knows yet begins now: its first hook is on its way.
                gone = session is not None and session.state is Doing.GONE
                if (
                    gone
                    or self._listeners.get(key) is not me
                    or self._settings.current.attach.wake == "never"
                ):
                    return {"end": True}
                if session is not None and session.state is Doing.IDLE:
                    text, ids = await self._give(session, lambda message: message.kind is Kind.HUMAN)
                    if ids:
                        return {"context": text, "messages": ids}
                if (left := until - time.monotonic()) <= 0:
                    return {}
                await wakeup.wait(min(left, LOOK_S))

    # -- who is still here

    async def run(self) -> None:
        """Keep the sessions of living programs alive, and end those of dead ones. Runs for ever."""
        await self._store.write(attached.forget)
        while True:
            try:
                await self.sweep()
            except (StoreError, self._store.transient) as error:
                if not is_away(error):
                    log.warning("attached sessions are looked at later", error=str(error))
            await asyncio.sleep(SWEEP_S)

    async def follow_work(self) -> None:
        """Let what those change who are here count in the airspace, as other members' work does. Runs for ever."""
        while True:
            self._moved.clear()
            try:
                here = await self._store.read(attached.here)
                guests = {one.agent: Path(one.checkout) for one in here if _is_near(one)}
                await self._registry.welcome(guests)
            except (StoreError, self._store.transient) as error:
                if not is_away(error):
                    log.warning("attached sessions are looked at later", error=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S):
                    await self._moved.wait()

    async def sweep(self) -> None:
        """Once."""
        for session in await self._store.read(attached.here):
            seen = await asyncio.to_thread(lives_here, _process(session))
            caller = _caller(session)
            if session.program == "codex" and seen:
                # Its hooks come from a process that several windows share.
                seen = None
            silent = seen is None and time.time() - session.heard_at > SILENT_S
            if silent or seen is False:
                await self._gone(session)
                # Nobody gave back what it held: whoever resumes it learns that it is lost.
                await self._sessions.end(caller, reason="its program is gone", by=STEWARD)
            elif seen:
                await self._sessions.touch(caller)
            else:
                await self._sessions.keep_alive(caller)
        for caller in await self._store.read(self._left_open):
            await self._sessions.end(caller, reason="its program ended")
        if await self._store.read(_left_over):
            await self._store.write(_give_up)

    async def _left_open(self, tx: Tx) -> list[Caller]:
        """The room's living sessions of those that are gone, and did not go on in another conversation."""
        gone = {(one.agent, one.session) for one in await attached.gone_before(tx, await tx.now() - GRACE_S)}
        gone -= {(one.agent, one.session) for one in await attached.here(tx)}
        living = {(str(one["agent_id"]), str(one["session_id"])) for one in await self._holds.sessions(tx)}
        return [Caller(*one) for one in sorted(gone & living)]

    async def _gone(self, session: AttachedSession) -> None:
        async def work(tx: Tx) -> None:
            known = await attached.find(tx, session.program, session.id)
            # A hook that came meanwhile says that it is here.
            if known is not None and known.heard_at == session.heard_at:
                await attached.put(tx, replace(known, state=Doing.GONE, since=await tx.now()))

        await self._store.write(work)
        self._moved.set()


async def _left_over(tx: Tx) -> list[AttachedSession]:
    """The sessions that are gone and have something to answer, or something waiting."""
    held = {job.holder for job in map(Job.of_row, await tx.all(Q.active_jobs)) if job.holder}
    waiting = {row["agent"] for row in await tx.all(Q.open_counts)}
    held = {holder for holder in held if holder.startswith(SESSION_HOLDER)}
    if not held and not waiting:
        return []
    gone = await attached.gone_before(tx, await tx.now() - GRACE_S)
    here = await attached.here(tx)
    held -= {f"{SESSION_HOLDER}{one.session}" for one in here}
    waiting -= {one.agent for one in here}
    return [one for one in gone if f"{SESSION_HOLDER}{one.session}" in held or one.agent in waiting]


async def _give_up(tx: Tx) -> None:
    """End what sessions that are gone had heard, and what still waits for them."""
    now = await tx.now()
    here = {session.agent for session in await attached.here(tx)}
    for session in await _left_over(tx):
        if session.agent not in here:
            await told_messages.given_up(tx, session)
        jobs = [Job.of_row(row) for row in await tx.all(Q.open_jobs_of_agent, agent=session.agent)]
        if jobs and session.agent not in here:
            await skip_all(tx, jobs, "its session ended", "gone", now=now)


def _caller(session: AttachedSession) -> Caller:
    return Caller(session.agent, session.session, agent_type=session.program)


def _ran(call: HookCall) -> str:
    """The command that a shell of the session has run."""
    given = call.event.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    return command[:MOST_COMMAND] if isinstance(command, str) and command.strip() else "a command"


def _is_near(session: AttachedSession) -> bool:
    """Is its checkout on this machine, as far as that is known?"""
    process = _process(session)
    return (process is None or process[0] == machine()) and Path(session.checkout, ".git").exists()


def _process(session: AttachedSession) -> tuple[str, int, str] | None:
    """Machine, id and start of the program's process, where it said so."""
    try:
        machine, pid, started = json.loads(session.process)
        return str(machine), int(pid), str(started)
    except (ValueError, TypeError):
        return None


def _after(before: AttachedSession, call: HookCall, now: float) -> AttachedSession:
    """What the session does after this hook."""
    event = call.event
    state = _STATES.get(call.name, before.state)
    if call.name == "Notification":
        state = _NOTIFIED.get(str(event.get("notification_type")), before.state)
    if call.name == "SessionStart" and event.get("source") == "compact" and before.state is not Doing.GONE:
        state = before.state
    if state is Doing.GONE and call.name != "SessionEnd":
        state = Doing.IDLE
    tool, paths = before.tool, before.paths
    if isinstance(event.get("tool_name"), str):
        tool = event["tool_name"][:100]
        given = event.get("tool_input")
        if tool in _EDITS and isinstance(given, dict):
            paths = attached.with_paths(paths, _inside(before.checkout, call.folder, paths_of(given)))
    since = before.since if state is before.state else now
    return replace(before, state=state, since=since, heard_at=now, tool=tool, paths=paths)


def _inside(checkout: str, folder: Path, paths: Sequence[str]) -> list[str]:
    """Those of the paths that lie in the checkout, relative to it."""
    places = [Path(folder, path) for path in paths]
    return [str(place.relative_to(checkout)) for place in places if place.is_relative_to(checkout)]


async def _branch(checkout: Path) -> str:
    """The branch that is checked out; "" where there is none, or git does not say."""
    try:
        name = await Git(checkout).maybe("symbolic-ref", "-q", "HEAD")
    except (GitError, OSError):
        return ""
    return (name or "").removeprefix("refs/heads/")
