"""One mapping of a YAML file, with the checks that every value goes through.

Invariant: what is wrong is noted with its line in `problems`, and reading goes on, so that a person sees every fault
at once.
"""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping of the file: its values by key. `name`: how errors call it; what is wrong joins `problems`."""

    name: str
    line: int
    values: Mapping[str, yaml.Node]
    problems: list[tuple[int, str]] = field(repr=False)

    @classmethod
    def of(
        cls, node: yaml.Node, name: str, allowed: Sequence[str], problems: list[tuple[int, str]]
    ) -> Section | None:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            problems.append(
                (line, f"{name} must be a mapping of {', '.join(allowed)}; found {kind_of(node)}")
            )
            return None
        values: dict[str, yaml.Node] = {}
        for key, value in node.value:
            at = key.start_mark.line + 1
            word = key.value if isinstance(key, yaml.ScalarNode) else kind_of(key)
            if word not in allowed:
                near = difflib.get_close_matches(word, allowed, 1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                text = f"unknown key `{word[:60]}` in {name}.{hint} Allowed: {', '.join(allowed)}"
                problems.append((at, text))
            elif word in values:
                problems.append((at, f"`{word}` stands twice in {name}"))
            else:
                values[word] = value
        return cls(name, line, values, problems)

    def wrong(self, key: str, text: str) -> None:
        """Note what is wrong with the value of a key, or that it is missing."""
        node = self.values.get(key)
        line = self.line if node is None else node.start_mark.line + 1
        self.problems.append((line, f"`{key}` of {self.name} {text}"))

    def plain(self, key: str) -> Any:
        """The value of a scalar; None where it is absent, null or no scalar (which is then noted)."""
        node = self.values.get(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(key, f"must be one value; found {kind_of(node)}")
            return None
        return scalar_of(node)

    def text(self, key: str, *, needed: bool = False) -> str | None:
        """A text that is not empty."""
        value = self.plain(key)
        if value is None:
            if needed and (key not in self.values or isinstance(self.values[key], yaml.ScalarNode)):
                self.wrong(key, "is missing" if key not in self.values else "is empty")
            return None
        if not isinstance(value, str):
            self.wrong(key, f"must be a text; found {value!r}. Put it in quotes")
            return None
        if not value.strip():
            self.wrong(key, "is empty")
            return None
        return value.strip()

    def number(self, key: str, *, whole: bool = False) -> float | None:
        """A number, 0 or more."""
        value = self.plain(key)
        if value is None:
            return None
        able = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not able or not math.isfinite(value) or value < 0:
            self.wrong(
                key, f"must be {'a whole number' if whole else 'a number'}, 0 or more; found {value!r}"
            )
            return None
        return value if whole else float(value)

    def truth(self, key: str, default: bool) -> bool:
        value = self.plain(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, f"must be true or false; found {value!r}")
            return default
        return value

    def words(self, key: str, *, needed: bool = True) -> tuple[str, ...]:
        """A command: a list of words, or one text that is split as a shell would, without running one."""
        node = self.values.get(key)
        if isinstance(node, yaml.SequenceNode):
            values = [scalar_of(item) if isinstance(item, yaml.ScalarNode) else None for item in node.value]
            found = [word for word in values if isinstance(word, str) and word]
            if not found or len(found) < len(values):
                self.wrong(key, "must be a list of texts, the program first")
                return ()
            return tuple(found)
        text = self.text(key, needed=needed)
        if text is None:
            return ()
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            self.wrong(key, f"cannot be split into words: {error}")
            return ()

    def section(self, key: str, allowed: Sequence[str]) -> Section | None:
        node = self.values.get(key)
        return None if node is None else Section.of(node, f"`{key}`", allowed, self.problems)

    def items(self, key: str) -> list[yaml.Node] | None:
        """The items of a list; None where it is no list."""
        node = self.values.get(key)
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        self.wrong(key, "is missing" if node is None else f"must be a list; found {kind_of(node)}")
        return None

    def pattern(self, key: str, *, needed: bool = False) -> str | None:
        """A pattern with exactly one figure: its named group, its first group, or all of it."""
        text = self.text(key, needed=needed)
        if text is None:
            return None
        try:
            return named_pattern(text)
        except (re.error, RecursionError, OverflowError, ValueError) as error:
            self.wrong(key, f"is no pattern: {error}")
            return None


def named_pattern(pattern: str) -> str:
    """The pattern with the figure in a named group, as a report is read. Raises re.error, ValueError."""
    compiled = re.compile(pattern)
    if len(compiled.groupindex) > 1:
        raise ValueError("it has several named groups, and one figure is wanted")
    if compiled.groupindex:
        return pattern
    if not compiled.groups:
        return f"(?P<value>{pattern})"
    at = _first_group(pattern)
    return f"{pattern[:at]}(?P<value>{pattern[at + 1 :]}"


def _first_group(pattern: str) -> int:
    """Where the first bracket of a group without a name stands."""
    at, inside = 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif inside:
            inside = char != "]"
        elif char == "[":
            inside = True
            # A closing bracket right at the beginning is a member.
            at += 1 + (pattern[at + 1 : at + 2] == "^")
            at -= pattern[at : at + 1] != "]"
        elif char == "(" and pattern[at + 1 : at + 2] != "?":
            return at
        at += 1
    raise ValueError("its group cannot be found; give it a name, (?P<value>...)")


def kind_of(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"`{str(node.value)[:40]}`"


def scalar_of(node: yaml.ScalarNode) -> Any:
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError):
        return node.value
