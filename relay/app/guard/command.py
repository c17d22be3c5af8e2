"""`relay guard install|uninstall|status`: git's hooks that ask the room before a commit and a push.

Invariant: exit code 0 = done (status: they stand everywhere), 1 = could not (status: somewhere they do not),
2 = wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.app.guard import install_hooks
from relay.app.guard.install_hooks import CannotInstall, Repo
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import fail, safe, tame
from relay.config.command_line import command
from relay.config.loading import ConfigError, load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.store.open import opened_store
from relay.store.ports import StoreError


def main(arguments: list[str]) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="relay guard", description=__doc__)
    parser.add_argument("action", choices=("install", "uninstall", "status"))
    parser.add_argument(
        "--repo", type=Path, help="the repository (else the room's, and its agents' own clones)"
    )
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args(arguments)
    try:
        settings = load_for_command(args.config)
        repos = _repos(settings, args.repo)
        if args.action == "install" and settings.storage == "sqlite":
            # So that the first commit finds something to ask, whether the room was ever started or not; and before a
            # hook stands. On PostgreSQL the hooks ask the running room alone, which has its database.
            asyncio.run(_make_database(settings))
        results = [_act(args.action, repo, settings) for repo in repos]
    except (CannotInstall, ConfigError, StoreError, OSError) as error:
        return fail(str(error))
    if args.json:
        print(json.dumps({"repositories": results}))
    else:
        print("\n".join(safe(_text(args.action, tame(result))) for result in results))
        if args.action == "install":
            print(
                "An agent that you run yourself is known in its shells by the room's tools, which its program "
                f"starts: {command('mcp install')} sets them up."
            )
        elif args.action == "status" and not all(result["ok"] for result in results):
            print(f"{command('guard install')} installs them.")
    return 0 if args.action != "status" or all(result["ok"] for result in results) else 1


def _repos(settings: Settings, named: Path | None) -> Sequence[Repo]:
    """The repository that was named; else all that agents of the room work in."""
    if named is not None:
        return [Repo.at(named)]
    own = [agent.worktree for agent in settings.agents if agent.worktree is not None]
    folders = [settings.repo, *own, *(checkout.path for checkout in settings.workspace.checkouts)]
    repos: dict[Path, Repo] = {}
    for folder in folders:
        if folder.is_dir():
            repo = Repo.at(folder)
            repos.setdefault(repo.common, repo)
    return list(repos.values())


def _act(action: str, repo: Repo, settings: Settings) -> dict[str, Any]:
    done = True
    if action == "install":
        install_hooks.install(repo, settings.path)
    elif action == "uninstall":
        done = install_hooks.uninstall(repo)
    stands = install_hooks.hook_statuses(repo)
    return {
        "repo": str(repo.top),
        "ok": all(stand.ok for stand in stands),
        "done": done,
        "hooks": str(stands[0].folder) if stands else None,
        "worktrees": [{"path": str(stand.top), "missing": list(stand.missing)} for stand in stands],
    }


def _text(action: str, result: dict[str, Any]) -> str:
    repo = result["repo"]
    if action == "uninstall":
        return (
            f"{repo}: the hooks are gone." if result["done"] else f"{repo}: there were no hooks of relay's."
        )
    bad = [worktree for worktree in result["worktrees"] if worktree["missing"]]
    if not bad:
        return f"{repo}: the room is asked before each commit and push ({result['hooks']})."
    return "\n".join(
        f"{entry['path']}: these hooks do not ask the room: {', '.join(entry['missing'])}" for entry in bad
    )


async def _make_database(settings: Settings) -> None:
    async with opened_store(settings, SCHEMAS):
        pass
