"""`relay merge install`: git asks relay for each file that both sides of a merge changed.

Invariants:
- to install twice is to install once; to uninstall leaves configuration and attributes as they were found;
- no file that git tracks is written: the attributes go to `info/attributes` of the git directory, or with `--global`
  to the user's own file;
- what a repository's own `.gitattributes` say of merging stands above relay's line.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from relay.base.terminal_text import fail
from relay.config.merge import MergeSettings

BEGIN, END = "# relay merge: begin (`relay merge uninstall` takes it away)", "# relay merge: end"
SECTION = "merge.relay"


def main(words: Sequence[str]) -> int:
    """The command with its action first; gives its exit code."""
    action = words[0]
    about = {
        "install": "Let git ask relay to merge files.",
        "uninstall": "Let git merge files by itself again.",
    }
    parser = argparse.ArgumentParser(prog=f"relay merge {action}", description=about[action])
    parser.add_argument(
        "--global", dest="everywhere", action="store_true", help="for all repositories of this user"
    )
    parser.add_argument("--repo", metavar="DIR", default=".", help="the repository (here)")
    args = parser.parse_args(words[1:])
    folder = Path(args.repo)
    try:
        file = _global_file() if args.everywhere else _local_file(folder)
        scope = "--global" if args.everywhere else "--local"
        if action == "install":
            install(folder, scope, file)
            print(
                f"git asks relay for files that both sides changed. {file} and `git config {scope}` say so."
            )
            if not args.everywhere:
                print(
                    "What .gitattributes says of merging was copied to there: install again when that changes."
                )
        else:
            uninstall(folder, scope, file)
            print("git merges files by itself.")
    except (subprocess.CalledProcessError, OSError) as error:
        said = getattr(error, "stderr", "") or str(error)
        return fail(f"{said.strip()}. Run it in a git repository, or give --repo or --global.", 2)
    return 0


def command() -> str:
    """What git runs. Quoted for the shell that git gives it to, which quotes path and labels itself; git before 2.44
    leaves the labels `%S %X %Y` as they stand."""
    words = [sys.executable, "-m", "relay.cli", "merge", "driver"]
    timeout = MergeSettings().timeout_ms
    return f"{shlex.join(words)} --timeout-ms {timeout} -- %O %A %B %L %P %S %X %Y"


def install(folder: Path, scope: str, file: Path) -> None:
    """Write the driver and the attributes."""
    _git(folder, "config", scope, f"{SECTION}.name", "relay: by imports, added definitions and entities")
    _git(folder, "config", scope, f"{SECTION}.driver", command())
    _git(folder, "config", scope, f"{SECTION}.recursive", "binary")
    before = _without(_text(file))
    own = [] if scope == "--global" else _repository_lines(folder)
    block = "\n".join([BEGIN, "* merge=relay", *own, END]) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    # First, so that what the user wrote there stands above it.
    file.write_text(block + before, "utf-8")


def uninstall(folder: Path, scope: str, file: Path) -> None:
    """Take the driver and the attributes away."""
    found = subprocess.run(
        ["git", "-C", str(folder), "config", scope, "--get-regexp", rf"^{SECTION}\."],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.stdout:
        _git(folder, "config", scope, "--remove-section", SECTION)
    before = _text(file)
    after = _without(before)
    if after:
        file.write_text(after, "utf-8")
    elif before:
        file.unlink()


def _local_file(folder: Path) -> Path:
    common = _git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
    return Path(common) / "info" / "attributes"


def _global_file() -> Path:
    named = subprocess.run(
        ["git", "config", "--global", "--type=path", "core.attributesFile"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "git" / "attributes"


def _repository_lines(folder: Path) -> list[str]:
    """The lines on merging of the repository's own `.gitattributes`, which a line in `info/attributes` would hide."""
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    names = _git(top, "ls-files", "-z", "--", ":(glob)**/.gitattributes").split("\0")
    kept = []
    for name in sorted(filter(None, names), key=lambda name: name.count("/")):
        place = name.rpartition("/")[0]
        for line in _text(top / name).splitlines():
            pattern, _, rest = line.strip().partition(" ")
            words = [
                word for word in rest.split() if word in ("binary", "-merge", "!merge") or "merge=" in word
            ]
            if not words or pattern.startswith(("#", "[", '"')):
                continue
            if place:
                pattern = f"{place}/{pattern}" if "/" in pattern.strip("/") else f"{place}/**/{pattern}"
            kept.append(f"{pattern} {' '.join('-merge' if word == 'binary' else word for word in words)}")
    return kept


def _without(text: str) -> str:
    """A file of attributes without relay's part."""
    before, mark, rest = text.partition(BEGIN + "\n")
    return before + rest.partition(END + "\n")[2] if mark else text


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
