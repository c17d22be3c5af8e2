"""What the room says of a conflict that somebody has to decide (003, section 6.5).

Invariant: texts of files and commits come from outside: they stand in a fenced block or on one line. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from relay.base.terminal_text import fenced, flat, safe
from relay.merge.resolution.findings import Finding
from relay.merge.resolution.journal import AskedConflict, Behind

#: Changed lines of a side that the question shows; characters of an intent.
MOST_LINES, MOST_INTENT = 8, 160
#: Characters of a finding's evidence in a list.
MOST_EVIDENCE = 400


def question_text(asked: AskedConflict) -> str:
    """The question with its five choices, as markdown."""
    part, question = asked.part, asked.question
    ours, theirs = side_name(question.ours, question.into_name), question.agent
    where = f"`{_plain(part.path)}`" + (f", `{_plain(part.entity)}`" if part.entity else "")
    return "\n".join(
        [
            f"**Conflict {asked.name}** in {where}: {_plain(part.kind)}. {theirs} cannot be merged into "
            f"{_plain(question.into_name)} before somebody decides.",
            "",
            _side(question.into_name, question.ours),
            *_changes(part.base, part.ours),
            "",
            _side(theirs, question.theirs),
            *_changes(part.base, part.theirs),
            "",
            f"`/resolve {asked.name} 1` keep {ours}'s",
            f"`/resolve {asked.name} 2` keep {theirs}'s",
            *([] if part.whole else _written(asked)),
            f"`/resolve {asked.name} 5` keep both branches apart: nothing is merged",
            *_answers(asked),
        ]
    )


def listed(open_: Sequence[AskedConflict | Finding], not_run: str = "") -> str:
    """The open conflicts of levels 2 to 4, for `/resolve`. `not_run`: why nobody looks for those of level 4."""
    lines = [_listed(each) for each in reversed(open_)] or ["No conflict waits for a decision."]
    if not_run:
        lines.append(f"Level 4 (tests of the merged tree) is not run: {not_run}.")
    return "\n".join(lines)


def finding_text(found: Finding) -> str:
    """What the room is told of a finding of level 4, as markdown."""
    a, b = (_plain(name) for name in found.pair)
    said = fenced("\n".join(safe(line) for line in found.conflict.evidence))
    return (
        f"**Conflict {found.name}**: git merges the work of {a} and of {b}, and the tests fail on the merged tree."
        f"\n\n{said}\n\nNothing is blocked by this. It ends when the tests pass on both together."
    )


def _listed(each: AskedConflict | Finding) -> str:
    if isinstance(each, Finding):
        conflict = each.conflict
        where = ", ".join(f"`{_plain(part)}`" for part in (conflict.path, conflict.entity) if part)
        said = _plain(" ".join(conflict.evidence))[:MOST_EVIDENCE]
        return (
            f"{each.name} {where or 'the merged tree'}: level {conflict.level}, {conflict.severity}. {said}"
        )
    part, question = each.part, each.question
    return (
        f"{each.name} `{_plain(part.path)}`"
        + (f", `{_plain(part.entity)}`" if part.entity else "")
        + f": {_plain(part.kind)} ({question.agent} into {_plain(question.into_name)}). "
        f"`/resolve {each.name} 1` to `5`"
    )


def asked_to_write(asked: AskedConflict, agent: str, by: str) -> str:
    """What an agent is asked: the three texts, and how to answer."""
    part, question = asked.part, asked.question
    texts = (
        ("Both began from", part.base),
        (f"{side_name(question.ours, question.into_name)} made of it", part.ours),
        (f"{question.agent} made of it", part.theirs),
    )
    blocks = [f"{title}:\n\n{fenced(text)}" for title, text in texts]
    where = f"`{_plain(part.path)}`" + (f", `{_plain(part.entity)}`" if part.entity else "")
    fault, _, lines = part.fault.partition("\n")
    refused = [f"What it answered before counts for nothing: {_plain(fault.rstrip('.'))}."] if fault else []
    refused += [fenced(safe(lines))] if lines else []
    return "\n\n".join(
        [
            f"{by} asks {agent} to settle conflict {asked.name} in {where}: write the lines that have the work of "
            f"both. Change nothing else. Answer with the tool `resolve` (id {asked.name}, text: the lines as they "
            "are to stand there; reasoning; confidence from 0 to 1 if you have one).",
            *refused,
            *blocks,
        ]
    )


def _written(asked: AskedConflict) -> list[str]:
    """The choices by which somebody writes lines."""
    theirs = asked.question.agent
    return [
        f"`/resolve {asked.name} 3` let {theirs} write what has both (`3 @AGENT`: another)",
        f"`/resolve {asked.name} 4` write it yourself: in the page, or in the lines below this command",
    ]


def _answers(asked: AskedConflict) -> list[str]:
    """What agents wrote, of whom none is surer."""
    said = ["", "Agents were asked, and none is surer than the others:"] if asked.answers else []
    for each in asked.answers:
        figure = "no figure" if each["confidence"] is None else f"confidence {each['confidence']:g}"
        said += ["", f"{_plain(each['agent'])} ({figure})", fenced(safe(each["text"]))]
    return said


def answered(asked: AskedConflict) -> str:
    """What the room is told when an agent, or somebody elsewhere, has written what is to stand there."""
    by = (asked.resolution or {}).get("resolution_type", {})
    confidence = (asked.resolution or {}).get("confidence")
    sure = "" if confidence is None else f" (confidence {confidence:g})"
    who = _plain(by.get("resolver_agent") or by.get("user_id") or "Somebody")
    return f"{asked.name} is settled: what {who} wrote stands in `{_plain(asked.part.path)}`{sure}."


def side_name(behind: Behind, name: str) -> str:
    """Whose a side is: `AVA`, or the branch where it is not known."""
    return _plain(behind.name or name)


def _side(name: str, behind: Behind) -> str:
    who = f" ({_plain(behind.name)})" if behind.name and behind.name != name else ""
    intent = f": {_plain(behind.intent)[:MOST_INTENT]}" if behind.intent else ""
    return f"**{_plain(name)}**{who}{intent}"


def _changes(before: str, after: str) -> list[str]:
    """What a side made of the base, fenced."""
    rows = [
        row
        for row in difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=1)
        if row.strip() and not row.startswith(("---", "+++", "@@"))
    ]
    shown = [safe(row) for row in rows[:MOST_LINES]]
    more = [f"({len(rows) - MOST_LINES} more lines)"] * (len(rows) > MOST_LINES)
    return [fenced("\n".join(shown) or "(nothing stands there)", "diff"), *more]


def _plain(text: str) -> str:
    """On one line, without what markdown reads."""
    return flat(text.replace("`", "'").replace("*", "\u2217"))
