"""The YAML file of a scripted agent, read into rules.

Invariant: a script is checked whole when it is read; every error names the file, the rule and its line, the
key, what was found and what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from relay.agents.setup.spec import SpecError
from relay.base.files import read_regular
from relay.model import FailureClass, ToolPart, UsagePart

SPEAKING = ("match", "say", "delay_s", "pause_s")
DOING = ("tool", "write", "usage")
ENDING = ("fail", "detail", "retry_in_s", "exit")
RULE_KEYS = (*SPEAKING, *DOING, *ENDING)
TOOL_KEYS = ("name", "summary", "paths")
USAGE_KEYS = ("input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "cost_usd")


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


class _Loader(yaml.SafeLoader):
    """Safe YAML whose mappings remember their line, under the key `LINE`, which no YAML text can hold."""


LINE = "\0line"


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    made = loader.construct_mapping(node, deep=True)
    made[LINE] = node.start_mark.line + 1
    return made


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_script(path: Path) -> tuple[Rule, ...]:
    """The rules of a script, a list or a mapping with the one key `rules`. Raises SpecError."""
    try:
        data = yaml.load(read_regular(path).decode("utf-8"), Loader=_Loader)
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}:" if mark else ""
        raise SpecError(f"{path}:{line} is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if isinstance(data, dict):
        top = Section(data, str(path))
        top.only(("rules",))
        data = data.get("rules")
    if not isinstance(data, list) or not data:
        raise SpecError(f"{path}: must be a list of rules, or `rules:` with one; found {kind_of(data)}")
    return tuple(_rule(item, f"{path}: rule {number}") for number, item in enumerate(data, 1))


def kind_of(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "nothing"
    return names.get(type(value), f"{value!r}")


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the script and where it stands, with the checks that every value goes through."""

    data: Mapping[Any, Any]
    where: str

    @classmethod
    def of(cls, value: Any, where: str, allowed: tuple[str, ...]) -> Section:
        if not isinstance(value, dict):
            raise SpecError(f"{where} must be a mapping of {', '.join(allowed)}; found {kind_of(value)}")
        section = cls(value, f"{where} (line {value[LINE]})")
        section.only(allowed)
        return section

    def only(self, allowed: tuple[str, ...]) -> None:
        for key in self.data:
            if key == LINE or key in allowed:
                continue
            near = difflib.get_close_matches(str(key), allowed, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise SpecError(f"{self.where}: unknown key {key!r}.{hint} Allowed: {', '.join(allowed)}")

    def text(self, key: str, default: str = "") -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str):
            raise SpecError(f"{self.where}: {key} must be a string; found {kind_of(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key, [])
        pieces = value if isinstance(value, list) else [value]
        for piece in pieces:
            if not isinstance(piece, str):
                raise SpecError(
                    f"{self.where}: {key} must be a string or a list of strings; found {kind_of(piece)}"
                )
        return tuple(pieces)

    def integer(self, key: str) -> int:
        value = self.data.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SpecError(f"{self.where}: {key} must be a whole number, 0 or more; found {kind_of(value)}")
        return value

    def number(self, key: str) -> float:
        value = self.data.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise SpecError(f"{self.where}: {key} must be a number, 0 or more; found {kind_of(value)}")
        return float(value)


def _rule(item: Any, where: str) -> Rule:
    rule = Section.of(item, where, RULE_KEYS)
    try:
        match = re.compile(rule.text("match"), re.IGNORECASE | re.DOTALL)
    except re.error as error:
        raise SpecError(f"{rule.where}: match is not a regular expression: {error}") from error
    tools = item.get("tool", [])
    return Rule(
        match=match,
        say=rule.texts("say"),
        delay_s=rule.number("delay_s"),
        pause_s=rule.number("pause_s"),
        tools=tuple(_tool(each, rule.where) for each in (tools if isinstance(tools, list) else [tools])),
        write=_write(item.get("write"), rule.where),
        usage=_usage(item["usage"], rule.where) if "usage" in item else None,
        fail=_failure(item["fail"], rule.where) if "fail" in item else None,
        detail=rule.text("detail"),
        retry_in_s=rule.number("retry_in_s") if "retry_in_s" in item else None,
        exit=rule.integer("exit"),
    )


def _tool(value: Any, where: str) -> ToolPart:
    if isinstance(value, str):
        return ToolPart(value)
    tool = Section.of(value, f"{where}: tool", TOOL_KEYS)
    if not tool.text("name"):
        raise SpecError(f"{tool.where}: needs a name")
    return ToolPart(tool.text("name"), tool.text("summary"), tool.texts("paths"))


def _write(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SpecError(f"{where}: write must be a mapping of path to text; found {kind_of(value)}")
    files = {path: text for path, text in value.items() if path != LINE}
    for path, text in files.items():
        if not isinstance(path, str) or not isinstance(text, str):
            raise SpecError(f"{where}: write must map a path to a text; found {path!r}: {kind_of(text)}")
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise SpecError(f"{where}: write: {path!r} leaves the working directory; give a path inside it")
    return files


def _usage(value: Any, where: str) -> UsagePart:
    usage = Section.of(value, f"{where}: usage", USAGE_KEYS)
    return UsagePart(
        usage.integer("input_tokens"),
        usage.integer("output_tokens"),
        usage.number("cost_usd"),
        usage.integer("cache_write_tokens"),
        usage.integer("cache_read_tokens"),
    )


def _failure(value: Any, where: str) -> FailureClass:
    try:
        return FailureClass(value)
    except ValueError:
        raise SpecError(f"{where}: fail is {value!r}; allowed: {', '.join(FailureClass)}") from None
