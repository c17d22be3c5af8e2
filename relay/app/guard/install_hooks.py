"""relay's hooks in a git repository: where they go, what they say, and how what was there before stays.

Invariants:
- a hook that was there is kept and runs first, also where `core.hooksPath` puts hooks elsewhere (husky and the like);
- to install twice is to install once; to uninstall leaves the repository as it was found;
- no file that git tracks, and no folder that other repositories share, is written: where hooks are elsewhere, relay
  has a folder of its own beside git's, and `core.hooksPath` of this repository names it.

Worktrees share hooks and configuration, so those of relay's own agents are covered. Blocking.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import relay

#: The hooks that ask the room.
ASKING = ("pre-commit", "pre-merge-commit", "pre-push")
#: Those that git runs on this side (githooks(5), git 2.39), which a folder of ours must pass on. Left out are what
#: git runs so often that a shell for each would be felt: they are passed on where there is one now.
PASSED_ON = (
    *(
        "applypatch-msg",
        "pre-applypatch",
        "post-applypatch",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
    ),
    *("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-auto-gc", "sendemail-validate"),
    *("push-to-checkout", "pre-receive", "update", "proc-receive", "post-receive", "post-update"),
)
OFTEN = ("reference-transaction", "post-index-change", "fsmonitor-watchman")
MARK = "# relay guard: `relay guard install` wrote this, and `relay guard uninstall` takes it away."
BEFORE = ".before-relay"
#: The folder of hooks beside git's own, where `core.hooksPath` was set.
OWN = "relay-hooks"
#: What core.hooksPath of this repository was; absent when it was not set here.
REMEMBERED = "relay.hooksPathBefore"


class CannotInstall(Exception):
    """The hooks cannot be put there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Repo:
    """`top` of a checkout, and the git directory `common` to all its worktrees."""

    top: Path
    common: Path

    @classmethod
    def at(cls, folder: Path) -> Repo:
        """Raises CannotInstall when there is no repository."""
        try:
            top = _git(folder, "rev-parse", "--show-toplevel")
        except CannotInstall as error:
            if "not a git repository" not in str(error):
                raise
            top = ""
        if not top:
            raise CannotInstall(
                f"{folder} is not in a git checkout. To make it one: git init, then a first commit. Or name the "
                "repository with --repo PATH"
            ) from None
        common = _git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
        return cls(Path(top), Path(common))

    def hooks_path(self) -> tuple[str, str]:
        """Which scope sets core.hooksPath, and to what; empty when nobody does."""
        output = _git(self.top, "config", "--show-scope", "--type=path", "--get", "core.hooksPath", ok=(0, 1))
        scope, _, path = output.partition("\t")
        return scope, path

    @property
    def own(self) -> Path:
        return self.common / OWN

    @property
    def plain(self) -> Path:
        return self.common / "hooks"

    def worktrees(self) -> list[Path]:
        output = _git(self.top, "worktree", "list", "--porcelain")
        folders = [Path(line[9:]) for line in output.split("\n") if line.startswith("worktree ")]
        return [folder for folder in folders if folder.is_dir()]


def install(repo: Repo, config: Path) -> Path:
    """Put the hooks in; gives their folder. Raises CannotInstall, OSError."""
    scope, path = repo.hooks_path()
    if scope == "worktree":
        raise CannotInstall(
            f"core.hooksPath is set for {repo.top} alone: "
            "unset it there (git config --worktree --unset core.hooksPath)"
        )
    if path and Path(path) != repo.own:
        _take_over(repo, scope, path)
    if path:
        return _install_own(repo, config)
    repo.plain.mkdir(parents=True, exist_ok=True)
    for name in ASKING:
        _put_aside(repo.plain / name)
        before = f'"$(dirname "$0")"/{name}{BEFORE}'
        _write(repo.plain / name, asking(name, before, config))
    return repo.plain


def _take_over(repo: Repo, scope: str, path: str) -> None:
    """Hooks are elsewhere: remember where, and have git look into a folder of ours."""
    _git(repo.top, "config", "--local", "--unset-all", REMEMBERED, ok=(0, 5))
    if scope in ("local", "command"):
        raw = _git(repo.top, "config", "--local", "--get", "core.hooksPath", ok=(0, 1))
        _git(repo.top, "config", "--local", REMEMBERED, raw or path)
    repo.own.mkdir(exist_ok=True)
    (repo.own / "before").write_text(f"{path}\n", "utf-8")
    _git(repo.top, "config", "--local", "core.hooksPath", str(repo.own))


def _install_own(repo: Repo, config: Path) -> Path:
    path = (repo.own / "before").read_text("utf-8").rstrip("\n")
    # Relative to where git runs a hook, which is the top of each worktree (git-config(1), core.hooksPath).
    there = path if Path(path).is_absolute() else str(repo.top / path)
    often = [name for name in OFTEN if os.access(Path(there) / name, os.X_OK)]
    for name in ASKING:
        _write(repo.own / name, asking(name, shlex.quote(f"{path}/{name}"), config))
    for name in (*PASSED_ON, *often):
        _write(repo.own / name, passing(shlex.quote(f"{path}/{name}")))
    return repo.own


def _put_aside(file: Path) -> None:
    if is_ours(file) or not (file.exists() or file.is_symlink()):
        return
    aside = file.with_name(file.name + BEFORE)
    if aside.exists() or aside.is_symlink():
        raise CannotInstall(
            f"{file} is not relay's, and {aside.name} beside it is an earlier one: merge the two into one first"
        )
    file.rename(aside)


def uninstall(repo: Repo) -> bool:
    """Take the hooks away and put back what was there; False when there were none. Raises OSError."""
    removed = False
    for name in ASKING:
        file = repo.plain / name
        if is_ours(file):
            removed = True
            file.unlink()
            aside = file.with_name(file.name + BEFORE)
            if aside.exists() or aside.is_symlink():
                aside.rename(file)
    if not repo.own.is_dir():
        return removed
    _, path = repo.hooks_path()
    if path and Path(path) == repo.own:
        before = _git(repo.top, "config", "--local", "--get", REMEMBERED, ok=(0, 1))
        if before:
            _git(repo.top, "config", "--local", "core.hooksPath", before)
        else:
            _git(repo.top, "config", "--local", "--unset-all", "core.hooksPath", ok=(0, 5))
    _git(repo.top, "config", "--local", "--remove-section", "relay", ok=(0, 128))
    shutil.rmtree(repo.own)
    return True


@dataclass(frozen=True, slots=True)
class HookStatus:
    """How it stands in one checkout: `missing` are the hooks that would not ask."""

    top: Path
    folder: Path
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.missing


def hook_statuses(repo: Repo) -> list[HookStatus]:
    """Do the hooks ask, in every worktree as git finds them there?"""
    states = []
    for top in repo.worktrees():
        folder = Path(_git(top, "rev-parse", "--path-format=absolute", "--git-path", "hooks"))
        asks = {name: is_ours(folder / name) and os.access(folder / name, os.X_OK) for name in ASKING}
        missing = tuple(name for name in ASKING if not asks[name])
        states.append(HookStatus(top, folder, missing))
    return states


def is_ours(file: Path) -> bool:
    try:
        return MARK.encode() in file.read_bytes()[:400]
    except OSError:
        return False


def asking(name: str, before: str, config: Path) -> str:
    """The hook as a script of sh; `before` is a word of it: what runs first, if it can be run."""
    python, guard = (
        shlex.quote(sys.executable),
        shlex.quote(str(Path(relay.__file__).absolute().with_name("guard_cli.py"))),
    )
    pushes = name == "pre-push"
    read_input = "said=$(cat; echo .)\nsaid=${said%.}\n" if pushes else ""
    tell = "printf '%s' \"$said\" | " if pushes else ""
    return f"""#!/bin/sh
{MARK}
{read_input}before={before}
if [ -x "$before" ]; then {tell}"$before" "$@" || exit $?; fi
python={python}
guard={guard}
if [ ! -x "$python" ] || [ ! -f "$guard" ]; then
  echo "relay: refused, because the room cannot be asked: relay is no longer at $guard." >&2
  echo "Run relay guard install again from where it is now, or remove $0." >&2
  exit 1
fi
{tell}"$python" -I "$guard" {name} --config {shlex.quote(str(config))} "$@"
"""


def passing(before: str) -> str:
    """A hook that only runs what was there."""
    return f"""#!/bin/sh
{MARK}
before={before}
if [ -x "$before" ]; then exec "$before" "$@"; fi
"""


def _write(file: Path, text: str) -> None:
    made = file.with_name(f".{file.name}.new")
    made.write_text(text, "utf-8")
    made.chmod(0o755)
    made.replace(file)


def _git(folder: Path, *words: str, ok: tuple[int, ...] = (0,)) -> str:
    """What git says with the user's own configuration, which is what its hooks go by. Only calls that run nothing."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    configuration = {name: os.environ[name] for name in os.environ if name.startswith("GIT_CONFIG")}
    try:
        done = subprocess.run(
            ["git", "--no-pager", *words],
            cwd=folder,
            env={**env, **configuration},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise CannotInstall(f"git cannot be run in {folder}: {error.strerror}") from None
    if done.returncode not in ok:
        raise CannotInstall(f"git {words[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout.rstrip("\n")
