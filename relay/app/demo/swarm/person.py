"""A person of the swarm: takes items from the board as the agents do, and works in a checkout of their own.

A person has no turns: this program is one who goes on until the board is empty. What people write in the room gives
agents their turns, so that is the story's (`with_relay`). The room's token stands in the environment.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from relay.app.demo.swarm.desk import Claim, Desk
from relay.app.demo.swarm.workplace import Workplace

#: Seconds between two looks whether one's branch has landed.
_LOOK_S = 0.25
#: Seconds after which a person gives a branch up that has not landed.
_LANDS_S = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.app.demo.swarm.person", description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--url", required=True, help="the room")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds that each file takes")
    parser.add_argument("--remote", default="", help="whose main branch it is; empty = this repository's")
    args = parser.parse_args()
    desk = Desk(args.url, os.environ["RELAY_SWARM_TOKEN"], args.name)
    place = Workplace(Path.cwd(), args.name, args.pace)
    while (claim := desk.claim()) is not None:
        _do(desk, place, claim, args.remote)
    return 0


def _do(desk: Desk, place: Workplace, claim: Claim, remote: str) -> None:
    """One item, until it is on the main branch."""
    place.git("merge", "-q", "--ff-only", place.learn_main(remote))
    began = time.monotonic()
    commit = place.do(claim.item)
    worked = time.monotonic() - began
    asked = time.monotonic()
    desk.land()
    while not place.has(place.learn_main(remote), commit):
        if time.monotonic() - asked > _LANDS_S:
            raise SystemExit(f"{place.who}'s t{claim.number} has not landed within {_LANDS_S:g} s")
        time.sleep(_LOOK_S)
    result = {
        "commit": commit,
        "waited_s": round(claim.waited_s, 2),
        "worked_s": round(worked, 2),
        "landing_s": round(time.monotonic() - asked, 2),
        "again": 0,
    }
    desk.complete(claim.task, claim.token, result)


if __name__ == "__main__":
    raise SystemExit(main())
