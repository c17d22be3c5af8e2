"""A person reads through an agent's branch: what it changes, what of it they have reviewed, and what they say of it.

Invariants:
- what is shown is `difference`, which is what would land; nothing here decides that anew;
- a mark of a person holds as long as the file is the same before and after, and is gone when it changes;
- a comment quotes lines that git has, and stands where these lines stand now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.merging.wording import about_said
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.airspace.worktrees.view import MOST_DIFF, difference, looked_for, missing
from relay.app.review import journal
from relay.app.review.comments import NEW, OLD, Comment, Wanted, lines_of, place, quote, refused, said
from relay.app.review.journal import SentComment, content_of
from relay.app.review.suggestions import Suggestions
from relay.base.terminal_text import safe_line
from relay.config.settings import LiveSettings
from relay.git.diff import changed_files, unified
from relay.git.run import Git, GitError, name_of
from relay.merge.resolution import journal as conflicts
from relay.merge.resolution.wording import lands_instead
from relay.model import Fault, Message, Refusal, references
from relay.model.actions import ApplySuggestion, MarkReviewed, SendReview, ShowReview
from relay.room.dispatch.permissions import code_span
from relay.store.ports import Store, Tx

#: Bytes of the files that comments are about, of all together.
MOST_BYTES = 64 * 1_048_576
#: Files that the room's answer names.
MOST_NAMED = 60
Json = dict[str, Any]


class Reviews:
    """Of one room. Is `relay.model.ports.Timeline` for the actions of reviews."""

    def __init__(
        self, store: Store, registry: WorktreeRegistry, suggestions: Suggestions, settings: LiveSettings
    ) -> None:
        self._store, self._registry = store, registry
        self._suggestions, self._settings = suggestions, settings

    async def state(self, agent: str, person: str, path: str = "") -> Json:
        """What `difference` gives of the branch, with `reviewed` for each file as that person has marked it,
        `comments`, and `editor` (`ui.editor`). `path`: with the text of this file alone. Raises Refusal."""
        worktree, told = await self._difference(agent, path)
        name = worktree.name
        marks = await self._store.read(lambda tx: journal.marks(tx, person, name))
        for file in told["files"]:
            file["reviewed"] = marks.get(file["path"]) == content_of(file)
        told["comments"] = [] if path else await self._comments(worktree, told)
        told["editor"] = self._settings.current.ui.editor
        told["own"], told["working"] = worktree.own, name in self._registry.turn_trees
        told["landed"] = None if told["files"] else await self._landed(worktree)
        brought = None if told["landed"] is None else frozenset(told["landed"].pop("paths"))
        for comment in told["comments"]:
            comment["open"] = _open(comment, brought)
        told["settled"] = [] if path else await self._settled(name)
        return told

    async def _settled(self, agent: str) -> list[str]:
        """Where something else lands than what the branch has, since a conflict was settled: sentences."""
        trials = await self._registry.merge_trials.trials(await self._registry.target())
        joined = trials[agent].joined if agent in trials else ()
        paths = {file.path for file in joined if "resolved" in file.by}
        asked = await self._store.read(conflicts.newest) if paths else ()
        return lands_instead(
            [
                each
                for each in asked
                if each.state == conflicts.SETTLED
                and each.question.agent == agent
                and each.part.path in paths
            ]
        )

    async def _landed(self, worktree: TrackedWorktree) -> Json | None:
        """The last landing of an agent whose branch has nothing more: `{commit, at, by, into, method, files, diff,
        truncated, paths}`, `diff` what it brought and `paths` to which files; None: there is none that the main
        branch still has. Raises Refusal."""
        name, target = worktree.name, await self._registry.target()
        landing = (await self._registry.room.landed([name])).get(name)
        if landing is None or target is None or self._registry.main is None:
            return None
        commit, git = landing.commit, self._registry.scratch.git(self._registry.main)
        try:
            if not await is_ancestor(git, commit, target.commit):
                return None
            text, truncated = await unified(git, f"{commit}^1", commit, MOST_DIFF)
            brought = await changed_files(git, f"{commit}^1", commit)
        except GitError as error:
            raise Refusal(f"git could not show what landed: {error}.", "", Fault.BUSY) from error
        told = asdict(landing)
        told["method"] = "squash" if told.pop("squash") else "merge"
        paths = [name_of(record.last_path) for record in brought]
        return {**told, "diff": text, "truncated": truncated, "paths": paths}

    async def carry_out(
        self, action: ShowReview | MarkReviewed | ApplySuggestion, *, by: str, source_key: str
    ) -> str:
        """Do it; the room's answer, as markdown. Raises Refusal."""
        if isinstance(action, ShowReview):
            return shown(await self.state(action.agent, by), by)
        if isinstance(action, MarkReviewed):
            return await self.mark(action, by)
        await looked_for(self._registry, action.agent)
        sent = await self._store.read(lambda tx: journal.sent(tx, action.agent))
        found = next((each for each in sent if each.name == action.name), None)
        if found is None:
            raise Refusal(
                f"There is no comment {action.name} on the branch of {action.agent}.",
                f"`/review @{action.agent}` lists the newest ones.",
                Fault.UNKNOWN,
            )
        if found.deleted and not action.undo:
            raise Refusal(
                f"{references.message(found.message)} was deleted, so {found.name} is not applied.",
                "Comment on the lines anew.",
            )
        return await self._suggestions.apply(action, found, by, source_key)

    async def mark(self, action: MarkReviewed, by: str) -> str:
        """Keep that these files are reviewed as they are now, or that they are not. Raises Refusal."""
        # First whether it can be kept: nobody is told what git says where the room cannot.
        await self._store.read(lambda tx: journal.marks(tx, by, action.agent))
        worktree, told = await self._difference(action.agent, action.paths[0])
        now = {file["path"]: content_of(file) for file in told["files"]}
        if unknown := [path for path in action.paths if path not in now]:
            raise Refusal(
                f"The branch of {worktree.name} does not change {code_span(unknown[0])}.",
                f"`/review @{worktree.name}` lists what it changes.",
                Fault.UNKNOWN,
            )

        async def work(tx: Tx) -> int:
            marked = await journal.marks(tx, by, worktree.name)
            # What has changed since, or is not changed any more, is not kept.
            marked = {path: content for path, content in marked.items() if now.get(path) == content}
            for path in action.paths:
                marked.pop(path, None)
                marked |= {} if action.undo else {path: now[path]}
            await journal.put_marks(tx, by, worktree.name, marked)
            return len(marked)

        done = await self._store.write(work)
        files = f"{len(now)} file{'s' * (len(now) != 1)}"
        return f"{by} has reviewed {done} of {files} of {worktree.name}'s branch."

    async def prepared(
        self, agent: str, asked: Sequence[Wanted]
    ) -> tuple[SendReview, Callable[[Tx, Message], Awaitable[None]]]:
        """The message with these comments, and what is recorded with it. Raises Refusal."""
        worktree, told = await self._difference(agent, asked[0].path)
        git, texts = self._registry.scratch.git(worktree.checkout), dict[str, str]()
        comments = [await self._quoted(git, told, at, ask, texts) for at, ask in enumerate(asked)]
        commit = told["head"] or told["base"]
        text = said(comments, told["branch"] or "its branch", commit, dirty=told["dirty"])
        name = worktree.name

        async def record(tx: Tx, message: Message) -> None:
            await journal.record_sent(tx, message, name, commit, comments)

        return SendReview(name, text), record

    async def _quoted(self, git: Git, told: Json, at: int, ask: Wanted, texts: dict[str, str]) -> Comment:
        """The comment with the lines that it is about. Raises Refusal."""
        blob = ask.blob or await _blob(git, told, ask.path, ask.side)
        blob = blob and await git.maybe("rev-parse", "-q", "--verify", f"{blob}^{{blob}}")
        if not blob:
            raise refused(
                at,
                f"is about {safe_line(ask.path)}, which git has not got in that form.",
                "Look at the branch again: it may have changed.",
                Fault.UNKNOWN,
            )
        if blob not in texts:
            content = (await git.blobs([blob], most=MOST_BYTES)).get(blob, b"")
            if b"\0" in content:
                raise refused(at, f"is about {safe_line(ask.path)}, a binary file.", "Say it in a message.")
            texts[blob] = content.decode("utf-8", "replace")
        return await asyncio.to_thread(quote, at, ask, blob, texts[blob])

    async def _difference(self, agent: str, path: str = "") -> tuple[TrackedWorktree, Json]:
        """The worktree, and what it changes. Raises Refusal."""
        await looked_for(self._registry, agent)
        worktree = self._registry.find(agent)
        try:
            told = None if worktree is None else await difference(self._registry, worktree.name, path)
        except (GitError, WorktreeGone, OSError) as error:
            raise Refusal(f"git could not show it: {error}.", "", Fault.BUSY) from error
        if worktree is None or told is None:
            refusal = missing(self._registry, agent, f"review {agent}")
            raise refusal if refusal.code else Refusal(refusal.message, refusal.fix, Fault.UNKNOWN)
        return worktree, told

    async def _comments(self, worktree: TrackedWorktree, told: Json) -> list[Json]:
        """The comments on the branch, each with `stands`: the line on which its lines begin now, or None where they
        have changed; and with `applied`: the commit by which its suggestion was applied."""
        name, git = worktree.name, self._registry.scratch.git(worktree.checkout)
        sent, applied = await self._store.read(lambda tx: _both(tx, name))
        blobs = await _blobs(git, told, sent)
        stands = await asyncio.to_thread(_stand, blobs, sent)  # as long as the files are
        return [
            {
                **each.comment.as_json(),
                "id": each.name,
                "message": each.message,
                "by": each.by,
                "at": each.at,
                "commit": each.commit,
                "stands": at,
                "applied": applied[each.name]["commit"] if each.name in applied else None,
            }
            for each, at in zip(sent, stands, strict=True)
        ]


async def _both(tx: Tx, agent: str) -> tuple[list[SentComment], Mapping[str, Mapping[str, Any]]]:
    sent = [each for each in await journal.sent(tx, agent) if not each.deleted]
    return sent, await journal.applied(tx, agent)


async def _blob(git: Git, told: Mapping[str, Any], path: str, side: str) -> str | None:
    """git's id of a file on one side of the difference; None: it is not there."""
    file = next((file for file in told["files"] if path == file["path"]), None)
    if file is not None:
        known: str | None = file["new" if side == NEW else "old"]
        return known
    return await git.maybe(
        "rev-parse", "-q", "--verify", f"{told['tree'] if side == NEW else told['base']}:{path}"
    )


async def _blobs(
    git: Git, told: Mapping[str, Any], sent: Iterable[SentComment]
) -> dict[tuple[str, str], bytes]:
    """The files that these comments are about, as they are now, by path and side."""
    asked = dict.fromkeys((each.comment.path, each.comment.side) for each in sent)
    ids = {key: await _blob(git, told, *key) for key in asked}
    try:
        found = await git.blobs((id for id in ids.values() if id), most=MOST_BYTES)
    except GitError:
        return {}  # more than anybody reads: nothing is said to stand
    return {key: found[id] for key, id in ids.items() if id and id in found}


def _stand(blobs: Mapping[tuple[str, str], bytes], sent: Sequence[SentComment]) -> list[int | None]:
    """Of each comment the line on which its lines begin now, None where they have changed. Pure."""
    places: list[int | None] = [None] * len(sent)
    for key, blob in blobs.items():
        lines = lines_of(blob.decode("utf-8", "replace"))
        for at, each in enumerate(sent):
            if (each.comment.path, each.comment.side) == key:
                places[at] = place(lines, each.comment.lines, each.comment.first)
    return places


def landed(told: Mapping[str, Any]) -> str:
    """That the work has landed: when, as which commit, and how to see it. Pure."""
    commit = told["commit"][:9]
    as_one = " as one commit" if told["method"] == "squash" else ""
    return (
        f"It landed on {told['into']}{as_one} at {told['at'][:16].replace('T', ' ')} UTC, as {told['by']} asked: "
        f"commit {commit}. `git show -m --first-parent {commit}` shows it."
    )


def shown(told: Mapping[str, Any], person: str) -> str:
    """What the room says of a branch: its files with the marks of a person, and the comments that stand. Pure."""
    files = told["files"]
    done = sum(file["reviewed"] for file in files)
    added, removed = (sum(file[side] for file in files) for side in ("insertions", "deletions"))
    beside = " Some of it is not committed yet." if any(file["uncommitted"] for file in files) else ""
    into = told["into"] or "the main branch"
    many = f"{len(files)} file{'s' * (len(files) != 1)}"
    head = f"`{told['branch']}` of {told['agent']} against {into} ({told['base'][:9]}): "
    if not files:
        what = f"{head}no change." + (f" {landed(told['landed'])}" if told["landed"] else "")
        what += f" {told['under_way']}" if told["under_way"] else ""
        return "\n".join([what, *_open_comments(told, "Comments that were open when it landed:")])
    lines = [f"{head}{many}, +{added} -{removed}. {person} has reviewed {done}.{beside}", ""]
    if told["under_way"]:
        lines[1:1] = ["", told["under_way"]]
    if told["about"]:
        lines[1:1] = ["", f"It is about: {safe_line(about_said(told['about']), 120)}"]
    for file in files[:MOST_NAMED]:
        was = f", was {code_span(file['old_path'])}" if file["old_path"] else ""
        size = "binary" if file["binary"] else f"+{file['insertions']} -{file['deletions']}"
        not_yet = ", not committed" if file["uncommitted"] else ""
        mark = "x" if file["reviewed"] else " "
        lines.append(f"- [{mark}] {code_span(file['path'])} {size}{was}{not_yet}")
    lines += [f"- and {len(files) - MOST_NAMED} more"] if len(files) > MOST_NAMED else []
    lines += [f"\n{each}" for each in told["settled"]]
    return "\n".join([*lines, *_open_comments(told, "Comments whose lines stand:")])


def _open(comment: Mapping[str, Any], brought: Collection[str] | None) -> bool:
    """Nobody did what the comment says, as far as git knows: its suggestion is not applied, and its lines stand.
    `brought`: the files that landed, of a branch that has nothing more; what a comment on the old lines was about
    does not stand any more then. Pure."""
    if comment["applied"] or (brought is not None and comment["path"] not in brought):
        return False
    return comment["stands"] is not None or (brought is not None and comment["side"] == OLD)


def _open_comments(told: Mapping[str, Any], title: str) -> list[str]:
    """Lines, none where no comment is open. Pure."""
    still = [each for each in told["comments"] if each["open"]]
    return ["", title] * bool(still) + [
        f"- {each['id']} {code_span(each['path'])} line {each['stands'] or each['first']}, {each['by']}: "
        f"{safe_line(each['text'] or 'a suggestion', 120)}"
        + (f" (`/apply @{told['agent']} {each['id']}`)" if each["suggestion"] is not None else "")
        for each in still[:MOST_NAMED]
    ]
