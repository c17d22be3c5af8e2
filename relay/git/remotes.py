"""Fetching and pushing refs of relay's own: the only calls of git that reach another repository.

Invariants:
- only the refs that are named move. A branch there moves forward only, and only where main is shared (`push_commit`);
  by force moves nothing but refs of relay's own that nobody else writes (`push_own_refs`);
- a remote is an address: what its section of the configuration could run (`uploadpack`, `receivepack`, `vcs`) is
  not read. Files, HTTP, HTTPS and ssh only, without a prompt and without a hook here: an address that needs a
  password finds none but its own or the ssh agent's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from relay.git.run import LONG_S, Git, GitError

_PROTOCOLS = ("file", "http", "https", "ssh")


async def is_remote(git: Git, remote: str) -> bool:
    """Does the repository have a remote of this name? An address is one itself."""
    return "/" in remote or await git.maybe("config", "--get", f"remote.{remote}.url") is not None


async def remote_commit(git: Git, remote: str, ref: str) -> str | None:
    """What a ref is at the remote; None: it has none of this name. Raises GitError."""
    address = await _address(git, remote)
    listed = await _reaching(git).run("ls-remote", "--upload-pack=git-upload-pack", address, ref)
    return listed.text.split("\t")[0] or None


async def tracking_ref(git: Git, remote: str, ref: str) -> str | None:
    """Where `git fetch` keeps a ref of the remote, if that is below `refs/remotes/REMOTE/`; None: nowhere there."""
    asked = ("config", "--get-all", f"remote.{remote}.fetch")
    for spec in (await git.maybe(*asked) or "").splitlines():
        source, _, target = spec.removeprefix("+").partition(":")
        before, star, behind = source.partition("*")
        if star and len(ref) >= len(before + behind) and ref.startswith(before) and ref.endswith(behind):
            source, target = ref, target.replace("*", ref[len(before) : len(ref) - len(behind)])
        if source == ref:
            return target if target.startswith(f"refs/remotes/{remote}/") else None
    return None


async def fetch(git: Git, remote: str, source: str, target: str, *, prune: bool = False) -> None:
    """Make refs here those at the remote: `*` stands for the same in both; `prune`: also remove those of `target`
    that are not there. Raises GitError."""
    address = await _address(git, remote)
    await _reaching(git).run(
        "fetch",
        "-q",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        *(["--prune"] if prune else []),
        "--upload-pack=git-upload-pack",
        address,
        f"+{source}:{target}",
        timeout_s=LONG_S,
    )


async def fetch_refs(git: Git, remote: str, source: str, target: str) -> None:
    """Make the refs below `target` those below `source` at the remote (both end with `/`). Raises GitError."""
    await fetch(git, remote, f"{source}*", f"{target}*", prune=True)


async def fetch_branch(git: Git, remote: str, branch: str, target: str) -> str | None:
    """Make the ref `target` the branch of this name at the remote; its commit, None where that has no such branch.
    Raises GitError."""
    named = f"refs/heads/{branch}"
    if await remote_commit(git, remote, named) is None:
        return None
    await fetch(git, remote, named, target)
    return await git.maybe("rev-parse", "-q", "--verify", f"{target}^{{commit}}")


async def push_ref(git: Git, remote: str, ref: str) -> None:
    """Bring one ref to the remote, on top of what it is there. Raises GitError, also when that is not behind it."""
    await _push(git, remote, f"{ref}:{ref}")


async def push_commit(git: Git, remote: str, commit: str, ref: str) -> None:
    """Move a ref at the remote to this commit, forward only. Raises GitError, also when what it is there is not
    behind the commit."""
    await _push(git, remote, f"{commit}:{ref}")


async def _push(git: Git, remote: str, *what: str) -> None:
    address = await _address(git, remote)
    await _reaching(git).run(
        "push",
        "-q",
        "--no-verify",
        "--no-follow-tags",
        "--recurse-submodules=no",
        "--receive-pack=git-receive-pack",
        address,
        *what,
        timeout_s=LONG_S,
    )


async def push_own_refs(git: Git, remote: str, moves: Mapping[str, str]) -> None:
    """Put these refs of relay's own, which nobody else writes, on these commits at the remote, whatever they are on
    there; "" takes one away. Raises GitError."""
    if outside := [ref for ref in moves if not ref.startswith("refs/relay/")]:
        raise GitError("push", 128, f"{outside[0]} is no ref of relay's own")
    await _push(git, remote, *(f"+{commit}:{ref}" if commit else f":{ref}" for ref, commit in moves.items()))


async def remote_refs(git: Git, remote: str, below: str) -> dict[str, str]:
    """The refs at the remote below a name (it ends with `/`), each with what it is on. Raises GitError."""
    address = await _address(git, remote)
    asked = ("ls-remote", "--upload-pack=git-upload-pack", address, f"{below}*")
    lines = (await _reaching(git).line(*asked)).splitlines()
    return {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}


async def address_of(git: Git, remote: str) -> str | None:
    """The address of a remote's name; None where there is no such remote."""
    return await git.maybe("config", "--get", f"remote.{remote}.url")


async def _address(git: Git, remote: str) -> str:
    """The address of a remote's name; an address or a folder is itself."""
    if remote.startswith("-"):
        raise GitError("remote", 128, f"{remote!r} is no remote")
    known = await git.maybe("config", "--get", f"remote.{remote}.url")
    address = known or remote
    if address.startswith("-"):
        raise GitError("remote", 128, f"the remote {remote} has no address")
    return address


def _reaching(git: Git) -> Git:
    """git that may reach others."""
    env = {
        "GIT_ALLOW_PROTOCOL": ":".join(_PROTOCOLS),
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "SSH_AUTH_SOCK": os.environ.get("SSH_AUTH_SOCK"),
    }
    return replace(git, env={**git.env, **env})
