"""What the room says of an advisory: one line that a person can check, and what is asked of each.

Invariant: the first line stands alone: the evidence, who holds and who steers and why, and where work is free.
Names and paths come from outside; they enter on one line, and no backtick of theirs ends a code span. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.airspace.advisory import Advisory
from relay.airspace.multiway import by_weight, evidence_of
from relay.airspace.reading import Level
from relay.plain import flat as one_line

#: Files that one line names before it only counts, and characters of an answer that are shown.
MOST_FILES = 3


def line(advisory: Advisory, free_work: int | None = None) -> str:
    """Why, who, and where to: "both change lines 40-58 of src/auth/session.py; HOLD: CLAUDE (3 files committed),
    STEER: CODEX; nearest free work: #14"."""
    parts = [_why(advisory), advisory.reason]
    if advisory.level is Level.RESOLUTION and free_work is not None:
        parts.append(f"nearest free work: #{free_work}")
    parts += [
        f"{flat(agent)} was not asked ({flat(why)})" for agent, why in sorted(advisory.not_asked.items())
    ]
    return "; ".join(parts)


def _why(advisory: Advisory) -> str:
    # Who is near at a lower level only is no part of what this level is about.
    top = {pair: one for pair, one in advisory.contacts.items() if one.level is advisory.level}
    agents = [flat(agent) for agent in advisory.roles.agents if any(agent in pair for pair in top)]
    contested = tuple(dict.fromkeys(path for one in by_weight(top) for path in one.files))
    evidence = evidence_of(top)
    # Lines are what a person checks first; what weighs most (git's own word, say) follows.
    lead = next((one for one in evidence if one.lines), evidence[0] if evidence else None)
    first = flat(lead.text) if lead else f"they come close in {files(contested)}"
    if lead is not None and lead is not evidence[0]:
        first += f", {flat(evidence[0].text)}"
    if len(agents) < 3:
        return first
    named = f"{', '.join(agents[:-1])} and {agents[-1]}"
    return f"{named} meet in {files(contested)} ({first})"


def message(advisory: Advisory, *, ask: Sequence[str], answer_s: float, free_work: int | None = None) -> str:
    """The whole message in the room: the line, then what each is to do; `ask`: who is to answer."""
    told, asks = advisory.roles, []
    for agent in told.steer:
        ahead = [flat(other) for other in told.ahead[agent]]
        asks.append(
            f"{flat(agent)}: make no further change in {files(told.off[agent])}; {' and '.join(ahead)} "
            f"{'goes' if len(ahead) == 1 else 'go'} first. Take other work, or wait until this is merged."
        )
    asks += [f"{flat(agent)}: hold your course." for agent in told.hold]
    if ask:
        asks.append(
            f"Answer within {_span(answer_s)}, {' and '.join(sorted(ask))}: what you do now, and one "
            "line `INTENT: path, path` with the files that you will touch next (`INTENT: none` for no file)."
        )
    return "\n\n".join(part for part in (line(advisory, free_work), "\n".join(asks)) if part)


def all_clear(advisory: Advisory) -> str:
    """Said once, when nothing stands any more."""
    named = " and ".join(flat(one.agent) for one in advisory.latched)
    why = f" ({flat(advisory.closed_why)})" if advisory.closed_why else ""
    return f"clear: {named} are apart again in {files(advisory.files)}{why}"


def no_answer(advisory: Advisory, silent: Mapping[str, str], answer_s: float) -> str:
    """To the people: an agent that was asked has not answered. `silent`: by agent, why it cannot, or empty."""
    told = [
        f"{flat(agent)} cannot answer ({flat(why)})"
        if why
        else f"{flat(agent)} has not answered within {_span(answer_s)}"
        for agent, why in silent.items()
    ]
    return (
        f"{'; '.join(told)}{_about(advisory)}: {line(advisory)}. Who goes on is for a person to say"
        f"{_ways(list(silent))}."
    )


def stayed(advisory: Advisory, agents: Sequence[str], told: Sequence[str], steer_s: float) -> str:
    """To the people: an agent was told to steer off these files and has not."""
    named = " and ".join(flat(agent) for agent in agents)
    return (
        f"{named} should have left {files(told)} and {'has' if len(agents) == 1 else 'have'} not within "
        f"{_span(steer_s)}{_about(advisory)}: {line(advisory)}. Who goes on is for a person to say"
        f"{_ways([agent for agent in agents if agent in advisory.asked or agent in advisory.not_asked])}."
    )


def steer_off(reason: str, path: str) -> str:
    """To an agent that is about to change a contested file."""
    return (
        f"Steer clear of {flat(path)}: {reason}. Take other work, or end your turn and say what you wait for."
    )


def interrupted(reason: str, contested: Sequence[str]) -> str:
    """In front of the prompt of a turn that was cut off."""
    return (
        f"Your turn was cut off, since another agent works in the same place: {reason}. Make no further change in "
        f"{files(contested)}. Go on with the rest, or end your turn and say what you wait for."
    )


def intent(agent: str, paths: Sequence[str], number: int) -> str:
    """An agent's declared intent, for the others."""
    about = f" (its answer to #{number})" if number else ""
    return f"{flat(agent)} intends to touch {', '.join(f'`{flat(path)}`' for path in paths)}{about}."


def files(paths: Sequence[str]) -> str:
    """The first few paths, and how many more."""
    if not paths:
        return "the same place"
    shown = ", ".join(flat(path) for path in paths[:MOST_FILES])
    more = len(paths) - MOST_FILES
    return f"{shown} and {more} more" if more > 0 else shown


def flat(text: str) -> str:
    """On one line, without backticks."""
    return one_line(text.replace("`", "'"))


def _about(advisory: Advisory) -> str:
    return f" (#{advisory.number})" if advisory.number else ""


def _ways(agents: Sequence[str]) -> str:
    """What a person can do about these agents; nothing of it about other people."""
    if not agents:
        return ""
    named = " ".join(f"@{agent}" for agent in agents)
    return f": `/cancel {named}` ends a running turn, a message to {named} says what to do"


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def nearest_free(
    tasks: Sequence[tuple[int, str, int]], contested: Sequence[str], mine: Sequence[str]
) -> int | None:
    """The number of the open, unclaimed task that is nearest to what the steering agent has in hand, and whose
    text names no contested file; None without one.

    `tasks`: (number, text, priority), 1 the most urgent. Near: the longest common folder of a path in the text
    and one of `mine`; then by priority and number.
    """
    names = {*contested, *(path.rsplit("/", 1)[-1] for path in contested)}
    able = [one for one in tasks if not names & set(_words(one[1]))]

    def nearness(text: str) -> int:
        paths = [word.split("/") for word in _words(text) if "/" in word]
        return max((_common(path, own.split("/")) for path in paths for own in mine), default=0)

    return min(able, key=lambda one: (-nearness(one[1]), one[2], one[0]))[0] if able else None


def _words(text: str) -> list[str]:
    return [word.strip("`'\",.;:()[]") for word in text.split()]


def _common(one: list[str], other: list[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
