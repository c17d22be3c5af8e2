"""The message of a commit that merges an agent's work: what was asked, and what the agent says it did.

Invariant: the words come from people and agents; nothing is added to them but where they are cut. One function makes
the proposal, so that what an interface shows is what is committed.

The order of the sources: the one commit of a branch (its author wrote a message), what was asked in the last turn
that changed files, the task that the agent took, what it answered, the branch's first commit, and last the names of
the files.

Pure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
#: What is said to an agent at work: its words are a request like any other.
_STEER = re.compile(r"^\s*/steer\s+(?=@)", re.IGNORECASE)
_TO = re.compile(r"^(?:@[\w-]+[,:]?\s+)+")
#: The number of a task that was given: it says nothing in git.
_TASK = re.compile(r"^t\d+: +(?=\S)")
_POLITE = re.compile(
    r"^(?:please|pls|(?:can|could|would|will) you(?: please)?|(?:hi|hey|hello)\b[,!]?)\s+", re.IGNORECASE
)
#: Where a text turns to somebody: at its start, or behind the end of a sentence or of its part.
_TURNS = re.compile(r"(?:\A|(?<=[,;.!?\n]))[^\S\n]*+(?:(?:and|then)\s+)?@([\w-]+)(?=[\s,:])", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w@])@(?=[A-Za-z])")
_SENTENCE = re.compile(r"(?<=[.!?])\s|[.!?:]$")
#: What says of what work a commit was made, or by which event of the log: each commit gets its own.
_OWN_TRAILER = re.compile(r"^(?:squashed-from|timewarp-[a-z-]+):.*$\n?", re.MULTILINE | re.IGNORECASE)
_COAUTHOR = re.compile(r"^co-authored-by:.*$\n?", re.MULTILINE | re.IGNORECASE)
#: The place of a request in the room, at the end of a subject.
_PLACE = re.compile(r" \(m\d+\)$")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked in a turn that changed files: the text, and the number of its message in the room, 0 = none."""

    text: str
    message: int = 0

    @property
    def title(self) -> str:
        """Its first words and its message; "" where they say nothing to who reads the history, as "yes"."""
        text = _STEER.sub("", self.text)
        if text.startswith("/"):
            # Of the room's own commands only comments are a reason to change something.
            words = "Change what a review comments on" if self.is_review else ""
        else:
            words = _title(text)
        place = f" (m{self.message})" if self.message else ""
        return _cut(f"{words}{place}", SUBJECT) if len(words.split()) > 1 else ""

    @property
    def is_review(self) -> bool:
        """Is it comments on what was made? They name a work only where nothing else does."""
        return self.text.startswith("/review ")

    def as_json(self) -> dict[str, Any]:
        return {"number": self.message, "text": _PLACE.sub("", self.title)}


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """What an agent's work is about, as the room knows it. `tasks`: those it took; `requests`: what was asked in its
    turns that changed files, the first one first; `answer`: that of the last such turn; `decided`: what a person said
    of who goes first, before this one."""

    tasks: tuple[str, ...] = ()
    requests: tuple[Asked, ...] = ()
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
        subject, body = own.subject, _COAUTHOR.sub("", own.body).strip() if squash else ""
    else:
        asked = _titles(about)
        subject = asked[0] if asked else _subject(about, commits, paths)
        more = f"And {len(asked) - 1} more:\n{_list(asked[1:])}" if len(asked) > 1 else ""
        made = [commit.subject for commit in commits if commit.subject not in asked]
        listed = _list(made) if squash and len(commits) > 1 else ""
        body = "\n\n".join(part for part in (_account(about.answer, subject), more, listed) if part)
    head = subject if squash else f"Merge {branch}: {subject}"
    return f"{_cut(head, SUBJECT)}\n" + (f"\n{body}\n" if body else "")


def work_message(about: WorkSummary, commits: Sequence[BranchCommit], paths: Sequence[str]) -> str:
    """Of the commit of what stands uncommitted: what was asked since the branch's commits, which are named by what
    was asked before, and after which no second one is named so. `paths`: what it changes."""
    made = {commit.subject for commit in commits}
    since = tuple(each for each in about.requests if each.title not in made)
    named = {_PLACE.sub("", subject) for subject in made}
    tasks = tuple(task for task in about.tasks if _title(task) not in named)
    # What nobody asked for anew is no answer either.
    answer = about.answer if since or not about.requests else ""
    about = replace(about, requests=since, tasks=tasks, answer=answer)
    return proposed_message("", True, about, [], paths, dirty=True)


def _titles(about: WorkSummary) -> list[str]:
    """What was asked, each once, the newest first; a review is named only where nothing else is."""
    return list(dict.fromkeys(each.title for each in by_weight(reversed(about.requests))))


def by_weight(asked: Iterable[Asked]) -> list[Asked]:
    """Those that say something of a work, the one that names it first. `asked`: the newest first."""
    return sorted((each for each in asked if each.title), key=lambda each: each.is_review)


def _list(items: Sequence[str]) -> str:
    more = [f"- and {len(items) - _LISTED} more"] if len(items) > _LISTED else []
    return "\n".join([*(f"- {item}" for item in items[:_LISTED]), *more])


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
    for text in [*(about.tasks if len(about.tasks) == 1 else ()), about.answer]:
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
    line = _POLITE.sub("", _TASK.sub("", _TO.sub("", line + " "))).lstrip("#>-*+ ").strip()
    line = _SENTENCE.split(line, maxsplit=1)[0].strip().rstrip(".!:")
    line = _MENTION.sub("", line)
    return line[:1].upper() + line[1:]


def _account(answer: str, subject: str) -> str:
    """What the agent says it did, as paragraphs of short lines."""
    paragraphs: list[str] = []
    answer = _without_question(_plain(answer))
    for paragraph in re.split(r"\n\s*\n", answer):
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


def _without_question(text: str) -> str:
    """Without the questions that it ends with: they are the room's, and nothing that was done."""
    parts = re.split(r"((?<=[.!?:])\s+|\n)", text.rstrip())
    while parts and (parts[-1].rstrip(" *_`").endswith("?") or not parts[-1].strip()):
        parts.pop()
    return "".join(parts)


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
    """Cut between two words; the place of a request at its end stays."""
    if len(line) <= most:
        return line
    found = _PLACE.search(line)
    place = found[0] if found else ""
    most -= len(place)
    return line[: most - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…" + place


def cleaned_message(text: str) -> str:
    """A message as git keeps one: no control characters, no blank lines at its ends or in a row, and without the
    trailers that relay sets anew; "" for none."""
    text = _OWN_TRAILER.sub("", text)
    lines = ["".join(c for c in line if c.isprintable() or c == "\t").rstrip() for line in text.splitlines()]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{text}\n" if text.strip() else ""


def named_coauthors(text: str) -> set[str]:
    """The e-mail addresses, in lower case, of those whom a message names as its authors beside the commit's own."""
    return {line.rpartition("<")[2].rstrip(" >\n").lower() for line in _COAUTHOR.findall(text)}
