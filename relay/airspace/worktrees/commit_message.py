"""The message of a commit that merges an agent's work: what was asked, and what the agent says it did.

Invariant: the words come from people and agents; nothing is added to them but where they are cut. One function makes
the proposal, so that what an interface shows is what is committed.

The order of the sources: the one commit of a branch (its author wrote a message), the task that the agent took, what
a person asked for, what the agent answered, the branch's first commit, and last the names of the files.

Pure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

#: Characters of a subject and of a line: what `git log --oneline` and an 80-column terminal show whole.
SUBJECT, LINE = 72, 72
#: Of an answer: paragraphs and characters that say what was done; the room has all of it.
_PARAGRAPHS, _CHARACTERS = 3, 700
#: Commits of a squashed branch that are listed.
_LISTED = 20
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_FOOTER = re.compile(
    r"^[ \t]*[*_]{0,3}\[[^\]\n]*DECISION[^\]\n]*\][*_]{0,3}[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_TO = re.compile(r"^(?:@[\w-]+[,:]?\s+)+")
_POLITE = re.compile(
    r"^(?:please|pls|(?:can|could|would|will) you(?: please)?|(?:hi|hey|hello)\b[,!]?)\s+", re.IGNORECASE
)
#: Where a text turns to somebody: at its start, or behind the end of a sentence or of its part.
_TURNS = re.compile(r"(?:\A|(?<=[,;.!?\n]))[^\S\n]*+(?:(?:and|then)\s+)?@([\w-]+)(?=[\s,:])", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w@])@(?=[A-Za-z])")
_SENTENCE = re.compile(r"(?<=[.!?])\s|[.!?:]$")
#: What names those who contributed, or an event of the log: each commit gets its own.
_OWN_TRAILER = re.compile(r"^(?:co-authored-by|timewarp-[a-z-]+):.*$\n?", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """What an agent's work is about, as the room knows it. `tasks`: those it took; `requests`: what people asked for,
    the first one first; `answer`: its last one; `decided`: what a person said of who goes first, before this one."""

    tasks: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    answer: str = ""
    decided: str = ""


@dataclass(frozen=True, slots=True)
class BranchCommit:
    """One commit of the branch: its message."""

    subject: str
    body: str = ""


def proposed_message(
    branch: str,
    squash: bool,
    about: WorkSummary,
    commits: Sequence[BranchCommit],
    paths: Sequence[str],
    *,
    dirty: bool,
) -> str:
    """Subject and body. `commits`: the oldest first; `paths`: what the merge changes; `dirty`: some of it stands in
    no commit yet."""
    own = commits[0] if len(commits) == 1 and not dirty else None
    if own is not None:
        subject, body = own.subject, _OWN_TRAILER.sub("", own.body).strip() if squash else ""
    else:
        subject = _subject(about, commits, paths)
        listed = (
            [f"- {commit.subject}" for commit in commits[:_LISTED]] if squash and len(commits) > 1 else []
        )
        if listed and len(commits) > _LISTED:
            listed.append(f"- and {len(commits) - _LISTED} more")
        body = "\n\n".join(part for part in (_account(about.answer, subject), "\n".join(listed)) if part)
    head = subject if squash else f"Merge {branch}: {subject}"
    return f"{_cut(head, SUBJECT)}\n" + (f"\n{body}\n" if body else "")


def asked_of(agent: str, text: str) -> str:
    """What a text that gives several agents their own orders asks of one of them; the whole text where it gives none
    to others, or where that cannot be told."""
    turns = list(_TURNS.finditer(text))
    ends = [*(match.start() for match in turns[1:]), len(text)]
    parts = [
        (match[1].lower(), text[match.start(1) - 1 : end].strip(" \t\n,;"))
        for match, end in zip(turns, ends, strict=False)
    ]
    # One that is only named has no order of its own: "@A, @B fix it" is for both.
    if len({name for name, _ in parts}) < 2 or any(len(words.split()) < 3 for _, words in parts):
        return text
    return " ".join(words for name, words in parts if name == agent.lower()) or text


def _subject(about: WorkSummary, commits: Sequence[BranchCommit], paths: Sequence[str]) -> str:
    texts = [*(about.tasks if len(about.tasks) == 1 else ()), *about.requests[:1], about.answer]
    for text in texts:
        # "yes" and "Done." say nothing to who reads the history.
        if len((line := _title(text)).split()) > 1:
            return line
    if commits:
        return commits[0].subject
    more = len(paths) - 1
    return (
        f"Change {paths[0]}" + (f" and {more} more file{'s' * (more > 1)}" if more else "")
        if paths
        else "Merge"
    )


def _title(text: str) -> str:
    """The first sentence, without whom it was said to."""
    line = next((line for line in _plain(text).split("\n") if line.strip()), "").strip()
    line = _POLITE.sub("", _TO.sub("", line + " ")).lstrip("#>-*+ ").strip()
    line = _SENTENCE.split(line, maxsplit=1)[0].strip().rstrip(".!:")
    line = _MENTION.sub("", line)
    return line[:1].upper() + line[1:]


def _account(answer: str, subject: str) -> str:
    """What the agent says it did, as paragraphs of short lines."""
    paragraphs: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _plain(answer)):
        lines = [
            _MENTION.sub("", line.rstrip()) for line in paragraph.strip("\n").split("\n") if line.strip()
        ]
        if not lines or lines[0].startswith(("#", "|")) or len(" ".join(lines).split()) < 3:
            continue
        if len(paragraphs) == _PARAGRAPHS or sum(map(len, paragraphs)) + sum(map(len, lines)) > _CHARACTERS:
            break
        paragraphs.append(_wrapped(lines))
    text = "\n\n".join(paragraphs)
    if not paragraphs and answer.strip():
        first = _title(answer)
        text = _wrapped([_cut(first, _CHARACTERS)]) if len(first.split()) > 2 else ""
    return "" if text.rstrip(".") == subject.rstrip(".") else text


def _wrapped(lines: Sequence[str]) -> str:
    """Filled to LINE; the items of a list stay items."""
    out: list[str] = []
    text: list[str] = []
    for line in [*lines, ""]:
        item = re.match(r"\s*(?:[-*+]|\d+[.)])\s+", line)
        if (item or not line) and text:
            out.append(_fill(" ".join(text)))
            text = []
        if item:
            out.append(_fill(line, " " * len(item[0])))
        elif line:
            text.append(line.strip())
    return "\n".join(out)


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(text, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _plain(text: str) -> str:
    """Without blocks of code and the line for handing on; line ends are line feeds."""
    return _FOOTER.sub("", _FENCE.sub("", "\n".join(text.splitlines()))).strip("\n")


def _cut(line: str, most: int) -> str:
    if len(line) <= most:
        return line
    return line[: most - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def cleaned_message(text: str) -> str:
    """A message as git keeps one: no control characters, no blank lines at its ends or in a row; "" for none."""
    lines = ["".join(c for c in line if c.isprintable() or c == "\t").rstrip() for line in text.splitlines()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{text}\n" if text.strip() else ""
