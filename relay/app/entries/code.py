"""The code that a message speaks of, as it stood when the message was written.

Invariants: the timeline says how files stood at a moment, and git's own log of a branch says which commit it had;
nothing is read of the disk. Only what git has of a tree of this repository is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.faces.timeline import TimelineService, git_refusing
from relay.git.run import Git
from relay.model import Fault, Kind, Message, Refusal, references
from relay.store.ports import Store
from relay.timeline import compare
from relay.timeline.projection import last_tree

#: Lines around the ones that are named, and of one answer at most.
AROUND, MOST_LINES = 30, 400
_LINES = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a file, both included; the first is 1."""

    first: int
    last: int


def span_of(text: str | None) -> Span | None:
    """The lines that `12` or `12-20` names, None for no text. Raises Refusal."""
    if text is None:
        return None
    match = _LINES.fullmatch(text)
    first = int(match[1]) if match else 0
    last = int(match[2] or first) if match else 0
    if not match or last < first:
        raise Refusal(f"lines is {text[:40]!r}.", "Send one line or two, like 12 or 12-20.", Fault.MALFORMED)
    return Span(first, last)


class CodeLook:
    """Looks at the code of one room. `registry`: its worktrees, opened."""

    def __init__(self, store: Store, timeline: TimelineService, registry: WorktreeRegistry) -> None:
        self._store, self._timeline, self._registry = store, timeline, registry

    async def at(self, message: Message, path: str, lines: Span | None) -> dict[str, Any]:
        """`{path, message, of, branch, commit, uncommitted, first, last, start, total, lines, cut}`. `of`: whose
        files they are, an agent's or `main`; `commit`: what that branch had then, None where git does not know it any
        more; `uncommitted`: the file stood otherwise in it; `start`: the number of the first of `lines`. Raises
        Refusal."""
        with git_refusing():
            git = await self._git()
            path = self._inside(path)
            ref, commit, of = await self._commit(git, message)
            file = await self._file(git, message, path, of, commit)
            committed = (
                None if commit is None else await git.maybe("rev-parse", "-q", "--verify", f"{commit}:{path}")
            )
        if file["text"] is None:
            raise Refusal(f"{path} is no text, or too large to be shown.", "", Fault.UNKNOWN, "no_text")
        text = str(file["text"]).removesuffix("\n").split("\n")
        shown = lines or Span(1, min(len(text), MOST_LINES))
        if shown.first > len(text):
            raise Refusal(
                f"{path} had {len(text)} line{'s' * (len(text) != 1)} then, so there is no line {shown.first}.",
                "",
                Fault.UNKNOWN,
                "unknown_line",
            )
        last = min(shown.last, len(text), shown.first + MOST_LINES - 1)
        start = max(1, shown.first - AROUND)
        end = min(len(text), last + AROUND, start + MOST_LINES - 1)
        return {
            "path": path,
            "message": references.message(message.number),
            "of": of,
            "branch": ref,
            "commit": commit,
            "uncommitted": None if commit is None else committed != file["blob"],
            "first": shown.first if lines else None,
            "last": last if lines else None,
            "start": start,
            "total": len(text),
            "lines": text[start - 1 : end],
            "cut": bool(file["cut"]),
        }

    async def _git(self) -> Git:
        if self._registry.main is None:
            await self._registry.open()  # the room has just started
        main = self._registry.main
        if main is None:
            why = self._registry.trouble or "the repository is not known yet"
            raise Refusal(f"There is no code to look at: {why}.", "", Fault.UNAVAILABLE)
        return main.git

    def _inside(self, path: str) -> str:
        """The path within the repository: an agent may have named it whole."""
        main = self._registry.main
        tops = [worktree.checkout.top for worktree in self._registry.worktrees.values()]
        for top in (*tops, *([main.top] if main else ())):
            if path.startswith(f"{top}/"):
                return path[len(f"{top}/") :]
        return path.removeprefix("./")

    async def _commit(self, git: Git, message: Message) -> tuple[str | None, str | None, str]:
        """The branch that the author of the message worked on, the commit that it had then, and whose it is."""
        worktree = self._registry.find(message.speaker) if message.kind is Kind.AGENT else None
        target = await self._registry.target()
        branch, of = (
            (worktree.branch, worktree.name) if worktree and worktree.branch else (None, compare.MAIN)
        )
        branch = branch or (target.branch if target else None)
        if branch is None:
            return None, None, of
        if of == compare.MAIN:
            known = await self._store.read(lambda tx: last_tree(tx, compare.MAIN, message.cursor))
            if known is not None and known.commit is not None:
                return branch, known.commit, of
        # git's log of a branch has whole seconds.
        then = f"refs/heads/{branch}@{{{message.ts}}}"
        return branch, await git.maybe("rev-parse", "-q", "--verify", f"{then}^{{commit}}"), of

    async def _file(
        self, git: Git, message: Message, path: str, of: str, commit: str | None
    ) -> dict[str, Any]:
        """The file as the timeline has it at that moment; where the log does not know it, as the commit has it."""
        try:
            return await self._timeline.file(f"#{message.cursor}", None if of == compare.MAIN else of, path)
        except Refusal as refusal:
            if refusal.code == "unknown_path" or commit is None:
                raise
            return await compare.file(git, commit, path)
