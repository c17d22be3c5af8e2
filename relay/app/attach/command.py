"""`relay attach`: a person's own sessions of Claude Code and Codex are in the room from now on (docs/attach.md).

Invariants: nothing is written before the person has seen the exact change and agreed to it; nothing is written into a
file that git tracks, or that would be committed. Exit code 0: done, or nothing to do; 1: could not, or the person
said no; 2: wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.app.attach import codex_trust, hook_files, kept_copies
from relay.app.attach.codex_trust import CannotTrust
from relay.app.attach.hook_files import PLACES, CannotEdit
from relay.app.attach.kept_copies import ChangedMeanwhile, FileChange, KeptFile
from relay.base.git_checkouts import attached_record, checkout_of
from relay.base.terminal_text import fail, safe
from relay.config.command_line import command
from relay.config.loading import ConfigError, load_for_command
from relay.config.locate import add_config_option
from relay.config.settings import Settings

Json = dict[str, Any]
GIT_S = 10.0
WRONG_USE = 2
_TRUST_BY_HAND = (
    "Codex asks you about them at its next start (`Hooks need review`): choose `Trust all and continue`. It reads a "
    "project's hooks only in folders that it trusts."
)


class CannotAttach(Exception):
    """It cannot be done; the message says why and what to do."""


@dataclass(slots=True)
class Plan:
    """What is to be changed, and why a program is left out."""

    changes: list[FileChange] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> list[Json]:
        return [{"path": str(change.path), "diff": _diff(change)} for change in self.changes]


def main(words: list[str]) -> int:
    """`relay attach`; gives its exit code."""
    args = parser(
        "attach", "Let your own sessions of Claude Code and Codex in this repository into the room."
    ).parse_args(words)
    if args.json and not (args.yes or args.dry_run):
        print("relay attach: --json needs --yes or --dry-run.", file=sys.stderr)
        return WRONG_USE
    try:
        settings, checkout = place_of(args)
        programs = args.programs or _installed()
        with kept_copies.alone(settings.runtime_dir):
            record = attached_record(settings.runtime_dir, checkout)
            return _attach(args, settings, checkout, programs, record)
    except BrokenPipeError:
        raise  # the reader of the output has gone, which is no error (relay/cli.py)
    except (CannotAttach, ChangedMeanwhile, ConfigError, OSError, ValueError) as error:
        return fail(f"relay attach: {error}")


def parser(name: str, text: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"relay {name}", description=text)
    if name == "attach":
        known = " or ".join(PLACES)
        made.add_argument(
            "programs",
            nargs="*",
            type=_program,
            metavar="PROGRAM",
            help=f"{known} (else those that are installed)",
        )
        made.add_argument("--yes", action="store_true", help="do not ask")
    made.add_argument("--dry-run", action="store_true", help="only show what would be changed")
    made.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_config_option(made)
    return made


def _program(word: str) -> str:
    if word not in PLACES:
        raise argparse.ArgumentTypeError(f"{word[:40]!r} is not a known program: {' or '.join(PLACES)}")
    return word


def place_of(args: argparse.Namespace) -> tuple[Settings, Path]:
    """The room, and the checkout of its codebase that this is called in. Raises CannotAttach, ConfigError."""
    settings = load_for_command(args.config)
    checkout = checkout_of(settings.repo, Path.cwd())
    if checkout is None:
        raise CannotAttach(
            f"{Path.cwd()} is in no checkout of the room's codebase, which is {settings.repo}. Go there first."
        )
    return settings, checkout.resolve()


def _installed() -> list[str]:
    """The programs that are on the PATH; Claude Code's file costs nothing where it is not."""
    return [program for program in PLACES if program == "claude" or shutil.which(program)]


# -- attach


def _attach(
    args: argparse.Namespace, settings: Settings, checkout: Path, programs: Sequence[str], record: Path
) -> int:
    plan = _plan(settings, checkout, programs)
    done: Json = {
        "checkout": str(checkout),
        "changes": plan.as_json(),
        "refused": plan.refused,
        "applied": False,
    }
    if not args.json:
        _show(plan, checkout)
    agreed = not args.dry_run and bool(plan.changes) and (args.yes or _agrees("Write this?"))
    if agreed:
        kept_copies.apply(record, checkout, plan.changes, without_ours)
        kept_copies.share(record, checkout, "exclude")
        done["applied"] = True
    notes = []
    standing = agreed or (not plan.changes and not args.dry_run)
    if standing and "codex" in programs and "codex" not in plan.refused:
        notes.append(_trust(args, checkout, record))
    if done["applied"]:
        notes.append(
            f"Sessions that you start here are in the room from now on; those that run, from their next prompt on. "
            f"{command('detach')} undoes it."
        )
    done["notes"] = [note for note in notes if note]
    if args.json:
        print(json.dumps(done))
    else:
        for note in done["notes"]:
            print(safe(note))
    unwilling = bool(plan.changes) and not agreed and not args.dry_run
    return 1 if plan.refused or unwilling else 0


def _plan(settings: Settings, checkout: Path, programs: Sequence[str]) -> Plan:
    """Raises CannotAttach, OSError."""
    plan = Plan()
    unignored = []
    for program in programs:
        place = PLACES[program]
        path = checkout / place
        try:
            if _git(checkout, "ls-files", "--", place):
                raise CannotEdit("git tracks it, so the change would be committed")
            before = kept_copies.content_of(path)
            text = hook_files.with_entries(
                (before or b"").decode(), hook_files.entries(program, settings.path)
            )
        except (CannotEdit, UnicodeDecodeError) as error:
            plan.refused[program] = f"{path} is left as it is: {error}."
            continue
        if (after := text.encode()) != before:
            plan.changes.append(FileChange("hooks", path, before, after))
        if not _ignored(checkout, place):
            unignored.append(f"/{place}")
    if unignored:
        path = Path(_git(checkout, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude"))
        before = kept_copies.content_of(path)
        start = before or b""
        start += b"" if start.endswith(b"\n") or not start else b"\n"
        after = start + "".join(f"{line}\n" for line in unignored).encode()
        plan.changes.append(FileChange("exclude", path, before, after))
    return plan


def _show(plan: Plan, checkout: Path) -> None:
    for change in plan.changes:
        print(safe(_diff(change)))
    for why in plan.refused.values():
        print(safe(why), file=sys.stderr)
    if not plan.changes and not plan.refused:
        print(safe(f"{checkout} is attached already: nothing is to be changed."))


def _diff(change: FileChange) -> str:
    before, after = ((text or b"").decode("utf-8", "replace") for text in (change.before, change.after))
    old = "/dev/null" if change.before is None else str(change.path)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old, str(change.path), lineterm="")
    return "\n".join(lines)


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        print("Nobody can be asked here: give --yes.", file=sys.stderr)
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _trust(args: argparse.Namespace, checkout: Path, record: Path) -> str:
    """Let Codex trust the hooks, if the person wants it; what there is to say of it."""
    program = shutil.which("codex")
    if program is None:
        return f"Codex is not installed here, so its trust in the hooks was not asked for. {_TRUST_BY_HAND}"
    try:
        hashes = asyncio.run(codex_trust.untrusted(program, checkout, checkout / PLACES["codex"]))
        if not hashes:
            return ""
        question = f"Codex does not run {len(hashes)} of these hooks before you trust them. Trust them now?"
        if not (args.yes or (not args.json and _agrees(question))):
            return _TRUST_BY_HAND
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
        note = kept_copies.keep_for(record, checkout, "trust", home, sorted(hashes), without_ours)
        try:
            asyncio.run(codex_trust.trust(program, hashes))
        finally:
            note()
        return f"Codex trusts them: {home} says so."
    except CannotTrust as error:
        return f"{error}. {_TRUST_BY_HAND}"


def without_ours(file: KeptFile, now: bytes) -> bytes:
    """The file without what is ours. Raises CannotEdit, ValueError."""
    text = now.decode()
    if file.kind == "hooks":
        return hook_files.without_entries(text).encode()
    if file.kind == "trust":
        return codex_trust.without_trust(text, file.keys).encode()
    ours = {f"/{place}" for place in PLACES.values()}
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() not in ours).encode()


# -- git


def _ignored(checkout: Path, place: str) -> bool:
    done = subprocess.run(
        ["git", "-C", str(checkout), "check-ignore", "-q", "--", place],
        check=False,
        capture_output=True,
        timeout=GIT_S,
    )
    return done.returncode == 0


def _git(checkout: Path, *words: str) -> str:
    """Raises CannotAttach."""
    asked = ["git", "-C", str(checkout), *words]
    done = subprocess.run(asked, check=False, capture_output=True, timeout=GIT_S, text=True)
    if done.returncode:
        raise CannotAttach(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
