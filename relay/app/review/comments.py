"""Comments on lines of an agent's branch: what a client sends, what is kept of it, and where they stand now.

Invariant: the lines that a comment quotes are those of the blob that it names, read from git, never what a client
sends as such. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from relay.base.terminal_text import fenced, safe_line
from relay.model import Fault, Refusal

#: Comments of one message, lines that one may quote or suggest, and characters of its text.
MOST_COMMENTS, MOST_LINES, MOST_TEXT = 100, 400, 20_000
#: The code of a refusal of what a client sends, with the comment that is wrong in `details`.
BAD_COMMENT = "bad_comment"
#: The side of the difference: the agent's, or what was there before.
NEW, OLD = "new", "old"
_FIELDS = frozenset({"path", "side", "first", "last", "blob", "text", "suggestion"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A comment as a client sends it. `first`, `last`: lines, from 1; `blob`: git's id of the file as it was seen, or
    its first digits, empty = as it stands now; `suggestion`: the lines that should stand there, None = it suggests
    nothing."""

    path: str
    side: str
    first: int
    last: int
    blob: str
    text: str
    suggestion: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as it was sent. `lines`: what stood there then, without line ends; the rest as of `Wanted`, with the
    whole id of the blob."""

    path: str
    side: str
    first: int
    last: int
    blob: str
    lines: tuple[str, ...]
    text: str
    suggestion: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Comment:
        suggestion = value["suggestion"]
        lines = {
            "lines": tuple(value["lines"]),
            "suggestion": None if suggestion is None else tuple(suggestion),
        }
        return cls(**{**value, **lines})


def wanted(values: Sequence[Any]) -> list[Wanted]:
    """The comments that a client sends: `[{path, side?: new | old, first, last?, blob?, text, suggestion?}]`. Raises
    Refusal, which names the comment."""
    if not values:
        raise Refusal("There is no comment.", "Send comments: [{path, first, text}].", Fault.MALFORMED)
    if len(values) > MOST_COMMENTS:
        fix = f"Send at most {MOST_COMMENTS} at once."
        raise Refusal(f"There are {len(values)} comments in one message.", fix, Fault.MALFORMED)
    return [_wanted(at, value) for at, value in enumerate(values)]


def refused(at: int, what: str, fix: str, fault: Fault = Fault.MALFORMED) -> Refusal:
    """A refusal of the comment in this place, from 0."""
    return Refusal(f"Comment {at + 1} {what}", fix, fault, BAD_COMMENT, details={"comment": at})


def _wanted(at: int, value: Any) -> Wanted:
    if not isinstance(value, Mapping):
        raise refused(at, "is not an object.", 'Send {"path": "...", "first": 1, "text": "..."}.')
    if unknown := sorted(set(map(str, value)) - _FIELDS):
        raise refused(
            at, f"has the unknown field {safe_line(unknown[0], 40)}.", f"It has {', '.join(sorted(_FIELDS))}."
        )
    path, text = _text(at, value, "path"), _text(at, value, "text", "")
    side, blob = _text(at, value, "side", NEW), _text(at, value, "blob", "")
    if side not in (NEW, OLD):
        raise refused(at, f"has the side {safe_line(side, 20)!r}.", "A side is `new` or `old`.")
    if blob and not (4 <= len(blob) <= 64 and set(blob) <= set("0123456789abcdef")):
        raise refused(
            at, "names no blob of git.", "Leave `blob` out: then it is about the file as it is now."
        )
    first = _line(at, value, "first", None)
    last = _line(at, value, "last", first)
    if not first <= last < first + MOST_LINES:
        raise refused(
            at,
            f"is about the lines {first} to {last}.",
            f"Name 1 to {MOST_LINES} lines, the first one first.",
        )
    suggestion = None
    if value.get("suggestion") is not None:
        if side == OLD:
            raise refused(at, "suggests lines for what was there before.", "Suggest for the side `new`.")
        suggestion = lines_of(_text(at, value, "suggestion", "", blank=True))
        if len(suggestion) > MOST_LINES:
            raise refused(at, f"suggests {len(suggestion)} lines.", f"Suggest at most {MOST_LINES}.")
    if not text.strip() and suggestion is None:
        raise refused(at, "says nothing.", "Give it a text, or a suggestion.")
    if len(text) > MOST_TEXT:
        raise refused(at, f"has {len(text)} characters.", f"At most {MOST_TEXT} fit.")
    return Wanted(path, side, first, last, blob, text.strip(), suggestion)


def _text(
    at: int, value: Mapping[str, Any], field: str, default: str | None = None, *, blank: bool = False
) -> str:
    given = value.get(field)
    if given is None and default is not None:
        return default
    if not isinstance(given, str) or given.encode("utf-8", "ignore").decode() != given:
        raise refused(at, f"has no text as its {field}.", f'Send "{field}": "...".')
    if "\0" in given or (default is None and not given.strip() and not blank):
        raise refused(at, f"has an unusable {field}.", f"Give it a {field}.")
    return given


def _line(at: int, value: Mapping[str, Any], field: str, default: int | None) -> int:
    given = value.get(field, default)
    if given is None or isinstance(given, bool) or not isinstance(given, int) or not 1 <= given < 2**31:
        raise refused(at, f"has no line number as its {field}.", f"Send {field} as a number from 1.")
    return given


def lines_of(text: str) -> tuple[str, ...]:
    """The lines of a text as git counts them, without their ends."""
    lines = text.split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def quote(at: int, ask: Wanted, blob: str, text: str) -> Comment:
    """The comment with the lines of this blob. Raises Refusal: it has not so many."""
    lines = lines_of(text)
    if ask.last > len(lines):
        what = f"is about line {ask.last} of {safe_line(ask.path)}, which has {len(lines)}."
        raise refused(at, what, "Look at the file again.")
    quoted = lines[ask.first - 1 : ask.last]
    return Comment(ask.path, ask.side, ask.first, ask.last, blob, quoted, ask.text, ask.suggestion)


def place(lines: Sequence[str], quoted: Sequence[str], first: int) -> int | None:
    """The line on which these quoted lines begin now: where they began then, or at the one other place that has them;
    None = they have changed, or stand in several places."""
    quoted, lines = tuple(quoted), tuple(lines)  # of a tuple: nothing is copied
    if not quoted:
        return None
    if lines[first - 1 : first - 1 + len(quoted)] == quoted:
        return first
    found, at = list[int](), -1
    while len(found) < 2:
        try:
            at = lines.index(quoted[0], at + 1)
        except ValueError:
            break
        if lines[at : at + len(quoted)] == quoted:
            found.append(at + 1)
    return found[0] if len(found) == 1 else None


def replaced(text: str, first: int, count: int, lines: Sequence[str]) -> str:
    """The text with `lines` instead of `count` lines from `first` on, with the line ends that it has there."""
    parts = text.split("\n")
    old = parts[first - 1 : first - 1 + count]
    near = old or parts[max(0, first - 2) : first - 1]
    end = "\r" if near and all(line.endswith("\r") for line in near) else ""
    parts[first - 1 : first - 1 + count] = [line if line.endswith("\r") else line + end for line in lines]
    return "\n".join(parts)


def said(comments: Sequence[Comment], branch: str, commit: str, *, dirty: bool) -> str:
    """The message that the agent gets: each comment with its file, its lines and their text as of then."""
    many = f"{len(comments)} comment{'s' * (len(comments) != 1)}"
    beside = " and what is not committed yet" if dirty else ""
    return "\n\n".join([f"{many} on `{branch}` at {commit[:12]}{beside}:", *_each(comments)])


def _each(comments: Sequence[Comment]) -> list[str]:
    parts = []
    for number, comment in enumerate(comments, 1):
        span = (
            f"line {comment.first}"
            if comment.first == comment.last
            else f"lines {comment.first}-{comment.last}"
        )
        when = ", as it was before the change" if comment.side == OLD else ""
        kind = PurePosixPath(comment.path).suffix[1:]
        kind = kind if kind.isalnum() else ""
        parts.append(
            f"**{number}.** `{safe_line(comment.path, 1000)}`, {span}{when} (blob {comment.blob[:12]})"
        )
        parts.append(_block(comment.lines, kind))
        if comment.text:
            parts.append(comment.text)
        if comment.suggestion is not None:
            parts.append("Suggested instead:" if comment.suggestion else "Suggested: take these lines out.")
            parts += [_block(comment.suggestion, "suggestion")] if comment.suggestion else []
    return parts


def _block(lines: Sequence[str], kind: str) -> str:
    return fenced("".join(f"{line.rstrip(chr(13))}\n" for line in lines), kind)
