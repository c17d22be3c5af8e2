"""What the other members of a fleet have in hand, as they told it, for a daemon and for a command alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from relay.airspace.shared.shared_work import SharedWork, of_json
from relay.fleet import members as fleet
from relay.fleet import works
from relay.fleet.members import FleetMember
from relay.store.ports import Store, Tx


def by_agent(members: Iterable[FleetMember], heard: Mapping[works.Key, SharedWork]) -> dict[str, SharedWork]:
    """One work for each agent. Of one that several of these members have, that of the member that has something in
    hand, and is here. Pure."""
    homes = {member.name: member for member in members}
    others: dict[str, SharedWork] = {}
    for (name, agent), work in sorted(heard.items(), key=lambda each: each[0]):
        if (home := homes.get(name)) is None:
            continue
        other = replace(work, member=name, away=not home.live)
        before = others.get(agent)
        if before is None or _rank(other) > _rank(before):
            others[agent] = other
    return others


def _rank(work: SharedWork) -> tuple[bool, bool]:
    return bool(work.files or work.changed), not work.away


async def read_others(store: Store, member: str) -> dict[str, SharedWork]:
    """What members other than this one have in hand now, by the agent; nothing in a room of one relay."""
    if store.engine != "postgres":
        return {}

    async def look(tx: Tx) -> dict[str, SharedWork]:
        _, told = await works.heard(tx, member, {})
        others = [each for each in await fleet.members(tx) if each.name != member]
        return by_agent(others, {key: of_json(key[1], value) for key, value in told.items()})

    return await store.read(look)
