"""What a comment suggests, committed onto the agent's branch by a person, and taken back.

Invariants: nothing is written while the agent's turn runs, nor into a file that somebody else has locked. The lines
are those of the comment, or nothing is written. What the agent had not committed is committed before, as before a
merge. What is planned, with the commit's id, is kept before the branch moves, and is gone in the transaction of its
record: whoever is killed in between finds by that id whether it was done, and records it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import WorktreeChange, is_ancestor
from relay.airspace.worktrees.merging.filters import refuse_to_filter
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeSource
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import LockedFiles
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.app.review import journal
from relay.app.review.comments import Comment, lines_of, place, replaced
from relay.app.review.journal import SentComment
from relay.git.diff import changed_files, touches_of
from relay.git.run import Git, GitError
from relay.git.signing import of_named, of_person, of_relay, signed
from relay.git.snapshot import commit_tree
from relay.log import events
from relay.log.commit_trailers import SUGGESTIONS
from relay.merge.resolution.journal import settled
from relay.model import Refusal
from relay.model.actions import ApplySuggestion
from relay.model.touches import Source
from relay.room.dispatch.permissions import code_span
from relay.room.journal import ledger
from relay.store.ports import Store, Tx
from relay.timeline.file_changes import record_changes
from relay.timeline.projection import UNKNOWN_LANE, last_tree
from relay.timeline.rewind.tree_entries import REGULAR, Entry, tree_with

#: Bytes of a file that lines are replaced in.
MOST_FILE = 8 * 1_048_576
#: The change of a worktree that this is.
SUGGESTED = "suggested"


class Suggestions:
    """On the worktrees of one registry."""

    def __init__(
        self, store: Store, registry: WorktreeRegistry, actions: WorktreeActions, updates: BranchUpdates
    ) -> None:
        self._store, self._registry = store, registry
        self._actions, self._updates = actions, updates

    async def apply(self, action: ApplySuggestion, sent: SentComment, by: str, source_key: str) -> str:
        """Commit what the comment suggests, or what stood there before (`undo`), once for each `source_key`; what the
        room says of it. Raises Refusal, and then nothing of it is on the branch."""
        if (there := self._registry.find(action.agent)) is not None:
            await self.settle(there)
        done = await self._store.read(lambda tx: events.of_source(tx, source_key))
        if done is not None:
            return str(done.outputs["text"])
        comment = sent.comment
        if comment.suggestion is None:
            raise Refusal(f"{sent.name} suggests no lines.", "Ask the agent for a change.")
        standing = (await self._store.read(lambda tx: journal.applied(tx, action.agent))).get(sent.name)
        if action.undo and standing is None:
            raise Refusal(f"{sent.name} is not applied, so there is nothing to take back.")
        if not action.undo and standing is not None:
            raise Refusal(
                f"{sent.name} was applied by {standing['by']} ({str(standing['commit'])[:9]}).",
                f"`/apply @{action.agent} {sent.name} undo` takes it back.",
            )
        async with self._actions.changing(self._actions.own(action.agent, "changed"), "changed") as worktree:
            try:
                text = await self._write(worktree, action, sent, standing, by, source_key)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not commit it: {error}.") from error
            finally:
                worktree.mark_stale(None)
                self._registry.wake.set()
        await self._registry.refresh()  # what was tested before is not what stands there now
        await self._registry.merge_trials.trials(await self._registry.target())  # nor what was settled
        return text

    async def settle(self, worktree: TrackedWorktree) -> None:
        """Record what a room that was killed has applied on this branch, or finish it where the files have it; drop
        what it had only planned. Raises Refusal."""
        name = self._registry.checkout_name(worktree.name)
        if await self._store.read(lambda tx: journal.planned(tx, name)) is None:
            return
        async with self._registry.exclusive, worktree.lock:
            # What was under way here meanwhile is recorded by now.
            plan = await self._store.read(lambda tx: journal.planned(tx, name))
            if plan is None:
                return
            try:
                done = await self._is_done(worktree, plan)
            except (GitError, WorktreeGone, OSError) as error:
                raise Refusal(f"git could not say whether a suggestion was applied: {error}.") from error
            if done:
                await self._record(worktree, plan)
            else:
                await self._store.write(lambda tx: journal.put_plan(tx, name, None))
        worktree.mark_stale(None)
        self._registry.wake.set()

    async def _is_done(self, worktree: TrackedWorktree, plan: Mapping[str, Any]) -> bool:
        """Is the planned commit on the branch? It is put there where its files stand in the worktree already. Raises
        GitError."""
        git, branch, commit = worktree.checkout.git, str(plan["branch"]), str(plan["told"]["commit"])
        if await git.maybe("rev-parse", "-q", "--verify", f"{commit}^{{commit}}") is None:
            return False
        head = await git.maybe("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}")
        if head is None:
            return False
        if await is_ancestor(git, commit, head):
            return True
        merger, source = await self._updates.merger(worktree)
        snapshot = source.snapshot
        if (snapshot.head.branch, head, snapshot.tree) != (branch, plan["head"], plan["after"]):
            return False
        own = self._registry.scratch.git(worktree.checkout, worktree.checkout.index)
        await own.run("read-tree", "--reset", commit)
        await own.run("update-index", "-q", "--refresh", ok=(0, 1))
        await merger.move_branch(worktree.checkout, branch, head, commit, "relay: a suggestion")
        return True

    async def _write(
        self,
        worktree: TrackedWorktree,
        action: ApplySuggestion,
        sent: SentComment,
        standing: Mapping[str, Any] | None,
        by: str,
        source_key: str,
    ) -> str:
        assert self._registry.main is not None and self._registry.lifecycle is not None
        comment, scratch = sent.comment, self._registry.scratch
        merger, source = await self._updates.merger(worktree)
        branch = await merger.source(source)
        try:
            await self._registry.room.check_merge(worktree.name, by, [comment.path])
        except LockedFiles as refusal:
            fix = f"Wait, or `/unlock {comment.path} why` takes the lock; then apply it again."
            raise Refusal(refusal.message, fix) from None
        git, before = scratch.git(worktree.checkout), source.snapshot.tree
        entry, text = await _file(git, before, comment.path)
        first, lines = _lines(sent, standing if action.undo else None, entry, text)
        count = len(comment.suggestion or ()) if action.undo else len(comment.lines)
        content = replaced(text, first, count, lines).encode()
        blob = (await git.run("hash-object", "-w", "--stdin", stdin=content)).text
        if action.undo and standing is not None and entry.oid == standing["blob"]:
            # The file as it was, to the last byte; former records have not kept it.
            blob = str(standing.get("stood") or blob)
        if blob == entry.oid:
            raise Refusal(f"{code_span(comment.path)} has these lines already.")
        index = scratch.folder / f"index-suggestion-{worktree.name.lower()}"
        tree = await tree_with(git, before, {comment.path.encode(): Entry(entry.mode, blob)}, index)
        fix = f"Change the file by hand in {worktree.checkout.top}."
        changed = await changed_files(git, before, tree, renames=False)
        await refuse_to_filter(scratch, worktree.checkout, changed, tree, fix)
        head = await self._committed(merger, source, branch)
        person = await of_named(self._registry.main, by)
        message = _message(sent, comment, by, undo=action.undo)
        commit = await commit_tree(git, tree, [head], message, signed(person, person))
        await scratch.publish(worktree.checkout, commit, [head])
        verb = "took back" if action.undo else "applied"
        answer = (
            f"{by} {verb} the suggestion {sent.name} in {code_span(comment.path)} on {worktree.name}'s branch "
            f"(commit {commit[:9]})."
        )
        if not action.undo:
            answer += f" `/apply @{worktree.name} {sent.name} undo` takes it back."
        answer += await self._asks_anew(source.snapshot.commit, commit)
        told = {
            **{"agent": worktree.name, "comment": sent.name, "undo": action.undo, "commit": commit, "by": by},
            **{
                "path": comment.path,
                "tree": tree,
                "branch": branch,
                "first": first,
                "blob": blob,
                "stood": entry.oid,
                "text": answer,
            },
        }
        name = self._registry.checkout_name(worktree.name)
        known = await self._store.read(lambda tx: last_tree(tx, name))
        plan = {
            **{"told": told, "branch": branch, "head": head, "before": before, "after": tree},
            **{"stood": known.tree if known is not None else before, "cause": sent.event, "key": source_key},
        }
        await self._store.write(lambda tx: journal.put_plan(tx, name, plan), durable=True)
        try:
            await self._registry.lifecycle.forward(worktree.checkout, branch, head, commit)
        except GitError:
            await self._store.write(lambda tx: journal.put_plan(tx, name, None))
            raise
        await self._record(worktree, plan)
        return answer

    async def _asks_anew(self, before: str, after: str) -> str:
        """A sentence of what was settled in the work at the commit `before` and does not hold at `after`; empty where
        that is nothing, or is not known."""
        try:
            was, now = [await self._actions.against_main(commit) for commit in (before, after)]
        except (Refusal, GitError):
            return ""
        gone = {part.id for part in was.parts if part.settled} - {part.id for part in now.parts}
        if now.merge is None or now.merge.clean or not gone:
            return ""
        lost = [each.name for each in await self._store.read(lambda tx: settled(tx, sorted(gone)))]
        if not lost:
            return ""
        named = " and ".join(lost)
        return f" {named} {'do' if len(lost) > 1 else 'does'} not hold any more: landing asks anew about these lines."

    async def _committed(self, merger: BranchMerger, source: MergeSource, branch: str) -> str:
        """The branch's head, with what the agent had not committed yet."""
        assert self._registry.main is not None
        text = await merger.message_of_work(source)
        committer = await of_person(self._registry.main) or of_relay(source.agent)
        return await merger.commit_work(source, branch, text, committer)

    async def _record(self, worktree: TrackedWorktree, plan: Mapping[str, Any]) -> None:
        """Record a plan that is on the branch, and drop it, in one transaction."""
        told, before, after, stood = plan["told"], plan["before"], plan["after"], plan["stood"]
        name, lane = self._registry.checkout_name(worktree.name), ledger.person_lane(told["by"])
        change = WorktreeChange(
            *(SUGGESTED, worktree.name, plan["branch"], told["by"], "", told["commit"]),
            {"path": told["path"]},
        )
        git = self._registry.scratch.git(worktree.checkout)
        # What somebody wrote there that no turn has told of is not the person's.
        others = touches_of(await changed_files(git, stood, before))
        touches = touches_of(await changed_files(git, before, after))

        async def also(tx: Tx) -> None:
            await journal.put_plan(tx, name, None)
            applied = await journal.record_applied(
                tx, worktree.name, told, cause=[plan["cause"]], source_key=plan["key"]
            )
            known = await last_tree(tx, name)
            if known is not None and known.tree != stood:
                return  # a turn that began since has told of these files already
            await record_changes(
                tx, UNKNOWN_LANE, others, source=Source.TREE, before=stood, after=before, worktree=name
            )
            await record_changes(
                tx,
                lane,
                touches,
                source=Source.PERSON,
                before=before,
                after=after,
                worktree=name,
                parents=[applied.id],
                branch=change.branch,
            )

        await self._registry.room.record(change, also)


async def _file(git: Git, tree: str, path: str) -> tuple[Entry, str]:
    """A text file of a tree. Raises Refusal."""
    shown = code_span(path)
    found = (await git.run("ls-tree", "-z", tree, "--", path)).out.partition(b"\t")[0].decode().split()
    if len(found) != 3 or found[1] != "blob":
        if "\\x" in path and path in (await git.run("ls-tree", "-r", "-z", "--name-only", tree)).text.split(
            "\0"
        ):
            raise Refusal(f"The name of {shown} is no UTF-8.", "Change it by hand. Nothing was written.")
        raise Refusal(f"The branch has no file {shown} any more.", "Nothing was written.")
    if found[0] not in REGULAR:
        raise Refusal(f"{shown} is a link, which has no lines.", "Nothing was written.")
    content = (await git.blobs([found[2]], most=MOST_FILE)).get(found[2], b"")
    try:
        return Entry(found[0], found[2]), content.decode()
    except UnicodeDecodeError:
        raise Refusal(f"{shown} is no UTF-8 text.", "Change it by hand.") from None


def _lines(
    sent: SentComment, standing: Mapping[str, Any] | None, entry: Entry, text: str
) -> tuple[int, tuple[str, ...]]:
    """Where lines are replaced, and by which. `standing`: how the suggestion was applied, to take it back; None = to
    apply it. Raises Refusal: the lines are others now."""
    comment, name = sent.comment, code_span(sent.comment.path)
    suggestion = comment.suggestion or ()
    if standing is None:
        first = place(lines_of(text), comment.lines, comment.first)
        if first is None:
            message = f"The lines of {sent.name} in {name} have changed since, or stand in several places."
            raise Refusal(message, "Nothing was written. Comment on the lines as they are now.")
        return first, suggestion
    by_hand = f"Nothing was written. By hand: `git revert {str(standing['commit'])[:9]}` in its worktree."
    if entry.oid == standing["blob"]:
        return int(standing["first"]), comment.lines
    first = place([line.rstrip("\r") for line in lines_of(text)], suggestion, int(standing["first"]))
    if first is None:
        raise Refusal(f"What {sent.name} suggests stands in {name} no more as it was applied.", by_hand)
    return first, comment.lines


def _message(sent: SentComment, comment: Comment, by: str, *, undo: bool) -> str:
    what = f"{SUGGESTIONS[undo]}{sent.by}"
    words = "" if undo or not comment.text else f"{comment.text}\n\n"
    did = "took it back" if undo else "applied it"
    return f"{what} in {comment.path}\n\n{words}Comment {sent.name} in the room; {by} {did}.\n"
