"""Whose branch needs a person before it lands, and whether a person has agreed.

Invariant: what decides is the policies as they are when it is about to be tested. A branch that was looked at while
they had a fault, or before one was written, is asked about all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.airspace.worktrees.registry import WorktreeRegistry
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
from relay.verification.landing.entry import Entry, EntryState
from relay.verification.policies import Policy, route
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies
from relay.verification.verification import Change, Outcome, Result, Source, State, Verification, digest_of


class LandingApprovals:
    """Of the entries of one room."""

    def __init__(
        self,
        store: Store,
        registry: WorktreeRegistry,
        policies: Policies,
        verifier: Verifier,
        record: LandingRecord,
    ) -> None:
        self._store, self._registry = store, registry
        self._policies, self._verifier, self._record = policies, verifier, record

    async def policies_of(self, entry: Entry) -> tuple[str, ...]:
        """The names of those that the entry's work routes to; none where nobody can tell now."""
        try:
            change = await look_up(self._registry, _change_of(entry))
            matches = route(await self._policies.all(), change.files or ()).matches
        except (BadPolicies, NoTree, GitError, OSError):
            return ()  # its batch says what is wrong
        return tuple(match.policy.name for match in matches)

    async def approved(self, entry: Entry) -> bool:
        """Has a person agreed to all that needs it? If not, it is asked for, and said what the entry waits for; what
        a person has rejected is put out."""
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
