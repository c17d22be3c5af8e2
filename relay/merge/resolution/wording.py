"""What the room says of a conflict that somebody has to decide (003, section 6.5).

Invariant: texts of files and commits come from outside: they stand in a fenced block or on one line. Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from relay.base.terminal_text import fenced, flat, safe
from relay.git.merge_state import line_ranges
from relay.merge.resolution import journal
from relay.merge.resolution.findings import Finding
from relay.merge.resolution.journal import AskedConflict, Behind, Question
from relay.merge.text.lines import lines_of
from relay.model.names import listed as listed_names

#: Changed lines of a side that the question shows, and that are shown to who looks at it again; characters of an
#: intent.
MOST_LINES, MOST_SHOWN, MOST_INTENT = 8, 200, 160
Place = tuple[int, int] | None
#: Characters of a finding's evidence in a list.
MOST_EVIDENCE = 400


def question_text(asked: AskedConflict, most: int = MOST_LINES) -> str:
    """The question with its five choices, as markdown. `most`: changed lines of a side."""
    part, question = asked.part, asked.question
    ours, theirs = side_name(question), question.agent
    base_at, ours_at, theirs_at = part.places
    where = f"`{_plain(part.path)}`" + (f", `{_plain(part.entity)}`" if part.entity else "")
    return "\n".join(
        [
            f"**Conflict {asked.name}** in {where}: {_plain(part.kind)}. {how_it_stands(asked)}",
            "",
            _side(question.into_name, question.ours, ours_at),
            *_changes(part.base, part.ours, (base_at, ours_at), most),
            "",
            _side(theirs, question.theirs, theirs_at),
            *_changes(part.base, part.theirs, (base_at, theirs_at), most),
            *_choices(asked, ours, theirs),
        ]
    )


def _choices(asked: AskedConflict, ours: str, theirs: str) -> list[str]:
    if asked.state == journal.GONE:
        return []
    return [
        "",
        f"`/resolve {asked.name} 1` keep {ours}'s",
        f"`/resolve {asked.name} 2` keep {theirs}'s",
        *([] if asked.part.whole else _written(asked)),
        f"`/resolve {asked.name} 5` keep both branches apart: nothing is merged",
        *_answers(asked),
    ]


def how_it_stands(asked: AskedConflict) -> str:
    """How far it is."""
    question = asked.question
    apart = f"{question.agent} cannot be merged into {_plain(question.into_name)}"
    match asked.state:
        case journal.OPEN:
            return f"{apart} before somebody decides."
        case journal.GONE:
            return (
                "It is gone: a side has changed these lines since, or the work is merged. Merging asks anew."
            )
    by, what = _decided(asked)
    if asked.state == journal.REJECTED:
        return f"{by} keeps both branches apart: {apart}."
    return f"It is settled: {what} stands ({by}). Until the work is merged, another choice takes its place."


def _decided(asked: AskedConflict) -> tuple[str, str]:
    """By whom it was decided, and what stands there."""
    how = (asked.resolution or {}).get("resolution_type", {})
    by = _plain(how.get("resolver_agent") or how.get("user_id") or "Somebody")
    return by, f"{_plain(how['chosen'])}'s side" if how.get("chosen") else f"what {by} wrote"


def lands_instead(settled: Sequence[AskedConflict]) -> list[str]:
    """Sentences for who reads an agent's branch: what stands in the places of its settled conflicts once it lands,
    where that is not what the branch has."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in sorted(settled, key=lambda asked: asked.number):
        if each.text != each.part.theirs:
            found.setdefault((_decided(each)[1], each.part.path), []).append(each.name)
    return [
        f"{listed_names(names)} {'are' if len(names) > 1 else 'is'} settled: in {_plain(path)}, {what} lands there "
        "instead of the branch's lines."
        for (what, path), names in found.items()
    ]


def shown(found: AskedConflict | Finding) -> str:
    """A conflict for who looks at it again: the question with all of its lines, or the finding, as markdown."""
    return finding_text(found) if isinstance(found, Finding) else question_text(found, MOST_SHOWN)


def listed(open_: Sequence[AskedConflict | Finding], not_run: str = "") -> str:
    """The open conflicts of levels 2 to 4, for `/resolve`. `not_run`: why nobody looks for those of level 4."""
    lines = [_listed(each) for each in reversed(open_)] or ["No conflict waits for a decision."]
    if not_run:
        lines.append(f"Level 4 (tests of the merged tree) is not run: {not_run}.")
    return "\n".join(lines)


def finding_text(found: Finding) -> str:
    """What a finding of level 3 or 4 is, and how it ends, as markdown."""
    a, b = (_plain(name) for name in found.pair)
    conflict = found.conflict
    where = ", ".join(f"`{_plain(part)}`" for part in (conflict.path, conflict.entity) if part)
    what = "the tests fail on the merged tree" if conflict.level == 4 else "the two do not go together"
    said = fenced("\n".join(safe(line) for line in conflict.evidence))
    over = "" if conflict.state == journal.OPEN else " It is over."
    return (
        f"**Conflict {found.name}**{f' in {where}' if where else ''} (level {conflict.level}, {conflict.severity}): "
        f"git merges the work of {a} and of {b}, and {what}.{over}\n\n{said}\n\n{how_it_ends(found)}"
    )


def how_it_ends(found: Finding) -> str:
    """What is to be done about a conflict that git does not see."""
    a, b = (_plain(name) for name in found.pair)
    ends = (
        "the tests pass on both together"
        if found.conflict.level == 4
        else "a look at the two as they stand does not find it any more"
    )
    return (
        "Nothing is blocked by this, and there is nothing to choose or to write: git merges both. "
        f"{a} and {b} have to agree. It ends when {ends}, or when one of them has nothing in hand."
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
        (f"{side_name(question)} made of it", part.ours),
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


def side_name(question: Question) -> str:
    """Whose the side is that the work is merged into: `AVA`; the branch where that is not known, or is who has done
    the work too."""
    known = question.ours.name not in ("", question.agent)
    return _plain(question.ours.name if known else question.into_name)


def _side(name: str, behind: Behind, place: Place) -> str:
    who = f" ({_plain(behind.name)})" if behind.name and behind.name != name else ""
    intent = f": {_plain(behind.intent)[:MOST_INTENT]}" if behind.intent else ""
    return f"**{_plain(name)}**{who}{_at(place)}{intent}"


def _at(place: Place) -> str:
    """The lines of a place in words, behind a name."""
    if place is None:
        return ""
    first, last = place
    return f", {line_ranges([place])}" if first <= last else f", no line (below line {last})"


def _changes(before: str, after: str, places: tuple[Place, Place], most: int) -> list[str]:
    """What a side made of the base, fenced, with the numbers of the lines in both files as git gives them."""
    old, new = lines_of(before).rows, lines_of(after).rows
    rows: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(1):
        spans = (group[0][1], group[-1][2]), (group[0][3], group[-1][4])
        rows += _numbers(spans, places)
        for tag, first, last, start, end in group:
            if tag == "equal":
                rows += [f" {row}" for row in old[first:last]]
                continue
            rows += [f"-{row}" for row in old[first:last]] + [f"+{row}" for row in new[start:end]]
    said = [safe(row) for row in rows[:most]]
    more = [f"({len(rows) - most} more lines)"] * (len(rows) > most)
    return [fenced("\n".join(said) or "(nothing stands there)", "diff"), *more]


def _numbers(spans: tuple[tuple[int, int], tuple[int, int]], places: tuple[Place, Place]) -> list[str]:
    """The head of a part of a difference, as git writes it; none where a place is not known."""
    said = []
    for (first, last), place in zip(spans, places, strict=True):
        if place is None:
            return []
        # Of no lines git names the one above.
        at = place[0] + first - (first == last)
        said.append(f"{at}" if last - first == 1 else f"{at},{last - first}")
    return [f"@@ -{said[0]} +{said[1]} @@"]


def _plain(text: str) -> str:
    """On one line, without what markdown reads."""
    return flat(text.replace("`", "'").replace("*", "\u2217"))
