"""What must hold in a fleet whatever happened, over plain values: what people were told, the log, files and notes.

Each check gives what it found wrong, in words; none passes because there was nothing to look at where there must be
something (`tests/faults/test_fleet_checks.py` shows each of them a record that it must refuse).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
TOKEN = re.compile(r"tok-[0-9a-f]+")
#: Two readings of one clock by two processes may be written down in the other order by so much.
_BLUR_S = 0.002


# -- what people were told


def lost(acknowledged: Mapping[str, str], entries: Sequence[Json]) -> list[str]:
    """`acknowledged`: token -> the id that the room gave it. Each is in the room once, under that id."""
    if not acknowledged:
        return ["nothing was acknowledged: there is nothing to look for"]
    ids = Counter(one["id"] for one in entries)
    said = defaultdict(set)
    for one in entries:
        if one["kind"] == "human":
            for token in TOKEN.findall(one["body"]):
                said[token].add(one["id"])
    found = [f"the id {id} is in the room {n} times" for id, n in ids.items() if n != 1]
    for token, id in acknowledged.items():
        if ids[id] == 0:
            found.append(f"{token} was acknowledged as {id} and is lost")
        elif said[token] != {id}:
            found.append(f"{token} was acknowledged as {id} and is in the room as {sorted(said[token])}")
    return found


def said_once(tokens: Iterable[str], entries: Sequence[Json]) -> list[str]:
    """What was said, acknowledged or not: at most once each in the room."""
    counts = Counter(
        token for one in entries if one["kind"] == "human" for token in TOKEN.findall(one["body"])
    )
    return [f"{token} is in the room {counts[token]} times" for token in tokens if counts[token] > 1]


def there(tokens: Iterable[str], entries: Sequence[Json]) -> list[str]:
    """What was appended to a file whole: each is in the room."""
    in_room = {token for one in entries for token in TOKEN.findall(one["body"])}
    return [
        f"{token} was appended to a file and is not in the room" for token in tokens if token not in in_room
    ]


def answers(mentions: Mapping[str, Sequence[str]], entries: Sequence[Json]) -> list[str]:
    """`mentions`: token -> the agents that it names. Each of them answered it once, and nobody else did."""
    if not any(mentions.values()):
        return ["no agent was asked anything"]
    heard = Counter(
        (one["speaker"], token)
        for one in entries
        if one["kind"] == "agent"
        for token in set(TOKEN.findall(one["body"]))
    )
    wanted = {(name, token) for token, names in mentions.items() for name in names}
    in_room = {token for one in entries if one["kind"] == "human" for token in TOKEN.findall(one["body"])}
    found = [
        f"{name} answered {token} {heard[name, token]} times"
        for name, token in sorted(wanted)
        if heard[name, token] != 1 and token in in_room
    ]
    found += [
        f"{name} answered {token}, which did not name it"
        for name, token in heard
        if token in mentions and (name, token) not in wanted
    ]
    by_job = Counter(one["job"] for one in entries if one["kind"] == "agent" and one["job"] is not None)
    return found + [f"job {job} has {n} answers" for job, n in by_job.items() if n != 1]


# -- the files


def transcripts(files: Mapping[str, Sequence[tuple[str, Json | str]]], entries: Sequence[Json]) -> list[str]:
    """`files`: of each member the lines of its file, (tag, JSON or plain text). All have the room's entries, in the
    order of the log. A plain line was appended by hand there: it stands for the entry that was made of it, where it
    was appended, and that entry has no other line there."""
    if not files or not entries:
        return ["there is no transcript, or nothing in the room"]
    found: list[str] = []
    for member, lines in files.items():
        by_hand = Counter((tag, told) for tag, told in lines if isinstance(told, str))
        have = [_content(tag, told) for tag, told in lines if not isinstance(told, str)]
        wanted = []
        for one in entries:
            if by_hand[one["speaker"], one["body"]]:
                by_hand[one["speaker"], one["body"]] -= 1
            else:
                wanted.append(_content(one["speaker"], one))
        found += [
            f"{member}'s file has {said!r} of {tag}, which is no entry of the room"
            for (tag, said), n in by_hand.items()
            if n
        ]
        counts = Counter(id for id, *_ in have)
        known = {id for id, *_ in wanted}
        found += [f"{id} is in {member}'s file {n} times" for id, n in counts.items() if n != 1]
        found += [f"{id} is in {member}'s file and not in the room" for id in counts if id not in known]
        found += [
            f"{one} is in the room and not in {member}'s file" for one in wanted if one[0] not in counts
        ]
        for at, (mine, theirs) in enumerate(zip(have, wanted, strict=False)):
            if mine != theirs:
                found.append(f"line {at} of {member}'s file is {mine}, in the room it is {theirs}")
                break
    return found


def _content(speaker: str, one: Json) -> tuple[str, str, str, str | None]:
    """What must be the same everywhere: (id, speaker, body, in_reply_to)."""
    return one["id"], speaker, one["body"], one.get("in_reply_to")


# -- the notes of the agents


@dataclass(frozen=True, slots=True)
class Span:
    """That `who` did something from `begin` to `end` (seconds of one clock); `token`: the fencing token of it."""

    what: str
    key: str
    who: str
    process: str
    begin: float
    end: float
    token: int = 0


def spans(notes: Sequence[Json]) -> list[Span]:
    """The notes, as spans: each ends where its end is noted, else with the last beat of its process, and not later
    than its lease."""
    last = dict[str, float]()
    for note in notes:
        last[note["process"]] = max(last.get(note["process"], 0.0), note["at"])
    ends = {
        (note["process"], note["what"], note["key"], note.get("token", 0)): note["at"]
        for note in notes
        if note["state"] == "end"
    }
    found = []
    for note in notes:
        if note["state"] != "begin":
            continue
        token = note.get("token", 0)
        end = ends.get((note["process"], note["what"], note["key"], token), last[note["process"]])
        end = min(end, note.get("until", end))
        found.append(Span(note["what"], note["key"], note["who"], note["process"], note["at"], end, token))
    return found


def overlaps(found: Sequence[Span], *whats: str) -> list[str]:
    """No two at once of one kind and key: two holders of a path, two runs of a claim, two turns of an agent."""
    wrong = []
    for what in whats:
        of_kind = [span for span in found if span.what == what]
        if not of_kind:
            wrong.append(f"no {what} was noted: there is nothing to look at")
        by_key = defaultdict(list)
        for span in of_kind:
            by_key[span.key].append(span)
        for key, same in by_key.items():
            open_ = None
            for span in sorted(same, key=lambda one: one.begin):
                if open_ is not None and span.begin < open_.end - _BLUR_S:
                    wrong.append(
                        f"{what} {key}: {span.who} ({span.process}) began {open_.end - span.begin:.2f} s before "
                        f"{open_.who} ({open_.process}) ended"
                    )
                if open_ is None or span.end > open_.end:
                    open_ = span
    return wrong


def tokens(found: Sequence[Span]) -> list[str]:
    """The later holder of a path has the larger fencing token; the same one only where the holder is the same."""
    by_key = defaultdict(list)
    for span in found:
        if span.what == "lock":
            by_key[span.key].append(span)
    wrong = []
    for key, same in by_key.items():
        for before, after in pairwise(sorted(same, key=lambda one: one.begin)):
            if after.token < before.token or (after.token == before.token and after.who != before.who):
                wrong.append(
                    f"{key}: {after.who} has token {after.token} after {before.who} had {before.token}"
                )
    return wrong


def completed_once(notes: Sequence[Json], forgot: Sequence[tuple[float, float]] = ()) -> list[str]:
    """No two agents were told that they completed one task. `forgot`: when a server crashed that need not have kept
    what it acknowledged then."""
    by = defaultdict(set)
    for note in notes:
        if note["what"] == "completed" and not any(since <= note["at"] <= until for since, until in forgot):
            by[note["key"]].add(note["who"])
    return [f"task {key} was completed by {sorted(who)}" for key, who in by.items() if len(who) > 1]


# -- the log


def holders(events: Sequence[Json]) -> list[str]:
    """`events`: {type, outputs} in the log's order. A path is acquired by another only after it was given back, taken
    by force, or its lease was over; the tokens of a path grow."""
    held = dict[str, Json]()
    newest = dict[str, int]()
    found, seen = [], 0
    for event in events:
        if not event["type"].startswith("lock."):
            continue
        one = event["outputs"]["lock"]
        path = one["file_path"]
        if event["type"] in ("lock.released", "lock.forced"):
            held.pop(path, None)
            continue
        if event["type"] == "lock.acquired":
            seen += 1
            other = held.get(path, one)
            if holder_of(other) != holder_of(one) and one["acquired_at"] < other["expires_at"]:
                found.append(
                    f"{path}: {one['locked_by']} acquired it at {one['acquired_at']}, "
                    f"{other['locked_by']} held it until {other['expires_at']}"
                )
            if one["fencing_token"] <= newest.get(path, 0):
                found.append(f"{path}: token {one['fencing_token']} came after {newest[path]}")
            newest[path] = one["fencing_token"]
        held[path] = one
    return found if seen else ["the log has no lock that was acquired"]


def holder_of(lock: Json) -> tuple[str, str]:
    return lock["locked_by"], lock["session"]


def claims(events: Sequence[Json]) -> list[str]:
    """A task is completed once, and claimed again only after its claim ended (released, recovered, undone)."""
    claimed = dict[str, str]()
    done, found, seen = set[str](), [], 0
    for event in events:
        if event["type"] != "task.changed":
            continue
        change = event["outputs"]["change"]
        for task in event["outputs"]["tasks"] if "tasks" in event["outputs"] else [event["outputs"]["task"]]:
            id = task["after"]["id"]
            if change == "claimed":
                seen += 1
                if id in claimed:
                    found.append(f"task {id} was claimed again while {claimed[id]} had it")
                claimed[id] = str(task["after"].get("claimed_by"))
            elif change == "completed":
                if id in done:
                    found.append(f"task {id} was completed twice")
                done.add(id)
                claimed.pop(id, None)
            elif change in ("released", "recovered", "failed", "dead"):
                claimed.pop(id, None)
    return found if seen else ["the log has no claim"]


# -- what the room said


def notices(said: Sequence[str], wanted: Mapping[str, tuple[int, int]]) -> list[str]:
    """`wanted`: pattern -> (least, most) of what RELAY said since the fault that match it."""
    found = []
    for pattern, (least, most) in wanted.items():
        matching = [one for one in said if re.search(pattern, one, re.IGNORECASE | re.DOTALL)]
        if not least <= len(matching) <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            found.append(f"the room said {pattern!r} {len(matching)} times, not {expected}: {matching}")
    return found


def read_notes(text: str) -> list[Json]:
    """The lines of the notes' file; the last one may be torn by a kill, others may not."""
    found = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        try:
            if line:
                found.append(json.loads(line))
        except ValueError:
            if at < len(lines) - 1:
                raise
    return found
