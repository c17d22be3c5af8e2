"""Which files a change on GitHub touches, as GitHub says it.

Invariant: all of them, or a GithubError: GitHub cuts long lists, and a part would leave files out of their policies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from relay.verification.github.client import Github
from relay.verification.github.errors import GithubError
from relay.verification.verification import Change

#: Files that GitHub lists at most of a pull request, and of a comparison of two commits.
MOST_OF_PULL, MOST_OF_COMPARISON = 3000, 300


class GithubFiles:
    """`files_of` a change that a webhook told of."""

    def __init__(self, github: Github) -> None:
        self._github = github

    async def files_of(self, change: Change) -> tuple[str, ...]:
        """The paths that it adds, changes, removes and renames (both names). Raises GithubError."""
        about = dict(change.about.get("github") or {})
        base, commit = change.base or about.get("default_branch"), change.commit
        number = about.get("number")
        if number is not None and await self._is_head(number, commit):
            what, most = f"pull request {number}", MOST_OF_PULL
            listed = await self._github.list(f"pulls/{number}/files?per_page=100", most=most)
        elif base and commit:
            what, most = f"{base[:40]}...{commit[:12]}", MOST_OF_COMPARISON
            told = await self._github.get(f"compare/{quote(base, safe='')}...{commit}?per_page=100")
            listed = told.get("files") or []
        else:
            raise GithubError("nobody knows what it stands on")
        if len(listed) >= most:
            message = (
                f"GitHub lists no more than {most:,} files of {what}: `git fetch` lets relay look itself"
            )
            raise GithubError(message)
        return tuple(dict.fromkeys(_paths(listed)))

    async def _is_head(self, number: int, commit: str | None) -> bool:
        """Has the pull request got no newer commit? GitHub lists the files of its newest."""
        pull = await self._github.get(f"pulls/{number}")
        return isinstance(head := pull.get("head"), dict) and head.get("sha") == commit


def _paths(listed: Iterable[Any]) -> Iterable[str]:
    for file in listed:
        for name in ("previous_filename", "filename"):
            if isinstance(path := file.get(name), str):
                yield path
