"""What the room says of an advisory: one line that a person can check, and what is asked of each.

Invariant: the first line stands alone: the evidence, who holds and who steers and why, and where work is free.
Names and paths come from outside; they enter on one line, and no backtick of theirs ends a code span. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from relay.airspace.advisories.rules.advisory import Advisory, Choice, right_of_way_reason
from relay.airspace.advisories.rules.grouping import by_weight, evidence_of
from relay.airspace.advisories.rules.set_back import SetBack
from relay.airspace.readings import Evidence, Level
from relay.airspace.worktrees.merging.wording import MOST_FILES, flat, listed, needless, some, take_in
from relay.base.durations import time_limit
from relay.git.merge_state import line_ranges
from relay.model import references
from relay.model.working_set import FileTouch, joined

#: Words of what an agent was asked that another is told.
MOST_WORDS = 20


def shown(advisory: Advisory) -> dict[str, Any]:
    """An advisory as every interface shows it. `line`: why it is open, as it is now; of one that is over, what was
    said of it last."""
    now = line(advisory) if advisory.open and advisory.founded else advisory.text
    return {**advisory.as_json(), "line": now}


def in_words(advisory: Advisory) -> str:
    """`line` for people, who need not know the words of advisories: "..., CLAUDE goes on (3 files committed), CODEX
    waits"."""
    return line(advisory, reason=_parts(advisory))


def _parts(advisory: Advisory) -> str:
    roles = advisory.roles
    if roles.steer:
        why = {place.agent: right_of_way_reason(place, advisory.latched) for place in advisory.latched}
        parts = [f"{flat(why[agent])} goes on" for agent in roles.hold]
        parts += [f"{flat(agent)} waits" for agent in roles.steer]
        parts += [f"{flat(agent)} is near" for agent in roles.near]
        return ", ".join(parts)
    # That a branch is set back is said already.
    return f"{_names(roles.agents)} work close to each other" if roles.agents else ""


def line(advisory: Advisory, free_work: int | None = None, *, reason: str | None = None) -> str:
    """Why, who, and where to: "both change lines 40-58 of src/auth/session.py; HOLD: CLAUDE (3 files committed),
    STEER: CODEX; nearest free work: t14"."""
    reason = advisory.reason if reason is None else reason
    parts = [_why(advisory), reason] if advisory.contacts else []
    if advisory.set_back:
        back = set_back_line(tuple(advisory.set_back.values()))
        if advisory.between is Level.RESOLUTION:
            parts.append(back)
        else:
            # What makes it a resolution comes first.
            parts = [back, reason, *parts[:1]]
    if advisory.between is Level.RESOLUTION and free_work is not None:
        parts.append(f"nearest free work: {references.task(free_work)}")
    parts += [
        f"{flat(agent)} was not asked ({flat(why)})" for agent, why in sorted(advisory.not_asked.items())
    ]
    return "; ".join(filter(None, parts))


def _why(advisory: Advisory) -> str:
    # Who is near at a lower level only is no part of what this level is about.
    top = {pair: contact for pair, contact in advisory.contacts.items() if contact.level is advisory.between}
    agents = [flat(agent) for agent in advisory.roles.agents if any(agent in pair for pair in top)]
    contested = tuple(dict.fromkeys(path for contact in by_weight(top) for path in contact.files))
    evidence = evidence_of(top)
    # Lines are what a person checks first; what weighs most (git's own word, say) follows.
    lead = next((piece for piece in evidence if piece.lines), evidence[0] if evidence else None)
    first = flat(lead.text) if lead else f"they come close in {files(contested)}"
    if lead is not None and lead is not evidence[0]:
        first += f", {flat(evidence[0].text)}"
    if len(agents) < 3:
        return first
    named = f"{', '.join(agents[:-1])} and {agents[-1]}"
    if lead is not None and first.startswith("both "):
        # Each piece of evidence is of pairs.
        of = {flat(agent) for pair, contact in top.items() if lead in contact.evidence for agent in pair}
        who = "all" if of == set(agents) else f"{_names(sorted(of))} both"
        first = f"{who} {first.removeprefix('both ')}"
    return f"{named} meet in {files(contested)} ({first})"


def message(advisory: Advisory, *, ask: Sequence[str], answer_s: float, free_work: int | None = None) -> str:
    """The whole message in the room: the line, then what each is to do; `ask`: who is to answer."""
    roles, asks = advisory.roles, []
    for agent in roles.steer:
        ahead = [flat(other) for other in roles.ahead[agent]]
        asks.append(
            f"{flat(agent)}: make no further change in {files(roles.off[agent])}; {' and '.join(ahead)} "
            f"{'goes' if len(ahead) == 1 else 'go'} first. Take other work, or wait until this is merged."
        )
    for agent in roles.hold:
        back = advisory.set_back.get(agent)
        then = (
            "Go on with your work." if back is None else f"Merge {flat(back.branch)} into your branch first."
        )
        asks.append(f"{flat(agent)}: hold. {then}")
    if ask:
        asks.append(
            f"Answer within {time_limit(answer_s)}, {' and '.join(sorted(ask))}: what you do now, and one "
            "line `INTENT: path, path` with the files that you will touch next (`INTENT: none` for no file)."
        )
    return "\n\n".join(part for part in (line(advisory, free_work), "\n".join(asks)) if part)


def set_back_line(backs: Sequence[SetBack], merged: Sequence[str] = ()) -> str:
    """Whose work the main branch does not take, in which files and lines, and by whose merge. One line."""
    parts = [
        f"{flat(back.agent)} does not merge into {flat(back.branch)} now: {finds(back)}" for back in backs
    ]
    why = f" (the work of {_names(merged)} is in {flat(backs[0].branch)})" if merged and backs else ""
    return f"{'; '.join(parts)}{why}"


def set_back(
    backs: Sequence[SetBack],
    merged: Sequence[str],
    *,
    ask: Sequence[str],
    unable: Mapping[str, str],
    steer: Sequence[str],
    choices: Sequence[Choice],
) -> str:
    """The whole message to those whose work the main branch does not take any more, and to the people. `steer`: who
    has somebody else ahead of it besides."""
    lines = []
    for back in backs:
        agent, branch = flat(back.agent), flat(back.branch)
        when = "Once those ahead of you are merged, " if back.agent in steer else "Now "
        if back.agent in ask or back.agent in unable:
            lines.append(f"{agent}: {when}{take_in(branch)}")
        else:
            lines.append(f"{agent}: `git merge {branch}` in your checkout shows the conflicts.")
        if back.agent in unable:
            lines.append(f"{agent} was not asked ({flat(unable[back.agent])}).")
    return "\n\n".join([set_back_line(backs, merged), "\n".join(lines), *_offer(choices)])


def finds(back: SetBack) -> str:
    """What keeps it from merging: "git finds conflicts in src/cart.py (lines 3-9)"."""
    if back.needless:
        return needless(back.branch)
    places = listed([(path, back.lines.get(path, ())) for path in back.paths])
    return f"{'conflicts are not settled' if back.unsettled else 'git finds conflicts'} in {places}"


def all_clear(advisory: Advisory, *, clear: bool, merges_again: bool) -> str:
    """Said once, when nothing stands any more: what git says now, and never more. `clear` False: it is only over.
    `merges_again`: git merges the work of one that was set back."""
    named = _names([priority.agent for priority in advisory.latched])
    why = flat(advisory.closed_why)
    if advisory.was_set_back or not clear:
        # Clear is what git merges; a branch that is gone is only over.
        over = "clear" if clear and merges_again else "over"
        return f"{over}: {why} ({files(advisory.files)})"
    return f"clear: {named} are apart again in {files(advisory.files)}{f' ({why})' if why else ''}"


def no_answer(silent: Mapping[str, str], answer_s: float) -> str:
    """An agent that was asked has not answered. `silent`: by agent, why it cannot, or empty."""
    reasons = [
        f"{flat(agent)} cannot answer ({flat(why)})"
        if why
        else f"{flat(agent)} has not answered within {time_limit(answer_s)}"
        for agent, why in silent.items()
    ]
    return "; ".join(reasons)


def stayed(agents: Sequence[str], off: Sequence[str], steer_s: float) -> str:
    """An agent was told to steer off these files and has not."""
    return (
        f"{_names(agents)} {'was' if len(agents) == 1 else 'were'} to leave {files(off)} "
        f"within {time_limit(steer_s)}, and {'has' if len(agents) == 1 else 'have'} not"
    )


def to_people(advisory: Advisory, reasons: Sequence[str], choices: Sequence[Choice]) -> str:
    """To the people: what did not happen, and at a resolution the one question that is theirs."""
    about = f" ({references.message(advisory.number)})" if advisory.number else ""
    text = f"{'; '.join(reasons)}{about}: {line(advisory)}."
    if advisory.between is not Level.RESOLUTION:
        return f"{text} Nobody has to give way yet."
    return "\n\n".join([f"{text} A person decides who goes on.", *_offer(choices)])


def decided(advisory: Advisory, agent: str, by: str) -> str:
    """A person has said who goes first."""
    return f"{flat(by)} decided: {flat(agent)} goes first.\n\n{message(advisory, ask=(), answer_s=0)}"


def asked_to_take_in(by: str, agent: str, branch: str, back: SetBack | None) -> str:
    """A person asks an agent to take the main branch in."""
    where = f" Now {finds(back)}." if back is not None else ""
    agent, branch = flat(agent), flat(branch)
    return f"{flat(by)} asks {agent} to merge {branch} into its branch.{where}\n\n{agent}: {take_in(branch)}"


def _offer(choices: Sequence[Choice]) -> list[str]:
    """What a person can write, which the page shows as buttons."""
    commands = [f"`{choice.command}` ({choice.label})" for choice in choices]
    return [f"A person can say: {', '.join(commands)}."] if commands else []


def _names(names: Sequence[str]) -> str:
    return " and ".join(flat(name) for name in names)


def steer_off(reason: str, path: str) -> str:
    """To an agent that is about to change a contested file."""
    return (
        f"Steer clear of {flat(path)}: {reason}. Take other work, or end your turn and say what you wait for."
    )


def would_join(path: str, others: Sequence[str], how: str) -> str:
    """To an agent whose edit collides with what others have, and would be joined with it."""
    return (
        f"{' and '.join(others)} changed {flat(path)} where you do; relay would join both ({flat(how)}) when they "
        "are merged. This edit is allowed: change nothing more there than you need."
    )


def entering(other: str, path: str, theirs: FileTouch | None, about: str, ahead: Sequence[Evidence]) -> str:
    """To an agent that changes a file next, which it may: who has it in hand, and what is foretold."""
    parts = []
    if theirs is not None:
        spans = joined([(span.start, max(span.start, span.end)) for span in theirs.lines])[:MOST_FILES]
        lines = f", {line_ranges(spans)}" if spans else ""
        task = " ".join(flat(about).split()[:MOST_WORDS])
        why = f", for: {task}" if task else ""
        parts.append(f"{flat(other)} changes {flat(path)} now{lines}{why}.")
    if ahead:
        foretold = "; ".join(flat(evidence.text) for evidence in ahead[:2])
        parts.append(f"You and {flat(other)} may collide later: {foretold}.")
    parts.append("What is your part? Keep to it, or agree in the room first.")
    return " ".join(parts)


def interrupted(reason: str, contested: Sequence[str]) -> str:
    """In front of the prompt of a turn that was cut off."""
    return (
        f"Your turn was cut off, because another agent works in the same place: {reason}. Make no further change in "
        f"{files(contested)}. Go on with the rest, or end your turn and say what you wait for."
    )


def precision(counts: Mapping[str, Any]) -> str:
    """How many of what was said and foretold came true, each kind apart; of a kind without an outcome nothing."""
    by_kind = {"resolution": counts, "traffic": counts.get("traffic"), "look-ahead": counts.get("lookahead")}
    parts = [
        f"{kind} {kind_counts['true']} of {kind_counts['n']}"
        for kind, kind_counts in by_kind.items()
        if kind_counts and kind_counts.get("n")
    ]
    return f"Came true so far: {', '.join(parts)}." if parts else ""


def intent(agent: str, paths: Sequence[str], number: int) -> str:
    """An agent's declared intent, for the others."""
    about = f" (its answer to {references.message(number)})" if number else ""
    return f"{flat(agent)} intends to touch {', '.join(f'`{flat(path)}`' for path in paths)}{about}."


def files(paths: Sequence[str]) -> str:
    """The first few paths, and how many more."""
    return some([flat(path) for path in paths]) or "the same place"


def nearest_free(
    tasks: Sequence[tuple[int, str, int]], contested: Sequence[str], mine: Sequence[str]
) -> int | None:
    """The number of the open, unclaimed task that is nearest to what the steering agent has in hand, and whose
    text names no contested file; None without one.

    `tasks`: (number, text, priority), 1 the most urgent. Near: the longest common folder of a path in the text
    and one of `mine`; then by priority and number.
    """
    names = {*contested, *(path.rsplit("/", 1)[-1] for path in contested)}
    able = [task for task in tasks if not names & set(_words(task[1]))]

    def nearness(text: str) -> int:
        paths = [word.split("/") for word in _words(text) if "/" in word]
        both = (zip(path, own.split("/"), strict=False) for path in paths for own in mine)
        common = (takewhile(lambda parts: parts[0] == parts[1], parts) for parts in both)
        return max((len(list(folders)) for folders in common), default=0)

    return min(able, key=lambda task: (-nearness(task[1]), task[2], task[0]))[0] if able else None


def _words(text: str) -> list[str]:
    return [word.strip("`'\",.;:()[]") for word in text.split()]
