"""The story of `relay demo --swarm`: many agents and two people do many items in one repository, with relay and
without it.

Invariant: both runs have the same codebase, items, workers and pace; every figure is counted from git, from the
codebase's tests, from the room's log or by a clock.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.app.demo.narrator import Narrator
from relay.app.demo.swarm import with_relay, without
from relay.app.demo.swarm.codebase import MOST_ITEMS, items
from relay.app.demo.swarm.outcome import Plan, meaning, table, went_well
from relay.app.demo.swarm.progress import Progress

AGENTS = (
    *("AVA", "BEN", "CLEO", "DAN", "EVE", "FAY", "GUS", "HAL"),
    *("IDA", "JAN", "KIM", "LEO", "MIA", "NED", "OLA", "PIA"),
)
PEOPLE = ("ann", "bob")


@dataclass(frozen=True, slots=True)
class Size:
    """How large the swarm is. `machines`: how many relays the agents are spread over."""

    seed: int = 1
    items: int = 200
    agents: int = 8
    machines: int = 1

    def wrong(self) -> str:
        """What cannot be played; empty: nothing."""
        if not 1 <= self.items <= MOST_ITEMS:
            return f"--items must be from 1 to {MOST_ITEMS}"
        if not 1 <= self.agents <= len(AGENTS):
            return f"--agents must be from 1 to {len(AGENTS)}"
        if not 1 <= self.machines <= self.agents:
            return "--machines must be from 1 to the number of agents"
        return ""


async def play(
    folder: Path, size: Size, pace_s: float, port: int, narrator: Narrator, *, stay: bool, only_with: bool
) -> tuple[dict[str, Any], str]:
    """Play it; gives the outcome as JSON, and what it means. Raises DemoError."""
    plan = Plan(tuple(items(size.seed, size.items)), AGENTS[: size.agents], PEOPLE, pace_s, size.machines)
    work, workers = plan.items, plan.workers
    console = narrator.console
    narrator.scene(
        f"{len(plan.agents)} agents and {len(PEOPLE)} people do {len(work)} items of work in one repository "
        f"(seed {size.seed}){f', at {size.machines} machines' * (size.machines > 1)}."
    )
    load, began = os.getloadavg()[0], _processor_s()
    ran = [
        await with_relay.play(
            folder / "with", plan, port, Progress(console, "with relay", len(work)), narrator, stay=stay
        )
    ]
    ran[0].cpu_s = _processor_s() - began
    if not only_with:
        narrator.scene("The same once more, without relay: a list to take items from, and git merge.")
        progress = Progress(console, "without   ", len(work))
        began = _processor_s()
        ran.append(await without.play(folder / "without", plan, progress))
        ran[1].cpu_s = _processor_s() - began
    ok = went_well(ran[0], len(work))
    told = {
        "ok": ok,
        "seed": size.seed,
        "items": len(work),
        "agents": list(plan.agents),
        "people": list(PEOPLE),
        "machines": size.machines,
        "pace_s": pace_s,
        "cores": os.cpu_count(),
        "load_before": round(load, 2),
        "runs": [each.as_json() for each in ran],
    }
    lines = [
        *table(ran, len(work), len(workers)),
        "",
        *meaning(ran, len(work), len(workers)),
        "",
        "To look further: --stay keeps the room open after the first run, --folder FOLDER keeps both repositories.",
        "",
        "That is how it should go." if ok else "That is NOT how it should go.",
    ]
    return told, "\n".join(lines)


def _processor_s() -> float:
    """Seconds of the processors that all programs have used which were started here and are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
