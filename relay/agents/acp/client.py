"""The client's side of the Agent Client Protocol: what an agent may ask of us while it works.

Invariants:
- files are read and written below the top of the turn's checkout only, links followed; written only in a turn that
  may edit, and when the guard does not tell this agent to steer clear of the file;
- an edit, and what a shell's command would surely write, is the guard's to judge first; what the room's rules do not
  decide, a person does, and when nobody answers it is refused;
- an answer is never for more than the one call: the next edit is asked about again;
- an edit that was never asked about is judged when it is seen (watch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from acp import RequestError, schema
from pydantic import ValidationError

from relay.agents.acp import helpers
from relay.agents.acp.calls import WRITING, Call, Calls
from relay.agents.process.helpers import Helpers
from relay.agents.process.wire import Outbox
from relay.agents.setup.mcp import is_ours
from relay.agents.setup.spec import AgentSpec, Permissions
from relay.base.files import inside, reading, write_atomically
from relay.base.terminal_text import safe, safe_line
from relay.code.shell.foreseen import foresee, refusal_text
from relay.model import (
    Guard,
    GuardDecision,
    Location,
    LogPart,
    PermissionOption,
    PermissionRequest,
    Permits,
    TextPart,
    Turn,
)

#: Bytes of a file that is served or written in one request; larger than any text that a model works on.
MOST_FILE = 4 * 1_048_576
#: Files that the guard is asked about for one command of a shell; what else it wrote is asked about when it is seen.
MOST_ASKED = 50
#: A JSON-RPC code of our own (-32000 to -32099 are the implementation's, JSON-RPC 2.0, section 5.1; ACP takes
#: -32000 and -32002).
REFUSED = -32010
#: Characters of the tool that a message was delivered after.
MOST_TITLE = 80
#: Characters of a command that a person is asked about.
MOST_COMMAND = 4000
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class AcpClient:
    """Answers the agent of one turn.

    `steered` is called with the reason when the guard steers an edit that was asked about, or that was made unasked
    (True), and must see to it that the turn is cancelled: an answer to a permission request carries no reason.
    """

    def __init__(
        self,
        spec: AgentSpec,
        turn: Turn,
        permissions: Permissions,
        guard: Guard,
        permits: Permits,
        outbox: Outbox,
        steered: Callable[[str, bool], Awaitable[bool]],
    ) -> None:
        self._spec, self._permissions, self._guard, self._permits = spec, permissions, guard, permits
        self._outbox, self._steered = outbox, steered
        self._cwd = turn.cwd or spec.cwd
        self._root, self._session = turn.root or self._cwd, turn.room_session or None
        self._calls, self._helpers = Calls(), Helpers()
        #: Files that the guard was asked about and let go, and those that were told to be changed unasked.
        self._let_go: set[str] = set()
        self._told: set[str] = set()
        #: What it used last, for whom a message came after it.
        self.last_tool = ""
        #: It used a tool that may change files.
        self.worked = False
        self._said = ""
        self._after_tool = ""
        #: While an old conversation is loaded, what it says was said before.
        self.replaying = False
        self.replayed = 0
        self.cancelling = False
        self.cost = 0.0

    @property
    def answer(self) -> str | None:
        """What stands after the last tool; what stands before is a report of work. None: nothing was said."""
        return self._after_tool.strip() or self._said.strip() or None

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """What `acp.Connection` calls for each request and notification of the agent."""
        try:
            match method:
                case "session/update":
                    return self._update(schema.SessionNotification.model_validate(params))
                case "session/request_permission":
                    return await self._permit(schema.RequestPermissionRequest.model_validate(params))
                case "fs/read_text_file":
                    return await self._read(schema.ReadTextFileRequest.model_validate(params))
                case "fs/write_text_file":
                    return await self._write(schema.WriteTextFileRequest.model_validate(params))
        except ValidationError as error:
            if is_notification:
                return None  # an update that this version of the protocol does not know
            raise RequestError.invalid_params({"details": safe_line(str(error), 300)}) from None
        if is_notification:
            return None
        raise RequestError.method_not_found(method)

    # -- what it tells

    def _update(self, told: schema.SessionNotification) -> None:
        if self.replaying:
            self.replayed += 1
            return
        match told.update:
            case schema.AgentMessageChunk(content=schema.TextContentBlock(text=text)):
                self._say(text)
            case schema.ToolCallStart() | schema.ToolCallProgress() as update:
                for part in helpers.tell(self._helpers, update):
                    self._outbox.put(part)
                by = helpers.used_by(self._helpers, update)
                self._show(self._calls.hear(update), update.status, by)
            case schema.UsageUpdate(cost=schema.Cost(amount=amount, currency="USD")):
                self.cost = amount

    def _say(self, text: str) -> None:
        apart = bool(self._said.strip()) and not self._after_tool
        self._after_tool += text
        self._outbox.put(TextPart(f"\n\n{text}" if apart else text))

    def _show(self, call: Call, status: str | None, by: str | None = None) -> None:
        self.worked = self.worked or call.writes is not False
        part = self._calls.part(call, status)
        if part is not None:
            if part.name:
                self.begin_anew()
                self.last_tool = (part.summary or part.name)[:MOST_TITLE]
            self._outbox.put(replace(part, helper=by))

    def begin_anew(self) -> None:
        """What is said from now on stands after what was said so far."""
        self._said, self._after_tool = self._said + self._after_tool, ""

    def _note(self, text: str) -> None:
        self._outbox.put(LogPart(safe_line(text, 500)))

    # -- permissions

    async def _permit(self, asked: schema.RequestPermissionRequest) -> dict[str, Any]:
        if self.cancelling:
            return CANCELLED
        call = self._calls.hear(asked.tool_call)
        self._show(call, "in_progress")
        options = [PermissionOption(option.option_id, option.name, option.kind) for option in asked.options]
        title = safe_line(call.title or call.kind)
        if self._spec.mcp is not None and is_ours(call.title or ""):
            return self._choose(options, "allow_once", "allow_always")
        if call.kind in WRITING:
            edits = await asyncio.to_thread(call.edits, self._cwd)
            if self._permissions is Permissions.READ_ONLY:
                return self._refuse(options, f"{title}: refused, it may only read in this turn")
            decision, within = await self._judge(edits)
            if decision.refused:
                self._note(f"{title}: {decision.reason}")
                return CANCELLED if await self._steered(decision.reason, False) else self._refuse(options, "")
            if within or self._permissions is Permissions.SKIP_ALL_CHECKS:
                return self._choose(options, "allow_once", "allow_always")
        elif call.command and (against := await self._against(call)):
            self._note(f"{title}: {against}")
            return CANCELLED if await self._steered(against, False) else self._refuse(options, "")
        elif self._permissions is Permissions.SKIP_ALL_CHECKS or await self._only_looks(call):
            return self._choose(options, "allow_once", "allow_always")
        says = safe(call.says[:MOST_COMMAND]).strip() + "…" * (len(call.says) > MOST_COMMAND)
        request = PermissionRequest(
            self._spec.name, title, call.kind, call.paths, tuple(options), command=says
        )
        answer = await self._permits.ask(request, timeout_s=self._spec.permission_timeout_s)
        if self.cancelling:
            return CANCELLED
        if answer.option is None:
            return self._refuse(options, f"{title}: refused, {answer.reason}")
        self._note(f"{title}: {answer.option.name} ({answer.by})")
        return {"outcome": {"outcome": "selected", "optionId": answer.option.id}}

    async def _against(self, call: Call) -> str:
        """Why a shell must not run this command, by what it would surely write in the turn's folder; empty when
        nothing is known against it."""
        folder = str(self._cwd / call.folder)
        within = partial(inside, self._root)
        foreseen = await asyncio.to_thread(foresee, call.command, folder, within)
        refused = []
        for path in foreseen.sure[:MOST_ASKED]:
            place = Location(path, None, True, command=call.command)
            decision = await self._guard.decide(self._spec.name, place, self._session)
            if decision.refused:
                refused.append((path, decision.reason))
            else:
                self._let_go.add(path)
        return refusal_text(refused) if refused else ""

    async def _only_looks(self, call: Call) -> bool:
        """Does it read files of the turn's folder and nothing else?"""
        if call.writes is not False or not call.paths:
            return False
        places = [await self._within(path) for path in call.paths]
        return all(path is not None for path in places)

    async def _judge(self, edits: list[Location]) -> tuple[GuardDecision, bool]:
        """The guard's word on these edits, and whether all of them are in the turn's folder."""
        within = bool(edits)
        for edit in edits:
            path = await self._within(edit.path)
            if path is None:
                within = False
                continue
            decision = await self._guard.decide(
                self._spec.name, Location(path, edit.lines, True), self._session
            )
            if decision.refused:
                return decision, within
            self._let_go.add(path)
            if decision.note:
                # The protocol has no place for it beside an edit that is allowed: it stands with the turn's steps.
                self._note(decision.note)
        return GuardDecision(), within

    def _refuse(self, options: list[PermissionOption], why: str) -> dict[str, Any]:
        if why:
            self._note(why)
        return self._choose(options, "reject_once", "reject_always")

    def _choose(self, options: list[PermissionOption], *kinds: str) -> dict[str, Any]:
        for kind in kinds:
            for option in options:
                if option.kind == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option.id}}
        return CANCELLED

    # -- files

    async def _read(self, asked: schema.ReadTextFileRequest) -> dict[str, Any]:
        path = await self._place(asked.path)
        text = await asyncio.to_thread(_text_of, self._root / path)
        if asked.line or asked.limit is not None:
            lines = text.splitlines(keepends=True)
            first = max(0, (asked.line or 1) - 1)
            text = "".join(lines[first : None if asked.limit is None else first + asked.limit])
        return {"content": text}

    async def _write(self, asked: schema.WriteTextFileRequest) -> dict[str, Any]:
        path = await self._place(asked.path)
        if self._permissions is Permissions.READ_ONLY:
            raise RequestError(
                REFUSED, f"{self._spec.name} may read the project in this turn, but not change it."
            )
        if len(asked.content) > MOST_FILE:
            raise RequestError(REFUSED, f"A file of more than {MOST_FILE} bytes is not written this way.")
        asked_about = Location(path, None, True, text=asked.content.encode("utf-8", "replace"))
        decision = await self._guard.decide(self._spec.name, asked_about, self._session)
        if decision.refused:
            self._note(f"write {path}: {decision.reason}")
            raise RequestError(REFUSED, decision.reason)
        self._let_go.add(path)
        if decision.note:
            self._note(f"write {path}: {decision.note}")
        await asyncio.to_thread(_put, self._root / path, asked.content)
        return {}

    async def changed(self, path: str) -> None:
        """A file of the turn's folder was changed. Where nobody asked before, the guard is asked now; what stands
        against it is told to the agent, which may take it back."""
        relative = await self._within(path)
        if relative is None or relative in self._let_go or relative in self._told:
            return
        made = Location(relative, None, True, made=True)
        decision = await self._guard.decide(self._spec.name, made, self._session)
        if decision.refused:
            self._told.add(relative)
            self._note(f"{relative} was changed without asking: {decision.reason}")
            await self._steered(f"{relative} was changed without asking. {decision.reason}", True)

    async def _within(self, path: str) -> str | None:
        """The path relative to the top of the checkout; None when it is not in it."""
        return await asyncio.to_thread(inside, self._root, str(self._cwd / path))

    async def _place(self, path: str) -> str:
        relative = await self._within(path)
        if relative is None:
            self._note(f"{path}: refused, it is outside the turn's folder")
            raise RequestError(REFUSED, f"{path[:200]} is outside {self._root}, the folder of this turn.")
        return relative


def _text_of(path: Path) -> str:
    """A file's text. Blocking. Raises RequestError."""
    try:
        with reading(path) as file:
            data = file.read(MOST_FILE + 1)
    except FileNotFoundError:
        raise RequestError(-32002, f"Resource not found: {path}") from None
    except OSError as error:
        raise RequestError(REFUSED, f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MOST_FILE:
        raise RequestError(REFUSED, f"{path} has more than {MOST_FILE} bytes.")
    return data.decode("utf-8", "replace")


def _put(path: Path, text: str) -> None:
    """Write a file, with the folders above it; its mode stays. Blocking. Raises RequestError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        write_atomically(path, text.encode("utf-8", "replace"), mode, durable=False)
    except OSError as error:
        raise RequestError(REFUSED, f"{path} cannot be written: {error.strerror}") from None
