"""`relay mcp install`: writes the room's server into the configuration of agents' programs: of each program of
`relay.agents.programs` that says where its servers stand (`Preset.servers`).

Invariants: nothing that stands in those files is lost; a second run keeps all, key and name too; an entry of
another room is not taken over unasked; no secret gets into a file of the project, and none on the screen; a file
that cannot be changed safely is left alone, and the snippet is shown.

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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.agents.registry import presets
from relay.agents.setup.mcp import ServersFile
from relay.app.mcp import hint as mcp_hint
from relay.app.mcp.client_configs import SERVER, CannotEdit, entry_of, put
from relay.app.mcp.entry_merge import Wanted, meet
from relay.app.runtime.identity import WrongUse, find_config
from relay.base.files import write_atomically
from relay.config.command_line import command
from relay.config.loading import ConfigError, load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.model.speaker_names import MAX_AGENT_NAME, clean_name, is_reserved, spelled

Json = dict[str, Any]
COULD_NOT, WRONG_USE = 1, 2
_HIDDEN = "(the key)"
#: Said where the database's address is in nobody's file (docs/mcp.md, "Set up").
_NEEDS_KEY = (
    "This room's database is PostgreSQL, whose address those programs do not have, so {programs} must come "
    "through the running room with a key: {create} makes one; start the program with it as RELAY_API_KEY in "
    "its environment, or write it into your own file with `--key --scope user`. Without one the tools say so and end."
)


def known() -> dict[str, ServersFile]:
    """Where each program keeps its servers, by its name in the configuration."""
    return {name: preset.servers for name, preset in presets().items() if preset.servers is not None}


@dataclass(frozen=True, slots=True)
class Target:
    """One program's file, and what is to stand in it (`wanted.entry` None: nothing of ours); `hint`: the file of the
    project that its agents read first."""

    program: str
    scope: str
    path: Path
    form: str
    wanted: Wanted
    private: bool = False
    hint: Path = Path()


def snippet(form: str, entry: Json) -> str:
    """What to write by hand, without the secret."""
    if "RELAY_API_KEY" in entry["env"]:
        entry = {**entry, "env": {**entry["env"], "RELAY_API_KEY": _HIDDEN}}
    return put(form, "", entry)


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    options = _parser().parse_args(words)
    try:
        settings = load_for_command(find_config(options.config, os.environ, Path.cwd()))
        key = _key(options)
        targets = [_target(program, settings, options, key, os.environ) for program in _programs(options)]
    except (WrongUse, ConfigError) as error:
        print(f"relay mcp install: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, WrongUse) else COULD_NOT
    if options.print:
        return _print(targets, as_json=options.json)
    done = [_apply(target) for target in targets]
    _hints(targets, done, options)
    if options.json:
        print(json.dumps(done))
    else:
        for result in done:
            print(_line(result), file=sys.stderr if result["refused"] else sys.stdout)
            if sentence := _of_hint(result):
                print(sentence, file=sys.stderr if result["hint"]["refused"] else sys.stdout)
        if keyless := [result["program"] for result in done if result["needs_key"]]:
            print(_NEEDS_KEY.format(programs=" and ".join(keyless), create=command("keys create NAME")))
    return (
        COULD_NOT if any(result["refused"] or (result["hint"] or {}).get("refused") for result in done) else 0
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay mcp install",
        description="Write the room's MCP server into the configuration of your agents' programs.",
    )
    programs = known()
    yours = ", ".join(name for name, file in programs.items() if file.scope == "user")
    project = ", ".join(name for name, file in programs.items() if file.scope == "project")
    hints = ", ".join(dict.fromkeys(file.hint for file in programs.values()))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(programs)} or all (all)")
    parser.add_argument(
        "--scope",
        choices=("project", "user"),
        help=f"whose configuration: the project's ({project}) or yours ({yours}), else as said",
    )
    parser.add_argument("--project", type=Path, help="the project's folder (else the room's codebase)")
    parser.add_argument("--name", help="the agent's name in the room (else the program's)")
    parser.add_argument(
        "--key", action="store_true", help="write RELAY_API_KEY into your own configuration, too"
    )
    parser.add_argument("--no-key", action="store_true", help="remove an installed RELAY_API_KEY")
    parser.add_argument("--force", action="store_true", help="also change an entry that names another room")
    parser.add_argument(
        "--hint",
        action=argparse.BooleanOptionalAction,
        help=f"write a short hint on the room's tools into the project's {hints} (else it is "
        "asked at a terminal, and not written elsewhere)",
    )
    parser.add_argument("--remove", action="store_true", help="remove it again")
    parser.add_argument("--print", action="store_true", help="only print what would be written")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_config_option(parser)
    return parser


def _programs(options: argparse.Namespace) -> list[str]:
    named = options.programs or ["all"]
    programs = known()
    unknown = [program for program in named if program not in programs and program != "all"]
    if unknown:
        raise WrongUse(f"{unknown[0]} is not a known program: {', '.join(programs)} or all.")
    return list(programs) if "all" in named else list(dict.fromkeys(named))


def _key(options: argparse.Namespace) -> str | None:
    if not options.key:
        return None
    if options.no_key:
        raise WrongUse("Give --key or --no-key, not both.")
    if options.scope != "user":
        raise WrongUse("--key needs --scope user: a project's file may be committed, and a key must not be.")
    key = os.environ.get("RELAY_API_KEY", "").strip()
    if not key:
        raise WrongUse("--key takes the key from RELAY_API_KEY, which is not set.")
    return key


def _target(
    program: str, settings: Settings, options: argparse.Namespace, key: str | None, environ: Mapping[str, str]
) -> Target:
    file = known()[program]
    scope = options.scope or file.scope
    project = (options.project or settings.repo).expanduser().absolute()
    if not project.is_dir():
        raise WrongUse(f"{project} is not a folder.")
    names = settings.agent_names
    entry = (
        None
        if options.remove
        else file.entry(_entry(settings.path, agent_name(program, options.name, names), key))
    )
    wanted = Wanted(
        settings.path,
        entry,
        force=options.force,
        keep_key=key is None and options.name is None and not options.no_key,
        keep_name=key is None and options.name is None,
        through_room=settings.storage == "postgres" and settings.postgres.dsn_file is None,
    )
    path = project / file.project if scope == "project" else file.user(environ, Path.home())
    return Target(program, scope, path, file.form, wanted, private=key is not None, hint=project / file.hint)


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


def _entry(config: Path, agent: str, key: str | None) -> Json:
    command, *words = _command()
    args = [*words, "mcp"] if key is not None else [*words, "mcp", "--agent", agent]
    env = {"RELAY_CONFIG": str(config)} | ({"RELAY_API_KEY": key} if key is not None else {})
    return {"command": command, "args": args, "env": env}


def _command() -> list[str]:
    """This installation's program: the agent's program may know another PATH."""
    own = Path(sys.prefix) / "bin" / "relay"
    # -P: the folder is mostly the codebase, and no module of it may stand in for one of ours.
    return [str(own)] if own.exists() else [sys.executable, "-P", "-m", "relay.cli"]


def _print(targets: list[Target], *, as_json: bool) -> int:
    shown = [
        (target, snippet(target.form, target.wanted.entry))
        for target in targets
        if target.wanted.entry is not None
    ]
    if as_json:
        snippets = [
            {"program": target.program, "path": str(target.path), "snippet": text} for target, text in shown
        ]
        print(json.dumps(snippets))
        return 0
    for target, text in shown:
        print(f"{presets()[target.program].title}, in {target.path}:\n\n{text}")
    return 0


def _apply(target: Target) -> Json:
    result: Json = {"program": target.program, "scope": target.scope, "path": str(target.path)}
    result |= {"changed": False, "refused": None, "needs_key": False}
    path = target.path.resolve()  # a link to a file that is kept elsewhere stays one
    if target.wanted.entry is not None:
        result["snippet"] = snippet(target.form, target.wanted.entry)
    try:
        there = path.read_bytes().decode("utf-8") if path.exists() else ""
        met = meet(target.wanted, entry_of(target.form, there))
        result |= {"room_before": met.room_before, "kept": met.kept, "dropped": met.dropped}
        if met.refused:
            result["refused"] = met.refused
            return result
        if met.entry is not None:
            result |= {"snippet": snippet(target.form, met.entry), "agent": met.agent}
            result["needs_key"] = target.wanted.through_room and "RELAY_API_KEY" not in met.entry["env"]
        text = put(target.form, there, met.entry)
        if text != there:
            _write(path, text, private=target.private)
            result["changed"] = True
        elif target.private and path.exists():
            path.chmod(0o600)
    except (OSError, UnicodeDecodeError, CannotEdit) as error:
        result["refused"] = str(error)
    return result


def _hints(targets: Sequence[Target], done: Sequence[Json], options: argparse.Namespace) -> None:
    """Write the hint that agents read first, where that is wanted, or take it out; each answer's `hint` says what was
    done, None = nothing."""
    new = [] if options.remove else [target for target in targets if not mcp_hint.hinted(target.hint)]
    wanted = options.hint
    if wanted is None and new and not options.json and sys.stdin.isatty():
        names = " and ".join(dict.fromkeys(str(target.hint) for target in new))
        print(
            "\nAgents that load tools only when needed may never find the room's. This hint tells them:\n\n"
            + mcp_hint.TEXT
            + "\n"
        )
        try:
            wanted = input(f"Write it into {names}? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            wanted = False
    for target, result in zip(targets, done, strict=True):
        there = mcp_hint.hinted(target.hint)
        result["hint"] = None
        # A hint that stands there is brought up to date. Only --no-hint and --remove take it out.
        keep = not options.remove and (wanted or (there and options.hint is None))
        if not keep and not there:
            continue
        result["hint"] = {"path": str(target.hint), "changed": False, "refused": None}
        try:
            result["hint"]["changed"] = mcp_hint.write(target.hint, keep)
        except CannotEdit as error:
            result["hint"]["refused"] = str(error)


def _of_hint(result: Json) -> str:
    """What was done with the hint, in a sentence."""
    hint = result["hint"]
    if hint is None:
        return ""
    if hint["refused"]:
        return f"{hint['path']} is left as it is: {hint['refused']}."
    done = "now has" if mcp_hint.hinted(Path(hint["path"])) else "lost"
    return f"{hint['path']} {done} the hint on the room's tools." if hint["changed"] else ""


def _write(path: Path, text: str, *, private: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_atomically(path, text, 0o600 if private else mode)


def _line(result: Json) -> str:
    title, before = presets()[result["program"]].title, result.get("room_before")
    if result["refused"]:
        refusal = f"{title}: {result['path']} is left as it is: {result['refused']}."
        if before:
            own = (
                "--scope project names this room for this project only; " if result["scope"] == "user" else ""
            )
            return f"{refusal} {own}--force changes it anyway."
        return f"{refusal} Write this into it:\n\n{result['snippet']}" if "snippet" in result else refusal
    notes = [f"Until now it named the room {before}."] if before else []
    notes += (
        [f"Kept {', '.join(result['kept'])} (--name or --no-key changes that)."] if result["kept"] else []
    )
    notes += [f"Removed {', '.join(result['dropped'])}."] if result["dropped"] else []
    if "snippet" not in result:
        gone = (
            f"removed {SERVER} from {result['path']}"
            if result["changed"]
            else f"{result['path']} does not have it"
        )
        return f"{title}: {gone}."
    if not result["changed"]:
        return " ".join(filter(None, [f"{title}: {result['path']} has it already.", *notes]))
    notes = [
        f"{title}: wrote {SERVER} into {result['path']}.",
        *notes,
        known()[result["program"]].notes.get(result["scope"], ""),
    ]
    return " ".join(filter(None, notes)) + f"\n\n{result['snippet']}"
