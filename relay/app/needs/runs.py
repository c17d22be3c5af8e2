"""What runs in the agents' worktrees and needs a person: a setup that failed, an app that ended by itself. Only the
relay that has the worktree knows it (docs/worktrees.md)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from relay.app.needs.need import Kind, Need, NeedAction, later
from relay.app.needs.words import sentence, short
from relay.app.worktrees.desk import WorktreeDesk
from relay.app.worktrees.record import last_lines
from relay.base.durations import parse_iso
from relay.model import actions
from relay.model.names import listed
from relay.room.dispatch.budget import DAY_S


def run_needs(
    desk: WorktreeDesk, agents: Collection[str], now: float, left: Collection[str] = ()
) -> list[Need]:
    """Of the last day. `left`: ids that are put off."""
    found, now_set = [], desk.setups.current
    failed: dict[tuple[str, str, bool], list[tuple[float, str, str]]] = {}
    for name, setup in desk.setups.failed().items() if now_set.setup or now_set.copy else ():
        at = parse_iso(setup.at)
        if name in agents and now - at <= DAY_S:
            # One command sets all up: what fails in the same way has one cause. Exit codes alone do not tell causes
            # apart. Who left the failures that there were has not left one that comes.
            put_off = _id(Kind.SETUP_FAILED, name, at) in left
            way = (setup.reason, _alike(name, setup.output), put_off)
            failed.setdefault(way, []).append((at, name, setup.output))
    for (reason, _, _), each in failed.items():
        each.sort()
        names = tuple(name for _, name, _ in each)
        whose = "their worktrees" if len(names) > 1 else "its worktree"
        label = f"Run the setup again for {listed(names)}" if len(names) > 1 else "Run setup again"
        again = NeedAction("again", label, actions.SetUp(names))
        at, _, output = each[0]
        text = f"The setup of {whose} failed: {reason}"
        need = _need(Kind.SETUP_FAILED, names, at, text, output, again)
        found.append(replace(need, parts=tuple(_id(need.kind, name, at) for at, name, _ in each[1:])))
    for app in desk.apps.ended():
        text = f"The app of its branch {app.reason or 'ended'}, and nobody stopped it"
        again, at = NeedAction("again", "Start it again", actions.RunApp(app.agent)), parse_iso(app.ended_at)
        if app.agent in agents and now - at <= DAY_S:
            found.append(_need(Kind.APP_ENDED, (app.agent,), at, text, app.output.text, again))
    return found


def _alike(name: str, output: str) -> str:
    """The last line of it, without what differs from one worktree to the next: the agent's name, ports, times."""
    return re.sub(r"\d+", "0", "".join(last_lines(output, 1)).casefold().replace(name.casefold(), ""))


def _id(kind: Kind, name: str, at: float) -> str:
    # When it happens again it is another need: who left the one has not left the other.
    return f"{kind.value.partition('_')[0]}:{name}:{int(at)}"


def _need(kind: Kind, names: Sequence[str], at: float, text: str, output: str, again: NeedAction) -> Need:
    """`names`: whose, the first one first; the rest is of that one."""
    first, many = names[0], len(names) > 1
    id = _id(kind, first, at)
    said = id.rpartition(":")[0]
    buttons = (
        again,
        NeedAction(
            "output", f"Show {first}'s output" if many else "Show its output", actions.ShowOutput(first)
        ),
        later("Leave it", said),
    )
    last = last_lines(output, 1)
    text = sentence(text) + (
        f" {f'{first}, last line' if many else 'Its last line'}: {short(last[0])}" if last else ""
    )
    return Need(id, kind, at, " and ".join(names), text, buttons, first, said=said)
