"""A file of questions, `{id, text, tags?}` a line, and their answers, a line each in the same order.

Invariant: a line that is no question is answered by its error, and the others by what is remembered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from typing import Any

from relay.app.commands.person import ago, table
from relay.app.memory.lines import Piece
from relay.app.memory.room_operations import Perform
from relay.base.terminal_text import safe, tame
from relay.memory.found import said_beside, whose
from relay.model import Fault, Refusal, references
from relay.model.validation import malformed

Json = dict[str, Any]
FIELDS = ("id", "text", "tags")
#: What an answer for programs says of a memory.
SHOWN = ("memory_id", "key", "keys", "relevance", "memory_type")
#: Lines that are read before they are answered: who writes them one by one gets them answered so.
AT_ONCE = 1


async def answer(perform: Perform, source: Iterator[Piece], args: argparse.Namespace) -> int:
    """Answer all questions; gives the exit code, 1 where one was none."""
    code = 0
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        for line in piece.lines:
            if not line.strip():
                continue
            answered = await _answered(perform, line, args.limit)
            code = 1 if "error" in answered else code
            shown = json.dumps(_short(answered)) if args.json else f"{safe(in_words(tame(answered)))}\n"
            print(shown, flush=True)
    return code


async def _answered(perform: Perform, line: str, limit: int) -> Json:
    id_: Any = None
    try:
        asked = _question(line)
        id_ = asked.get("id")
        _check(asked)
        values = {"task_description": asked["text"], "tags": asked.get("tags") or [], "limit": limit}
        memories = await perform("recall", values)
    except Refusal as refusal:
        if refusal.fault is not Fault.MALFORMED:
            raise  # it is not about this line
        error = {"code": refusal.code, "message": refusal.message, "fix": refusal.fix}
        if refusal.code == "bad_task_description":  # what the line calls `text`
            error |= {"code": "bad_text", "message": refusal.message.replace("task_description", "text")}
        return {"id": id_, "error": error}
    return {"id": id_, "memories": [with_key(memory) for memory in memories]}


def _short(answered: Json) -> Json:
    """An answer for programs: which memories, and how relevant."""
    if "error" in answered:
        return answered
    memories = [{name: memory[name] for name in SHOWN} for memory in answered["memories"]]
    return {"id": answered["id"], "memories": memories}


def _question(line: str) -> Json:
    """The object of a line. Raises Refusal."""
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"The line is not JSON: {str(error)[:120]}."
        raise malformed("line", message, "Give one JSON object a line.") from None
    if not isinstance(asked, dict):
        raise malformed("line", "The line is no JSON object.", 'Give {"id": ..., "text": "..."}.')
    return asked


def _check(asked: Json) -> None:
    """Raises Refusal for a question that is none. What its text and tags may be, the recall says."""
    for name in asked:
        if name not in FIELDS:
            raise malformed("field", f"Unknown field {name[:60]!r}.", f"Known: {', '.join(FIELDS)}.")
    if asked.get("id") is None:
        raise malformed("id", "`id` is missing.", "Give each question an id: its answer has the same.")
    if asked.get("text") is None:
        raise malformed("text", "`text` is missing.", 'Give {"text": "..."}.')


def with_key(memory: Json) -> Json:
    """A memory of a recall with its first `key`, or None."""
    return {**memory, "key": next(iter(memory.get("keys") or ()), None)}


def in_words(told: Json) -> str:
    """An answer for people."""
    head = [] if told["id"] is None else [f"{told['id']}:"]
    if "error" in told:
        return "\n".join([*head, f"{told['error']['message']} {told['error']['fix']}".strip()])
    beside = [_row(memory) for memory in told["memories"] if said_beside(memory["why"])]
    rows = [_row(memory) for memory in told["memories"] if not said_beside(memory["why"])]
    said = ["Said next to it:", table(beside)] if beside else []
    return "\n".join([*head, table(rows) if rows else "Nothing that is remembered bears on it.", *said])


def _row(memory: Json) -> list[str]:
    from relay.memory.prompt import no_longer, on_one_line, with_lessons

    episodic = memory["memory_type"] != "procedural"
    name = references.named(memory.get("number"), memory["memory_id"]) if episodic else memory["memory_id"]
    # When it was last said: what has no text to be found by is told in that order.
    author, imported_by = memory.get("agent_id") or "", memory.get("imported_by")
    told = f"{author} (imported by {imported_by})" if imported_by and imported_by != author else author
    about = [whose(memory, told), ago(memory.get("updated_at") or memory.get("created_at"))]
    ended = f"({no_longer(memory.get('replaced_by'))}) " if memory.get("is_valid") is False else ""
    said = ended + (memory.get("summary") or memory["content"])
    reasons = [f"because {memory['rationale']}"] if memory.get("rationale") else memory.get("lessons", ())
    return [name, *about, on_one_line(with_lessons(said, reasons))]
