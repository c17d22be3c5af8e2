"""The forms in which people and agents say knowledge in a text: lines like `DECISION: use PostgreSQL because ...`.

Invariant: a line in a block of code, a quotation, or marked as a memory says nothing: else what an agent was told
would come back as what it said itself.

A line is `KIND: text` or `KIND (options): text`, where the options are parted by `;`: `private`; `role NAME, ...`;
`shared with NAME, ...`; `topic WORD, ...`; `file PATH, ...`; `low`, `medium`, `high`, `critical`; else a topic.
What speaks of readers and names none is private. In the text `because ...` is the rationale, `instead of X or Y` the
alternatives, `supersedes kID` or `(supersedes "text")` a relation.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from relay.memory.knowledge.entry import (
    PUBLIC,
    Access,
    Kind,
    Reference,
    Relation,
    Visibility,
)
from relay.model.references import DIGITS, LEAST_DIGITS

SEVERITIES = ("low", "medium", "high", "critical")
#: Characters of a statement; the rest of a longer line is in its event.
MOST_STATEMENT = 4000
_KINDS = "|".join(kind.name for kind in Kind)
_LINE = re.compile(
    rf"[ \t]*(?:[-*+] +|\d+[.)] +|#{{1,6}} +)?(?:@[\w-]+[:,]? +){{0,9}}[*_`]{{0,3}}({_KINDS})[*_`]{{0,3}}"
    r"(?: ?[(\[]([^)\]\n]{0,500})[)\]])?[*_`]{0,3}[ \t]*:[*_`]{0,3}[ \t]*(\S.*)"
)
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_QUOTED = re.compile(r"[ \t]*(?:>|[-*+] +>|(?:[-*+] +)?\[MEMORY\])")
#: A line that goes on with the statement before it.
_CONTINUED = re.compile(
    r"[ \t]*(?:because|instead of|rather than|supersedes|replaces|contradicts|supports|implements|depends on|"
    r"derived from|solves)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(roles?|shared with|shared|topics?|files?|severity)\s*[:= ]\s*(.+)", re.IGNORECASE)
_BECAUSE = re.compile(r"(?:[,;]\s*+|(?<!\s)\s++)?\bbecause\b:?\s*", re.IGNORECASE)
_INSTEAD = re.compile(
    r"\b(?:instead of|rather than)\s+(.+?)\s*(?=[,;](?:\s|$)|\.(?:\s|$)|\(|$)", re.IGNORECASE
)
#: What makes an option one of who may read, however it is written.
_RESTRICTED = re.compile(
    r"\b(?:priva\w*|roles?|shared?|only|visib\w*|secret|confiden\w*|intern\w*)(?![\w-])", re.IGNORECASE
)
_NAMES = re.compile(r"(?:(?<!\s)\s++)?(?:,|&|\band\b)\s*", re.IGNORECASE)
_EITHER = re.compile(r"(?:(?<!\s)\s++)?(?:,|\bor\b|\band\b|\bnor\b)\s*", re.IGNORECASE)
_ID = rf"k[0-9a-f]{{{LEAST_DIGITS},{DIGITS}}}"
_IDS = rf"(?:{_ID})(?:(?:\s*,\s*|\s+and\s+)(?:{_ID}))*"
_VERBS = {
    "supersede": Relation.SUPERSEDES,
    "replace": Relation.SUPERSEDES,
    "contradict": Relation.CONTRADICTS,
    "support": Relation.SUPPORTS,
    "implement": Relation.IMPLEMENTS,
    "depend": Relation.DEPENDS_ON,
    "derive": Relation.DERIVED_FROM,
    "solve": Relation.SOLVES,
    "fix": Relation.SOLVES,
}
_VERB = rf"({'|'.join(_VERBS)})(?:s|d|es|ed)?(?: on| from)?:?\s+"
#: An id is nothing else. A verb before quoted words is a relation only where it stands apart: between brackets, or
#: behind a sign and at the end.
_RELATION = re.compile(
    rf"[(\[]?\b{_VERB}({_IDS})\b[)\]]?|"
    rf"[(\[;,.\n][^\S\n]*+{_VERB}[\"\u201c]([^\"\u201c\u201d]{{3,500}})[\"\u201d](?:[)\]]|(?=\s*(?:[;,.\n]|$)))",
    re.IGNORECASE,
)
_MENTION = re.compile(rf"(?<![\w/.-]){_ID}(?![\w-])")
_HASHTAG = re.compile(r"(?<![\w#/&])#([A-Za-z][\w-]{1,60})")
_PATH = re.compile(
    r"(?<![\w/:@.-])(?:\./)?((?:[\w@+.-]+/)+[\w@+.-]*\w|(?<=`)[\w@+-][\w@+.-]*\.[A-Za-z]\w{0,9}(?=`))"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text, in parts."""

    kind: Kind
    content: str
    rationale: str | None = None
    alternatives: tuple[str, ...] = ()
    severity: str | None = None
    topics: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    access: Access = PUBLIC
    references: tuple[Reference, ...] = ()


def statements(text: str) -> list[Statement]:
    """What the lines of a text say. A solution behind a problem solves it, unless it names another."""
    found: list[Statement] = []
    problem: int | None = None
    for kind, options, line in _lines(text):
        made = parse(kind, line, options)
        if made is None:
            continue
        if kind is Kind.PROBLEM:
            problem = len(found)
        solves = any(reference.relation is Relation.SOLVES for reference in made.references)
        if kind is Kind.SOLUTION and problem is not None and not solves:
            made = replace(made, references=(*made.references, Reference(Relation.SOLVES, problem)))
        found.append(made)
    return found


def parse(kind: Kind, text: str, options: str = "") -> Statement | None:
    """The parts of one statement; None: it says nothing."""
    text = text.strip()[:MOST_STATEMENT]
    references = []
    for match in _RELATION.finditer(text):
        relation = _VERBS[(match[1] or match[3]).lower()]
        targets = re.findall(_ID, match[2], re.IGNORECASE) if match[2] else [match[4]]
        references += [Reference(relation, target, quoted=match[2] is None) for target in targets]
    text = " ".join(_RELATION.sub(" ", text).split())
    said, *reasons = _BECAUSE.split(text, maxsplit=1)
    rationale = reasons[0] if reasons else ""
    if said.rstrip().endswith("(") and rationale.rstrip(" .").endswith(")"):
        said, rationale = said.rstrip()[:-1], rationale.rstrip(" .")[:-1]
    said = said.strip(" \t,;").removesuffix("**").rstrip()
    if not said:
        return None
    instead = _INSTEAD.search(said) or _INSTEAD.search(rationale)
    alternatives = tuple(part for part in _EITHER.split(instead[1]) if part) if instead else ()
    statement = Statement(
        kind,
        said,
        rationale.strip(" \t,;").removesuffix("**").rstrip() or None,
        alternatives,
        topics=tuple(topic.lower() for topic in _HASHTAG.findall(text)),
        files=paths_in(text),
        references=tuple(references),
    )
    return _with_options(statement, options)


def paths_in(text: str) -> tuple[str, ...]:
    """The files that a text names: a path with `/`, or a name with a suffix between backticks."""
    return tuple(dict.fromkeys(_PATH.findall(text)))


def without_alternatives(text: str) -> str:
    """The text without its `instead of ...`."""
    return _INSTEAD.sub(" ", text)


def ids_in(text: str) -> tuple[str, ...]:
    """The ids of entries, or their beginnings, that a text names."""
    return tuple(dict.fromkeys(_MENTION.findall(text)))


def _lines(text: str) -> Iterator[tuple[Kind, str, str]]:
    """(kind, options, text) of each line that says something, with the lines that go on with it."""
    fence = ""
    current: tuple[Kind, str, str] | None = None
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            if not fence or mark[1] == fence:
                fence = "" if fence else mark[1]
            continued = None
        elif fence or _QUOTED.match(line):
            continued = None
        elif match := _LINE.match(line):
            if current is not None:
                yield current
            current = (Kind[match[1]], match[2] or "", match[3])
            continue
        else:
            continued = line if _CONTINUED.match(line) or line.startswith(("  ", "\t")) else None
        if current is not None:
            if continued is not None and continued.strip():
                current = (*current[:2], f"{current[2]}\n{continued.strip()}")
            else:
                yield current
                current = None
    if current is not None:
        yield current


def _options(options: str) -> Iterator[str]:
    """Each option: parted by `;`, and behind a word that takes no names by `,` as well."""
    for part in options.split(";"):
        rest = part.strip()
        while rest and not _OPTION.fullmatch(rest):
            first, _, rest = (piece.strip() for piece in rest.partition(","))
            yield first
        if rest:
            yield rest


def _with_options(statement: Statement, options: str) -> Statement:
    topics, files = list(statement.topics), list(statement.files)
    for option in _options(options):
        match = _OPTION.fullmatch(option)
        word = match[1].lower() if match else option.lower()
        values = (
            tuple(filter(None, (part.strip(" `\"'@") for part in _NAMES.split(match[2])))) if match else ()
        )
        if word in ("private", "public"):
            statement = replace(statement, access=Access(Visibility(word)))
        elif word in SEVERITIES or word == "severity":
            statement = replace(statement, severity=values[0].lower() if values else word)
        elif word in ("role", "roles"):
            statement = replace(statement, access=Access(Visibility.ROLE, tuple(sorted({*values}))))
        elif word in ("shared", "shared with") and values != ("with",):
            statement = replace(statement, access=Access(Visibility.SHARED, tuple(sorted({*values}))))
        elif word in ("file", "files"):
            files += values
        elif _RESTRICTED.search(option):
            # It is for some readers, and does not say for whom: for its owner, until it is said better.
            statement = replace(statement, access=Access(Visibility.PRIVATE))
        else:
            topics += [value.lower() for value in (values or option.split(","))]
    topics = [topic.strip() for topic in topics if topic.strip()]
    return replace(statement, topics=tuple(dict.fromkeys(topics)), files=tuple(dict.fromkeys(files)))
