"""What people change of tasks and how it is told, and what an issue of another tracker makes of one.

Invariants:
- an issue is one task, by its address, however often it is imported;
- a text that somebody changed here is not overwritten by an import.

But for the look at what a task needs, pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import uuid_utils

from relay.coordination.paths.targets import targets
from relay.coordination.tasks import task as work
from relay.coordination.tasks import transitions
from relay.coordination.tasks.needs import rewired
from relay.coordination.tasks.requests import MOST_DESCRIPTION, MOST_FILES, MOST_PATH, references, whole
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import Change
from relay.model import Refusal
from relay.model.names import listed
from relay.model.validation import digest, text, texts
from relay.store.ports import Tx

#: Issues of one import.
MOST_ISSUES = 1000
#: Characters of an issue's address; names of labels and people that are kept of one.
MOST_URL, MOST_NAMES, MOST_NAME = 500, 50, 100
_URL = re.compile(r"https?://[^\s/]+/\S+")


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was made.

    `tasks` are the tasks after it and `before` the same ones before it (None for a new one), in one order.
    `event_id` is what a notice about it takes as its cause. `undid`: for an undo, which change it
    brought back, and `undid_by` who had made that.
    """

    change: Change
    by: str
    event_id: str
    tasks: tuple[Task, ...]
    before: tuple[Task | None, ...]
    undid: Change | None = None
    undid_by: str = ""

    @property
    def task(self) -> Task:
        """The task, where the change is about one."""
        return self.tasks[0]

    def summary(self) -> str:
        """One sentence for the room, without the person's name."""
        many = f"{len(self.tasks)} tasks" if len(self.tasks) != 1 else "1 task"
        if self.change is Change.UNDONE:
            return self._undone() + self._title()
        if self.change is Change.CREATED:
            return f"added task {self.task.ref}: {self.task.title}"
        if self.change is Change.MOVED:
            return f"moved task {self.task.ref} to {self.task.column}: {self.task.title}"
        if self.change is Change.MOVED_ALL:
            return f"moved {many} to {self.task.column} ({told(self.tasks)})"
        if self.change is Change.RENAMED:
            return f"renamed task {self.task.ref}: {self.task.title}"
        if self.change is Change.EDITED:
            return f"changed the {self._fields()} of {told(self.tasks)}" + self._title()
        if self.change is Change.GIVEN:
            return f"gave {told(self.tasks)} to {self.task.claimed_by}" + self._title()
        if self.change is Change.IMPORTED:
            return f"imported {many} ({told(self.tasks)})"
        if self.change is Change.ARCHIVED:
            return f"took {told(self.tasks)} off the board" + self._title()
        return f"cleared {many} off the board ({told(self.tasks)})"

    def _undone(self) -> str:
        """What was taken back, and whose it was where somebody else had done it."""
        before = [task for task in self.before if task is not None]
        by = f"by {self.undid_by}" if self.undid_by not in ("", self.by) else ""
        if self.undid is Change.GIVEN:
            agents = listed(list(dict.fromkeys(task.given[-1].agent for task in before if task.given)))
            kept = [task.claimed_by for task in self.tasks]
            if before and kept == [task.claimed_by for task in before]:
                theirs = f"it is {agents}'s" if len(kept) == 1 else "they have the same agents"
                return f"undid giving {told(self.tasks)} to {agents} again{by and f' ({by})'}: {theirs} as before"
            return f"took {told(self.tasks)} back from {agents}{by and f' (given {by})'}"
        if self.undid is Change.ARCHIVED:
            return f"put {told(self.tasks)} back on the board{by and f' (taken off {by})'}"
        if self.undid is Change.MOVED and before:
            return f"undid the move of {told(self.tasks)} to {before[0].column}{by and f' ({by})'}"
        if self.undid is Change.EDITED and before:
            return f"undid a change of the {self._fields()} of {told(self.tasks)}{by and f' ({by})'}"
        return f"undid {_UNDID[self.undid or Change.MOVED]} ({told(self.tasks)}{by and f', {by}'})"

    def _title(self) -> str:
        return f": {self.task.title}" if len(self.tasks) == 1 else ""

    def _fields(self) -> str:
        """What is other than it was, in words."""
        before = self.before[0]
        assert before is not None
        return " and ".join(word for word, value in _FIELDS.items() if value(before) != value(self.task))


#: What people change of a task, by its word in a command.
_FIELDS: dict[str, Callable[[Task], object]] = {
    "title": lambda task: task.title,
    "description": lambda task: task.body,
    "priority": lambda task: task.priority,
    "files": lambda task: task.files,
    "dependencies": lambda task: task.depends_on,
}
_UNDID = {
    Change.CREATED: "a new task",
    Change.MOVED: "a move",
    Change.MOVED_ALL: "a move of all",
    Change.RENAMED: "a new title",
    Change.EDITED: "a change of a task",
    Change.IMPORTED: "an import",
    Change.CLEARED: "the clearing of the board",
    Change.UNDONE: "an undo",
}


def told(tasks: Sequence[Task]) -> str:
    """Their numbers, for people."""
    return work.numbers([task.number for task in tasks])


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be other; None = as it is. `body`: the description, Markdown; `depends_on`: references (`t3`)."""

    title: str | None = None
    body: str | None = None
    priority: int | None = None
    files: Sequence[str] | None = None
    depends_on: Sequence[str] | None = None


def description(title: str, body: str) -> str:
    """Both in one text. Raises Refusal when it is too long, or cannot be stored."""
    return text(work.described(title, body), "description", MOST_DESCRIPTION)


async def edited(tx: Tx, task: Task, edit: Edit, *, now: float) -> Task:
    """The task after the edit. Raises Refusal."""
    after = replace(task, updated_at=now)
    if edit.title is not None:
        title = work.clean_title(edit.title)
        after = replace(after, task_description=work.retitled(after.task_description, title))
    if edit.body is not None:
        after = replace(after, task_description=description(after.title, edit.body))
    if edit.priority is not None:
        priority = whole(edit.priority, "priority", 1, 10)
        after = replace(after, priority=priority, rank=work.rank(task.created_at, priority))
    if edit.files is not None:
        named = texts(list(edit.files), "files", MOST_FILES, MOST_PATH)
        after = replace(after, files=tuple(target.path for target in targets(named, False)))
    if edit.depends_on is not None:
        after = transitions.needing(
            after, await rewired(tx, task, references(list(edit.depends_on))), now=now
        )
    return after


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue of another tracker, checked. `priority`: what its labels say, None = nothing."""

    url: str
    title: str
    body: str
    priority: int | None = None
    number: int | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    closed: bool = False

    def description(self) -> str:
        """As the task has it: no longer than one may be."""
        title = work.title_of(self.title)
        whole_title = "" if title == " ".join(self.title.split()) else f"{self.title}\n\n"
        both = work.described(title, whole_title + self.body)
        if len(both) <= MOST_DESCRIPTION:
            return both
        rest = f"\n\n… The rest: {self.url}"
        return both[: MOST_DESCRIPTION - len(rest)] + rest

    def data(self) -> dict[str, Any]:
        """The input of the task."""
        names = {"labels": list(self.labels), "assignees": list(self.assignees)}
        return {"issue": {"url": self.url, "number": self.number, **names}}


@dataclass(slots=True)
class TakenIn:
    """What an import did: numbers of the tasks that it `made`, `updated`, found `unchanged`, `kept` because somebody
    changed them here, and `refused`: `[{entry, reason}]`."""

    made: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)
    unchanged: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    #: The ids of the events that tell of it.
    events: list[str] = field(default_factory=list)

    def sorted_in(self, issue: Issue, before: Task | None, *, by: str, now: float) -> Task | None:
        """The task that the issue makes (without its number) or changes; None = nothing is to be done. `before`: its
        task, None = there is none."""
        if before is None:
            if issue.closed:
                self.refuse(issue.url, "It is closed, and no task was made of it before.")
                return None
            return _new(issue, by, now)
        priority = before.priority if issue.priority is None else issue.priority
        description = issue.description()
        if before.archived_at is not None:
            self.refuse(issue.url, f"{before.ref}, its task, was taken off the board.")
        elif (before.task_description, before.priority) == (description, priority):
            self.unchanged.append(before.number)
        elif _sha(before.task_description, before.priority) != before.source_sha:
            self.kept.append(before.number)
        else:
            self.updated.append(before.number)
            return replace(
                before,
                task_description=description,
                priority=priority,
                rank=work.rank(before.created_at, priority),
                input_data=issue.data(),
                source_sha=_sha(description, priority),
                updated_at=now,
            )
        return None

    def copy(self) -> TakenIn:
        """The same, for another try of the transaction."""
        return TakenIn(*([*getattr(self, one.name)] for one in fields(self)))

    def refuse(self, entry: str | int, reason: str) -> None:
        self.refused.append({"entry": entry, "reason": reason})

    def as_json(self) -> dict[str, Any]:
        return {"made": self.made, "updated": self.updated, "unchanged": self.unchanged} | {
            "kept": self.kept,
            "refused": self.refused,
        }

    def summary(self) -> str:
        """One sentence for the room, without the person's name; what was not taken over is named."""
        done = [
            f"{len(numbers)} {word} ({work.numbers(numbers)})"
            for word, numbers in (
                ("new", self.made),
                ("brought up to date", self.updated),
                ("unchanged", self.unchanged),
                ("left as somebody changed it here", self.kept),
            )
            if numbers
        ]
        done += [f"{len(self.refused)} not taken over"] if self.refused else []
        return f"imported issues: {', '.join(done) or 'there were none'}"


def _new(issue: Issue, by: str, now: float) -> Task:
    priority, description = issue.priority or 5, issue.description()
    return Task(
        id=str(uuid_utils.uuid7()),
        number=0,
        task_type="task",
        task_description=description,
        input_data=issue.data(),
        priority=priority,
        rank=work.rank(now, priority),
        status=Status.PENDING,
        created_by=by,
        created_at=now,
        updated_at=now,
        source=issue.url,
        source_sha=_sha(description, priority),
    )


def _sha(description: str, priority: int) -> str:
    return str(digest({"description": description, "priority": priority}))


# -- what `gh issue list --json number,title,body,labels,url,state,assignees` writes


def read_issues(given: object, taken: TakenIn) -> list[Issue]:
    """The issues of a parsed JSON value (a list, or one). One that is none is refused in `taken`, by its place from
    1. Raises Refusal: it is no such value, or has too many."""
    entries = given if isinstance(given, list) else [given] if isinstance(given, dict) else None
    if entries is None:
        raise Refusal("It is no list of issues.", f"`{GH}` writes one.")
    if len(entries) > MOST_ISSUES:
        raise Refusal(f"It has {len(entries):,} issues.", f"At most {MOST_ISSUES:,} are taken at once.")
    found = dict[str, Issue]()
    for at, entry in enumerate(entries, 1):
        try:
            issue = _issue(entry)
        except Refusal as refusal:
            taken.refuse(at, refusal.message)
            continue
        if issue.url in found:
            taken.refuse(at, f"It is {issue.url} a second time.")
        found.setdefault(issue.url, issue)
    return list(found.values())


GH = "gh issue list --json number,title,body,labels,url,state,assignees"


def parse_issues(written: str, taken: TakenIn) -> list[Issue]:
    """The issues of a file: one JSON value, or one a line. A line that is no JSON is refused in `taken`. Raises
    Refusal."""
    try:
        return read_issues(json.loads(written), taken)
    except ValueError as error:
        wrong = error
    lines = [(at, line) for at, line in enumerate(written.splitlines(), 1) if line.strip()]
    entries: list[Any] = []
    for at, line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:
            taken.refuse(f"line {at}", "It is no JSON.")
    if not any(isinstance(entry, dict) for entry in entries):
        raise Refusal(f"It is no JSON: {wrong}.", f"`{GH}` writes what can be imported.")
    return read_issues(entries, taken)


def _issue(entry: object) -> Issue:
    """Raises Refusal: what is wrong with it."""
    if not isinstance(entry, Mapping):
        raise Refusal("It is no object.")
    url, title, body = entry.get("url"), entry.get("title"), entry.get("body") or ""
    if not isinstance(url, str) or len(url) > MOST_URL or not _URL.fullmatch(url):
        raise Refusal("It has no `url` that begins with http.")
    if not isinstance(title, str) or not work.title_of(title):
        raise Refusal("It has no `title`.")
    if not isinstance(body, str):
        raise Refusal("Its `body` is no text.")
    text(url + title + body, "body", 2**62)
    number = entry.get("number")
    labels = _names(entry.get("labels"), "name")
    state = entry.get("state")
    return Issue(
        url,
        " ".join(title.split()),
        body.replace("\r\n", "\n"),
        priority_of(labels),
        number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**53 else None,
        labels,
        _names(entry.get("assignees"), "login"),
        isinstance(state, str) and state.casefold() == "closed",
    )


def _names(given: object, key: str) -> tuple[str, ...]:
    """Names, each alone or in an object; anything else is passed over."""
    found = []
    for one in given if isinstance(given, list) else ():
        name = one.get(key) if isinstance(one, Mapping) else one
        if isinstance(name, str) and name.strip():
            found.append(text(name.strip()[:MOST_NAME], key, MOST_NAME))
    return tuple(found[:MOST_NAMES])


#: The priority that a word of a label stands for. The board shows priority 2 as P2, so `P2` is 2; none is above 1.
_PRIORITY = {
    **dict.fromkeys(("critical", "urgent", "blocker", "highest", "p0", "0"), 1),
    **{f"{p}{number}": number for p in ("p", "") for number in range(1, 11)},
    **{"high": 2, "medium": 5, "normal": 5, "moderate": 5, "low": 7, "lowest": 9, "trivial": 9},
}
_PLAIN = frozenset({"critical", "urgent", *(f"p{number}" for number in range(11))})
_LABEL = re.compile(r"(?:priority|prio)[\s:/_-]+([^\W_]+)|([^\W_]+)[\s:/_-]+priority")


def priority_of(labels: Sequence[str]) -> int | None:
    """The most urgent priority that labels plainly say (`priority: high`, `P1`, `urgent`); None: none does."""
    said = []
    for label in labels:
        plain = label.strip().casefold()
        match = _LABEL.fullmatch(plain)
        word = plain if plain in _PLAIN else (match[1] or match[2]) if match else ""
        said += [_PRIORITY[word]] if word in _PRIORITY else []
    return min(said, default=None)
