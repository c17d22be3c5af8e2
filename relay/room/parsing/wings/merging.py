"""`/resolve`: from what a person types to an action. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from relay.model import references
from relay.model.actions import Action, Resolve
from relay.model.references import Thing
from relay.room.parsing.arguments import Command, WrongArguments, shown

CHOICES = "`1` or `2` keeps a side, `3` lets an agent write it, `4` is by hand, `5` keeps both apart"


def parse_resolve(rest: str, agents: Sequence[str]) -> Action:
    """Nothing, `c3` alone, or `c3 1` to `c3 5`, for `3` with an agent behind it, for `4` with what is to stand there
    in the lines below, in a fenced block or without one. Raises WrongArguments."""
    head, _, below = rest.partition("\n")
    name, *words = head.split()[:4] if head.strip() else [""]
    if not name:
        return Resolve()
    found = references.read(name, bare=Thing.CONFLICT)
    if found is None or found[0] is not Thing.CONFLICT:
        raise WrongArguments(f"`{shown(name)}` is no conflict: they are named like `c3`.")
    if not words and not below.strip():
        return Resolve(found[1])
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
    if below.strip() and words[0] != "4":
        raise WrongArguments("Only below `4` may lines stand: what you write yourself.")
    return Resolve(found[1], int(words[0]), agent, _written(below) if below.strip() else None)


def _written(below: str) -> str:
    """The lines of a message below its command: what a fenced block holds, or all of them."""
    rows = below.rstrip().split("\n")
    fence = rows[0].rstrip()
    marks = fence[: len(fence) - len(fence.lstrip("`"))]
    if len(marks) >= 3 and len(rows) > 1 and rows[-1] == marks:
        rows = rows[1:-1]
    return "".join(f"{row}\n" for row in rows)


COMMANDS = (
    Command(
        "/resolve [c<number> [1-5]]",
        "decide what stands where two branches conflict; below `4` stand the lines that you want there; without a "
        "choice: show it again; without a number: show what is open",
        "/resolve c3 1",
        parse_resolve,
    ),
)
