"""Knowledge that is in no line of a message: what a person ordered the room to note, or a model found in a text.

Invariant: it is an event like all else that knowledge is made of (`knowledge.recorded`), so a rebuild asks no model
and no person again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.memory.found import UNVERIFIED
from relay.memory.knowledge.entry import Extractor
from relay.memory.knowledge.extractors import RECORDED
from relay.memory.knowledge.line_forms import Statement
from relay.store.ports import Tx


def model_key(message: str) -> str:
    """The `source_key` of what a model found in the message of this event."""
    return f"knowledge_model:{message}"


async def record(
    tx: Tx,
    lane: Lane,
    agent: str,
    found: Sequence[Statement],
    *,
    extractor: Extractor,
    cause: Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    source_key: str | None = None,
    unverified: bool = False,
) -> Event:
    """Record what `agent` has said or decided; `inputs`: what it was made of. With a `source_key` it happens
    once. `unverified`: nobody proves that it was `agent`. Raises LaneError."""
    outputs: dict[str, Any] = {
        "agent": agent,
        "extracted_by": str(extractor),
        "entries": [_as_json(each) for each in found],
    }
    if unverified:
        outputs[UNVERIFIED] = True
    new = NewEvent(RECORDED, lane, inputs, outputs, cause, source_key=source_key)
    return await events.append(tx, new)


def _as_json(said: Statement) -> dict[str, Any]:
    value = {
        "kind": str(said.kind),
        "content": said.content,
        "rationale": said.rationale,
        "alternatives": list(said.alternatives),
        "severity": said.severity,
        "topics": list(said.topics),
        "files": list(said.files),
        "visibility": str(said.access.visibility),
        "names": list(said.access.names),
        "references": [
            {"relation": str(each.relation), "target": each.target, "quoted": each.quoted}
            for each in said.references
        ],
    }
    return {name: part for name, part in value.items() if part not in (None, [], "public")}
