"""What runs in the agents' worktrees and needs a person: a setup that failed, an app that ended by itself. Only the
relay that has the worktree knows it (docs/worktrees.md)."""

from __future__ import annotations

from collections.abc import Collection

from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import sentence, short
from relay.app.worktrees.desk import WorktreeDesk
from relay.app.worktrees.record import last_lines
from relay.base.durations import parse_iso
from relay.model import actions
from relay.room.dispatch.budget import DAY_S


def run_needs(desk: WorktreeDesk, agents: Collection[str], now: float) -> list[Need]:
    """Of the last day."""
    found, now_set = [], desk.setups.current
    for name, setup in desk.setups.failed().items() if now_set.setup or now_set.copy else ():
        text = f"The setup of its worktree failed: {setup.reason}"
        again = NeedAction("again", "Run setup again", actions.SetUp(name))
        found.append(_need(Kind.SETUP_FAILED, name, parse_iso(setup.at), text, setup.output, again))
    for app in desk.apps.ended():
        text = f"The app of its branch {app.reason or 'ended'}, and nobody stopped it"
        again = NeedAction("again", "Start it again", actions.RunApp(app.agent))
        found.append(_need(Kind.APP_ENDED, app.agent, parse_iso(app.ended_at), text, app.output.text, again))
    return [need for need in found if need.about in agents and now - need.at <= DAY_S]


def _need(kind: Kind, agent: str, at: float, text: str, output: str, again: NeedAction) -> Need:
    # When it happens again it is another need: who left the one has not left the other.
    said = f"{kind.value.partition('_')[0]}:{agent}"
    id = f"{said}:{int(at)}"
    buttons = (
        again,
        NeedAction("output", "Show its output", actions.ShowOutput(agent)),
        later("Leave it", said),
    )
    last = last_lines(output, 1)
    text = sentence(text) + (f" Its last line: {short(last[0])}" if last else "")
    return Need(id, kind, at, agent, text, buttons, agent, said=said)
