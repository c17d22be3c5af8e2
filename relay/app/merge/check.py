"""`relay merge check A B`: the conflicts between two branches or commits, on four levels (003, sections 6.1 to 6.3).

Invariant: nothing is written but to a scratch folder that is removed. Exit code 0 = no conflict was found, 1 = some
were, 2 = wrong use, or git cannot tell; then standard error says what to do, and standard output is empty. A level
that could not be looked at is named in `not_run`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.app.wiring.conflicts.sides import with_lanes
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import fail, indented, safe_line
from relay.checks.results import Check, CheckResult
from relay.checks.tree_command import TreeCommand
from relay.config.loading import load_for_command
from relay.config.locate import add_config_option, find
from relay.config.settings import Settings
from relay.faces.named_commits import NamedCommit, named_commit
from relay.git.checkout import UnusableCheckout, open_checkout
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.merge.conflicts.commits import Checked, RunTests, Unrelated, check_commits
from relay.merge.conflicts.conflict import LEVELS, Conflict
from relay.model import Refusal
from relay.store.open import opened_store
from relay.store.ports import StoreError, Tx

TESTS = "merge.test"


def main(argv: Sequence[str]) -> int:
    """The command with these words; gives its exit code."""
    args = _parser().parse_args(argv)
    try:
        settings = room_settings(args.config, args.repo)
        checked = asyncio.run(_check(args.a, args.b, args.level, args.repo, settings))
    except (Refusal, UnusableCheckout, Unrelated, GitError) as error:
        return fail(str(error), 2)
    if args.json:
        print(json.dumps(as_json(checked)))
    else:
        _show(checked, args.level)
    return 1 if checked.conflicts else 0


def _parser() -> argparse.ArgumentParser:
    text = (
        "The conflicts between two branches or commits: 1 files that git cannot merge, 2 definitions that both "
        "change, 3 what one side changes and the other comes to rely on, 4 tests that fail on the merged tree only."
    )
    parser = argparse.ArgumentParser(prog="relay merge check", description=text)
    parser.add_argument("a", metavar="A", help="a branch, a commit, or an agent of the room")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument(
        "--level", type=_levels, default=LEVELS, metavar="N", help="only this level, or these: 2, 1-3 (1-4)"
    )
    parser.add_argument(
        "--repo", type=Path, default=None, metavar="DIR", help="the repository (the room's, or .)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_config_option(parser)
    return parser


def _levels(text: str) -> tuple[int, ...]:
    match = re.fullmatch(r"([1-4])(?:-([1-4]))?", text)
    if match is None or (match[2] and match[2] < match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no level: give 1, 2, 3 or 4, or some of them as 1-3")
    return tuple(range(int(match[1]), int(match[2] or match[1]) + 1))


def room_settings(option: str | None, repo: Path | None) -> Settings | None:
    """The configuration that was named, or that of the room that the repository lies in; None: there is none. Raises
    ConfigError."""
    # What a person names is from where they stand.
    named = Path(option).expanduser().absolute() if option is not None else None
    path = find(named, folder=repo.absolute() if repo is not None else None)
    if option is None and not path.is_file():
        return None
    return load_for_command(path)


def as_json(checked: Checked) -> dict[str, Any]:
    """As docs/conflicts.md has it."""
    return {
        "conflicts": [conflict.as_json() for conflict in checked.conflicts],
        "not_run": sorted(checked.not_run),
        "why_not": {str(level): why for level, why in sorted(checked.not_run.items())},
    }


async def _check(
    a: str, b: str, levels: Sequence[int], repo: Path | None, settings: Settings | None
) -> Checked:
    folder = repo or (settings.repo if settings is not None else Path())
    checkout = await open_checkout(folder)
    sides = [await named_commit(checkout, name, settings) for name in (a, b)]
    with tempfile.TemporaryDirectory(prefix="relay-check-") as made:
        scratch = ScratchRepository(Path(made) / "git")
        await scratch.empty(checkout.hash)
        await scratch.borrow([checkout])
        git = scratch.git(checkout)
        tests: RunTests | None = None
        if settings is not None and settings.merge.test:
            check = Check(TESTS, settings.merge.test, settings.merge.test_timeout_s)
            command = TreeCommand(git, Path(made) / "trees")

            async def run(tree: str) -> CheckResult:
                return await command.run(check, tree)

            tests = run
        checked = await check_commits(git, sides[0].commit, sides[1].commit, levels, tests, names=(a, b))
    return await _with_lanes(checked, sides, settings)


async def _with_lanes(checked: Checked, sides: Sequence[NamedCommit], settings: Settings | None) -> Checked:
    """The conflicts with each side's lane and its last recorded write of the file, as far as the room has them."""
    known = [side.agent for side in sides]
    if settings is None or not any(known) or not checked.conflicts:
        return checked

    async def work(tx: Tx) -> list[Conflict]:
        return [await with_lanes(tx, one, known) for one in checked.conflicts]

    with suppress(StoreError):  # no room has run yet: nothing is recorded
        async with opened_store(settings, SCHEMAS, create=False) as store:
            return replace(checked, conflicts=tuple(await store.read(work)))
    return checked


def _show(checked: Checked, levels: Sequence[int]) -> None:
    for conflict in checked.conflicts:
        place = " ".join(part for part in (conflict.path, conflict.entity) if part) or "the whole tree"
        print(safe_line(f"level {conflict.level}, {conflict.severity}: {conflict.kind}, {place}"))
        for line in conflict.evidence:
            print(f"  {indented(line)}")
    for level, why in sorted(checked.not_run.items()):
        print(safe_line(f"level {level} was not run: {why}"))
    run = [str(level) for level in levels if level not in checked.not_run]
    if run:
        many = len(checked.conflicts)
        print(f"{many or 'No'} conflict{'s' * (many != 1)} on level {', '.join(run)}.")
