"""Agents that follow a YAML file: what to say and do. For demos and tests.

Invariant: a script is read and checked whole before any turn; a turn does only what its first matching rule
says, in the order say-so of `docs/agents.md`: wait, use tools, write, speak, report, fail.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from relay.agents.spec import AgentSpec, SpecError
from relay.model import (
    Availability,
    EndPart,
    FailureClass,
    Part,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
    UsagePart,
)

RULE_KEYS = ("match", "say", "delay_s", "pause_s", "tool", "write", "usage", "fail", "detail", "retry_in_s",
"exit") TOOL_KEYS = ("name", "summary", "paths")
USAGE_KEYS = ("input_tokens", "output_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `docs/agents.md` says what each key does. Times in seconds."""

    match: re.Pattern[str]
    say: tuple[str, ...] = ()
    delay_s: float = 0.0
    pause_s: float = 0.0
    tools: tuple[ToolPart, ...] = ()
    write: Mapping[str, str] = field(default_factory=dict)
    usage: UsagePart | None = None
    fail: FailureClass | None = None
    detail: str = ""
    retry_in_s: float | None = None
    exit: int = 0


class _LineLoader(yaml.SafeLoader):
    """Safe YAML whose mappings remember their line, under the key `LINE`."""


LINE = "\0line"


def _mapping(loader: _LineLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    made = loader.construct_mapping(node, deep=True)
    made[LINE] = node.start_mark.line + 1
    return made


_LineLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_script(path: Path) -> tuple[Rule, ...]:
    """The rules of a script. Raises SpecError naming the file, the line, the key and what is allowed."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_LineLoader)  # noqa: S506  a SafeLoader
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: is not YAML: {error}") from error
    if isinstance(data, dict):
        _only(data, ("rules",), f"{path}")
        data = data.get("rules")
    if not isinstance(data, list) or not data:
        raise SpecError(f"{path}: must be a list of rules, or `rules:` with one; found {_kind(data)}")
    return tuple(_rule(item, f"{path}: rule {number}") for number, item in enumerate(data, 1))


def _rule(item: Any, where: str) -> Rule:
    if not isinstance(item, dict):
        raise SpecError(f"{where}: must be
        a mapping
       
        with some
       
       
        of
       
       
        {', '.join(RULE_KEYS)};
       
       
       
        found
      
      
        
          
             
                {_kind(item)}")
   
    where
    = f"{where} (line
    {item[LINE]})" _only(item, RULE_KEYS, where) try:     match = re.compile(_value(item, "match", str, ".*", where), re.IGNORECASE
    | re.DOTALL) except re.error as error:
        raise SpecError(f"{where}: match is no regular expression: {error}") from error
    tools = item.get("tool", [])
    return Rule(
        match=match,
        say=_texts(item.get("say", []), f"{where}: say"),
        delay_s=_seconds(item, "delay_s", where),
        pause_s=_seconds(item, "pause_s", where),
        tools=tuple(_tool(each, where) for each in (tools if isinstance(tools, list) else [tools])),
        write=_write(item.get("write"), where),
        usage=_usage(item["usage"], where) if "usage" in item else None,
        fail=_failure(item["fail"], where) if "fail" in item else None,
        detail=_value(item, "detail", str, "", where),
        retry_in_s=_seconds(item, "retry_in_s", where) if "retry_in_s" in item else None,
        exit=_value(item, "exit", int, 0, where),
    )


def _only(item: Mapping[Any, Any], allowed: tuple[str, ...],
where: str) -> None:    
for key in item:         if
key == LINE or key in         allowed: 
           continue near = difflib.get_close_matches(str(key),
        allowed, 1) hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SpecError(f"{where}: unknown key {key!r}{hint} Allowed: {', '.join(allowed)}")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true/false", int: "a number", float:
    "a number"} return "nothing" if value
   
   
    is None else names.get(type(value), type(value).__name__)


def _value(item: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = item.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SpecError(f"{where}: {key} must be {_kind(kind())}; found {_kind(value)}")
    return value


def _seconds(item: Mapping[str, Any], key: str, where: str) -> float:
    value = item.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise SpecError(f"{where}: {key} must be a number of seconds, 0 or more; found {value!r}")
    return float(value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    pieces = value if isinstance(value, list) else [value]
    if not all(isinstance(piece, str) for piece in pieces):
        raise SpecError(f"{where} must be a text or a list of texts; found {_kind(value)}")
    return tuple(pieces)


def _tool(value: Any, where: str) -> ToolPart:
    if isinstance(value, str):
        return ToolPart(value)
    if not isinstance(value, dict):
        raise SpecError(f"{where}: tool must be a
        name or
       
        a mapping
       
       
        of
       
       
       
        {', '.join(TOOL_KEYS)};
       
       
       
       
        found
      
      
        
          
            
                 {_kind(value)}")
   
   
    _only(value, TOOL_KEYS, f"{where}: tool") if "name"
    not in value:     raise
       SpecError(f"{where}: tool needs
     
       
         
              a name")
   
    return ToolPart(     _value(value, "name", str,
    "", f"{where}: tool"),   
     _value(value, "summary", str, "", f"{where}: tool"),     _texts(value.get("paths", []), f"{where}: tool:
        paths"),
   
    )


def _write(value: Any,
where: str) -> dict[str, str]:   
 if value is None:       
 return {}    
 if not    isinstance(value, dict):     raise SpecError(f"{where}: write must be a mapping of
    path to text; found {_kind(value)}") files = {path: text for path, text in value.items() if path !=
    LINE}
    for path, text in files.items():     if
    not isinstance(path, str) or not isinstance(text, str):         raise SpecError(f"{where}: write must map a
    path to a text; found {path!r}:
          
             {_kind(text)}")
        if Path(path).is_absolute()
        or ".." in Path(path).parts:     raise SpecError(f"{where}: write: {path!r} leaves the working directory;
        give a path inside it")
    return files


def _usage(value: Any, where: str) -> UsagePart:
    if not isinstance(value, dict):
        raise SpecError(f"{where}: usage must be a mapping of {', '.join(USAGE_KEYS)}; found {_kind(value)}")
    _only(value, USAGE_KEYS, f"{where}: usage")
    inside = f"{where}: usage"
    return UsagePart(
        _value(value, "input_tokens", int, 0, inside),
        _value(value, "output_tokens", int, 0, inside),
        _seconds(value, "cost_usd", inside),
    )


def _failure(value: Any, where: str) -> FailureClass:
    try:
        return FailureClass(value)
    except ValueError:
        allowed = ", ".join(FailureClass)
        raise SpecError(f"{where}: fail is {value!r}; allowed: {allowed}") from None


class ScriptedAgent:
    """Follows a script, in this process. `session` counts its turns, so that resuming can be seen."""

    kind = "scripted"

    def __init__(self, spec: AgentSpec) -> None:
        assert spec.script is not None  # AgentSpec has seen to it
        self.spec = spec
        self.rules = load_script(spec.script)

    @property
    def name(self) -> str:
        return self.spec.name

    async def probe(self) -> Availability:
        return Availability(True, f"{len(self.rules)} rules of {self.spec.script}")

    async def run(self, turn: Turn) -> AsyncGenerator[Part, None]:
        limit = min(self.spec.timeout_s or turn.limits.timeout_s, turn.limits.timeout_s)
        deadline = asyncio.get_running_loop().time() + limit
        rule = next((rule for rule in self.rules if rule.match.search(turn.prompt)), None)
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
            refused = await self._write(rule, turn)
            if refused:
                yield EndPart(FailureClass.CRASH, refused)
                return
            paths = tuple(rule.write)
            yield ToolPart("write", ", ".join(paths), paths)
        left = turn.limits.max_output_bytes
        truncated = False
        for number, piece in enumerate(rule.say):
            if number and not await _sleep(rule.pause_s, deadline):
                yield _late(limit)
                return
            data = fill(piece, turn, self.name).encode()
            truncated = truncated or len(data) > left
            text = data[:left].decode("utf-8", "ignore")
            left -= min(left, len(data))
            if text:
                yield TextPart(text)
        if rule.usage is not None:
            yield rule.usage
        yield _ending(rule, truncated)

    async def _write(self, rule: Rule, turn: Turn) -> str:
        """Write the rule's files; returns why it refused, or nothing."""
        if not turn.may_edit or turn.cwd is None:
            return "The script wants to write, but this turn may not edit files."
        root = turn.cwd
        contents = {path: fill(text, turn, self.name) for path, text in rule.write.items()}
        return await asyncio.to_thread(write_inside, root, contents)


def write_inside(root: Path, contents: Mapping[str, str]) -> str:
    """Write files below `root`, following no link out of it; returns why it refused, or nothing."""
    real = root.resolve()
    for path, text in contents.items():
        target = (real / path).resolve()
        if not target.is_relative_to(real):
            return f"The script wants to write {path}, which leads out of the working directory."
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return ""


def fill(text: str, turn: Turn, name: str) -> str:
    """`{speaker}`, `{body}`, `{agent}`, `{context}`, `{job}` filled in; any other braces are left alone.

    The speaker is taken from a prompt of the form `[NAME] text` or `NAME: text`, else it is `you`.
    """
    match = re.match(r"\s*(?:\[(?P<tag>[^\]\n]{1,64})\]|(?P<name>[\w.-]{1,64}):)\s*(?P<body>.*)",
    turn.prompt, re.DOTALL)
    values = {     "speaker": (match["tag"] or match["name"]) if match else "you",
        "body": match["body"] if match else turn.prompt,
        "agent": name,
        "context": turn.context,
        "job": str(turn.job or ""),
    }
    return re.sub(r"\{(speaker|body|agent|context|job)\}", lambda found: values[found[1]], text)


async def _sleep(seconds: float, deadline: float) -> bool:
    """Wait; False when the turn's time is over before."""
    left = deadline - asyncio.get_running_loop().time()
    await asyncio.sleep(min(seconds, max(0.0, left)))
    return seconds < left


def _late(limit: float) -> EndPart:
    return EndPart(FailureClass.TIMEOUT, f"No end after {limit:g} s, the limit of a turn.")


def _ending(rule: Rule, truncated: bool) -> EndPart:
    if rule.fail is not None:
        detail = rule.detail or f"The script says so: {rule.fail}."
        retry_at = None if rule.retry_in_s is None else time.time() + rule.retry_in_s
        return EndPart(rule.fail, detail, retry_at=retry_at, truncated=truncated)
    if rule.exit:
        return EndPart(
            FailureClass.CRASH, rule.detail or f"The program ended with exit code {rule.exit}.",
            truncated=truncated
        )
    if not any(piece.strip() for piece in rule.say):
        return EndPart(FailureClass.EMPTY, rule.detail or "The program ended without an answer.")
    return EndPart(truncated=truncated)

