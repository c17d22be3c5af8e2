"""One turn of an agent of the swarm: what landed is completed, the next item is claimed, done and put into the queue.

It stands in for a coding agent that has relay's tools: it takes its work from the board, which locks the work's files
for it; brings its branch up to the main branch; asks the guard before each edit; commits; asks for its branch to land
and ends its turn. Its locks stay until it has seen its commit on the main branch: only then is the task complete, and
the next one who takes these files begins where it has left them. What it knows between two turns stands in a note in
its git folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from relay.app.demo.swarm.codebase import Item
from relay.app.demo.swarm.desk import Claim, Desk
from relay.app.demo.swarm.workplace import Refused, Workplace, ran

_ASKED = re.compile(r"The message to answer:\n(.*)", re.DOTALL)
#: What an agent says when the board has nothing more for it.
NOTHING_LEFT = "Nothing is left on the board."
#: What it says where it cannot work.
NO_WORKTREE = "I have no worktree in this turn, so I take nothing."


@dataclass(slots=True)
class Note:
    """The item in hand. `asked_at`: when its branch was to land, in seconds of the epoch; `again`: how often it was
    done anew, since it had not landed."""

    item: dict[str, object]
    task: str
    number: int
    token: int
    waited_s: float
    worked_s: float
    commit: str
    asked_at: float
    again: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.app.demo.swarm.turn", description=__doc__)
    parser.add_argument("--pace", type=float, default=1.0, help="seconds that each file takes")
    parser.add_argument("--remote", default="", help="whose main branch it is; empty = this repository's")
    args = parser.parse_args()
    match = _ASKED.search(sys.stdin.read())
    asked = match[1] if match else ""
    me = os.environ["RELAY_AGENT_ID"]
    place = Workplace(Path.cwd(), me, args.pace)
    if place.git("branch", "--show-current") == "main":
        # Somebody else's checkout: the room could give this turn no worktree, and says why.
        print(NO_WORKTREE)
        return 0
    turn = Turn(Desk.of_turn(os.environ), place, args.remote)
    print(turn.answer() if _is_advisory(asked) else turn.run())
    return 0


def _is_advisory(asked: str) -> bool:
    return "[RELAY]" in asked and ("HOLD" in asked or "INTENT" in asked)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


class Turn:
    """A turn, in the agent's worktree."""

    def __init__(self, desk: Desk, place: Workplace, remote: str) -> None:
        self._desk, self._place, self._remote = desk, place, remote
        self._path = place.folder / place.git("rev-parse", "--git-path", "relay-swarm-note")

    def run(self) -> str:
        done = ""
        if (note := self._note()) is not None:
            if not self._place.has(self._main(), note.commit):
                if self._desk.in_queue(self._place.who):
                    return f"t{note.number} is still in the queue; I wait for it."
                return self._mend(note)
            self._complete(note)
            done = f"t{note.number} is on main. "
        claim = self._desk.claim()
        if claim is None:
            return f"{done}{NOTHING_LEFT}"
        # What others have landed since this turn began is in: whoever had these files before has given them back.
        self._place.git("merge", "-q", "--ff-only", self._main())
        return done + self._work(claim)

    def _main(self) -> str:
        return self._place.learn_main(self._remote)

    def answer(self) -> str:
        """Say what is in hand: the locks decide who has it."""
        note = self._note()
        paths = [] if note is None else list(Item.of(note.item).files)
        return (
            f"I have locked what I work on.\nINTENT: {', '.join(paths)}"
            if paths
            else "I have nothing in hand."
        )

    def _work(self, claim: Claim) -> str:
        began = time.monotonic()
        try:
            commit = self._place.do(claim.item, self._desk.may)
        except Refused as refused:
            self._place.git("checkout", "-q", "HEAD", "--", ".")
            self._desk.give_back(claim.task, str(refused))
            return f"I give t{claim.number} back: {refused}"
        worked = time.monotonic() - began
        waits = claim.waited_s
        self._ask(
            Note(claim.item.as_json(), claim.task, claim.number, claim.token, waits, worked, commit, 0.0)
        )
        return f"t{claim.number} is done: {_lower(claim.item.title)}. It waits to land."

    def _mend(self, note: Note) -> str:
        """Do the item anew on the main branch as it is now: its branch has left the queue and not landed."""
        item = Item.of(note.item)
        ran(self._place.folder, "merge", "--abort")
        self._place.git("reset", "-q", "--hard", self._main())
        began = time.monotonic()
        note.commit = self._place.do(item, self._desk.may)
        note.worked_s += time.monotonic() - began
        note.again += 1
        self._ask(note)
        return f"I did t{note.number} anew on what main is now. It waits to land."

    def _ask(self, note: Note) -> None:
        self._desk.land()
        note.asked_at = note.asked_at or time.time()
        self._path.write_text(json.dumps(asdict(note)))

    def _complete(self, note: Note) -> None:
        result = {
            "commit": note.commit,
            "waited_s": round(note.waited_s, 2),
            "worked_s": round(note.worked_s, 2),
            "landing_s": round(time.time() - note.asked_at, 2),
            "again": note.again,
        }
        self._desk.complete(note.task, note.token, result)
        self._path.unlink()

    def _note(self) -> Note | None:
        return Note(**json.loads(self._path.read_text())) if self._path.exists() else None


if __name__ == "__main__":
    raise SystemExit(main())
