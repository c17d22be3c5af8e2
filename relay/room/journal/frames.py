"""What connected clients are told of the log: which events, and as which frames.

Invariant: what is told is what the event holds, so whoever resumes is told the same again; only the board's is
looked up (`Room.frames`), since a card shows more than its last change. What agents do with locks and sessions
makes frames and no messages: the panel shows it, the transcript stays for what people say.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.log.events import Event, dumps
from relay.model import references
from relay.room.journal import ledger
from relay.room.journal.values import Frame

TASK_EVENTS = ("task.created", "task.changed")
LOCK_EVENTS = ("lock.acquired", "lock.refreshed", "lock.released", "lock.forced")
SESSION_EVENTS = ("session.started", "session.ended")
#: What the log holds that a connected client is told.
SHOWN = (
    ledger.POSTED,
    ledger.QUEUED,
    ledger.CHANGED,
    ledger.DECIDED,
    ledger.TURN_STARTED,
    ledger.TURN_ENDED,
    *TASK_EVENTS,
    *LOCK_EVENTS,
    *SESSION_EVENTS,
    "advisory.changed",
)


def frames_of(event: Event) -> list[Frame]:
    """What clients are told of an event."""
    told = event.outputs or {}
    frames = []
    if "message" in told:
        entry = {**told["message"], "cursor": str(event.pos)}
        frames.append(Frame(event.pos, "entry", entry))
    frames += [Frame(event.pos, "cycle", cycle) for cycle in told.get("cycles", ())]
    frames += [Frame(event.pos, "receipt", job) for job in told.get("jobs", ())]
    if "advisory" in told:
        frames.append(Frame(event.pos, "advisory", told["advisory"]))
    change = event.type.partition(".")[2]
    if event.type in LOCK_EVENTS:
        lock = {"change": change, "lock": told["lock"], "by": told.get("by")}
        frames.append(Frame(event.pos, "lock", lock))
    if event.type in SESSION_EVENTS:
        frames.append(Frame(event.pos, "session", {"change": change, "session": told["session"]}))
    return frames


def latest(frames: Sequence[Frame]) -> list[Frame]:
    """The frames without those of a lock that a later one of them is about: an agent that takes and releases in a
    loop makes thousands a second, and only the last one says how it stands."""
    kept: list[Frame] = []
    told: set[tuple[str, str, str]] = set()
    for frame in reversed(frames):
        if frame.type == "lock":
            lock = frame.data["lock"]
            key = (lock["file_path"], lock["locked_by"], lock["session"])
            if key in told:
                continue
            told.add(key)
        kept.append(frame)
    kept.reverse()
    return kept


def summary(event: Event) -> str:
    """What happened, in one line."""
    told = event.outputs or {}
    if "message" in told:
        body = " ".join(told["message"]["body"].split())
        return f"{told['message']['speaker']}: {body[:120]}"
    if "cycles" in told:
        chosen = told["cycles"][-1]
        return f"{chosen.get('action', chosen['state'])}: {', '.join(chosen.get('agents', ()))}"
    if told.get("jobs"):
        return ", ".join(f"{job['agent']} {job['state']}" for job in told["jobs"])
    if event.type in TASK_EVENTS:
        numbers = ", ".join(references.task(one["after"]["number"]) for one in told["tasks"][:5])
        return f"{told.get('by')} {told['change'].replace('_', ' ')} {numbers}"
    if event.type in LOCK_EVENTS:
        return f"{told.get('by')} {event.type.partition('.')[2]} {told['lock']['file_path']}"
    return dumps(told)[:160]
