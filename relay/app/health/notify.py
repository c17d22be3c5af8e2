"""The places outside that are told what needs people (docs/inbox.md)."""

from __future__ import annotations

from relay.app.health.context import Check, CheckContext, ok, warning, worst
from relay.app.notify import told
from relay.app.notify.places import places_of
from relay.base.durations import rough_duration
from relay.config.command_line import command


async def notify(context: CheckContext) -> Check:
    """Which of them fail, since when, and what waits for them."""
    assert context.store is not None
    places = places_of(context.settings.notify)
    if not places:
        return ok("notify", "nobody outside is told what needs people")
    standing = await context.store.read(lambda tx: told.load(tx, [place.name for place in places]))
    seen = []
    for place in places:
        one = standing[place.name]
        if one.trouble:
            since = rough_duration(max(0.0, context.now - one.since))
            waits = len(one.waiting)
            text = f"{place.name} is not told: {one.trouble} (for {since}; {waits} wait{'s' * (waits == 1)})"
            seen.append(warning("notify", text, f"{command(f'notify test {place.name}')} tries it."))
    return worst("notify", seen, f"told: {', '.join(place.name for place in places)}")
