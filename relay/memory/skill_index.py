"""How skills are found by their words, beside experiences and knowledge.

Invariants:
- a skill's words are those of its name, its task type and the steps that were told last; they are counted in the
  transaction that changes them;
- which skills are candidates and how they are weighed is decided here and in `relay.memory.ranking`, so the order is
  the same on every engine;
- what a skill is worth moves its rank within bounds: the best one has half as much more as the worst.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.memory.found import Found
from relay.memory.ranking.counts import WordCounts, counts_of
from relay.memory.ranking.weights import Weighing
from relay.memory.ranking.words import question as asked_for
from relay.memory.ranking.words import spaced, words
from relay.memory.skill import Skill, ranked
from relay.model import Caller
from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parent)
KIND = "procedural"
#: Hits that are read for a question, and skills that are weighed.
MOST_HITS, CANDIDATES = 8_000, 100
#: What of a relevance stands without any effectiveness.
UNPROVEN = 2 / 3
#: What is less relevant is no answer.
LEAST = 0.001


async def index(tx: Tx, skill: Skill) -> None:
    """Let a skill be found by its words as they are now. With the room's rights."""
    which = {"task_type": skill.task_type, "name": skill.name}
    counts = WordCounts(KIND)
    before = await tx.one(Q.skill_text, **which)
    if before is not None:
        counts.add(before["summary"].split(), before["body"].split(), -1)
        await tx.execute(Q.forget_skill_words, **which)
    summary, body = words(f"{skill.name} {skill.task_type}"), words("\n".join(skill.steps))
    texts = {"summary": spaced(summary), "body": spaced(body)}
    lengths = {"summary_count": len(summary), "body_count": len(body)}
    await tx.execute(Q.put_skill_text, **which, **texts, **lengths)
    stems = json.dumps(sorted({*summary, *body}), ensure_ascii=False)
    await tx.execute(Q.put_skill_words, **which, words=stems)
    counts.add(summary, body)
    await counts.write(tx)


async def found(tx: Tx, caller: Caller, question: str, limit: int) -> list[Found]:
    """The skills that answer a question, the most relevant first. Every caller may read every skill."""
    asked = asked_for(question)
    if not asked.words:
        return []
    counts = await counts_of(tx, KIND, asked.words)
    weighing = Weighing.of(asked, counts)
    candidates = await _candidates(tx, weighing, counts)
    rows = await tx.all(Q.skill_texts, skills=json.dumps(candidates, ensure_ascii=False))
    skills: dict[tuple[str, str], Skill] = {}
    for task_type in sorted({row["task_type"] for row in rows}):
        for skill in ranked(await tx.all(Q.skills_of_type, task_type=task_type)):
            skills[task_type, skill.name] = skill
    texts = [weighing.text(row) for row in rows]
    told = []
    for row, text in zip(rows, texts, strict=True):
        skill = skills[row["task_type"], row["name"]]
        relevance = weighing.score(text) * (UNPROVEN + (1 - UNPROVEN) * skill.effectiveness)
        if relevance >= LEAST:
            why = {"words": weighing.words(text)}
            told.append(_found(skill, relevance, row["used_at"], why))
    return sorted(told, key=lambda each: (*each.order, each.id))[:limit]


async def _candidates(tx: Tx, weighing: Weighing, counts: Mapping[str, int]) -> list[list[str]]:
    """`[task_type, name]` of the skills that have the question's rarest words, those with the most of them first."""
    chosen, left = list[str](), MOST_HITS
    rarities = dict(zip(weighing.question.words, weighing.rarity, strict=True))
    for word in sorted((word for word in rarities if word in counts), key=lambda w: (counts[w], w)):
        if chosen and counts[word] > left:
            break
        chosen.append(word)
        left -= counts[word]
    scores: dict[tuple[str, str], int] = {}
    wanted = json.dumps(sorted(chosen), ensure_ascii=False)
    for row in await tx.all(Q.skills_with, words=wanted, limit=MOST_HITS):
        which = row["task_type"], row["name"]
        scores[which] = scores.get(which, 0) + round(1000 * rarities[row["word"]])
    return [list(which) for which in sorted(scores, key=lambda which: (-scores[which], which))[:CANDIDATES]]


def _found(skill: Skill, relevance: float, at: float, why: Mapping[str, Any]) -> Found:
    done = f"{skill.successes} of {skill.uses} uses went well"
    steps = [f"{number}. {step}" for number, step in enumerate(skill.steps, 1)]
    return Found(
        memory_type=KIND,
        id=f"{skill.task_type}/{skill.name}",
        relevance=relevance,
        content="\n".join([f"{skill.name} (for {skill.task_type}; {done})", *steps]),
        at=at,
        why={**why, "tags": [], "neighbour": [], "author": None},
        more=skill.as_json(),
    )
