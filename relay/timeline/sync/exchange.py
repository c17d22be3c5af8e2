"""Timelines between people, through git: each replica appends to a ref of its own and reads those of the others.

Invariants:
- `refs/relay/timeline/<replica>` has what this room shares; it moves only that ref, on top of what it was, so a push
  meets no conflict. `refs/relay/journal/<replica>` has everything that the room recorded; it is never pushed, and
  brings the log back when the database is lost. Both are logs of packs (`relay.git.ref_log`);
- a commit takes along the snapshots of the events in its pack, as far as they are kept, so their trees can be shown
  wherever the ref is. One with something like a secret in a file does not go (`tree_secrets`). What was pushed
  stays in the ref for as long as that is there;
- the refs say what was given, the settings only how far was looked: a setting that is lost or too old costs a look at
  the whole log, and gives nothing twice;
- what waits for its causes is read again at the next pull. A pull moves no branch and no file.

With a shared PostgreSQL database, everybody who uses it is one replica, and nothing has to be pushed among them. Each
may push for all, from a clone of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from relay.git.kept_snapshots import KeptSnapshots, ref_component
from relay.git.ref_log import LogCommit, append_commit, head_commit, list_refs, read_commits
from relay.git.remotes import fetch_refs, push_ref
from relay.git.run import Git, GitError
from relay.log import events
from relay.log.archived import ARCHIVED, ArchivedPart
from relay.log.encoding import dumps, loads
from relay.log.imported import make_replica_id, replica_id
from relay.model.refusals import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.timeline import checkpoints, projection
from relay.timeline.rewind import history
from relay.timeline.sync.batch import Incoming, RefusedEvent
from relay.timeline.sync.importing import ImportResult, import_events
from relay.timeline.sync.outgoing import Outgoing, read_page
from relay.timeline.sync.packs import BadPack, pack, unpack
from relay.timeline.sync.privacy import Sharing, SuspectText
from relay.timeline.sync.tree_secrets import find_secrets

TIMELINES, JOURNALS, FETCHED = "refs/relay/timeline/", "refs/relay/journal/", "refs/relay/fetched/"
#: The file of a commit that is the pack, and how many lines one has, about.
PACK, PACK_LINES = "events.z", 2000
#: Snapshots that stayed at home, which are looked at again when `not_secret` is another.
MOST_STAYED = 500
_REPLICA = re.compile(r"[0-9a-f]{16}")
_SENT, _READ, _RESTORING = "timeline.sent:", "timeline.read", "timeline.restoring"


@dataclass(frozen=True, slots=True)
class AppendResult:
    """`events` that went into the ref, in `packs`, with `trees` of snapshots. `withheld`: payloads that stayed at
    home for what looks like a secret, `unsafe`: events whose files did, with their paths; `held`: the keys of lanes
    that are held back; `suspects`: the texts for which all that stayed."""

    replica: str
    events: int = 0
    packs: int = 0
    trees: int = 0
    withheld: int = 0
    unsafe: tuple[tuple[str, tuple[str, ...]], ...] = ()
    held: tuple[str, ...] = ()
    suspects: tuple[SuspectText, ...] = ()


class TimelineExchange:
    """A room's part in the exchange. `git`: in the room's repository; `kept`: its snapshots."""

    def __init__(self, store: Store, git: Git, kept: KeptSnapshots) -> None:
        self._store, self._git, self._kept = store, git, kept
        self._one_at_a_time = asyncio.Lock()

    async def push(self, remote: str, sharing: Sharing) -> AppendResult:
        """Give what is shared and not given yet to a remote (its name, or an address). Raises GitError."""
        async with self._one_at_a_time:
            own = await self._store.write(make_replica_id)
            ref = f"{TIMELINES}{own}"
            await self._fetch(remote)
            await self._go_on(ref, f"{_fetched(remote)}{own}")
            done = await self._append(own, ref, sharing, remote)
            if await head_commit(self._git, ref) is not None:
                await push_ref(self._git, remote, ref)
            return done

    async def keep(self) -> AppendResult:
        """Append what was recorded since the last time to the journal, which stays here. Raises GitError."""
        async with self._one_at_a_time:
            known = await self._store.read(replica_id)
            own = await self._store.write(make_replica_id) if known is None else known
            return await self._append(own, f"{JOURNALS}{own}", None)

    async def pull(self, remote: str) -> ImportResult:
        """Take in what others have given to a remote. Raises GitError."""
        async with self._one_at_a_time:
            own = await self._store.write(make_replica_id)
            await self._fetch(remote)
            refs = [
                ref for ref in await list_refs(self._git, _fetched(remote)) if not ref.endswith(f"/{own}")
            ]
            return await self._import(own, refs)

    async def restore(self, replica: str | None = None, archives: Path | None = None) -> ImportResult:
        """Bring back what the journal has of this room into a database that lost it, and what was fetched of others.
        What it lacks of a part that was archived (a journal that began later, in another clone) comes from the
        folder `archives`.
        What was recorded since the last `keep` is gone. `replica`: whose journal, where there are several. One that
        was ended in between goes on. Raises Refusal where the log has something, and where it is not clear which
        journal; GitError."""
        async with self._one_at_a_time:
            own = await self._store.read(replica_id)
            if own is None or await self._store.read(lambda tx: events.setting(tx, _RESTORING)) != own:
                if await self._store.read(events.last_pos):
                    raise Refusal(
                        "The database has a log, and one is brought back into an empty database only.",
                        "Stop the room, move its database away, and do this again.",
                    )
                own = await self._choose_journal(own, replica)
            id = own

            async def begin(tx: Tx) -> None:
                await make_replica_id(tx, id)
                await events.put_setting(tx, _RESTORING, id)

            await self._store.write(begin)
            others = [ref for ref in await list_refs(self._git, FETCHED) if not ref.endswith(f"/{own}")]
            done = await self._import(own, [f"{JOURNALS}{own}", *others], anew=True, archives=archives)
            await projection.rebuild(self._store)
            await history.rebuild(self._store)
            await checkpoints.rebuild(self._store)
            await self._store.write(lambda tx: events.put_setting(tx, _RESTORING, ""))
            return done

    async def _choose_journal(self, known: str | None, replica: str | None) -> str:
        """The replica whose journal is brought back. `known`: the room's id, where it has one already."""
        journals = [ref.removeprefix(JOURNALS) for ref in await list_refs(self._git, JOURNALS)]
        journals = [id for id in journals if _REPLICA.fullmatch(id)]
        wanted = [id for id in journals if replica in (None, id) and known in (None, id)]
        if len(wanted) == 1:
            return wanted[0]
        which = f"those of {', '.join(journals)}" if journals else "none"
        asked = "one journal" if replica is None else f"the journal of {replica[:40]}"
        if known is not None:
            asked = f"the journal of {known}, which this room is by now,"
        raise Refusal(
            f"To bring the log back, {asked} has to be in the repository; there are {which}.",
            "Name one of them (--replica ID)." if len(wanted) > 1 else "",
            Fault.UNKNOWN,
            details={"candidates": journals},
        )

    # -- out

    async def _go_on(self, ref: str, given: str) -> None:
        """Go on from what this room has given from another clone of the repository, where that is ahead."""
        here, there = await head_commit(self._git, ref), await head_commit(self._git, given)
        if there is None or here == there:
            return
        if here is None or await self._git.maybe("merge-base", here, there) == here:
            await self._git.run("update-ref", "--no-deref", ref, there, here or "0" * len(there))

    async def _append(self, own: str, ref: str, sharing: Sharing | None, remote: str = "") -> AppendResult:
        names = None if sharing is None else sorted(sharing.names)
        cursor = f"{_SENT}{ref}"
        if sharing is None:
            # Each clone of those who share a database has a journal of its own.
            place = str(self._git.folder.resolve()).encode(errors="surrogateescape")
            cursor += f"@{hashlib.sha256(place).hexdigest()[:12]}"
        sent = await self._sent(cursor)
        given: set[str] = set()
        head = await head_commit(self._git, ref)
        passed = [] if sharing is None else sorted(sharing.not_secret)
        trees: dict[str, list[str]] = {}  # with their events
        stayed: dict[str, list[str]] = sent.get("unsafe", {})
        if sent.get("not_secret", []) != passed:
            trees, stayed = stayed, {}
        if sent.get("commit") != head or sent.get("share") != names or sent.get("not_secret", []) != passed:
            # Another copy of the repository, a run that was ended, or others, or more, are shared now.
            given, sent = await self._given(ref), {}
        kept = frozenset[str]()
        if sharing is not None:
            kept = frozenset(snapshot.tree for snapshot in await self._kept.all())
            trees = {tree: of for tree, of in trees.items() if tree in kept}
        page = Outgoing(int(sent.get("pos", 0)), dict(sent.get("held", {})))
        events_ = packs = trees_ = withheld = 0
        lines: list[str] = []
        held_for = [SuspectText(*about) for about in sent.get("why", ())]
        suspects: list[SuspectText] = []
        unsafe: list[tuple[str, tuple[str, ...]]] = []
        ended = False
        while not ended:
            after, held = page.upto, page.held

            async def work(tx: Tx, after: int = after, held: Mapping[str, int] = held) -> Outgoing:
                return await read_page(tx, after, sharing, held)

            page = await self._store.read(work, long=True)
            held_for += page.why
            for id, event in page.events.items():
                if id not in given:
                    lines += event.lines
                    if event.tree is not None and event.tree in kept:
                        trees.setdefault(event.tree, []).append(id)
                    events_ += 1
                    withheld += len({suspect.where for suspect in event.withheld})
                    suspects += event.withheld
            ended = page.upto == after
            if (lines or trees) and (ended or len(lines) >= PACK_LINES):
                data = await asyncio.to_thread(pack, lines)
                message = f"{len(lines)} lines of the timeline\n"
                if trees and sharing is not None:
                    found = await find_secrets(self._git, [*trees], ref, remote, sharing)
                    for tree, paths in found.items():
                        stayed[tree] = trees.pop(tree)
                        unsafe += [(id, tuple(paths)) for id in stayed[tree]]
                        suspects += [
                            SuspectText(id, path, digest)
                            for id in stayed[tree]
                            for path, digests in paths.items()
                            for digest in digests
                        ]
                if lines or trees:
                    head = await append_commit(
                        self._git, ref, {PACK: data}, sorted(trees), message, int(time.time())
                    )
                    packs, trees_ = packs + 1, trees_ + len(trees)
                lines, trees = [], {}
        now: dict[str, Any] = {"commit": head, "pos": page.upto, "share": names, "held": page.held}
        if sharing is not None:
            now |= {"not_secret": passed, "why": [astuple(about) for about in held_for]}
            now["unsafe"] = dict([*stayed.items()][-MOST_STAYED:])
        if now != sent:
            value = dumps(now)
            await self._store.write(lambda tx: events.put_setting(tx, cursor, value))
        return AppendResult(
            own,
            events_,
            packs,
            trees_,
            withheld,
            tuple(unsafe),
            tuple(sorted(page.held)),
            (*suspects, *held_for),
        )

    async def _sent(self, cursor: str) -> dict[str, Any]:
        """How far the log was looked at, by the setting of this name."""
        text = await self._store.read(lambda tx: events.setting(tx, cursor))
        return {} if text is None else dict(json.loads(text))

    async def _given(self, ref: str) -> set[str]:
        """The ids of the events that stand in a ref."""
        given: set[str] = set()
        if await head_commit(self._git, ref) is not None:
            incoming = Incoming()
            for commit in await read_commits(self._git, ref, PACK):
                given.update(await asyncio.to_thread(_read_pack, incoming, "", commit))
        return given

    # -- in

    async def _fetch(self, remote: str) -> None:
        await fetch_refs(self._git, remote, TIMELINES, _fetched(remote))

    async def _import(
        self, own: str, refs: Iterable[str], *, anew: bool = False, archives: Path | None = None
    ) -> ImportResult:
        """Import what is new in these refs; `anew`: all that they have."""
        text = None if anew else await self._store.read(lambda tx: events.setting(tx, _READ))
        cursors: dict[str, str] = {} if text is None else dict(json.loads(text))
        incoming = Incoming()
        read: dict[str, tuple[str, set[str]]] = {}
        for ref in refs:
            origin = ref.rpartition("/")[2]
            if not _REPLICA.fullmatch(origin):
                incoming.refused.append(RefusedEvent("?", origin[:40], "it is no replica of a room"))
                continue
            ids: set[str] = set()
            newest = cursors.get(ref)
            try:
                commits = await read_commits(self._git, ref, PACK, newest)
            except GitError as error:
                incoming.refused.append(RefusedEvent("?", origin, f"its packs cannot be read: {error}"))
                continue
            for commit in commits:
                ids.update(await asyncio.to_thread(_read_pack, incoming, origin, commit))
                newest = commit.commit
            if newest is not None:
                read[ref] = (newest, ids)
        if archives is not None:
            await asyncio.to_thread(_read_archives, incoming, own, archives)
        done = await import_events(self._store, incoming, own)
        waiting = {event.id for event in done.waiting}
        cursors |= {ref: newest for ref, (newest, ids) in read.items() if not ids & waiting}
        value = dumps(cursors)
        await self._store.write(lambda tx: events.put_setting(tx, _READ, value))
        return done


def _fetched(remote: str) -> str:
    """Where the refs of a remote stand here."""
    return f"{FETCHED}{ref_component(remote)}/"


def _read_pack(incoming: Incoming, origin: str, commit: LogCommit) -> list[str]:
    """Take a commit's pack in; gives the ids of its events."""
    try:
        lines = unpack(b"" if commit.data is None else commit.data)
    except BadPack as bad:
        incoming.refused.append(RefusedEvent("?", origin, f"the pack {commit.commit[:12]} is damaged: {bad}"))
        return []
    return incoming.read(origin, lines)


def _read_archives(incoming: Incoming, own: str, folder: Path) -> None:
    """Take in what the archives that this room's events name have, where some of that is missing."""
    named = [
        event
        for event in incoming.events.values()
        if event.row["type"] == ARCHIVED and incoming.origins[event.id] == own
    ]
    for event in named:
        part = ArchivedPart.of_json(loads(event.row["outputs"]))
        if all(id in incoming.events for _, id in part.heads.values()):
            continue
        try:
            data = (folder / part.file).read_bytes()
            if hashlib.sha256(data).hexdigest() != part.sha256:
                raise BadPack("its content is not what was archived")
            for line in map(loads, unpack(data)):
                incoming.read(line.get("origin") or own, [line["event"]])
        except (OSError, BadPack) as error:
            reason = f"the archive {part.file} cannot be read: {error}"
            incoming.refused.append(RefusedEvent("?", own, reason))
