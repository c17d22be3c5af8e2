"""`relay verify-policy`: which policies there are, which would run for some files, and those that come with relay.

Invariant: exit code 0 = done, 1 = the policies have faults (each with file and line), 2 = wrong use. Nothing runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relay.base.terminal_text import fail, indented, safe, safe_line
from relay.config.command_line import command
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find
from relay.config.settings import LiveSettings, Settings
from relay.store.ports import StoreMissing
from relay.verification.policies import TIERS, Policy, Routing, route
from relay.verification.policy_files import SHIPPED, BadPolicies, load_policies
from relay.verification.policy_list import Policies


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code."""
    args = _parser().parse_args(words)
    settings = load_for_command(find(args.config))
    folder = settings.policies_dir
    if args.action == "install":
        return _install(folder, args.names)
    try:
        policies = asyncio.run(_policies(settings))
    except BadPolicies as error:
        problems = [{"file": file, "line": line, "problem": text} for file, line, text in error.problems]
        if args.json:
            print(json.dumps({"problems": problems}))
        return fail(f"The policies in {folder} cannot be used:\n{error}", 1)
    except OSError as error:
        return fail(f"{folder} cannot be read: {error.strerror}", 2)
    if args.action == "list":
        told: Any = {"folder": str(folder), "policies": [policy.as_json() for policy in policies]}
        text = _listed(policies, folder)
    else:
        try:
            paths = [_from_root(path, settings) for path in args.paths]
        except ValueError as error:
            return fail(str(error), 2)
        routing = route(policies, paths)
        told, text = routing.as_json(), _explained(routing, folder)
    print(json.dumps(told) if args.json else text)
    return 0


async def _policies(settings: Settings) -> tuple[Policy, ...]:
    """Those of the folder, and where there is a room those that people made by HTTP. Raises BadPolicies, OSError,
    StoreError."""
    from relay.app.wiring.schema import SCHEMAS
    from relay.store.open import opened_store

    try:
        async with opened_store(settings, SCHEMAS, create=False) as store:
            return await Policies(store, LiveSettings(settings)).all()
    except StoreMissing:
        return load_policies(settings.policies_dir)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay verify-policy",
        description="Verification policies: YAML files that say which files of a change are verified how.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser("explain", help="which policies would run for these files, and why")
    explain.add_argument("paths", nargs="+", metavar="PATH", help="files, there or not")
    listed = actions.add_parser("list", help="the policies, checked")
    install = actions.add_parser("install", help="copy policies that come with relay into the folder")
    install.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(shipped())} (all)")
    for each in (explain, listed, install):
        if each is not install:
            each.add_argument("--json", action="store_true", help="print the answer as JSON")
        add_config_option(each)
    return parser


def shipped() -> list[str]:
    """The names of the files that come with relay."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def _from_root(text: str, settings: Settings) -> str:
    """A path from the root of the repository. Raises ValueError where it is outside."""
    path = Path(text)
    if not path.is_absolute():
        return path.as_posix()
    try:
        return path.resolve().relative_to(settings.repo.resolve()).as_posix()
    except ValueError:
        raise ValueError(f"{text} is not in {settings.repo}") from None


def _install(folder: Path, names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in shipped()]
    if unknown:
        return fail(f"No policies called {unknown[0]!r} come with relay; there are {', '.join(shipped())}", 2)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or shipped():
            to = folder / f"{name}.yaml"
            if to.exists():
                print(f"{safe(str(to))} is there already, and stays as it is.")
            else:
                shutil.copyfile(SHIPPED / f"{name}.yaml", to)
                print(f"Made {safe(str(to))}. Change it to what your project runs.")
    except OSError as error:
        return fail(f"{folder} cannot be written: {error.strerror}", 2)
    return 0


def _listed(policies: Sequence[Policy], folder: Path) -> str:
    if not policies:
        return (
            f"{folder} has no policies: nothing is verified. {command('verify-policy install')} makes some."
        )
    return "\n".join(indented(_line(policy)) for policy in policies)


def _line(policy: Policy) -> str:
    run = " ".join(policy.run) or policy.workflow
    return safe_line(
        f"{policy.name}: tier {policy.tier} ({TIERS[policy.tier]}), {policy.executor}"
        + (f" `{run}`" if run else "")
        + (", a person approves" if policy.requires_approval else "")
        + f" ({policy.at})"
    )


def _explained(routing: Routing, folder: Path) -> str:
    lines = []
    for match in routing.matches:
        decides = " It decides." if match.policy is routing.decides else ""
        lines.append(f"{_line(match.policy)}.{decides}")
        lines += [f"  {safe(path)} by `{safe(match.policy.pattern_of(path))}`" for path in match.paths]
        lines += [f"  {safe(path)} is excluded" for path in match.excluded]
    for match in routing.left_out:
        lines.append(
            f"{safe(match.policy.name)} does not run: it excludes {safe(', '.join(match.excluded))}."
        )
    if routing.unmatched:
        lines.append(f"No policy is for {safe(', '.join(routing.unmatched))}.")
    if not routing.matches:
        lines.append(
            f"Nothing would run: the change would count as not tested. The policies are in {folder}."
        )
    return "\n".join(lines)
