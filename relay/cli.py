"""`relay`: the room's commands.

Invariant: exit code 0 = did it, 1 = could not, 2 = wrong use; what went wrong is said on standard error, with
what to do. Only the module of the command that was given is imported: `relay link` must not wait for a daemon's
imports.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from importlib import import_module
from types import ModuleType

from relay import __version__
from relay.base.terminal_text import fail
from relay.config.loading import ConfigError
from relay.config.locate import add_config_option
from relay.store.ports import StoreError

#: The commands in the order of the help, each with its summary. A command has the module of its name in
#: `relay.app.commands`, but for `_ELSEWHERE`; those of `_OWN` have `main(words)` with a parser of their own, the
#: others `arguments(parser)` and `run(args)`.
COMMANDS = {
    "run": "Start the room's daemon in the background, and wait until it answers.",
    "join": "Join the room from this terminal (`relay join --help`).",
    "guard": "Ask the room before each edit (`hook`), commit and push (`install`, `uninstall`, `status`).",
    "mcp": "The room's tools for an agent, over MCP (`relay mcp --help`).",
    "attach": "Let your own sessions of Claude Code and Codex into the room (`relay attach --help`).",
    "detach": "Undo `relay attach`: every file is as it was.",
    "airspace": "How close agents are in the code (`relay airspace --help`).",
    "agents": "Can each agent take a turn (`doctor`), what do their turns cost (`cost`), and setting one (`set`).",
    "inbox": "What needs you in the room, and doing something about it (`relay inbox --help`).",
    "notify": "Who outside is told what needs you, and a message to try it (`relay notify --help`).",
    "review": "What an agent's branch changes, and your comments on it (`relay review --help`).",
    "message": "Change or delete a message of your own, pin one (`relay message --help`).",
    "locks": "Show who holds which files, or take a lock from its holder (`relay locks --help`).",
    "work": "Show the tasks, submit, change, give or import some (`relay work --help`).",
    "sessions": "Show the sessions of agents, or end one (`relay sessions --help`).",
    "changesets": "Show what sessions said they changed (`relay changesets --help`).",
    "memory": "What was learned: import it, find it, forget it (`relay memory --help`).",
    "keys": "Make, list and revoke API keys (`relay keys --help`).",
    "link": "Print a sign-in link for the page: it works once, within 10 minutes.",
    "log": "Show the daemon's log and follow it.",
    "archive": "Move old entries out of the transcript; they stay searchable.",
    "worktrees": "Show the agents' worktrees; merge, discard or remove one, or run its app.",
    "explore": "Do a task in several ways at once, and keep the best (`relay explore --help`).",
    "merge": "Merge what git cannot, and say what conflicts (`relay merge --help`).",
    "land": "Land agents' branches by a queue that tests them together (`relay land --help`).",
    "verify-policy": "Which files of a change are verified how (`relay verify-policy --help`).",
    "metrics": "What came of the work, as figures with their targets and definitions.",
    "timeline": "Who changed which file, and what its author had seen (`relay timeline --help`).",
    "fleet": "The relays that share this room, on several machines (`relay fleet --help`).",
    "verify": "Check every event of the log against its hash, its causes and its lane.",
    "demo": "Three agents in a throw-away codebase: with the airspace, and without it.",
}
_ELSEWHERE = {
    "airspace": "relay.app.commands.airspace.command",
    "attach": "relay.app.attach.command",
    "detach": "relay.app.attach.detach_command",
    "join": "relay.faces.terminal.main",
    "guard": "relay.guard_cli",
    "mcp": "relay.app.mcp.command",
    "explore": "relay.app.merge.exploration.command",
    "merge": "relay.app.merge.command",
    "timeline": "relay.app.timeline.command",
    "land": "relay.app.verification.commands.land_command",
    "verify-policy": "relay.app.verification.commands.policy_command",
    "metrics": "relay.app.verification.metrics.command",
    "memory": "relay.app.memory.command",
    "demo": "relay.app.demo.story",
    "inbox": "relay.app.needs.command",
    "notify": "relay.app.notify.command",
    "review": "relay.app.review.command",
    "message": "relay.app.entries.command",
}
_OWN = frozenset(
    {
        "join",
        "guard",
        "mcp",
        "attach",
        "detach",
        "airspace",
        "locks",
        "work",
        "sessions",
        "changesets",
        "keys",
        "explore",
        "timeline",
        "memory",
        "merge",
        "verify-policy",
        "land",
        "fleet",
        "inbox",
        "notify",
        "review",
        "message",
    }
)
#: Those that print with rich, or may run an executor that does.
_RICH = frozenset({"airspace", "demo", "explore", "land", "merge", "verify-policy"})


def main(argv: list[str] | None = None) -> int:
    """The command; gives its exit code."""
    words = _options_last(sys.argv[1:] if argv is None else argv)
    if argv is None:
        _lean(words)
    if _started_by_program(words):
        return _run(words)
    code = 0
    try:
        code = _run(words)
        sys.stdout.flush()  # here, where a reader that has gone is no error
        return code
    except (ConfigError, StoreError) as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code


def _lean(words: list[str]) -> None:
    """Make the imports of this process's command cheap. Most of what it makes stays, so garbage is looked for seldom;
    and structlog, which loads rich where it is there, does without. The daemon sees to its imports itself."""
    gc.set_threshold(20_000, 20)
    if not words or words[0] == "run":
        return
    hidden = "rich" not in sys.modules
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # the import system's word for "not there"
    if hidden and words[0] in _RICH:
        import structlog  # noqa: F401  (it looks for rich now, and not again)

        del sys.modules["rich"]


def _started_by_program(words: list[str]) -> bool:
    """Does a program start this, and so end it as it wants? `join` has its terminal."""
    match words:
        case ["join", *_]:
            return True
        case ["guard", hook, *_]:
            return hook == "hook" or hook.startswith("pre-")
        case ["mcp", *rest]:
            return rest[:1] != ["install"]
    return False


def _options_last(words: list[str]) -> list[str]:
    """`relay COMMAND --config PATH --json REST` with its options behind the rest: a command that has commands of its
    own takes them on either side."""
    command, rest, options = words[:1], words[1:], list[str]()
    while rest and (rest[0] in ("--config", "--json") or rest[0].startswith("--config=")):
        many = 2 if rest[0] == "--config" else 1
        options, rest = options + rest[:many], rest[many:]
    return command + (rest + options if rest and not rest[0].startswith("-") else options + rest)


def _run(words: list[str]) -> int:
    name = words[0] if words else ""
    if name in _OWN:
        return int(_module(name).main(words[1:]))
    if name not in COMMANDS:
        parser().parse_args(words)  # says what there is, or the version
        return 2
    made = of_command(name)
    plain = all(action.nargs != argparse.PARSER for action in made._actions)
    # An option may stand before a name: `worktrees merge --dry-run AVA`. Commands of a command cannot be mixed so.
    args = made.parse_intermixed_args(words[1:]) if plain else made.parse_args(words[1:])
    return int(_module(name).run(args))


def _module(command: str) -> ModuleType:
    return import_module(_ELSEWHERE.get(command, f"relay.app.commands.{command}"))


def parser() -> argparse.ArgumentParser:
    """All commands by name."""
    made = argparse.ArgumentParser(
        prog="relay", description="The shared room where people and coding agents work on one codebase."
    )
    made.add_argument("--version", action="version", version=f"relay {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, description=text, add_help=name not in _OWN)
    return made


def of_command(name: str) -> argparse.ArgumentParser:
    """The arguments of one command."""
    made = argparse.ArgumentParser(prog=f"relay {name}", description=COMMANDS[name])
    add_config_option(made)
    _module(name).arguments(made)
    return made


if __name__ == "__main__":
    sys.exit(main())
