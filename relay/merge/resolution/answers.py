"""What people and agents write in a conflict's place (003, sections 6.4 and 6.5).

Invariant: an agent answers only what it was asked. Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from dataclasses import replace

from relay.merge.resolution import journal
from relay.merge.resolution.journal import AskedConflict, Resolution
from relay.model import Caller, Fault, Refusal, references
from relay.model.references import Thing
from relay.store.ports import Tx

#: Bytes of a text that stands in a conflict's place.
MOST_TEXT = 1_000_000


async def answer(
    tx: Tx,
    caller: Caller,
    name: str,
    text: str,
    *,
    confidence: float | None = None,
    reasoning: str | None = None,
) -> AskedConflict:
    """What a person, or an agent that was asked, wants to stand there. It counts as long as both sides say the same
    there. Raises Refusal."""
    agent, asked = caller.agent, await journal.conflict(tx, number_of(name))
    if asked.state == journal.GONE:
        raise Refusal(
            f"{asked.name} is gone: a side has changed {asked.part.path} since, or the work is merged.",
            "Merge again: what conflicts now is asked anew.",
            code="moved_on",
        )
    lines_only(asked)
    if caller.person:
        return await journal.resolve(
            tx,
            asked,
            Resolution(
                journal.STRATEGIES[asked.use], "human_resolved", agent, checked(text), reasoning=reasoning
            ),
        )
    if agent not in asked.askees:
        raise Refusal(
            f"{agent} was not asked about {asked.name}.",
            f"A person asks with `/resolve {asked.name} 3 @{agent}`.",
            Fault.FORBIDDEN,
            "not_yours",
        )
    if asked.state != journal.OPEN and not (asked.resolution or {}).get("resolution_type", {}).get(
        "resolver_agent"
    ):
        raise Refusal(f"{asked.name} is {asked.state} already.", "Leave it as it is.", code="moved_on")
    if asked.use == "confidence":
        return await _more_sure(tx, asked, agent, checked(text), reasoning, confidence)
    return await journal.resolve(
        tx,
        asked,
        Resolution(
            "agent_resolve",
            "agent_resolved",
            agent,
            checked(text),
            reasoning=reasoning,
            confidence=confidence,
        ),
    )


def lines_only(asked: AskedConflict) -> None:
    """Raises Refusal where no lines can stand: the conflict is about a path as a whole."""
    if asked.part.whole:
        raise Refusal(
            f"{asked.name} is about all of {asked.part.path} ({asked.part.kind}): there are no lines to write.",
            f"Choose a side, or none: `/resolve {asked.name} 1`, `2` or `5`.",
            Fault.MALFORMED,
            "no_lines",
        )


async def _more_sure(
    tx: Tx, asked: AskedConflict, agent: str, text: str, reasoning: str | None, confidence: float | None
) -> AskedConflict:
    """Keep an agent's answer; when all that were asked have answered, the one with the highest figure stands. Where
    one has none, or two are equal, the answers stay, and people are asked."""
    mine = {"agent": agent, "text": text, "reasoning": reasoning, "confidence": confidence}
    answers = (*(each for each in asked.answers if each["agent"] != agent), mine)
    made = replace(asked, answers=answers)
    if made.state == journal.OPEN:
        await journal.put(tx, made)
    figures = sorted(each["confidence"] for each in answers if each["confidence"] is not None)
    if {each["agent"] for each in answers} != {*asked.askees} or len(figures) < len(answers):
        return made
    if len(figures) < 2 or figures[-1] == figures[-2]:
        return made
    best = max(answers, key=lambda each: each["confidence"])
    return await journal.resolve(
        tx,
        made,
        Resolution(
            journal.STRATEGIES["confidence"],
            "agent_resolved",
            best["agent"],
            best["text"],
            reasoning=best["reasoning"],
            confidence=best["confidence"],
        ),
    )


def number_of(name: str) -> int:
    """The number of `c3`. Raises Refusal."""
    found = references.read(name, bare=Thing.CONFLICT)
    if found is None or found[0] is not Thing.CONFLICT:
        raise Refusal(
            f"{name[:40]!r} is no conflict: they are named like c3.", "", Fault.MALFORMED, "malformed"
        )
    return found[1]


def checked(text: str) -> str:
    """A text that may stand in a conflict's place, with its line end. Raises Refusal."""
    if len(text.encode("utf-8", "surrogatepass")) > MOST_TEXT:
        raise Refusal(f"The text is longer than {MOST_TEXT:,} bytes.", "", Fault.MALFORMED, "too_large")
    if any(line.startswith(("<<<<<<<", ">>>>>>>", "|||||||")) for line in text.split("\n")):
        raise Refusal(
            "Conflict markers are left in the text.", "Write what is to stand there.", Fault.MALFORMED
        )
    return text if text.endswith("\n") or not text else text + "\n"
