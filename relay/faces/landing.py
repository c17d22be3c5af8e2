"""The landing queue as the page and the command line see it: what is in it, and what would land.

Invariant: nothing here lands anything; what is shown is what the rows and git say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.config.settings import LiveSettings
from relay.faces.worktrees import rows_of
from relay.git.run import name_of
from relay.model import Refusal
from relay.verification.landing.service import Landings
from relay.verification.policies import Policy, route
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies

Json = dict[str, Any]


class LandingView:
    """Of one room. `protocol`: of a running one, as for `WorktreesService`."""

    def __init__(
        self,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        landings: Landings,
        policies: Policies,
        protocol: AdvisoryProtocol | None = None,
    ) -> None:
        self._settings, self._registry, self._protocol = settings, registry, protocol
        self._landings, self._policies = landings, policies

    async def state(self) -> Json:
        """`{queue, ended, required, batch, policies, trouble}`. `policies`: how many there are, `trouble`: why they
        cannot be used."""
        found, trouble = 0, ""
        try:
            found = len(await self._policies.all())
        except (BadPolicies, OSError) as error:
            trouble = f"The policies cannot be used: {error}"
        settings = self._settings.current
        more: Json = {"required": settings.landing.required, "batch": settings.landing.batch}
        more |= {"policies": found, "merge_test": bool(settings.merge.test), "trouble": trouble}
        return {**await self._landings.state(), **more}

    async def plan(self, agents: Sequence[str] = ()) -> list[Json]:
        """What would be put into the queue for these agents, all with work where none is named, in the order in
        which it would be tested: `[{agent, branch, merges, paths, files, policies, needs_approval, why}]`. `why`: why
        it would not land, empty = it may. Raises Refusal for an agent without a worktree."""
        for agent in agents:
            if self._registry.find(agent) is None:
                raise Refusal(f"{agent} has no worktree, so there is no branch of it to land.")
        trouble, policies = "", tuple[Policy, ...]()
        try:
            policies = await self._policies.all()
        except (BadPolicies, OSError) as error:
            trouble = f"the policies cannot be used: {error}"
        shown, order = await rows_of(self._registry, self._protocol)
        place = {step["agent"]: at for at, step in enumerate(order)}
        plan = []
        for row in sorted(shown, key=lambda row: (place.get(row["agent"], len(place)), row["agent"])):
            worktree = self._registry.worktrees.get(row["agent"])
            work = worktree.work if worktree is not None else None
            if agents and row["agent"] not in agents:
                continue
            if work is None or (not agents and not work.records):
                continue
            paths = [name_of(record.path) for record in work.records]
            routing = route(policies, paths)
            plan.append(
                {
                    "agent": row["agent"],
                    "branch": row["branch"],
                    "merges": row["merges"],
                    "collides": row["collides"],
                    "files": paths,
                    "policies": [match.policy.name for match in routing.matches],
                    "needs_approval": routing.needs_approval,
                    "why": trouble or _why_not(row),
                }
            )
        return plan


def _why_not(row: Json) -> str:
    match row["merges"]:
        case "nothing":
            return "it has nothing to land"
        case "conflicts":
            return f"it conflicts with {row.get('into') or 'the main branch'}"
        case None:
            return "git cannot tell whether it merges"
    return ""
