"""config.json -> `Settings`, and back for one agent's keys.

Invariant: what is wrong with a file stops its load, all of it at once, each with its key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.base.files import alone_in, read_regular, write_atomically
from relay.config import jsonc
from relay.config.airspace import worktree_problems
from relay.config.checks import Problem, Reading, read_section, table
from relay.config.command_line import about
from relay.config.handoffs import handoff_problems
from relay.config.locate import advice, find
from relay.config.merge import strategy_problems
from relay.config.notify import notify_problems
from relay.config.settings import AgentSettings, JitterSettings, Settings

AGENT_NAME = re.compile(r"[A-Z][A-Z0-9_-]{0,31}")
#: Characters of a member's name: git takes no ref that is much longer.
MOST_MEMBER = 60
#: As in relay.model, which stands above this module and cannot be asked; a test holds the two together.
RESERVED_NAMES = frozenset({"RELAY", "DISPATCHER", "ALL"})


#: Schemes that a browser follows by itself.
_NO_EDITOR = frozenset(
    {"http", "https", "ws", "wss", "ftp", "file", "data", "blob", "javascript", "vbscript", "about"}
)


class ConfigError(Exception):
    """The configuration cannot be used; `problems` are all that is wrong with the file at `path`."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        if len(self.problems) == 1 and not self.problems[0].key:
            # Of the file itself, which may not even be there: "has a problem" would be odd.
            super().__init__(f"{path}: {self.problems[0]}")
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{path} has {count}:", *(f"  {problem}" for problem in self.problems)]))


def load(path: str | os.PathLike[str] | None = None) -> Settings:
    """The settings in `path` (None: where `find` says). Raises ConfigError with all that is wrong."""
    at = find(path)
    return parse(_text_of(at), at)


def load_for_command(path: str | os.PathLike[str] | None, *, away: bool = False) -> Settings:
    """As `load`; from now on the commands in messages are for this room (`command_line.about`)."""
    settings = load(path)
    about(settings.path, away=away)
    return settings


def _text_of(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(path, [Problem("", "there is no such file", hint=advice(Path.cwd()))]) from None
    except OSError as error:
        raise ConfigError(path, [Problem("", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(path, [Problem("", f"byte {error.start} is not UTF-8")]) from None


def parse(text: str, path: Path) -> Settings:
    """The settings in `text`, as if it stood in the file at `path` (absolute). Raises ConfigError."""
    try:
        tree = jsonc.parse(text)
    except jsonc.JsonError as error:
        raise ConfigError(path, [Problem("", f"is not JSON: {error}")]) from None
    reading = Reading(path.parent, tuple(key.path for key in table(Settings)))
    settings = read_section(Settings, tree, "", reading, path=path)
    problems = [*reading.problems, *_rules(tree)]
    if problems:
        raise ConfigError(path, problems)
    assert isinstance(settings, Settings)
    return replace(settings, agents=tuple(_at_home(agent, path.parent) for agent in settings.agents))


def _at_home(agent: AgentSettings, folder: Path) -> AgentSettings:
    """A program that is named by a relative path is a path like any other; `claude` alone is not."""
    if not agent.cmd or "/" not in agent.cmd[0]:
        return agent
    return replace(agent, cmd=(str(folder / agent.cmd[0]), *agent.cmd[1:]))


def _rules(tree: object) -> list[Problem]:
    """What types cannot say. Looks at the plain tree, so that it speaks up beside any other problem."""
    problems: list[Problem] = []
    if not isinstance(tree, dict):
        return problems
    seen: dict[str, int] = {}
    agents = tree.get("agents")
    for index, agent in enumerate(agents if isinstance(agents, list) else []):
        if isinstance(agent, dict):
            problems += _agent_rules(agent, f"agents[{index}]", seen, index)
    dispatcher = tree.get("dispatcher")
    host = dispatcher.get("ollama_host") if isinstance(dispatcher, dict) else None
    if isinstance(host, str) and not re.fullmatch(r"https?://[^\s/]+/?", host):
        problems.append(Problem("dispatcher.ollama_host", f'found "{host}"', "http://HOST:PORT"))
    jitter = tree.get("jitter")
    busy, medium = (
        (jitter.get("busy", JitterSettings().busy), jitter.get("medium", JitterSettings().medium))
        if isinstance(jitter, dict)
        else (1, 1)
    )
    if isinstance(busy, int) and isinstance(medium, int) and medium > busy:
        problems.append(Problem("jitter.medium", f"found {medium}", f"at most jitter.busy, {busy}"))
    fleet = tree.get("fleet")
    member = fleet.get("name") if isinstance(fleet, dict) else None
    # It is a part of a git ref, a lock's name and a line of the room.
    if isinstance(member, str) and (len(member) > MOST_MEMBER or not member.isprintable()):
        rule = f"{MOST_MEMBER} characters at most, without line breaks and control characters"
        problems.append(Problem("fleet.name", f"found {json.dumps(member[:40])}", rule))
    ui = tree.get("ui")
    editor = ui.get("editor") if isinstance(ui, dict) else None
    if isinstance(editor, str) and editor and not _opens_editor(editor):
        rule = (
            'an address like "zed://file{path}:{line}", of a program and not of a browser (http:, '
            "javascript:, ...), with {path} and no other place than {line}"
        )
        problems.append(Problem("ui.editor", f"found {json.dumps(editor[:60])}", rule))
    timeline = tree.get("timeline")
    digests = timeline.get("not_secret") if isinstance(timeline, dict) else None
    for index, digest in enumerate(digests if isinstance(digests, list) else []):
        if isinstance(digest, str) and not re.fullmatch(r"[0-9a-f]{16}", digest):
            # Not shown: a person may have put the text itself there.
            rule = "16 hex digits, as `relay timeline push` names them"
            problems.append(Problem(f"timeline.not_secret[{index}]", "is no digest", rule))
    problems += [*worktree_problems(tree), *handoff_problems(tree), *notify_problems(tree)]
    return [*problems, *strategy_problems(tree, [*seen])]


def _opens_editor(template: str) -> bool:
    """Is it an address of a program on a person's machine, and of nothing that a browser runs or loads itself?"""
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://[\x21-\x7e]+\Z", template)
    places = re.findall(r"\{[^{}]*\}", template)
    rest = re.sub(r"\{(path|line)\}", "", template)
    plain = "{" not in rest and "}" not in rest
    return scheme is not None and scheme[1] not in _NO_EDITOR and plain and places.count("{path}") == 1


def _agent_rules(agent: dict[str, Any], at: str, seen: dict[str, int], index: int) -> list[Problem]:
    problems: list[Problem] = []

    def refuse(key: str, what: str, allowed: str = "", hint: str = "") -> None:
        problems.append(Problem(f"{at}.{key}", what, allowed, hint))

    name, kind = agent.get("name"), agent.get("kind", "command")
    if isinstance(name, str):
        rule = "A-Z, 0-9, _ and -, a letter first, 32 at most"
        # Not bent into upper case: a name is a speaker's tag, and must be greppable as it stands here.
        if not AGENT_NAME.fullmatch(name):
            fits = AGENT_NAME.fullmatch(name.upper())
            refuse("name", f'found "{name[:40]}"', rule, f'write "{name.upper()}"' if fits else "")
        elif name in RESERVED_NAMES:
            refuse("name", f'found "{name}", which is reserved', rule)
        elif name in seen:
            refuse("name", f'found "{name}", the name of agents[{seen[name]}] too', "a name of its own")
        seen.setdefault(name, index)
    for key in ("model", "effort"):
        value = agent.get(key)
        # They become words of a command line and lines of a log.
        if isinstance(value, str) and not value.isprintable():
            refuse(key, f"found {json.dumps(value[:40])}", "text without line breaks and control characters")
    if kind in ("command", "acp") and not agent.get("preset") and not agent.get("cmd"):
        refuse("cmd", "is missing", "a program, or a preset", 'give "preset" or "cmd"')
    if agent.get("preset") and agent.get("cmd"):
        refuse("cmd", "found beside a preset", "a program, or a preset", 'take out "preset" or "cmd"')
    if kind not in ("command", "acp") and agent.get("preset"):
        refuse("preset", f'found with kind "{kind}"', 'only with kind "command" or "acp"')
    if kind == "ollama" and not agent.get("model"):
        refuse("model", "is missing", 'with kind "ollama": the name of an Ollama model')
    if kind == "scripted" and not agent.get("script"):
        refuse("script", "is missing", 'with kind "scripted": the path of a YAML file')
    return problems


def update_agent(path: str | os.PathLike[str], name: str, changes: Mapping[str, Any]) -> Settings:
    """Change keys of one agent in the file, and give the new settings; None takes a key out.

    A mapping changes keys of an object. Every other byte stays; the file is replaced in one step. Raises ConfigError,
    and writes nothing, when the file or the result is not a good configuration, KeyError when it has no agent of that
    name, OSError.
    Blocks: call it in a thread.
    """

    def change(text: str, settings: Settings) -> str:
        names = settings.agent_names
        if name not in names:
            raise KeyError(name)
        at = ("agents", names.index(name))
        agent = jsonc.parse(text)["agents"][at[1]]
        for key, value in changes.items():
            if isinstance(value, Mapping) and isinstance(agent.get(key), dict):
                text = jsonc.change_object(text, (*at, key), value)
            else:
                text = jsonc.change_object(
                    text, at, {key: dict(value) if isinstance(value, Mapping) else value}
                )
        return text

    return _update(path, change)


def update_section(path: str | os.PathLike[str], section: str, changes: Mapping[str, Any]) -> Settings:
    """Change keys of a section in the file, which is made where it is missing; as `update_agent`."""

    def change(text: str, _: Settings) -> str:
        try:
            return jsonc.change_object(text, (section,), changes)
        except KeyError:
            return jsonc.change_object(text, (), {section: dict(changes)})

    return _update(path, change)


def _update(path: str | os.PathLike[str], change: Callable[[str, Settings], str]) -> Settings:
    at = Path(path).absolute()
    real = at.resolve()  # a link to a configuration stays a link
    # Read and written under one lock: of two that change it at once, the second builds on the first.
    with alone_in(real.parent):
        text = _text_of(at)
        changed = change(text, parse(text, at))
        settings = parse(changed, at)
        write_atomically(real, changed, real.stat().st_mode & 0o777)
    return settings
