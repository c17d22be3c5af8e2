"""What is so of a need that is in the inbox no more, for who would still act on it."""

from __future__ import annotations

from relay.airspace.advisories import table
from relay.merge.resolution import journal as conflicts
from relay.merge.resolution.wording import how_it_stands
from relay.model import Refusal, references
from relay.store.ports import Tx
from relay.verification.landing import journal as landings
from relay.verification.landing.service import entry_words


async def what_is_so(tx: Tx, id: str) -> str:
    """A sentence about what the id names; empty where nothing more is known than that it needs nobody."""
    kind, _, rest = id.partition(":")
    name = rest.partition(":")[0]
    try:
        if kind == "conflict" and (found := references.read(name)) is not None:
            asked = await conflicts.conflict(tx, found[1])
            return f"{asked.name}: {how_it_stands(asked)}"
        if kind == "landing" and name.isdecimal():
            return f"{entry_words(await landings.load(tx, int(name)))}."
        if kind == "advisory":
            advisory = await table.advisory(tx, name)
            if advisory is not None and not advisory.open:
                return f"The collision is over: {advisory.closed_why}."
    except Refusal:
        return ""
    return ""
