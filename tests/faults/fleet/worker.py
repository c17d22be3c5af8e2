"""An agent's program: in each turn it takes a lock and a task, answers, and writes down what it does meanwhile.

Each note is one line of JSON in one file for all agents of all machines, with the time of the one clock that all
namespaces share (CLOCK_MONOTONIC). So what two did at once is seen from outside, whatever the room believed. A note
that nobody can end (this program was killed) ends with the last beat of its process.

Started by a daemon: python worker.py NOTES KEYS. It knows its key from the file KEYS, and the room from its folder.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PATHS = ("src/a.py", "src/b.py", "src/c.py")
#: A turn whose relay stands still ends before that relay can count as gone, 4 s later at the shortest lease that runs
#: have (6 s): from then on another member may begin it anew, whether its program here has ended or not.
BEAT_S, CALL_S = 0.05, 3.0
#: A lock and a claim last so long. By this program's clock: since it asked, so never longer than the room says.
LEASE_S = 12.0
TOKEN = re.compile(r"tok-[0-9a-f]+")


class Notes:
    """What this process does, in the file of all."""

    def __init__(self, path: str, who: str, place: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._mine = {"who": who, "place": place, "process": f"{place}-{os.getpid()}-{os.urandom(4).hex()}"}

    def note(self, what: str, state: str, key: str, **more: Any) -> None:
        said = {**self._mine, "what": what, "state": state, "key": key, "at": time.monotonic(), **more}
        os.write(self._file, json.dumps(said).encode() + b"\n")

    def beat(self) -> None:
        while True:
            self.note("process", "beat", "")
            time.sleep(BEAT_S)


def call(path: str, **said: Any) -> Json | None:
    """The room's answer; None when there is none."""
    try:
        told = json.loads((Path(os.environ["RELAY_CONFIG"]).parent / ".relay" / "state.json").read_text())
        key = json.loads(Path(sys.argv[2]).read_text())[os.environ["RELAY_AGENT_ID"]]
        headers = {
            "X-API-Key": key,
            "X-Relay-Session": os.environ["RELAY_SESSION_ID"],
            "Content-Type": "application/json",
        }
        asked = urllib.request.Request(told["url"] + path, json.dumps(said).encode(), headers)
        with urllib.request.urlopen(asked, timeout=CALL_S) as answer:
            answered: Json = json.load(answer)
            return answered
    except (OSError, ValueError, KeyError):
        return None


def lock(notes: Notes, dice: random.Random) -> bool:
    """False: the room gives no answer."""
    path, asked = dice.choice(PATHS), time.monotonic()
    got = call("/locks/acquire", file_path=path, ttl_minutes=LEASE_S / 60)
    if got is None or not got["success"]:
        return got is not None
    token, until = got["fencing_token"], asked + LEASE_S
    notes.note("lock", "begin", path, token=token, until=until)
    time.sleep(dice.uniform(0.02, 0.3))
    # Said before the release is asked for: from then on another may have it.
    notes.note("lock", "end", path, token=token)
    return call("/locks/release", file_path=path, fencing_token=token) is not None


def task(notes: Notes, dice: random.Random) -> None:
    asked = time.monotonic()
    got = call("/work/claim", lease_minutes=LEASE_S / 60)
    if got is None or not got["success"] or got["task_id"] is None:
        return
    claimed, token = got["task_id"], got["fencing_token"]
    notes.note("claim", "begin", claimed, token=token, until=asked + LEASE_S)
    time.sleep(dice.uniform(0.02, 0.3))
    notes.note("claim", "end", claimed, token=token)
    done = call("/work/complete", task_id=claimed, success=True, result={"by": os.environ["RELAY_AGENT_ID"]})
    if done is not None and done["success"]:
        notes.note("completed", "once", claimed, repeated=bool(done.get("repeated")))


def main() -> None:
    asked = sys.stdin.read().rsplit("The message to answer:", 1)[1]
    who, place = os.environ["RELAY_AGENT_ID"], Path(os.environ["RELAY_CONFIG"]).parent.name
    notes = Notes(sys.argv[1], who, place)
    notes.note("turn", "begin", who)
    threading.Thread(target=notes.beat, daemon=True).start()
    dice = random.Random()
    if lock(notes, dice):
        task(notes, dice)
    notes.note("turn", "end", who)
    print("answer to", " ".join(TOKEN.findall(asked)))


if __name__ == "__main__":
    main()
