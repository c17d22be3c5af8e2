"""The names of relay's refs at the git remote that the members of a fleet share.

Invariant: a ref names its room, so two rooms with members of one name have no ref in common there.
"""

from __future__ import annotations

from relay.git.kept_snapshots import ref_component
from relay.git.remotes import remote_refs
from relay.git.run import Git

#: Agents' branches as they stand; those that are to land.
FLEET, LANDING = "refs/relay/fleet/", "refs/relay/landing/"


def ref_id(replica: str) -> str:
    """The room's id among its replicas (`make_replica_id`), short. Pure."""
    return replica[:8]


def member_refs(kind: str, room: str, member: str) -> str:
    """Below which name a member's refs are; `*` stands for any member. Pure."""
    return f"{kind}{room}/{member if member == '*' else ref_component(member)}/"


def former_refs(kind: str, member: str) -> str:
    """Below which name they are of a member from before refs named their room. Pure."""
    return f"{kind}{ref_component(member)}/"


async def own_former_refs(git: Git, remote: str, kind: str, member: str) -> dict[str, str]:
    """What a member has left at the remote before refs named their room. Raises GitError."""
    below = former_refs(kind, member)
    found = await remote_refs(git, remote, below)
    # What goes deeper is of a room whose id is this member's name.
    return {ref: commit for ref, commit in found.items() if "/" not in ref.removeprefix(below)}
