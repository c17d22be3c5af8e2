"""What verifies and lands in a running room, put together.

Invariant: the daemon supervises every task that runs for ever; its parts know each other only here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.worktrees.actions import WorktreeActions
from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.common_main import CommonMain
from relay.app.fleet.fleet import Fleet
from relay.app.verification.consequences import Consequences
from relay.app.verification.github_statuses import CommitStatuses
from relay.app.verification.landing import LandingQueue
from relay.app.verification.landing_handover import LandingHandover
from relay.app.verification.orders import VerificationOrders
from relay.app.verification.sources import ChangeSources
from relay.app.verification.verifier import Tell, Verifier, unheard
from relay.config.settings import LiveSettings
from relay.coordination.tasks.claims import Claims
from relay.log import follow
from relay.model.ports import Voice
from relay.store.ports import Store
from relay.verification.executors.e2b import E2bExecutor
from relay.verification.executors.executor import PolicyExecutor
from relay.verification.executors.inline import InlineExecutor, Lend, no_ports
from relay.verification.executors.ntm import TmuxExecutor
from relay.verification.github.changed_files import GithubFiles
from relay.verification.github.client import Github
from relay.verification.github.executor import GithubExecutor
from relay.verification.policies import Executor
from relay.verification.policy_list import Policies

Start = Callable[[str, Callable[[], Awaitable[None]]], None]


class LandingParts:
    """What verifies changes and lands branches; also where no room runs. `voice`: tells agents; None = nobody.
    `folder`: where trees are exported; None = the room's own, which a room that starts empties. `lend`: gives runs
    ports of their own."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        updates: BranchUpdates,
        voice: Voice | None = None,
        tell: Tell = unheard,
        protocol: AdvisoryProtocol | None = None,
        folder: Path | None = None,
        common: CommonMain | None = None,
        fleet: Fleet | None = None,
        lend: Lend = no_ports,
    ) -> None:
        self.store = store
        self.policies = Policies(store, settings)
        now = settings.current
        hidden = (now.runtime_dir, now.path)
        at_once = now.verification.at_once
        exports = folder or now.runtime_dir
        self.inline = InlineExecutor(exports / "verification", hidden, at_once=at_once, lend=lend)
        self.ntm = TmuxExecutor(exports / "verification-ntm", hidden, at_once=at_once, lend=lend)
        self.e2b = E2bExecutor(exports / "verification-e2b")
        self.github = Github(lambda: settings.current.verification.github)
        self.workflows = GithubExecutor(self.github)
        self.executors: dict[Executor, PolicyExecutor] = {
            Executor.INLINE: self.inline,
            Executor.NTM: self.ntm,
            Executor.E2B: self.e2b,
            Executor.GITHUB: self.workflows,
        }
        files = GithubFiles(self.github)
        self.verifier = Verifier(
            store, settings, registry, self.policies, self.executors, tell, github=files, fleet=fleet
        )
        self.queue = LandingQueue(
            store, settings, registry, actions, updates, self.verifier, self.policies, voice, protocol, common
        )

    async def close(self) -> None:
        """End what runs; whoever looks next begins it again."""
        await self.verifier.close()
        await self.github.close()


class VerificationParts(LandingParts):
    """The same in a running room, with what begins verifications and what follows from them."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        actions: WorktreeActions,
        updates: BranchUpdates,
        voice: Voice,
        claims: Claims,
        tell: Tell,
        protocol: AdvisoryProtocol,
        fleet: Fleet,
        lend: Lend,
    ) -> None:
        self.common = common = CommonMain(fleet, settings, registry)
        several = None if fleet.alone else fleet
        super().__init__(
            *(store, settings, registry, actions, updates, voice, tell, protocol),
            common=common,
            fleet=several,
            lend=lend,
        )
        self.handover = (
            None
            if fleet.alone
            else LandingHandover(store, registry, fleet, common, self.queue.git, self.queue.pins)
        )
        self._cleaning = asyncio.Lock()
        self._to_clean: list[InlineExecutor | TmuxExecutor | E2bExecutor] = [self.inline, self.ntm, self.e2b]
        self.sources = ChangeSources(self.policies, registry, several)
        self.orders = VerificationOrders(registry, lambda agent: fleet.home_of(agent) is not None)
        self.statuses = CommitStatuses(store, settings, self.github)
        self.followers: tuple[follow.Follower, ...] = (self.sources, Consequences(claims, voice))

    def start(self, start: Start, lead: Start) -> None:
        """Start all that runs for ever. `lead`: what one member of the fleet does alone."""
        lead("verifications", self._verify)
        lead("landing", self.queue.run)
        if self.handover is not None:
            start("landing-handover", self.handover.run)
            start("verifications-here", partial(self._verify, own=True))
        lead(self.statuses.name, self.statuses.run)
        for follower in self.followers:
            lead(follower.name, partial(follow.run, self.store, follower))

    async def _verify(self, *, own: bool = False) -> None:
        async with self._cleaning:
            # Once, before anything runs: what a daemon that was killed has left.
            while self._to_clean:
                await self._to_clean.pop().clean()
        await self.verifier.run(own=own)
