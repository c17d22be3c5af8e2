"""`relay detach`: undoes `relay attach` (docs/attach.md).

Invariants: a file that is as it was left is put back byte for byte; from one that its person changed since only our
entries are taken out, and that is said. Exit code 0: done, or nothing to do; 1: could not; 2: wrong use.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from relay.app.attach import kept_copies
from relay.app.attach.command import CannotAttach, parser, place_of, without_ours
from relay.app.attach.hook_files import CannotEdit
from relay.base.git_checkouts import attached_record
from relay.base.terminal_text import fail, safe
from relay.config.loading import ConfigError

Json = dict[str, Any]


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    args = parser(
        "detach", "Undo `relay attach` in this repository: every file is as it was before."
    ).parse_args(words)
    try:
        settings, checkout = place_of(args)
        with kept_copies.alone(settings.runtime_dir):
            return _detach(args, checkout, attached_record(settings.runtime_dir, checkout))
    except BrokenPipeError:
        raise  # the reader of the output has gone, which is no error (relay/cli.py)
    except (CannotAttach, ConfigError, OSError, ValueError) as error:
        return fail(f"relay detach: {error}")


def _detach(args: argparse.Namespace, checkout: Path, record: Path) -> int:
    files = kept_copies.kept(record)
    done: Json = {"checkout": str(checkout), "files": []}
    failed = False
    others = kept_copies.elsewhere(record, "exclude")
    for file in reversed(files):
        if file.kind == "exclude" and file.path in others:
            # Another attached checkout of this repository has the same line in it, and takes it out.
            told = "kept"
        elif args.dry_run:
            told = "would be put back"
        else:
            try:
                told = kept_copies.put_back(file, without_ours)
            except (CannotEdit, OSError, ValueError) as error:
                failed, told = True, f"left as it is: {error}"
        done["files"].append({"path": file.path, "done": told})
    if files and not failed and not args.dry_run:
        record.unlink()
    if args.json:
        print(json.dumps(done))
        return 1 if failed else 0
    for one in done["files"]:
        print(safe(f"{one['path']}: {_WORDS.get(one['done'], one['done'])}."))
    if not files:
        print(safe(f"{checkout} is not attached."))
    return 1 if failed else 0


_WORDS = {
    "restored": "as it was",
    "removed": "removed, as there was none before",
    "edited": "you had changed it since, so only relay's entries were taken out",
    "unchanged": "nothing of relay's stood in it",
    "kept": "kept, since another checkout is attached",
}
