"""Agents that follow a YAML file: what to say and do. For demos and tests.

Invariants: a turn does only what its first matching rule says, in this order: wait, use tools, write, speak,
report, end. It writes nothing outside the turn's own folder, and nothing at all unless the turn may edit. The file is
read for each turn, so what is mended in it counts at once.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from relay.agents.process.output_limit import OutputLimit
from relay.agents.scripted.script import Rule, load_script
from relay.agents.setup.spec import AgentSpec, Permissions, SpecError
from relay.model import (
    Availability,
    EndPart,
    FailureClass,
    Location,
    Part,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
)

_SPOKEN = re.compile(r"\s*(?:\[(?P<tag>[^\]\n]{1,64})\]|(?P<name>[\w.-]{1,64}):)\s*(?P<body>.*)", re.DOTALL)
_FIELD = re.compile(r"\{(speaker|body|agent|context|memories|job)\}")


class ScriptedAgent:
    """Follows a script, in this process."""

    kind = "scripted"

    def __init__(self, spec: AgentSpec) -> None:
        assert spec.script is not None  # AgentSpec has seen to it
        self.spec, self.name, self.script = spec, spec.name, spec.script

    async def _rules(self) -> tuple[Rule, ...]:
        """The script as it is now. Raises SpecError."""
        return await asyncio.to_thread(load_script, self.script)

    async def probe(self) -> Availability:
        try:
            rules = await self._rules()
        except SpecError as error:
            return Availability(False, str(error), "Mend the file; it is read again by itself.", broken=True)
        return Availability(True, f"{len(rules)} rule{'s' * (len(rules) != 1)} of {self.script}")

    async def run(self, turn: Turn) -> AsyncGenerator[Part, None]:
        limit = self.spec.limit_s(turn)
        deadline = asyncio.get_running_loop().time() + limit
        try:
            rules = await self._rules()
        except SpecError as error:
            yield EndPart(FailureClass.NOT_INSTALLED, str(error))
            return
        rule = next((rule for rule in rules if rule.match.search(turn.prompt)), None)
        if rule is None:
            yield EndPart(FailureClass.EMPTY, f"No rule of {self.spec.script} matches the message.")
            return
        yield SessionPart(turn.resume or f"scripted-{self.name}")
        if not await _sleep(rule.delay_s, deadline):
            yield _late(limit)
            return
        for tool in rule.tools:
            yield tool
        if rule.write:
            if refused := await self._write(rule, turn):
                yield EndPart(FailureClass.CRASH, refused)
                return
            places = tuple(Location(path, writes=True) for path in rule.write)
            yield ToolPart("write", ", ".join(rule.write), tuple(rule.write), places)
        output_limit = OutputLimit(turn.limits.max_output_bytes)
        for number, piece in enumerate(rule.say):
            if number and not await _sleep(rule.pause_s, deadline):
                yield _late(limit)
                return
            if text := output_limit.cut(fill(piece, turn)):
                yield TextPart(text)
        if rule.usage is not None:
            yield rule.usage
        yield _ending(rule, output_limit.truncated)

    async def _write(self, rule: Rule, turn: Turn) -> str:
        """Write the rule's files; returns why it refused, or nothing."""
        allowed = self.spec.permissions.for_turn(turn.may_edit)
        if allowed is Permissions.READ_ONLY or turn.cwd is None:
            return "The script wants to write, but this turn may not edit files."
        contents = {path: fill(text, turn) for path, text in rule.write.items()}
        return await asyncio.to_thread(write_inside, turn.cwd, contents)


def write_inside(root: Path, contents: Mapping[str, str]) -> str:
    """Write files below `root`, following no link out of it; returns why it could not, or nothing."""
    real = root.resolve()
    for path, text in contents.items():
        target = (real / path).resolve()
        if not target.is_relative_to(real):
            return f"The script wants to write {path}, which leads out of the working directory."
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            return f"The script could not write {path}: {error.strerror}."
    return ""


def fill(text: str, turn: Turn) -> str:
    """`{speaker}`, `{body}`, `{agent}`, `{context}`, `{memories}`, `{job}` filled in; any other braces stay.

    The speaker is read from a prompt of the form `[NAME] text` or `NAME: text`; else it is `you`.
    """
    spoken = _SPOKEN.match(turn.prompt)
    values = {
        "speaker": (spoken["tag"] or spoken["name"]) if spoken else "you",
        "body": spoken["body"] if spoken else turn.prompt,
        "agent": turn.agent,
        "context": turn.context,
        "memories": turn.memories,
        "job": "" if turn.job is None else str(turn.job),
    }
    return _FIELD.sub(lambda match: values[match[1]], text)


async def _sleep(seconds: float, deadline: float) -> bool:
    """Wait; False when the turn's time is over before."""
    left = max(0.0, deadline - asyncio.get_running_loop().time())
    await asyncio.sleep(min(seconds, left))
    return seconds < left


def _late(limit: float) -> EndPart:
    return EndPart(FailureClass.TIMEOUT, f"The turn timed out after {limit:g} s.")


def _ending(rule: Rule, truncated: bool) -> EndPart:
    if rule.fail is not None:
        retry_at = None if rule.retry_in_s is None else time.time() + rule.retry_in_s
        detail = rule.detail or f"The script says so: {rule.fail}."
        return EndPart(rule.fail, detail, retry_at=retry_at, truncated=truncated)
    if rule.exit:
        detail = rule.detail or f"The program ended with exit code {rule.exit}."
        return EndPart(FailureClass.CRASH, detail, truncated=truncated)
    if not any(piece.strip() for piece in rule.say):
        return EndPart(FailureClass.EMPTY, rule.detail or "The program ended without an answer.")
    return EndPart(truncated=truncated)
