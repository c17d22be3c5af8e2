"""What an event of the log says that is worth knowing later: pure extractors, one for each type of event.

Invariants: the same event gives the same drafts, whenever and wherever it is read; of the room's own messages and of
what agents were told nothing is made.

- `message.posted`: the lines of people's messages and agents' answers (`line_forms`);
- `files.changed`: a fact for each file, and what the trailers of the commits say; `files.read`: the trailers of a
  commit that changes no file;
- `knowledge.recorded`: what a person said by a command, or a model found; its entries stand in the event.

Pure. (003, section 7.4, `ingest_event`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay.base.durations import parse_iso
from relay.base.secret_text import masked
from relay.log.events import Event
from relay.memory.found import is_unverified
from relay.memory.knowledge.entry import (
    POSITIONS,
    PUBLIC,
    Access,
    Draft,
    Extractor,
    Kind,
    Reference,
    Relation,
    Standing,
    Visibility,
)
from relay.memory.knowledge.line_forms import Statement, ids_in, parse, statements

POSTED, CHANGED, READ = "message.posted", "files.changed", "files.read"
RECORDED = "knowledge.recorded"
#: The topic of a change of a file (003, section 7.4).
FILE_TOPIC = "file_modification"
#: Files of one event that have a fact each; more are one fact, with so many files.
MOST_FACTS, MOST_FILES = 200, 5000
#: How sure it is what a line says; what a model made of a text is less.
SAID, BY_LLM = 0.95, 0.6
#: A person's lane begins so; relay's own merges are on this lane of the room.
_PERSON, _MAIN = "human:", ("room", "main")
#: A trailer that adds to the one before it.
_RATIONALE, _ALTERNATIVES = (
    ("because", "rationale"),
    ("instead-of", "alternative", "alternatives", "rejected"),
)
_SOLVED = ("fixes", "closes")


@dataclass(frozen=True, slots=True)
class Extracted:
    """`drafts` by position; `mentions`: beginnings of ids of entries that the event names, by `agent`."""

    drafts: tuple[Draft, ...] = ()
    mentions: tuple[str, ...] = ()
    agent: str = ""


def extract(event: Event) -> Extracted:
    """What this event says; nothing for a type that has no extractor."""
    extractor = EXTRACTORS.get(event.type)
    return extractor(event) if extractor is not None else Extracted()


def is_trailer(name: str) -> bool:
    """Is something made of a trailer of this name?"""
    key = name.lower()
    return (
        key.upper() in Kind.__members__
        or key in (*_SOLVED, *_RATIONALE, *_ALTERNATIVES)
        or key.replace("-", "_") in {*Relation}
    )


def standing_of(message: Mapping[str, Any]) -> Standing:
    """Of what a message says: `{kind, meta}`."""
    if is_unverified(message.get("meta") or {}):
        return Standing.UNVERIFIED
    return Standing.PERSON if message.get("kind") == "human" else Standing.AGENT


def _of_message(event: Event) -> Extracted:
    message = (event.outputs or {}).get("message") or {}
    if message.get("kind") not in ("human", "agent"):
        return Extracted()
    body, agent = masked(str(message["body"])), str(message["speaker"])
    found = statements(body)[:POSITIONS]
    standing = standing_of(message)
    drafts = tuple(
        _draft(event, at, each, agent, SAID, Extractor.RULE, standing) for at, each in enumerate(found)
    )
    named = {reference.target for draft in drafts for reference in draft.references}
    return Extracted(drafts, tuple(each for each in ids_in(body) if each not in named), agent)


def _of_change(event: Event) -> Extracted:
    outputs = event.outputs or {}
    touches: Sequence[Mapping[str, Any]] = outputs.get("touches") or ()
    trailers = [(str(name), str(value)) for name, value in outputs.get("trailers") or ()]
    merged = (event.session, event.lane) == _MAIN
    agent = event.lane.removeprefix(_PERSON)
    standing = Standing.PERSON if agent != event.lane else Standing.AGENT
    files = tuple(touch["path"] for touch in touches)
    # What relay merges was recorded when it was written.
    facts = () if merged else _facts(event, touches, agent)
    if merged:
        authors: Sequence[str] = (outputs.get("merged") or {}).get("of", [])
        agent = authors[0] if len(authors) == 1 else agent
    said = [replace(each, files=each.files or files[:20]) for each in _of_trailers(trailers)]
    drafts = [
        _draft(event, at, each, agent, SAID, Extractor.RULE, standing)
        for at, each in enumerate(said[: POSITIONS - len(facts)], len(facts))
    ]
    return Extracted((*facts, *drafts), agent=agent)


def _facts(event: Event, touches: Sequence[Mapping[str, Any]], agent: str) -> tuple[Draft, ...]:
    told = [touch for touch in touches if touch["kind"] != "rename" or touch["after"] is not None]
    at = parse_iso(event.at)
    if len(told) <= MOST_FACTS:
        return tuple(
            Draft(
                position,
                Kind.FACT,
                masked(_deed(touch)),
                agent,
                at,
                (FILE_TOPIC,),
                tuple(dict.fromkeys((touch["path"], *((touch["from"],) if "from" in touch else ())))),
                ((touch["path"], touch["from"]),) if "from" in touch else (),
            )
            for position, touch in enumerate(told)
        )
    named = ", ".join(touch["path"] for touch in told[:5])
    files = tuple(dict.fromkeys(touch["path"] for touch in told))[:MOST_FILES]
    origins = tuple((touch["path"], touch["from"]) for touch in told[:MOST_FILES] if "from" in touch)
    content = masked(f"Modified {len(told)} files: {named} and others")
    return (Draft(0, Kind.FACT, content, agent, at, (FILE_TOPIC,), files, origins),)


def _deed(touch: Mapping[str, Any]) -> str:
    """003: `Modified file: {path}`."""
    path, kind = touch["path"], touch["kind"]
    if "from" in touch:
        return f"Renamed file: {touch['from']} to {path}"
    if kind == "mode":
        return f"Changed mode of file: {path}"
    return f"{'Deleted' if touch['after'] is None else 'Modified'} file: {path}"


def _of_trailers(trailers: Sequence[tuple[str, str]]) -> list[Statement]:
    """What the trailers of commits say: `Decision: ...`, with `Because: ...`, `Instead-of: ...` and relations behind
    it; `Fixes: ...` is a solution."""
    found: list[Statement] = []
    for name, text in trailers:
        key, value = name.lower(), masked(text)
        if key.upper() in Kind.__members__ or key in _SOLVED:
            kind = Kind[key.upper()] if key.upper() in Kind.__members__ else Kind.SOLUTION
            made = parse(kind, value if kind.name.lower() == key else f"{name} {value}")
            found += [made] if made else []
        elif found and key in _RATIONALE:
            found[-1] = replace(found[-1], rationale=" ".join(filter(None, (found[-1].rationale, value))))
        elif found and key in _ALTERNATIVES:
            found[-1] = replace(found[-1], alternatives=(*found[-1].alternatives, value))
        elif found and key.replace("-", "_") in {*Relation}:
            relation = Relation(key.replace("-", "_"))
            more = tuple(Reference(relation, each) for each in ids_in(value))
            found[-1] = replace(found[-1], references=(*found[-1].references, *more))
    return found


def _of_record(event: Event) -> Extracted:
    """`outputs`: `{agent, extracted_by, entries: [{kind, content, ...}]}`, as `recording.record` writes it."""
    outputs = event.outputs
    extractor = Extractor(outputs["extracted_by"])
    # What a model made of a person's words is not the person's word.
    standing = Standing.PERSON if extractor is Extractor.PERSON else Standing.AGENT
    standing = Standing.UNVERIFIED if is_unverified(outputs) else standing
    drafts = []
    for position, value in enumerate(outputs["entries"][:POSITIONS]):
        statement = Statement(
            Kind(value["kind"]),
            masked(value["content"]),
            masked(value["rationale"]) if value.get("rationale") else None,
            tuple(masked(each) for each in value.get("alternatives", ())),
            value.get("severity"),
            tuple(value.get("topics", ())),
            tuple(value.get("files", ())),
            Access(Visibility(value["visibility"]), tuple(value.get("names", ())))
            if "visibility" in value
            else PUBLIC,
            tuple(
                Reference(Relation(each["relation"]), each["target"], each.get("quoted", False))
                for each in value.get("references", ())
            ),
        )
        confidence = float(value.get("confidence", BY_LLM if extractor is Extractor.LLM else 1.0))
        drafts.append(_draft(event, position, statement, outputs["agent"], confidence, extractor, standing))
    return Extracted(tuple(drafts), agent=outputs["agent"])


def _draft(
    event: Event,
    position: int,
    said: Statement,
    agent: str,
    confidence: float,
    extractor: Extractor,
    standing: Standing,
) -> Draft:
    return Draft(
        position,
        said.kind,
        said.content,
        agent,
        parse_iso(event.at),
        said.topics,
        said.files,
        (),
        confidence,
        said.rationale,
        said.alternatives,
        said.severity,
        said.access,
        said.references,
        extractor,
        standing,
    )


EXTRACTORS: Mapping[str, Callable[[Event], Extracted]] = {
    POSTED: _of_message,
    CHANGED: _of_change,
    READ: _of_change,
    RECORDED: _of_record,
}
