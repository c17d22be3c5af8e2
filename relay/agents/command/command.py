"""Agents that are command-line programs: one process a turn, prompt by stdin, parts out.

Invariant: every turn ends with exactly one EndPart, and when the iterator is done or closed, nothing that the
turn started is alive. What is kept of the output is bounded; the rest is read and dropped, and said.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from relay.agents.command.asking import Asking
from relay.agents.command.conversation import Conversation
from relay.agents.command.looking import best_route, signed_in, signed_out, version_of
from relay.agents.process.failure import classify, with_sign_in
from relay.agents.process.lines import LINE_LIMIT, STDERR_LINE_LIMIT, STDERR_TAIL, Lines
from relay.agents.process.output_limit import OutputLimit
from relay.agents.process.session import Session
from relay.agents.process.stream import Stream
from relay.agents.registry import presets, stream_of
from relay.agents.setup.environment import environment
from relay.agents.setup.hooks import GuardHook, Surroundings
from relay.agents.setup.presets import Call, Preset, Route, check_template, fill_template
from relay.agents.setup.prompt import compose
from relay.agents.setup.spec import AgentSpec, Permissions
from relay.base.child_process import STDOUT, ChildProcess, Exit
from relay.base.terminal_text import safe
from relay.model import (
    Availability,
    Channel,
    EndPart,
    FailureClass,
    Guard,
    Hears,
    LogPart,
    Part,
    TextPart,
    Turn,
    UsagePart,
)

#: Seconds a program may linger once it has said that its turn is done.
LINGER_S = 10.0
#: Conversations whose cumulative usage is remembered.
COUNTED = 64


class CommandAgent:
    """One agent that runs as a program: a preset's, or any by template."""

    kind = "command"

    def __init__(
        self, spec: AgentSpec, *, daemon_env: Mapping[str, str] | None = None, guard: Guard | None = None
    ) -> None:
        if spec.cmd:
            check_template(spec)
        self.spec, self.name = spec, spec.name
        self.preset: Preset | None = presets()[spec.preset] if spec.preset else None
        #: Answers an agent that asks on its own pipe; without it, its program runs the hook.
        self.judge = guard
        self._daemon_env = os.environ if daemon_env is None else daemon_env
        self._probing = asyncio.Lock()
        self._seen: tuple[tuple[str, int, int], Availability] | None = None
        self._route: Route | None = None
        #: Of this very program: why it does not hear after all, as a turn found out; lets it nobody be asked before
        #: an edit.
        self._heard: Channel | None = None
        self._asks_elsewhere = False
        self._counted: dict[str, UsagePart] = {}

    @property
    def _around(self) -> dict[str, Any]:
        """Where a program is asked that has no turn."""
        return {"env": self.env(""), "cwd": self.spec.cwd}

    @property
    def program(self) -> str:
        return self.preset.program if self.preset else self.spec.cmd[0]

    async def probe(self) -> Availability:
        """Look for the program and, for a preset, ask its version, and how it hears; the answer is kept while the
        file stays."""
        path = await self._find()
        if path is None:
            return Availability(False, self._missing(), self.preset.install if self.preset else "")
        if self.preset is None:
            return Availability(True, path)
        async with self._probing:
            stat = await asyncio.to_thread(os.stat, path)
            key = (path, stat.st_mtime_ns, stat.st_size)
            if self._seen is not None and self._seen[0] == key:
                return replace(self._seen[1], channel=self._heard or self._seen[1].channel)
            seen = await version_of(self.preset, path, **self._around)
            if not seen.installed:  # a failure may pass: the next probe asks again
                return seen
            self._route = await best_route(self.preset, path, **self._around)
            self._heard, self._asks_elsewhere = None, False
            channel = self._route.channel if self._route else Channel(why=self.preset.deaf)
            self._seen = (key, replace(seen, channel=channel))
            return self._seen[1]

    async def run(self, turn: Turn) -> AsyncGenerator[Part, None]:
        """One turn. A conversation that is gone is started anew, once, and a LogPart says so."""
        path = await self._find()
        if path is None:
            yield EndPart(FailureClass.NOT_INSTALLED, self._not_installed())
            return
        limit = self.spec.limit_s(turn)
        deadline = asyncio.get_running_loop().time() + limit
        route = await self.route()
        resume = turn.resume
        try:
            while True:
                attempt = Attempt(self, turn, path, deadline, resume=resume, route=route)
                async with aclosing(attempt.parts()) as parts:
                    async for part in parts:
                        yield part
                if attempt.refused:
                    self._asks_elsewhere = True  # and so the next attempt has the hook
                elif attempt.lost:
                    yield LogPart(f"conversation {turn.resume} is gone: starting a new one")
                    resume = None
                else:
                    break
        finally:
            if route is not None:
                turn.inbox.close()  # once, since it stays so
        assert attempt.end is not None
        if attempt.end.failure is FailureClass.TIMEOUT:
            yield replace(attempt.end, detail=f"The turn timed out after {limit:g} s.")
        else:
            yield attempt.end

    async def route(self) -> Route | None:
        """How the program hears what it is told while it works; None where it hears nothing."""
        if self.preset is None or not self.preset.routes:
            return None
        await self.probe()
        return self._route

    def asks(self, route: Route | None, turn: Turn) -> bool:
        """Does it ask before each edit on its way of hearing, and not by a hook? Where it does not hear that way
        after all, a hook does both."""
        able = route is not None and route.asks and not self._asks_elsewhere and self._heard is None
        return able and self.judge is not None and self.guard(turn) is not None

    def hears(self, channel: Channel) -> None:
        """What a turn found out."""
        self._heard = channel

    def argv(self, path: str, turn: Turn, resume: str | None, route: Route | None = None) -> list[str]:
        """The command line of one turn; `path` is the program's own."""
        call = Call(
            permissions=self.permissions(turn),
            model=self.spec.model,
            effort=self.spec.effort,
            session=resume,
            guard=None if self.asks(route, turn) else self.guard(turn),
            mcp=self.spec.mcp,
            route=route.words if route is not None else (),
        )
        if self.preset is None:
            return [path, *fill_template(self.spec.cmd[1:], call), *self.spec.args]
        return [path, *self.preset.arguments(call, self.spec.args)]

    def permissions(self, turn: Turn) -> Permissions:
        return self.spec.permissions.for_turn(turn.may_edit)

    def guard(self, turn: Turn) -> GuardHook | None:
        """The hook that asks before each edit, in a turn that can edit."""
        return None if self.permissions(turn) is Permissions.READ_ONLY else self.spec.guard

    def env(self, session: str, there: Mapping[str, str] | None = None) -> dict[str, str]:
        """Of a turn in this session of the room; "" = of no turn. `there`: what its worktree gives it."""
        return environment(
            self._daemon_env,
            prefixes=self.preset.env_prefixes if self.preset else (),
            own={**(there or {}), **self.spec.env},
            agent=self.name,
            agent_type=self.spec.preset or self.kind,
            session=session,
            key=self.spec.key() if session else "",
        )

    async def surroundings(self, turn: Turn) -> tuple[dict[str, str], str]:
        """The environment of one turn, and a line for the log where the program cannot be told all by it."""
        env = self.env(turn.room_session, turn.env)
        if self.preset is None or self.preset.environment is None:
            return env, ""
        folder = self.spec.guard.folder if self.spec.guard else None
        around = Surroundings(self.name, env, self.guard(turn), folder, self.spec.mcp)
        return await self.preset.environment(around)

    async def signed_in(self) -> bool | None:
        """Is one signed in, as far as the program tells without a turn? None: it cannot tell."""
        path = await self._find()
        if self.preset is None or path is None:
            return None
        return await signed_in(self.preset, path, **self._around)

    def turn_usage(self, part: UsagePart, session: str | None, resumed: bool) -> tuple[UsagePart, str]:
        """The turn's own share of a cumulative count, and a line for the log when it cannot be told."""
        if self.preset is None or not self.preset.cumulative or session is None:
            return part, ""
        before = self._counted.pop(session, None)
        self._counted[session] = part
        while len(self._counted) > COUNTED:
            del self._counted[next(iter(self._counted))]
        if before is None:
            return part, "the usage of this turn counts the whole conversation so far" if resumed else ""
        return part.since(before), ""

    async def _find(self) -> str | None:
        program = self.program
        if "/" in program:
            program = str(self.spec.cwd / program)
        return await asyncio.to_thread(shutil.which, program, path=self.env("")["PATH"])

    def _missing(self) -> str:
        """What is wrong; what mends it stands beside it (`Availability.fix`)."""
        return f"{self.program} is not on the PATH{'' if self.preset else ', or cannot be executed'}."

    def _not_installed(self) -> str:
        """What is wrong and what mends it, where that stands alone."""
        return f"{self._missing()} Install it: `{self.preset.install}`" if self.preset else self._missing()


class Attempt:
    """One run of the program. `parts()` gives everything but the end; then `end`, `lost` or `refused` is set."""

    def __init__(
        self,
        agent: CommandAgent,
        turn: Turn,
        path: str,
        deadline: float,
        *,
        resume: str | None,
        route: Route | None = None,
    ) -> None:
        self.agent = agent
        self.turn = turn
        self.path = path
        self.deadline = deadline
        self.resume = resume
        self.end: EndPart | None = None
        self.lost = False
        self.refused = False
        self._route = route
        self._stream: Stream = stream_of(agent.spec.preset or agent.spec.output)()
        if route is not None:
            self._stream = route.session()
            self._stream.asks = agent.asks(route, turn)
        self._conversation: Conversation | None = None
        self._lines = Lines(LINE_LIMIT)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._errors = Lines(STDERR_LINE_LIMIT)
        self._stderr = ""
        self._tail = ""  # of plain text: a program without a stream of its own may put its error there
        self._output_limit = OutputLimit(turn.limits.max_output_bytes)
        self._answered = False

    async def parts(self) -> AsyncGenerator[Part, None]:
        prompt = compose(
            self.turn,
            may_edit=self.agent.permissions(self.turn) is not Permissions.READ_ONLY,
            forgotten=self.turn.resume is not None and self.resume is None,
        )
        env, note = await self.agent.surroundings(self.turn)
        if note:
            yield LogPart(note)
        cwd = self.turn.cwd or self.agent.spec.cwd
        try:
            process = await ChildProcess.start(
                self.agent.argv(self.path, self.turn, self.resume, self._route),
                env=env,
                cwd=cwd,
                stdin=self._stream.begin(prompt),
                more=isinstance(self._stream, Session),
            )
        except OSError as error:
            self.end = EndPart(
                FailureClass.CRASH, f"The program could not be started in {cwd}: {error.strerror}."
            )
            return
        async with process, self._talking(process):
            async with (
                aclosing(process.output()) as output,
                aclosing(self._read_all(output, env)) as parts,
            ):
                async for part in parts:
                    yield part
            if self.end is None:
                for part in self._rest():
                    yield part
        if self.end is None and not self.refused:
            self._judge(process.exit or Exit(signal=signal.SIGKILL))

    @asynccontextmanager
    async def _talking(self, process: ChildProcess) -> AsyncGenerator[None, None]:
        """Pass on what the turn is told, and answer what the program asks, where it goes on reading."""
        if not isinstance(self._stream, Session):
            yield
            return
        asking = Asking(self.agent.name, self.turn, self.turn.cwd or self.agent.spec.cwd, self.agent.judge)
        self._conversation = Conversation(process, self._stream, self.turn.inbox, asking.decide, self._read)
        try:
            yield
        finally:
            await self._conversation.stop()
            if self._stream.channel is not None and self._stream.channel.hears is Hears.NEXT:
                self.agent.hears(self._stream.channel)

    async def _read_all(
        self, output: AsyncGenerator[tuple[int, bytes], None], env: Mapping[str, str]
    ) -> AsyncGenerator[Part, None]:
        loop = asyncio.get_running_loop()
        deadline = self.deadline
        checked = False
        while not self._stream.hopeless:
            try:
                async with asyncio.timeout_at(deadline):
                    fd, data = await anext(output)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not self._stream.completed and not self._done:
                    self.end = EndPart(
                        FailureClass.TIMEOUT, text=None, truncated=self._output_limit.truncated
                    )
                return
            parts = self._read(fd, data)
            if self._conversation is not None:
                self._conversation.heard()
            for part in parts:
                yield part
            if self._refuses():
                return
            if self._done:
                deadline = min(deadline, loop.time() + LINGER_S)
            if self._stream.stuck and not checked:
                checked = True
                if (signed_out := await self._signed_out(env)) is not None:
                    self.end = EndPart(FailureClass.NOT_SIGNED_IN, self._with_fix(signed_out))
                    return

    async def _signed_out(self, env: Mapping[str, str]) -> str | None:
        preset, cwd = self.agent.preset, self.agent.spec.cwd
        return None if preset is None else await signed_out(preset, self.path, env=env, cwd=cwd)

    @property
    def _done(self) -> bool:
        """Has it said that its turn is over, with all that it was told in it?"""
        return self._stream.finished if isinstance(self._stream, Session) else self._stream.completed

    def _refuses(self) -> bool:
        """It has not begun, since nobody can be asked this way: its turn begins anew, with the hook."""
        self.refused = isinstance(self._stream, Session) and self._stream.refused
        return self.refused

    def _read(self, fd: int, data: bytes) -> list[Part]:
        if fd != STDOUT:
            return self._diagnose(self._errors.feed(data))
        if not self._stream.is_json:
            return self._bounded([TextPart(self._decoder.decode(data))])
        parts: list[Part] = []
        for line in self._lines.feed(data):
            parts += self._bounded(self._stream.read(line))
        return parts

    def _rest(self) -> list[Part]:
        """What was still held when the output ended."""
        parts = self._bounded([TextPart(self._decoder.decode(b"", True))])
        for line in self._lines.end():
            parts += self._bounded(self._stream.read(line))
        if self._lines.dropped:
            self._output_limit.truncated = True
            parts.append(LogPart(f"{self._lines.dropped} lines of output were longer than allowed: dropped"))
        return parts + self._diagnose(self._errors.end())

    def _diagnose(self, lines: list[str]) -> list[Part]:
        # Cleaned here, where it comes in: it goes to the log, to reasons, and from there to terminals.
        lines = [safe(line).replace("\n", " ") for line in lines]
        for line in lines:
            self._stderr = f"{self._stderr}{line}\n"[-STDERR_TAIL:]
        return self._bounded([LogPart(line) for line in lines if line.strip()])

    def _bounded(self, parts: list[Part]) -> list[Part]:
        bounded: list[Part] = []
        for part in parts:
            match part:
                case TextPart(text=text):
                    self._tail = (self._tail + text[-STDERR_TAIL:])[-STDERR_TAIL:]
                    text = self._output_limit.cut(text)
                    self._answered = self._answered or bool(text.strip())
                    if text:
                        bounded.append(TextPart(text))
                case LogPart(line=line):
                    if line := self._output_limit.cut_log(line):
                        bounded.append(LogPart(line))
                case UsagePart():
                    usage, note = self.agent.turn_usage(part, self._stream.session, self.resume is not None)
                    bounded += [usage, LogPart(note)] if note else [usage]
                case _:
                    bounded.append(part)
        return bounded

    def _judge(self, ended: Exit) -> None:
        stream = self._stream
        preset = self.agent.preset
        self.lost = self.resume is not None and not self._answered and stream.has_lost_session(self._stderr)
        if self.lost:
            return
        answered = self._answered or bool(stream.answer)
        stderr = self._stderr if stream.is_json else f"{self._tail}\n{self._stderr}"
        verdict = classify(
            Exit(code=0) if stream.completed else ended,
            stderr=stderr if ended.code != 0 or not answered else "",
            error=stream.error,
            answered=answered,
            now=datetime.now().astimezone(),
            sign_in_codes=preset.sign_in_codes if preset else frozenset(),
        )
        if verdict.failure is FailureClass.NOT_SIGNED_IN:
            verdict = replace(verdict, detail=self._with_fix(verdict.detail))
        self.end = self._output_limit.end(verdict, stream.answer, self.turn.limits.max_output_bytes)

    def _with_fix(self, detail: str) -> str:
        return with_sign_in(detail, self.agent.preset.sign_in if self.agent.preset else "")
