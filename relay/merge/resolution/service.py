"""Conflicts as interfaces ask for them; nothing here needs git (docs/landing.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from relay.git.trial_merge import ConflictPart, as_places
from relay.merge.resolution import answers, findings, journal
from relay.merge.resolution.journal import AskedConflict, Behind, Question
from relay.merge.resolution.wording import answered, question_text
from relay.model import Caller
from relay.store.ports import Store, Tx

#: Says a text in the room, in the caller's transaction: given the text, the events behind it, and what it is about.
Tell = Callable[[Tx, str, list[str], dict[str, Any]], Awaitable[None]]


async def found(
    tx: Tx, only_open: bool = False, limit: int = 100
) -> Sequence[AskedConflict | findings.Finding]:
    """The conflicts of levels 2, 3 and 4 that the room has found, the newest first."""
    asked = await journal.newest(tx, only_open=only_open, limit=limit)
    more = await findings.newest(tx, only_open=only_open, limit=limit)
    both: list[AskedConflict | findings.Finding] = [*asked, *more]
    return sorted(both, key=lambda each: -each.number)[:limit]


async def of_number(tx: Tx, number: int) -> AskedConflict | findings.Finding:
    """The one of this number. Raises Refusal."""
    return await findings.finding(tx, number) or await journal.conflict(tx, number)


def of_json(value: Mapping[str, Any]) -> AskedConflict | findings.Finding:
    """From the form of `as_json` of either, which does not say who was asked, nor by which strategy."""
    if value["level"] != journal.LEVEL:
        return findings.Finding.of_json(value)
    a, b = value["a"], value["b"]
    part = ConflictPart(
        value["path"],
        value["entity"] or "",
        value["kind"],
        value["severity"],
        value["base"],
        a["after"],
        b["after"],
        whole=value["whole"],
        places=as_places([value["lines"][side] for side in ("base", "a", "b")]),
    )
    ours, theirs = (Behind(side["lane"] or "", side["intent"] or "") for side in (a, b))
    question = Question(value["agent"], value["into"], value["ours_at"], value["theirs_at"], ours, theirs)
    return AskedConflict(
        value["number"],
        part,
        question,
        value["state"],
        "",
        value["at"],
        resolution=value["resolution"],
        answers=tuple(value["answers"]),
    )


def undecided(asked: AskedConflict) -> bool:
    """Have all agents answered that a strategy asked, and none is surer than the others?"""
    return asked.state == journal.OPEN and bool(asked.askees) and len(asked.answers) == len(asked.askees)


class MergeConflicts:
    """The conflicts of one room. `tell`: says in the room what was answered."""

    def __init__(self, store: Store, tell: Tell | None = None) -> None:
        self._store, self._tell = store, tell
        #: Raises Refusal when the sides of a conflict moved on; set where git can be asked, which is in the daemon.
        #: Elsewhere what comes late is recorded, and does not count.
        self.standing: Callable[[int], Awaitable[AskedConflict]] | None = None

    async def list(self, *, only_open: bool = False, limit: int = 100) -> list[dict[str, Any]]:
        """All that `found` gives, as docs/conflicts.md has it."""
        return [each.as_json() for each in await self._store.read(lambda tx: found(tx, only_open, limit))]

    async def answer(
        self,
        caller: Caller,
        name: str,
        text: str,
        *,
        confidence: float | None = None,
        reasoning: str | None = None,
    ) -> dict[str, Any]:
        """What a person, or an agent that was asked, wants to stand there. Raises Refusal."""
        number = answers.number_of(name)
        if self.standing is not None:
            await self.standing(number)

        async def work(tx: Tx) -> dict[str, Any]:
            made = await answers.answer(tx, caller, name, text, confidence=confidence, reasoning=reasoning)
            if self._tell is not None and (made.is_new or undecided(made)):
                meta = {"notice": "conflict_answered" if made.is_new else "conflict", "conflict": made.number}
                said = answered(made) if made.is_new else question_text(made)
                await self._tell(tx, said, [made.event], meta)
            return made.as_json()

        return await self._store.write(work, durable=True)
