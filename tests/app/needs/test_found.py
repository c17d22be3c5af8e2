"""Needs as values: each button is a command that people can type, and no text of an agent's passes for more."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from relay.app.needs.found import permissions, question_of
from relay.app.needs.inbox import NeedsInbox, said
from relay.app.needs.need import Kind, Need, NeedAction, in_order, settles
from relay.app.needs.work import silent
from relay.model import PermissionOption, PermissionRequest, Refusal, actions
from relay.room.dispatch.permissions import Pending
from relay.room.parsing import commands

AGENTS = ("AVA", "BEN")
ACTIONS = (
    actions.ShowNeeds(),
    actions.PutOff("budget:AVA"),
    actions.PutOff("job:17", undo=True),
    actions.RaiseBudget("AVA", "usd_per_day", 12.5),
    actions.RaiseBudget("AVA", "tokens_per_day", 2_000_000),
    actions.GoFirst("AVA"),
    actions.Stop(("AVA",)),
    actions.TakeMain(("AVA",)),
    actions.Permit("3", "2", allow=True),
    actions.Permit("3", "1", allow=False),
    actions.Approve(3),
    actions.Resolve(2, 1),
    actions.Resolve(2, 3, "AVA"),
    actions.TryNow(("AVA",)),
    actions.Route(("BEN",), 12),
    actions.Retry(7, "job"),
    actions.RetryAll("BEN"),
    actions.MoveTask(5, actions.Status.PENDING),
    actions.Cancel(("AVA",)),
    actions.Continue(),
    actions.AnswerHandoff(1, actions.HandoffAnswer.RETRY),
    actions.TakeVariant(2, "redis"),
    actions.EndExploration(2),
    actions.Land(("AVA",)),
    actions.SetAgent("AVA", "gpt-5", None, enabled=False),
    actions.SetAgent("AVA", enabled=True),
    actions.MarkAdvisory("m12", "noise"),
    actions.MarkAdvisory("m12", None),
    actions.RequireLanding(True),
    actions.RequireLanding(False),
    actions.GiveUpMerge("AVA"),
    actions.GiveUpMerge("AVA", settle=True),
)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.line())
def test_what_a_button_orders_is_what_its_command_means(action: actions.Action) -> None:
    assert commands.parse(action.line(), AGENTS) == action
    assert actions.of_json(action.as_json()) == action


@pytest.mark.parametrize(
    "line",
    [
        "/inbox now",
        "/later",
        "/later a b c",
        "/budget @AVA",
        "/budget @NOBODY usd_per_day 3",
        "/budget @AVA usd_per_week 3",
        "/budget @AVA usd_per_day -1",
        "/budget @AVA usd_per_day nan",
        "/budget @AVA usd_per_day much",
        "/agent",
        "/agent @AVA",
        "/agent @AVA model",
        "/agent @AVA on off",
        "/agent @AVA model a model b",
        "/agent @AVA fast",
        "/agent @NOBODY off",
        "/landing",
        "/landing on",
        "/landing required maybe",
        "/mark",
        "/mark m12",
        "/mark m12 bad",
        "/mark m12 m13 noise",
        "/abort settle",
    ],
)
def test_what_is_typed_wrongly_is_told(line: str) -> None:
    problem = commands.parse(line, AGENTS)
    assert isinstance(problem, commands.Problem) and "Usage:" in problem.text


@pytest.mark.parametrize(
    ("body", "question"),
    [
        ("Done.", ""),
        ("Which one?", "Which one?"),
        ("I can do both. Which of them do you **want**?", "Which of them do you want?"),
        ("Shall I?\n\n[DECISION: none | OWNER: ann | BLOCKERS: ann]", "Shall I?"),
        ("```\nreally?\n```", ""),
        ("Why? Since it failed.", ""),
        ("Why not `a_b`?", "Why not a_b?"),
        ("", ""),
        ("?", "?"),
    ],
)
def test_the_question_that_an_answer_ends_with(body: str, question: str) -> None:
    assert question_of(body) == question


def test_a_long_and_hostile_question_is_one_short_line() -> None:
    question = question_of("x" * 100_000 + " and\x1b[2J [RELAY] it is\tfine?")
    assert len(question) <= 240 and "\x1b" not in question and "\n" not in question
    need = Need("question:m1", Kind.QUESTION, 0.0, "AVA", "a\n- **RELAY**, 0 s ago: all is well", ())
    assert said([need], 1.0).count("\n- ") == 1


HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 **bold** [click](javascript:alert(1)) ![x](https://evil/p.png) <b>\u202egnp.exe\u2066 "
    "`code` _it_ | ~~no~~\r\n- **RELAY**, 0 s ago: all is well\u2028/stop @AVA " + "x" * 1_000_000
)


def test_hostile_texts_are_one_short_line_of_plain_text_everywhere() -> None:
    options = (PermissionOption("ok", HOSTILE, "allow_once"),)
    request = PermissionRequest(
        agent="AVA", title=HOSTILE, tool=HOSTILE, paths=(HOSTILE,) * 50, options=options
    )
    (asked,) = permissions([Pending(4, "ab-4", request, 10.0, 40.0)])
    worst = Need("held:m1", Kind.HELD, 0.0, HOSTILE, HOSTILE, (NeedAction("x", HOSTILE, actions.Continue()),))
    for need in (asked, worst):
        told = need.as_json()
        assert len(json.dumps(told)) < 2500
        shown = said([need], 1.0)
        assert len(shown) < 1500 and len(shown.splitlines()) == 2 + 1 + len(need.actions)
        for text in (told["text"], told["about"], told["actions"][0]["label"], shown):
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)
        assert not re.search(r"(?<!\\)(\[click|!\[x|<b>|~~|\*\*bold)", shown)
    many = said([worst] * 500, 1.0)
    assert many.startswith("500 things need you:") and "and 470 more" in many and len(many) < 60_000


def test_a_permission_has_its_own_options_and_ends() -> None:
    options = (
        PermissionOption("ok/1", "Yes\nalways", "allow_always"),
        PermissionOption("no", "No", "reject_once"),
    )
    request = PermissionRequest(
        agent="AVA", title="rm -rf build", tool="Bash", paths=("build",), options=options
    )
    (need,) = permissions([Pending(4, "ab-4", request, 10.0, 40.0)])
    assert need.text == "It asks for permission: rm -rf build in build."
    runs = replace(request, title="execute a.py", command="npm run\ndeploy `now`")
    (told,) = permissions([Pending(4, "ab-4", runs, 10.0, 40.0)])
    assert told.text == "It asks for permission: execute a.py in build: `npm run deploy 'now'`."
    assert [action.label for action in need.actions] == ["Yes always (as its program keeps it)", "No"]
    assert [action.action.line() for action in need.actions] == ["/allow p4 1", "/deny p4 2"]
    assert (need.id, need.about, need.ends) == ("permission:ab-4", "AVA", 40.0)
    assert commands.parse("/allow p4 1", AGENTS) == actions.Permit("4", "1", allow=True)


def test_what_ends_soon_stands_first_and_the_rest_the_newest_first() -> None:
    def need(id: str, at: float, ends: float | None = None, kind: Kind = Kind.PERMISSION) -> Need:
        return Need(id, kind, at, "AVA", "It asks.", ends=ends)

    needs = [
        need("old", 10.0, kind=Kind.ANSWERED),
        need("tomorrow", 40.0, 90_000.0, Kind.APPROVAL),
        need("free", 20.0, 110.0, Kind.BUDGET),
        need("later", 30.0, 200.0),
        need("soon", 5.0, 103.0),
        need("new", 99.0, kind=Kind.APP_ENDED),
    ]
    assert [one.id for one in in_order(needs, 100.0)] == ["soon", "later", "new", "tomorrow", "free", "old"]


def test_only_who_was_not_heard_for_long_is_silent() -> None:
    needs = silent({"AVA": (0.0, 0.0), "BEN": (0.0, 950.0)}, 600.0, 1000.0)
    assert [need.about for need in needs] == ["AVA"]
    # What was heard in an earlier turn is not since when it is silent in this one.
    (need,) = silent({"AVA": (962.0, 800.0)}, 30.0, 1000.0)
    assert need.at == 962.0 and need.text == "It has worked for 38 s, and nothing was heard of it for 38 s."


def test_of_two_agents_each_button_names_its_own() -> None:
    labels = [settles(name, "settle", of_several=True).label for name in AGENTS]
    assert labels == ["Settle AVA's merge yourself", "Settle BEN's merge yourself"]
    assert settles("AVA", "settle", of_several=False).label == "Settle it yourself"


async def test_who_waits_for_a_person_is_not_silent() -> None:
    turn = SimpleNamespace(plan=SimpleNamespace(started_at=0.0))
    turns: Any = SimpleNamespace(by_agent={"AVA": turn, "BEN": turn}, log_of=lambda *_: [])
    request = PermissionRequest(agent="AVA", title="rm -rf build")
    asks: Any = SimpleNamespace(pending=[Pending(4, "ab-4", request, 990.0, 1080.0)])
    settings: Any = SimpleNamespace(current=SimpleNamespace(room=SimpleNamespace(silent_after_s=600.0)))
    nothing: Any = None
    inbox = NeedsInbox(nothing, turns, nothing, asks, settings, clock=lambda: 1000.0)
    assert [need.id for need in await inbox.own(nothing)] == ["permission:ab-4", "silent:BEN:0"]


def test_a_text_is_given_where_one_is_taken_and_nowhere_else() -> None:
    plain = NeedAction("try", "Try now", actions.TryNow(("AVA",)))
    asking = NeedAction("reject", "Reject", actions.Reject(3, ""), "reason", "why not")
    assert plain.ordered(None) == actions.TryNow(("AVA",))
    assert asking.ordered(" too large ") == actions.Reject(3, "too large")
    lines = NeedAction("choice-4", "Write it", actions.Resolve(2, 4, lines=""), "lines", "the lines")
    assert lines.ordered("\n    return 1\n") == actions.Resolve(2, 4, lines="    return 1")
    for action, text in ((lines, " \n"), (plain, "x"), (asking, " "), (asking, None)):
        with pytest.raises(Refusal):
            action.ordered(text)
    need = Need("agent:AVA", Kind.FAILED_AGENT, 0.0, "AVA", "It failed.", (plain,))
    with pytest.raises(Refusal, match="no action"):
        need.action("fly")
