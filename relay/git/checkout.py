"""A checkout as git knows it: where its files, its git directory and its objects are.

Invariant: only questions are asked here, of the repository's own git directory, and none of them reads content
or runs anything (`run.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from relay.git.run import Git, GitError, GitMissing

#: Settings of a repository that change how its files are read, and run nothing.
_HARMLESS = (
    "autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|checkstat|trustctime|protecthfs|protectntfs"
)


class UnusableCheckout(Exception):
    """This folder cannot have worktrees; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """`top`: the folder of its files. `git_dir` is its own, `common` the repository's. `settings`: what its
    files are read with, as `core.NAME=VALUE`. `hash`: sha1 or sha256."""

    top: Path
    git_dir: Path
    common: Path
    hash: str
    settings: tuple[str, ...] = ()

    @property
    def git(self) -> Git:
        return Git(self.top)

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    @property
    def objects(self) -> Path:
        return self.common / "objects"


@dataclass(frozen=True, slots=True)
class Head:
    """What a checkout stands on. `branch` None: detached; `commit` None: no commit yet."""

    branch: str | None
    commit: str | None


async def open_checkout(folder: Path) -> Checkout:
    """The checkout that `folder` is in. Raises UnusableCheckout."""
    git = Git(folder)
    try:
        asked = ("--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
        answers = (await git.line("rev-parse", "--path-format=absolute", *asked)).split("\n")
    except GitMissing as error:
        raise UnusableCheckout("git is not installed: install it and start relay again") from error
    except GitError as error:
        raise UnusableCheckout(_why_not(folder, error)) from error
    if len(answers) != 4:
        raise UnusableCheckout(f"{folder} has a line break in its path, which relay does not support")
    bare, git_dir, common, hash = answers
    try:
        top = await git.line("rev-parse", "--path-format=absolute", "--show-toplevel")
    except GitError as error:
        kind = "a bare repository" if bare == "true" else "inside a git directory"
        raise UnusableCheckout(f"{folder} is {kind}, without files: name a checkout of it") from error
    here = Checkout(Path(top), Path(git_dir), Path(common), hash)
    return replace(here, settings=await _settings(here.git))


def _why_not(folder: Path, error: GitError) -> str:
    if "not a git repository" in error.stderr:
        return f"{folder} is not in a git repository (`git init`, then a first commit)"
    return f"git cannot use {folder}: {error.stderr}"


async def _settings(git: Git) -> tuple[str, ...]:
    done = await git.run("config", "-z", "--get-regexp", rf"^core\.({_HARMLESS})$", ok=(0, 1))
    pairs = (entry.partition(b"\n") for entry in done.out.split(b"\0") if entry)
    # A key without a value is true, as git reads it.
    return tuple(f"{key.decode()}={value.decode() if cut else 'true'}" for key, cut, value in pairs)


async def head_of(git: Git) -> Head:
    """Where this checkout stands now."""
    # One process for both, where there is a commit and no ref that is called as HEAD is.
    told = await git.maybe("rev-parse", "-q", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
    match (told or "").split("\n"):
        case [at, ref]:
            return Head(None if ref == "HEAD" else ref.removeprefix("refs/heads/"), at)
    name = await git.maybe("symbolic-ref", "-q", "HEAD")
    commit = await git.maybe("rev-parse", "-q", "--verify", "HEAD^{commit}")
    return Head(name.removeprefix("refs/heads/") if name else None, commit)


@dataclass(frozen=True, slots=True)
class ListedWorktree:
    """One entry of `git worktree list`. `gone`: its folder is not there; `locked`: why, when it is."""

    path: Path
    branch: str | None
    gone: bool = False
    locked: str | None = None
    bare: bool = False


async def list_worktrees(git: Git) -> list[ListedWorktree]:
    """All worktrees of the repository, the main one first."""
    done = await git.run("worktree", "list", "--porcelain", "-z")
    worktrees = []
    for block in done.text.rstrip("\0").split("\0\0"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in fields:
            branch = fields.get("branch")
            path = Path(fields["worktree"])
            worktrees.append(
                ListedWorktree(
                    path,
                    branch.removeprefix("refs/heads/") if branch else None,
                    gone="prunable" in fields or not path.is_dir(),
                    locked=fields.get("locked"),
                    bare="bare" in fields,
                )
            )
    return worktrees
