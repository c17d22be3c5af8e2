"""What people and agents call a commit: a branch, a commit, or an agent of the room, whose branch it then is."""

from __future__ import annotations

from dataclasses import dataclass

from relay.base.terminal_text import safe_line
from relay.config.settings import Settings
from relay.git.branch_names import agent_branch, branch_user
from relay.git.checkout import Checkout
from relay.model import Fault, Refusal


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """What a name stands for: its commit, and the agent whose branch it is, None = nobody's that is known."""

    commit: str
    agent: str | None


async def named_commit(checkout: Checkout, name: str, settings: Settings | None) -> NamedCommit:
    """The commit of a branch, a commit or an agent of the room. Raises Refusal (UNKNOWN)."""
    branches = await _branches(checkout, settings)
    agent = next(
        (one for one, branch in branches.items() if name.casefold() in (one.casefold(), branch)), None
    )
    for revision in (name, branches.get(agent or "", "")):
        if revision and not revision.startswith("-"):
            commit = await checkout.git.maybe(
                "rev-parse", "-q", "--verify", "--end-of-options", f"{revision}^{{commit}}"
            )
            if commit is not None:
                return NamedCommit(commit, agent)
    raise Refusal(
        f"{safe_line(name)[:80]} is no branch, commit or agent here.",
        "`git branch -a` lists the branches.",
        Fault.UNKNOWN,
        "not_found",
    )


async def _branches(checkout: Checkout, settings: Settings | None) -> dict[str, str]:
    """The branch of each agent of the room, by its name."""
    if settings is None:
        return {}
    user = await branch_user(checkout)
    return {
        agent.name: agent_branch(user, agent.role, agent.name)
        if agent.role
        else agent_branch(user, agent.name)
        for agent in settings.agents
    }
