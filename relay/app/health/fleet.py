"""The relays that share the room (docs/fleet.md)."""

from __future__ import annotations

from relay.app.health import process
from relay.app.health.context import Check, CheckContext, warning, worst
from relay.app.health.context import ok as well
from relay.fleet import members as fleet
from relay.fleet.members import MemberState


async def members(context: CheckContext) -> Check:
    """Who leads, who is here and who is not, and what is wrong with the git remote that they share."""
    assert context.store is not None
    settings = context.settings
    now = await context.store.read(lambda tx: tx.now())
    known = await context.store.read(fleet.members)
    leader = await context.store.read(lambda tx: fleet.leader(tx, now))
    by_state = {state: [each.name for each in known if each.state is state] for state in MemberState}
    own = next((each for each in known if each.name == settings.member_name), None)
    here = len(by_state[MemberState.LIVE])
    said = [f"{leader} leads" if leader else "nobody leads"]
    said.append(f"{here} member{' is' if here == 1 else 's are'} here")
    if away := by_state[MemberState.AWAY]:
        said.append(f"{len(away)} away ({', '.join(away)})")
    if left := by_state[MemberState.LEFT]:
        said.append(f"{len(left)} stopped ({', '.join(left)})")
    seen = [well("fleet", "; ".join(said))]
    if here and not leader:
        seen = [warning("fleet", seen[0].detail, "Look again in a moment: another member leads within 10 s.")]
    # The running daemon knows what came of its last push and fetch.
    trouble = await process.fleet_trouble(context)
    if trouble is None and own is not None:
        trouble = fleet.without_remote(own.name, own.main, known, settings.fleet.remote)
    unable = _unable(known)
    if trouble and not any(trouble in text for text in unable):
        unable.insert(0, trouble)
    seen += [warning("fleet", text) for text in unable]
    return worst("fleet", seen, "")


def _unable(known: list[fleet.FleetMember]) -> list[str]:
    """Who of those that are here can land nothing, and why: each member says the same of all."""
    return [
        f"{each.name} cannot land: {each.cannot_land}" for each in known if each.live and each.cannot_land
    ]
