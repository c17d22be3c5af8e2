"""A file with who is behind each of its lines, as every interface shows it (docs/merge.md).

Invariants: the repository is only read; what git has to write stands in a scratch folder that is removed. It is the
same with a room that runs, with its database alone, and with neither.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.airspace.worktrees.lifecycle import CHANGED, MERGED
from relay.config.settings import Settings
from relay.faces.named_commits import NamedCommit, named_commit
from relay.git.checkout import Checkout, UnusableCheckout, open_checkout
from relay.git.run import Git, GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.trial_merge import Merge
from relay.merge.blame import Answer, BlamedLines, Known, Landing, blame
from relay.merge.joining import Joiner, nothing_chosen
from relay.merge.resolution import journal
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import compare, moments, reading
from relay.timeline.projection import CHANGED as FILES_CHANGED
from relay.timeline.projection import last_tree
from relay.timeline.reading import MOST_PAGE, Filter

Json = dict[str, Any]
#: Conflicts, the newest, among whose answers those of a file are looked for.
MOST_ANSWERS = 1000
#: Seconds that one file of a merge of which nothing is recorded may take, when it is tried anew.
JOIN_S = 2.0


@dataclass(frozen=True, slots=True)
class BlamedFile:
    """Who is behind the lines of a file, and its text."""

    path: str
    commit: str
    text: str
    lines: tuple[BlamedLines, ...]

    def as_json(self) -> Json:
        """`{path, commit, lines: [{first, last, kind, who, commit, at, subject}], shares: [{kind, who, lines}]}`;
        `shares`: the most lines first."""
        counts: dict[tuple[str, str], int] = {}
        for each in self.lines:
            key = str(each.kind), each.who
            counts[key] = counts.get(key, 0) + each.last - each.first + 1
        shares = sorted(counts.items(), key=lambda share: (-share[1], share[0]))
        return {
            "path": self.path,
            "commit": self.commit,
            "lines": [each.as_json() for each in self.lines],
            "shares": [{"kind": kind, "who": who, "lines": count} for (kind, who), count in shares],
        }


async def blamed_file(
    repo: Path,
    path: str,
    at: str | None = None,
    *,
    settings: Settings | None = None,
    store: Store | None = None,
) -> BlamedFile:
    """Who is behind the lines of the file `path` (relative to the top of the checkout `repo`) as it is committed.
    `at`: a branch, a commit, an agent, or a moment of the timeline (#12); None = what the checkout stands on. Raises
    Refusal."""
    joiner = Joiner()

    async def join(git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        return await joiner.join(git, ours, theirs, merge, nothing_chosen, timeout_s=JOIN_S)

    try:
        async with scratch_of(repo) as (checkout, git):
            named = await _at(checkout, at, settings, store)
            file = await compare.file(git, named.commit, path)
            if file["binary"] or file["kind"] != "file":
                raise Refusal(
                    f"{path[:200]!r} has no lines of text.", "Name a file of text.", Fault.MALFORMED
                )
            agents, unlanded = frozenset(settings.agent_names if settings is not None else ()), None
            if named.agent is not None:
                head = await checkout.git.maybe("rev-parse", "-q", "--verify", "HEAD")
                unlanded = (named.agent, head) if head else None
            known = await known_of(checkout, file["path"], agents, store, unlanded)
            lines = await blame(git, named.commit, file["path"], known, join)
            return BlamedFile(file["path"], named.commit, file["text"], tuple(lines))
    except UnusableCheckout as error:
        raise Refusal(
            f"{error}.", "Lines are told apart in a git repository.", Fault.UNKNOWN, "not_found"
        ) from error
    except (GitError, OSError) as error:
        raise Refusal(f"git could not do it: {error}.", "", Fault.UNAVAILABLE) from error
    finally:
        await joiner.close()


@asynccontextmanager
async def scratch_of(repo: Path) -> AsyncIterator[tuple[Checkout, Git]]:
    """The checkout, and git over its objects that writes to a scratch. Raises UnusableCheckout, GitError."""
    checkout = await open_checkout(repo)
    with tempfile.TemporaryDirectory(prefix="relay-look-") as made:
        scratch = ScratchRepository(Path(made) / "git")
        await scratch.empty(checkout.hash)
        await scratch.borrow([checkout])
        yield checkout, scratch.git(checkout)


async def _at(
    checkout: Checkout, at: str | None, settings: Settings | None, store: Store | None
) -> NamedCommit:
    if at is None or not at.startswith("#") or store is None:
        return await named_commit(checkout, at or "HEAD", settings)

    async def work(tx: Tx) -> str | None:
        moment = await moments.resolve(tx, at)
        known = await last_tree(tx, compare.MAIN, moment.pos)
        same = known is not None and moment.tree in (None, known.tree, known.commit)
        return known.commit if known is not None and same else None

    commit = await store.read(work)
    if commit is None:
        raise Refusal(
            f"What stood at {at[:40]} is no commit of the main branch.",
            "Lines are told apart in what is committed.",
            Fault.UNKNOWN,
            "unknown_moment",
        )
    return NamedCommit(commit, None)


async def known_of(
    checkout: Checkout,
    path: str,
    agents: frozenset[str],
    store: Store | None,
    unlanded: tuple[str, str] | None = None,
) -> Known:
    """What the room knows of the commits that a file may come from. `agents`: their names; `unlanded`: as of
    `Known`."""
    if store is None:
        return Known(agents, unlanded=unlanded)

    async def work(tx: Tx) -> tuple[list[Json], list[Answer], dict[str, str]]:
        changes = await reading.page(tx, Filter(types=(CHANGED,)), MOST_PAGE)
        merges = [event.outputs for event in changes if event.outputs["change"] == MERGED]
        answers = [
            Answer(
                path, text, str(kind.get("resolver_agent") or kind.get("user_id")), "resolver_agent" in kind
            )
            for asked in await journal.newest(tx, limit=MOST_ANSWERS)
            if asked.part.path == path and asked.resolution is not None
            for kind in [asked.resolution["resolution_type"]]
            for text in [asked.resolution["merged_content"]]
            if text and kind["type"] in ("agent_resolved", "human_resolved")
        ]
        writes = await reading.page(tx, Filter(path=path, types=(FILES_CHANGED,)), MOST_PAGE)
        brought = {
            touch["after"]: event.outputs["merged"]["of"][0]
            for event in writes
            if event.outputs.get("worktree") == compare.MAIN and event.outputs.get("merged")
            for touch in event.outputs["touches"]
            if touch["after"] and event.outputs["merged"]["of"][0] in agents
        }
        return merges, answers, brought

    merges, answers, brought = await store.read(work)
    landings = {
        merge["commit"]: Landing(
            merge["agent"],
            {file["path"]: file["by"] for file in merge.get("joined") or ()},
            await _kept(checkout, merge),
        )
        for merge in merges
        if merge["commit"]
    }
    return Known(agents, landings, answers, brought, unlanded)


async def _kept(checkout: Checkout, merge: Json) -> str:
    """The commit that a squash made one commit of, as far as it is kept; "" = it was none."""
    if merge.get("method") != "squash" or not merge.get("kept"):
        return ""
    return await checkout.git.maybe("rev-parse", "-q", "--verify", f"{merge['kept']}^{{commit}}") or ""
