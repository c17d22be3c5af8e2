"""`relay mcp install`: writes the room's server into the configuration of Claude Code, Codex and Gemini CLI.

Invariants: nothing that stands in those files is lost; doing it again changes nothing; no secret gets into a file of
the project, and none on the screen; a file that cannot be changed safely is left alone, and the snippet is shown.

Who speaks is given as `--agent`, which the environment overrules: an agent that the room itself starts in this
folder reads the same file, and keeps its own name. Formats as Claude Code 2.1.330, Codex 0.169.0 and Gemini CLI
0.61.0 list them (docs/mcp.md).
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.config import ConfigError, Settings, load
from relay.files import write_atomically
from relay.mcp_files import SERVER, CannotEdit, put
from relay.mcp_identity import WrongUse, find_config, spelled
from relay.model import PROGRAMS
from relay.room.mentions import MAX_AGENT_NAME, clean_name, is_reserved

Json = dict[str, Any]
COULD_NOT, WRONG_USE = 1, 2
#: Milliseconds that a program waits for a tool: the longest wait for a lock is 300 s (docs/coordination.md).
PATIENCE_MS = 330_000
#: Seconds that Codex waits for the start: it takes about 1 s, and more on a loaded machine.
START_S = 20
#: What Codex hands on of its own environment, besides a fixed few: the identity that the room gives its agents.
HANDED_ON = ("RELAY_AGENT_ID", "RELAY_AGENT_TYPE", "RELAY_SESSION_ID", "RELAY_API_KEY")
_HIDDEN = "(the key)"


@dataclass(frozen=True, slots=True)
class Target:
    """One program's file, and what is to stand in it (`entry` None: nothing of ours)."""

    program: str
    path: Path
    form: str
    entry: Json | None
    private: bool = False

    def snippet(self, *, secret: str | None = None) -> str:
        """What to write by hand, without the secret."""
        entry = json.loads(json.dumps(self.entry))
        if secret is not None:
            entry["env"]["RELAY_API_KEY"] = _HIDDEN
        return put(self.form, "", entry)


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    options = _parser().parse_args(words)
    try:
        settings = load(find_config(options.config, os.environ, Path.cwd()))
        key = _key(options)
        targets = [_target(program, settings, options, key, os.environ) for program in _programs(options)]
    except (WrongUse, ConfigError) as error:
        print(f"relay mcp install: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, WrongUse) else COULD_NOT
    if options.print:
        return _print(targets, key, as_json=options.json)
    done = [_apply(target, key) for target in targets]
    if options.json:
        print(json.dumps(done))
    else:
        for one in done:
            print(_said(one), file=sys.stderr if one["refused"] else sys.stdout)
    return COULD_NOT if any(one["refused"] for one in done) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay mcp install",
        description="Write the room's MCP server into the configuration of your agents' programs.",
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="claude, codex, gemini or all (all)")
    parser.add_argument(
        "--scope",
        choices=("project", "user"),
        help="whose configuration: the project's (claude, gemini) or yours (codex), else as said",
    )
    parser.add_argument("--project", type=Path, help="the project's folder (else the room's codebase)")
    parser.add_argument("--name", help="the agent's name in the room (else the program's)")
    parser.add_argument(
        "--key", action="store_true", help="write RELAY_API_KEY into your own configuration, too"
    )
    parser.add_argument("--remove", action="store_true", help="take it out again")
    parser.add_argument("--print", action="store_true", help="only print what would be written")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.add_argument(
        "--config", help="the room's configuration (else RELAY_CONFIG, else this folder's room)"
    )
    return parser


def _programs(options: argparse.Namespace) -> list[str]:
    named = options.programs or ["all"]
    unknown = [one for one in named if one not in PROGRAMS and one != "all"]
    if unknown:
        raise WrongUse(f"{unknown[0]} is no program that it knows: {', '.join(PROGRAMS)} or all.")
    return list(PROGRAMS) if "all" in named else list(dict.fromkeys(named))


def _key(options: argparse.Namespace) -> str | None:
    if not options.key:
        return None
    if options.scope != "user":
        raise WrongUse("--key wants --scope user: a project's file may be committed, and a key must not be.")
    key = os.environ.get("RELAY_API_KEY", "").strip()
    if not key:
        raise WrongUse("--key takes the key from RELAY_API_KEY, which is not set.")
    return key


def _target(
    program: str, settings: Settings, options: argparse.Namespace, key: str | None, environ: Mapping[str, str]
) -> Target:
    scope = options.scope or ("user" if program == "codex" else "project")
    project = (options.project or settings.repo).expanduser().absolute()
    if not project.is_dir():
        raise WrongUse(f"{project} is no folder.")
    home = Path.home()
    places = {
        ("claude", "project"): project / ".mcp.json",
        ("claude", "user"): Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        ("codex", "project"): project / ".codex" / "config.toml",
        ("codex", "user"): Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml",
        ("gemini", "project"): project / ".gemini" / "settings.json",
        ("gemini", "user"): home / ".gemini" / "settings.json",
    }
    names = [agent.name for agent in settings.agents]
    entry = (
        None
        if options.remove
        else _entry(program, settings.path, agent_name(program, options.name, names), key)
    )
    form = "toml" if program == "codex" else "json"
    return Target(program, places[program, scope], form, entry, private=key is not None)


def agent_name(program: str, wanted: str | None, configured: Collection[str]) -> str:
    """Whom the program speaks for: as said, else the program's name, with yours before it when the room has an agent
    of that name already, which is somebody else. Raises WrongUse."""
    try:
        name = clean_name(wanted if wanted is not None else program, most=MAX_AGENT_NAME)
    except ValueError as error:
        raise WrongUse(f"--name: {error}") from None
    if is_reserved(name, ()):
        raise WrongUse(f"--name: {name} is the room's own name.")
    if wanted is None and spelled(name, configured) in configured:
        name = f"{getpass.getuser()}-{program}"[:MAX_AGENT_NAME]
    return spelled(name, configured)


def _entry(program: str, config: Path, agent: str, key: str | None) -> Json:
    command, *words = _command()
    said = [*words, "mcp"] if key is not None else [*words, "mcp", "--agent", agent]
    env = {"RELAY_CONFIG": str(config)} | ({"RELAY_API_KEY": key} if key is not None else {})
    entry: Json = {"command": command, "args": said, "env": env}
    if program == "codex":
        handed_on = [name for name in HANDED_ON if name not in env]
        return {
            **entry,
            "env_vars": handed_on,
            "startup_timeout_sec": START_S,
            "tool_timeout_sec": PATIENCE_MS // 1000,
        }
    entry["timeout"] = PATIENCE_MS
    return {"type": "stdio", **entry} if program == "claude" else entry


def _command() -> list[str]:
    """This installation's program: the agent's program may know another PATH."""
    own = Path(sys.prefix) / "bin" / "relay"
    # -P: the folder is mostly the codebase, and no module of it may stand in for one of ours.
    return [str(own)] if own.exists() else [sys.executable, "-P", "-m", "relay.cli"]


def _print(targets: list[Target], key: str | None, *, as_json: bool) -> int:
    shown = [target for target in targets if target.entry is not None]
    if as_json:
        told = [
            {"program": one.program, "path": str(one.path), "snippet": one.snippet(secret=key)}
            for one in shown
        ]
        print(json.dumps(told))
        return 0
    for one in shown:
        print(f"{PROGRAMS[one.program].title}, in {one.path}:\n\n{one.snippet(secret=key)}")
    return 0


def _apply(target: Target, key: str | None) -> Json:
    told: Json = {"program": target.program, "path": str(target.path), "changed": False, "refused": None}
    if target.entry is not None:
        told["snippet"] = target.snippet(secret=key)
    path = target.path.resolve()  # a link to a file that is kept elsewhere stays one
    try:
        there = path.read_bytes().decode("utf-8") if path.exists() else ""
        text = put(target.form, there, target.entry)
        if text != there:
            _write(path, text, private=target.private)
            told["changed"] = True
        elif target.private and path.exists():
            path.chmod(0o600)
    except (OSError, UnicodeDecodeError, CannotEdit) as error:
        told["refused"] = str(error)
    return told


def _write(path: Path, text: str, *, private: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_atomically(path, text, 0o600 if private else mode)


def _said(one: Json) -> str:
    title = PROGRAMS[one["program"]].title
    if one["refused"]:
        said = f"{title}: {one['path']} is left as it is: {one['refused']}."
        return f"{said} Write this into it:\n\n{one['snippet']}" if "snippet" in one else said
    if not one["changed"]:
        return f"{title}: {one['path']} says so already."
    if "snippet" not in one:
        return f"{title}: took {SERVER} out of {one['path']}."
    note = " Codex reads it in folders that it trusts." if one["path"].endswith(".codex/config.toml") else ""
    return f"{title}: wrote {SERVER} into {one['path']}.{note}\n\n{one['snippet']}"
