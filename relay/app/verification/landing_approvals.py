"""Whose branch needs a person before it lands, and whether a person has agreed.

Invariant: what decides is the policies as they are when it is about to be tested. A branch that was looked at while
they had a fault, or before one was written, is asked about all the same. What relay joins and nothing tests lands
when a person has agreed to these files as they are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.verification import landing_words as words
from relay.app.verification.landing_git import LandingGit, Link
from relay.app.verification.landing_record import LandingRecord
from relay.app.verification.trees import NoTree, look_up
from relay.app.verification.verifier import Verifier
from relay.git.run import GitError
from relay.store.ports import Store, Tx
from relay.verification import approvals
from relay.verification import journal as verifications
from relay.verification.approvals import Answer, Approval
from relay.verification.attempts import needs_person
from relay.verification.landing import journal
from relay.verification.landing.entry import OPEN, Entry, EntryState
from relay.verification.policies import Policy, route
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies
from relay.verification.verification import Change, Outcome, Result, Source, State, Verification, digest_of

#: Verifications of an agent among which a look at the same joined files is searched for.
_MOST_SEARCHED = 50


class LandingApprovals:
    """Of the entries of one room."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        policies: Policies,
        verifier: Verifier,
        record: LandingRecord,
        git: LandingGit,
    ) -> None:
        self._store, self._registry, self._git = store, registry, git
        self._policies, self._verifier, self._record = policies, verifier, record
        #: Entries that nothing tests, and whose join nobody has looked at: the main branch's commit, and the merge.
        self._unseen: dict[int, tuple[str, Link]] = {}

    async def policies_of(self, entry: Entry) -> tuple[str, ...]:
        """The names of those that the entry's work routes to; none where nobody can tell now."""
        try:
            change = await look_up(self._registry, _change_of(entry))
            matches = route(await self._policies.all(), change.files or ()).matches
        except (BadPolicies, NoTree, GitError, OSError):
            return ()  # its batch says what is wrong
        return tuple(match.policy.name for match in matches)

    async def approved(self, entry: Entry, main: str) -> bool:
        """Has a person agreed to all that needs it? If not, it is asked for, and said what the entry waits for; what
        a person has rejected is put out. `main`: the main branch's commit."""
        on, link = self._unseen.pop(entry.number, ("", None))
        same = link is not None and (on, link.entry.at_commit) == (main, entry.at_commit)
        if link is not None and same and await self._looked_at(link) is None:
            self._unseen[entry.number] = on, link
            return False  # the merge is made again when somebody has looked at it
        return await self._approved(entry)

    async def _approved(self, entry: Entry) -> bool:
        try:
            policies = await self._policies.all()
            change, wanted = await self._wanted(entry, policies)
        except NoTree:
            return True  # it changes nothing
        except (BadPolicies, GitError, OSError) as error:
            await self._record.hold(entry, f"it is not known who has to approve it: {error}", say=True)
            return False
        if not wanted:
            return True
        verification, results, asked = await self._asked(entry)
        known = {result.digest for result in results}
        if verification is None or (verification.state is not State.QUEUED and not wanted <= known):
            await self._ask(entry, change)
        elif verification.state is State.PASSED:
            return True
        elif verification.state in (State.QUEUED, State.RUNNING, State.WAITING):
            waiting = [result for result in results if result.state is Outcome.WAITING]
            same = await self._store.read(lambda tx: approvals.covering(tx, waiting))
            open_ = [each.name for each in asked if each.state is Answer.WAITING] or [
                same.name if same else ""
            ]
            await self._record.hold(entry, f"a person has to approve it: {', '.join(open_)}".rstrip(": "))
        else:
            reason = verification.reason or f"It was not approved ({verification.state})."
            await self._record.put_out(entry, reason)
        return False

    async def looked_at(self, links: Sequence[Link], main: str) -> list[Link]:
        """These, which nothing tests, with a person's word on what relay joins in each. Empty: people are asked
        first, and those that they are asked about wait, or are put out."""
        seen = [await self._looked_at(link) if link.proposal.joined else link for link in links]
        unseen = [link for link, has in zip(links, seen, strict=True) if has is None]
        self._unseen |= {link.entry.number: (main, link) for link in unseen}
        return [] if unseen else [link for link in seen if link is not None]

    async def _looked_at(self, link: Link) -> Link | None:
        entry, joined = link.entry, await self._git.joined(link)

        async def look(tx: Tx) -> tuple[Verification | None, list[Approval]]:
            found = await _look_at(tx, entry, joined)
            return found, [] if found is None else await approvals.of_verification(tx, found.number)

        seen, asked = await self._store.read(look)
        if seen is None:
            await self._ask_to_look(link, joined)
        elif seen.state is State.PASSED:
            return replace(link, look=asked[0] if asked else None)
        elif seen.state in (State.QUEUED, State.RUNNING, State.WAITING):
            await self._record.hold(entry, words.to_look_at(link, asked))
        else:
            await self._record.put_out(entry, seen.reason or f"It was not approved ({seen.state}).")
        return None

    async def _ask_to_look(self, link: Link, joined: list[list[str]]) -> None:
        entry = link.entry
        change = Change(
            verifications.new_id(),
            Source.LANDING,
            entry.agent,
            entry.asker,
            link.proposal.into,
            link.commit,
            await self._git.git.line("rev-parse", f"{link.commit}^1"),
            link.tree,
            files=tuple(path for path, *_ in joined),
            summary=words.to_look_at(link),
            task=entry.task,
            about={
                "part": "join",
                "entry": entry.number,
                "joined": joined,
                "diff": link.proposal.diff,
            },
        )

        async def work(tx: Tx) -> None:
            now = await journal.load(tx, entry.number)
            if now.state not in OPEN or now.at_commit != entry.at_commit:
                return
            await approvals.withdraw_of_entry(tx, entry.number, "relay joins other files now", "join")
            await verifications.ask(tx, change)

        await self._store.write(work)
        await self._record.hold(entry, words.to_look_at(link))

    async def _wanted(self, entry: Entry, policies: Sequence[Policy]) -> tuple[Change, frozenset[str]]:
        """The change, and the digests of what people have to look at. Raises what `look_up` does."""
        change = _change_of(entry)
        if not any(needs_person(policy) for policy in policies):
            return change, frozenset()
        change = await look_up(self._registry, change)
        return change, frozenset(map(digest_of, self._verifier.routing(policies, change).matches))

    async def _asked(self, entry: Entry) -> tuple[Verification | None, list[Result], list[Approval]]:
        number = entry.approval
        if number is None:
            return None, [], []

        async def look(tx: Tx) -> tuple[Verification, list[Result], list[Approval]]:
            results = await verifications.results_of(tx, number)
            return await verifications.load(tx, number), results, await approvals.of_verification(tx, number)

        return await self._store.read(look)

    async def _ask(self, entry: Entry, change: Change) -> None:
        async def work(tx: Tx) -> None:
            now = await journal.load(tx, entry.number)
            if now.state is not EntryState.WAITING or now.at_commit != entry.at_commit:
                return
            if now.approval is not None:
                await approvals.withdraw(tx, now.approval, "other policies are for it now")
            made = await verifications.ask(tx, change)
            note = "a person has to approve it"
            await journal.change(tx, replace(now, approval=made.number, note=note), journal.HELD)

        await self._store.write(work)


async def _look_at(tx: Tx, entry: Entry, joined: list[list[str]]) -> Verification | None:
    """The newest look at these joined files: one that a person has agreed to, or one of this entry that is open or
    decided; one that was called off is none."""
    for each in await verifications.newest_of_agent(tx, entry.agent, _MOST_SEARCHED):
        about = each.change.about
        if (about.get("part"), about.get("joined")) == ("join", joined) and (
            each.state is State.PASSED
            or (about["entry"] == entry.number and each.state not in (State.CANCELLED, State.NOT_TESTED))
        ):
            return each
    return None


def _change_of(entry: Entry) -> Change:
    return Change(
        verifications.new_id(),
        Source.LANDING,
        entry.agent,
        entry.asker,
        entry.branch,
        entry.at_commit,
        tree=entry.tree,
        summary=f"{entry.agent}'s branch is to land",
        task=entry.task,
        about={"part": "entry", "entry": entry.number},
    )
