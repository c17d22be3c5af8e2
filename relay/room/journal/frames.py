"""Which events of the log connected clients are sent, and as which frames.

Invariant: a frame holds what its event holds, so a client that resumes gets the same frames again. Only the tasks of
the board are looked up (`Reader.frames`), since a card shows more than its last change. Events of locks and sessions
become frames and no messages: the page's panel shows them, and the transcript is for what people say.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.log.encoding import dumps
from relay.log.events import Event
from relay.model import references
from relay.model.names import PRIVATE_EVENTS
from relay.room.journal import ledger
from relay.room.journal.values import Frame, entry_of_fact, job_of_fact

TASK_EVENTS = ("task.created", "task.changed")
WORKTREE_CHANGED = "worktree.changed"
#: The changes of a worktree (`change`) by which work comes to the main branch, or is gone from it.
LANDINGS = frozenset({"merged", "taken_back", "discarded", "restored", "forwarded"})
LOCK_EVENTS = ("lock.acquired", "lock.refreshed", "lock.released", "lock.forced")
SESSION_EVENTS = ("session.started", "session.ended")
#: What was verified, what people are asked, and what lands: a frame names it, and whoever shows it asks for the rest.
VERIFICATION_EVENTS = (
    *(f"verification.{what}" for what in ("asked", "routed", "result", "ended")),
    *(f"approval.{what}" for what in ("asked", "decided")),
    *(f"landing.{what}" for what in ("asked", "queued", "testing", "held", "landed", "put_out", "cancelled")),
)
#: The events that a connected client is sent.
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
    *VERIFICATION_EVENTS,
    "advisory.changed",
)


def frames_of(event: Event) -> list[Frame]:
    """The frames that an event becomes."""
    outputs = event.outputs or {}
    frames = []
    if "message" in outputs:
        frames.append(Frame(event.pos, "entry", entry_of_fact(outputs["message"], event.pos)))
    frames += [Frame(event.pos, "cycle", cycle) for cycle in outputs.get("cycles", ())]
    frames += [Frame(event.pos, "receipt", job_of_fact(job)) for job in outputs.get("jobs", ())]
    if "advisory" in outputs:
        frames.append(Frame(event.pos, "advisory", outputs["advisory"]))
    of, _, change = event.type.partition(".")
    if event.type in VERIFICATION_EVENTS:
        named = {name: outputs.get(name) for name in ("number", "agent", "state")}
        frames.append(Frame(event.pos, of, {"change": change, **named}))
    if event.type in LOCK_EVENTS:
        lock = {"change": change, "lock": outputs["lock"], "by": outputs.get("by")}
        frames.append(Frame(event.pos, "lock", lock))
    if event.type in SESSION_EVENTS:
        frames.append(Frame(event.pos, "session", {"change": change, "session": outputs["session"]}))
    return frames


def latest(frames: Sequence[Frame]) -> list[Frame]:
    """Drop each frame of a lock that a later frame is about. An agent that takes and releases in a loop makes
    thousands a second, and only the last one says what holds."""
    shown: list[Frame] = []
    newer: set[tuple[str, str, str]] = set()
    for frame in reversed(frames):
        if frame.type == "lock":
            lock = frame.data["lock"]
            key = (lock["file_path"], lock["locked_by"], lock["session"])
            if key in newer:
                continue
            newer.add(key)
        shown.append(frame)
    return shown[::-1]


def summary(event: Event) -> str:
    """What happened, in one line."""
    if event.type in PRIVATE_EVENTS:
        return "a note of a working memory, for its own session"
    outputs = event.outputs or {}
    if "message" in outputs:
        body = " ".join(outputs["message"]["body"].split())
        return f"{outputs['message']['speaker']}: {body[:120]}"
    if "cycles" in outputs:
        chosen = outputs["cycles"][-1]
        return f"{chosen.get('action', chosen['state'])}: {', '.join(chosen.get('agents', ()))}"
    if outputs.get("jobs"):
        return ", ".join(f"{job['agent']} {job['state']}" for job in outputs["jobs"])
    if event.type in TASK_EVENTS:
        numbers = ", ".join(references.task(task["after"]["number"]) for task in outputs["tasks"][:5])
        return f"{outputs.get('by')} {outputs['change'].replace('_', ' ')} {numbers}"
    if event.type in LOCK_EVENTS:
        return f"{outputs.get('by')} {event.type.partition('.')[2]} {outputs['lock']['file_path']}"
    return dumps(outputs)[:160]
