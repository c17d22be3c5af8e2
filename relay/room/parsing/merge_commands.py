"""`/resolve`: from what a person types to an action. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from relay.model import references
from relay.model.actions import Action, Resolve
from relay.model.references import Thing
from relay.room.parsing.arguments import WrongArguments, shown

CHOICES = "`1` or `2` keeps a side, `3` lets an agent write it, `4` is by hand, `5` keeps both apart"


def parse_resolve(rest: str, agents: Sequence[str]) -> Action:
    """Nothing, or `c3 1` to `c3 5`, for `3` with an agent behind it. Raises WrongArguments."""
    name, *words = rest.split()[:4] if rest.strip() else [""]
    if not name:
        return Resolve()
    found = references.read(name, bare=Thing.CONFLICT)
    if found is None or found[0] is not Thing.CONFLICT:
        raise WrongArguments(f"`{shown(name)}` is no conflict: they are named like `c3`.")
    if not words or words[0] not in ("1", "2", "3", "4", "5"):
        raise WrongArguments(f"Say which choice: {CHOICES}.")
    agent = None
    if len(words) > 1:
        named = words[1].removeprefix("@")
        agent = next((known for known in agents if known.casefold() == named.casefold()), None)
        if words[0] != "3" or len(words) > 2 or agent is None:
            raise WrongArguments(
                f"Behind `3` may stand an agent, else nothing; the agents are {', '.join(agents) or 'none'}."
            )
    return Resolve(found[1], int(words[0]), agent)
