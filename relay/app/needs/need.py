"""One thing that needs a person, with what the person can do about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from relay.app.needs.words import MOST_LABEL
from relay.base.durations import iso
from relay.base.terminal_text import safe_line
from relay.log import events
from relay.model import Fault, Refusal
from relay.model.actions import Action, GiveUpMerge, PutOff, of_json
from relay.store.ports import Tx

Json = dict[str, Any]
#: Characters of a need's text and of what it is about, as every interface gets them: one line each.
MOST_TEXT, MOST_ABOUT = 600, 120
#: The setting of the database that says what is put off: `{need: until}` (Unix seconds).
LATER = "needs_later"
#: Seconds before it is decided without a person, from which on a need stands first.
SOON_S = 3600.0


class Kind(StrEnum):
    """What sort of need it is. The page has an icon and a view for each."""

    COLLISION = "collision"
    PERMISSION = "permission"
    APPROVAL = "approval"
    CONFLICT = "conflict"
    FAILED_AGENT = "failed_agent"
    BUDGET = "budget"
    UNANSWERED = "unanswered"
    TASK = "task"
    ANSWERED = "answered"
    QUESTION = "question"
    SILENT = "silent"
    HANDOFF = "handoff"
    EXPLORATION = "exploration"
    HELD = "held"
    MAIN_FAILS = "main_fails"
    NOT_LANDED = "not_landed"
    SETTLED = "settled"
    SETUP_FAILED = "setup_failed"
    APP_ENDED = "app_ended"

    @property
    def urgent(self) -> bool:
        """It keeps somebody from working, or is refused when nobody answers."""
        return self in (
            Kind.COLLISION,
            Kind.PERMISSION,
            Kind.CONFLICT,
            Kind.FAILED_AGENT,
            Kind.MAIN_FAILS,
        )

    @property
    def called(self) -> str:
        """What people call it. The page has the same words (web/src/needs/words.ts)."""
        return _TITLES.get(self, self.value.replace("_", " ").capitalize())


_TITLES = {
    Kind.BUDGET: "Budget spent",
    Kind.UNANSWERED: "Not answered",
    Kind.TASK: "Failed task",
    Kind.ANSWERED: "Done?",
    Kind.EXPLORATION: "Variants",
    Kind.HELD: "Talk is held",
    Kind.MAIN_FAILS: "Tests fail",
    Kind.NOT_LANDED: "Did not land",
}


@dataclass(frozen=True, slots=True)
class NeedAction:
    """A button. `name`: one word, its own among those of its need; `action`: what it orders. `asks`: the field of the
    action that the person's own text becomes, "" = none; `asked`: what the text is, in words. `undo`: what takes it
    back, None = nothing does."""

    name: str
    label: str
    action: Action
    asks: str = ""
    asked: str = ""
    undo: Action | None = None

    def ordered(self, text: str | None) -> Action:
        """The action, with the person's text where it takes one. Raises Refusal."""
        # Lines of a file keep what they begin with.
        text = (text or "").strip("\r\n") if self.asks == "lines" else (text or "").strip()
        if bool(text.strip()) != bool(self.asks):
            fix = f"Send `text`: {self.asked}." if self.asks else "Send no `text`."
            wrong = "needs a text" if self.asks else "takes no text"
            raise Refusal(f"{self.label} {wrong}.", fix, Fault.MALFORMED)
        return replace(self.action, **{self.asks: text}) if self.asks else self.action

    def as_json(self) -> Json:
        """`{name, label, command, asks}`. `command`: what a person types for it, up to the text where `asks` says
        that there is one; null = it has none."""
        # What stands below a command is not there yet.
        shown = replace(self.action, **{self.asks: None}) if self.asks == "lines" else self.action
        return {
            "name": self.name,
            "label": safe_line(self.label, MOST_LABEL),
            "command": shown.line().partition("\n")[0],
            "asks": self.asked or None,
        }


def later(label: str, need: str, name: str = "later") -> NeedAction:
    """The button that puts a need off."""
    return NeedAction(name, label, PutOff(need), undo=PutOff(need, undo=True))


def gives_up(agent: str, name: str = "abort") -> NeedAction:
    """The button that ends the merge of main that is under way in an agent's worktree."""
    return NeedAction(name, f"Give up the merge in {agent}'s worktree", GiveUpMerge(agent))


def settles(agent: str, name: str, *, of_several: bool) -> NeedAction:
    """The button that ends that merge, if one is under way, and has the room ask what is to stand there.
    `of_several`: the need has such a button for another agent, too."""
    label = f"Settle {agent}'s merge yourself" if of_several else "Settle it yourself"
    return NeedAction(name, label, GiveUpMerge(agent, settle=True))


@dataclass(frozen=True, slots=True)
class Need:
    """`id`: the same as long as it is the same need; `at`: since when (Unix seconds). `about`: the agents, people or
    things; `text`: one sentence or two, in plain text. `ref`: what the page opens for it: an agent's name, a number
    as people say it (`a3`, `m17`), an advisory's id. `ends`: when it ends by itself, None = it does not. `said`: what
    people type for it where its id is long, empty = its id. `parts`: ids of the others that are told in it, and that
    are put off with it."""

    id: str
    kind: Kind
    at: float
    about: str
    text: str
    actions: tuple[NeedAction, ...] = ()
    ref: str = ""
    ends: float | None = None
    said: str = ""
    parts: tuple[str, ...] = ()
    tasks: tuple[tuple[str, str], ...] = ()
    news: str = ""
    tell_at: float | None = None

    @property
    def typed(self) -> str:
        """What people type for it."""
        return self.said or self.id

    @property
    def told_as(self) -> str:
        """What it is told outside by."""
        return self.news or self.id

    def action(self, name: str) -> NeedAction:
        """Raises Refusal."""
        for action in self.actions:
            if action.name == name:
                return action
        known = ", ".join(action.name for action in self.actions) or "none"
        raise Refusal(f"{self.id} has no action {name[:40]!r}.", f"It has: {known}.", Fault.MALFORMED)

    def as_value(self) -> Json:
        """All of it as a JSON value, for another member of the fleet."""
        actions = [
            {**asdict(each), "action": each.action.as_json(), "undo": each.undo and each.undo.as_json()}
            for each in self.actions
        ]
        short = {"about": safe_line(self.about, MOST_ABOUT), "text": safe_line(self.text, MOST_TEXT)}
        whole = {name: getattr(self, name) for name in ("id", "at", "ref", "ends")}
        whole |= {name: value for name in ("said", "parts") if (value := getattr(self, name))}
        return {**whole, **short, "kind": self.kind.value, "actions": actions}

    @classmethod
    def of_value(cls, value: Json) -> Need:
        """As `as_value` gave it."""
        buttons = tuple(
            NeedAction(
                **{
                    **each,
                    "action": of_json(each["action"]),
                    "undo": of_json(each["undo"]) if each["undo"] else None,
                }
            )
            for each in value["actions"]
        )
        parts = tuple(value.get("parts", ()))
        return cls(**{**value, "kind": Kind(value["kind"]), "actions": buttons, "parts": parts})

    def as_json(self) -> Json:
        return {
            "id": self.id,
            "short": self.typed,
            "kind": self.kind.value,
            "at": iso(self.at),
            "about": safe_line(self.about, MOST_ABOUT),
            "text": safe_line(self.text, MOST_TEXT),
            "ref": self.ref or None,
            "ends_at": None if self.ends is None else iso(self.ends),
            "tasks": [{"ref": task, "says": safe_line(says, MOST_ABOUT)} for task, says in self.tasks],
            "news": self.told_as,
            "tell_at": None if self.tell_at is None else iso(self.tell_at),
            "actions": [action.as_json() for action in self.actions],
        }


async def put_off(tx: Tx) -> dict[str, float]:
    """Until when each need is put off, by its id; also of times that are over."""
    return dict(json.loads(await events.setting(tx, LATER) or "{}"))


def in_order(needs: Iterable[Need], now: float) -> list[Need]:
    """As every interface lists them: first what is soon decided without a person, the next first; then the newest."""

    def place(need: Need) -> tuple[bool, float]:
        # A spent budget is only free again then.
        soon = need.ends is not None and need.kind is not Kind.BUDGET and need.ends - now <= SOON_S
        return (False, need.ends or 0.0) if soon else (True, -need.at)

    return sorted(needs, key=place)


def meant(needs: Sequence[Need], word: str) -> Need | None:
    """The need that people mean: its id, what they type for it, or the beginning of one of these that no other need
    has."""
    for need in needs:
        if word in (need.id, need.typed):
            return need
    found = [need for need in needs if need.id.startswith(word) or need.typed.startswith(word)]
    return found[0] if len(found) == 1 and word else None
