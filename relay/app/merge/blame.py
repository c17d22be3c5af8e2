"""`relay merge blame PATH`: who is behind each line of a file (docs/merge.md).

Invariant: nothing is written, with a room and without one. Exit code 0 = done, 1 = it could not be told, 2 =
wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from relay.app.merge.check import room_settings
from relay.app.wiring.schema import SCHEMAS
from relay.base.terminal_text import fail, safe, safe_line
from relay.config.locate import add_config_option
from relay.config.settings import Settings
from relay.faces.blamed_file import BlamedFile, blamed_file
from relay.git.checkout import UnusableCheckout, open_checkout
from relay.merge.blame import Kind
from relay.model import Fault, Refusal
from relay.store.open import opened_store
from relay.store.ports import StoreError

#: What stands for each kind in front of a line.
MARKS = {Kind.AGENT: "agent", Kind.PERSON: "person", Kind.MERGED: "merged", Kind.AI_RESOLVED: "resolved"}


def main(words: Sequence[str]) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="relay merge blame",
        description="Who is behind each line of a file: an agent, a person, both sides of a merge (merged), or an "
        "agent that settled a conflict (resolved).",
    )
    parser.add_argument("path", metavar="PATH", help="the file")
    parser.add_argument(
        "--at", metavar="REV", help="as it is there: a branch, a commit, an agent, or #12 (HEAD)"
    )
    parser.add_argument(
        "--repo", type=Path, default=None, metavar="DIR", help="the repository (that of the file)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_config_option(parser)
    args = parser.parse_args(words)
    folder = args.repo or _folder(Path(args.path))
    try:
        settings = room_settings(args.config, folder)
        found = asyncio.run(_blame(args.path, args.at, folder, settings, inside=args.repo is not None))
    except Refusal as refusal:
        return fail(str(refusal), 2 if refusal.fault in (Fault.UNKNOWN, Fault.MALFORMED) else 1)
    except UnusableCheckout as error:
        return fail(str(error), 2)
    print(json.dumps(found.as_json()) if args.json else safe(_shown(found)))
    return 0


def _folder(path: Path) -> Path:
    """The nearest folder of a file's that is there: the file may stand in another commit only."""
    return next((folder for folder in path.absolute().parents if folder.is_dir()), Path())


async def _blame(
    path: str, at: str | None, folder: Path, settings: Settings | None, *, inside: bool
) -> BlamedFile:
    """`inside`: the path is relative to the top of `folder`'s repository, not to where the command runs."""
    if not inside:
        top = (await open_checkout(folder)).top
        try:
            path = (folder.resolve() / Path(path).absolute().relative_to(folder)).relative_to(top).as_posix()
        except ValueError:
            raise Refusal(f"{path} is not in {top}.", "Name a file of it.", Fault.MALFORMED) from None
    if settings is not None:
        try:
            async with opened_store(settings, SCHEMAS, create=False) as store:
                return await blamed_file(folder, path, at, settings=settings, store=store)
        except StoreError:
            pass  # no room has run yet: git alone says it
    return await blamed_file(folder, path, at, settings=settings)


def _shown(found: BlamedFile) -> str:
    texts = found.text.split("\n")
    width = max((len(each.who) for each in found.lines), default=0)
    rows = []
    for each in found.lines:
        about = f"{each.commit[:9]} {MARKS[each.kind]:8} {safe_line(each.who):{width}} {each.at[:10]}"
        rows += [f"{about} {line:>5}) {texts[line - 1]}" for line in range(each.first, each.last + 1)]
    shares = ", ".join(
        f"{share['lines']} {share['who']} ({MARKS[Kind(share['kind'])]})"
        for share in found.as_json()["shares"]
    )
    return "\n".join([*rows, f"{len(texts) - texts[-1:].count('')} lines: {shares or 'none'}"])
