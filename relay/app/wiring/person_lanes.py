"""The lane of a person, whom git knows by a signature and the room by a name.

Invariant: who commits in the main checkout (git's `user.name` and `user.email` there) is the person that commands
name to the room when they name none (`git_person`), so their commits, edits and commands stand on one lane.
Everybody else's commits stand on a lane of the name that they signed with.
"""

from __future__ import annotations

import asyncio

from relay.access.git_person import git_person
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.config.settings import LiveSettings
from relay.git.signing import Signature, of_person
from relay.log.events import Lane
from relay.room.journal import ledger


class PersonLanes:
    """Asks git anew each time: a configuration may change."""

    def __init__(self, registry: WorktreeRegistry, settings: LiveSettings) -> None:
        self._registry, self._settings = registry, settings

    async def own(self) -> Lane:
        """Who works in the main checkout."""
        now = self._settings.current
        name = await asyncio.to_thread(git_person, now.repo, now.agent_names)
        return ledger.person_lane(name)

    async def of(self, authors: set[Signature]) -> dict[Signature, Lane]:
        """Of each who signed a commit."""
        me = None if self._registry.main is None else await of_person(self._registry.main)
        lanes = {author: ledger.person_lane(author.name) for author in authors}
        if me is not None and (mine := {author for author in authors if _same(author, me)}):
            lanes |= dict.fromkeys(mine, await self.own())
        return lanes


def _same(author: Signature, me: Signature) -> bool:
    return author.name == me.name or author.email.casefold() == me.email.casefold()
