"""Codex by its app-server, against a real subprocess that speaks its protocol."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from relay.agents.app_server.codex import CodexAgent, not_taken
from relay.agents.app_server.turn import CHANNEL
from relay.agents.factory import AgentSpec, Permissions, build_agent
from relay.agents.setup.hooks import GuardHook
from relay.agents.setup.mcp import McpServer
from relay.model import (
    AccountLimit,
    BriefPart,
    DebriefPart,
    DeliveredPart,
    EndPart,
    FailureClass,
    Hears,
    Location,
    Part,
    SessionPart,
    SteeringMessage,
    TextPart,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
)
from tests.agents.conftest import FAKES, collect, end, log, text
from tests.standing import REASON, Standing

LIMITS = TurnLimits(timeout_s=60)
TOOL = "shell: sleep 1"


class Stage:
    """A folder with an agent in it, and what its program was told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.tree.mkdir()
        self.program = folder / "bin" / "codex"
        self.program.parent.mkdir()
        # Its interpreter is ours: the PATH of an agent may have another one.
        self.program.write_text(f"#!{sys.executable}\n" + (FAKES / "codex_app_server.py").read_text())
        self.program.chmod(0o755)

    def agent(
        self, act: str = "answer", *, env: dict[str, str] | None = None, guard: Any = None, **more: Any
    ) -> CodexAgent:
        own = {"FAKE_ACT": act, "FAKE_DIR": str(self.folder), **(env or {})}
        spec = AgentSpec("BOT", preset="codex", cwd=self.tree, env=own, **more)
        path = f"{self.program.parent}:{os.environ['PATH']}"
        agent = build_agent(spec, daemon_env={"PATH": path, "HOME": str(self.folder)}, guard=guard)
        assert isinstance(agent, CodexAgent)
        return agent

    def told(self, what: str) -> list[dict[str, Any]]:
        path = self.folder / "told.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["what"] == what]

    def conversation(self, session: str) -> list[str]:
        return [json.loads(line) for line in (self.folder / f"thread-{session}").read_text().splitlines()]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def asked(**more: Any) -> Turn:
    return Turn("BOT", "do it", **{"limits": LIMITS, **more})


async def told(agent: CodexAgent, turn: Turn, hears: Callable[[Part], bool], *words: str) -> list[Part]:
    """Run the turn, and put these messages into its inbox as soon as such a part comes."""
    parts: list[Part] = []
    waiting = list(words)
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if waiting and hears(part):
                for word in waiting:
                    turn.inbox.put(SteeringMessage(f"e-{word}", word))
                waiting.clear()
    return parts


def is_tool(part: Part) -> bool:
    return isinstance(part, ToolPart)


async def test_a_turn_streams_and_says_what_it_used(stage: Stage) -> None:
    turn = asked(context="[ann] before")
    parts = await collect(stage.agent(), turn)
    assert [part for part in parts if isinstance(part, TextPart)] == [TextPart("Hello "), TextPart("there.")]
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    assert [part for part in parts if isinstance(part, UsagePart)] == [
        UsagePart(100, 9, cache_read_tokens=20)
    ]
    assert [part for part in parts if isinstance(part, SessionPart)] == [SessionPart("s0")]
    assert "initialized" not in log(parts)
    (start,) = stage.told("thread/start")
    assert start == {"what": "thread/start", "sandbox": "read-only", "approvalPolicy": "never"}
    (prompt,) = stage.conversation("s0")
    assert "do it" in prompt and "[ann] before" in prompt
    assert stage.told("turn/start")[0]["cwd"] == str(stage.tree)
    (argv,) = (line["argv"] for line in stage.told("argv"))
    assert argv == ["app-server"], "a prompt is no argument"


async def test_what_it_may_do_and_its_settings_are_handed_over(stage: Stage) -> None:
    hook, server = GuardHook(("relay", "guard", "hook"), stage.folder), McpServer(("relay", "mcp"))
    agent = stage.agent(model="m", effort="low", args=("-c", "x=1"), guard=None, mcp=server)
    agent.spec = AgentSpec(**{**_fields(agent.spec), "guard": hook})
    await collect(agent, asked(may_edit=True))
    (start,) = stage.told("thread/start")
    assert (start["sandbox"], start["model"]) == ("workspace-write", "m")
    assert stage.told("turn/start")[0]["effort"] == "low"
    (argv,) = (line["argv"] for line in stage.told("argv"))
    assert any("hooks.PreToolUse" in word for word in argv)
    assert any("mcp_servers.relay.command" in word for word in argv)
    assert argv[-2:] == ["-c", "x=1"]

    free = stage.agent(permissions=Permissions.SKIP_ALL_CHECKS)
    await collect(free, asked())
    assert stage.told("thread/start")[-1]["sandbox"] == "danger-full-access"


def _fields(spec: AgentSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in AgentSpec.__dataclass_fields__}


async def test_a_conversation_goes_on_and_counts_only_its_turn(stage: Stage) -> None:
    await collect(stage.agent(), asked())
    parts = await collect(stage.agent(), asked(resume="s0"))
    assert len(stage.conversation("s0")) == 2
    assert stage.told("thread/resume")[0]["excludeTurns"] is True
    assert [part for part in parts if isinstance(part, UsagePart)][-1] == UsagePart(
        100, 9, cache_read_tokens=20
    )


async def test_a_lost_conversation_is_started_anew_once(stage: Stage) -> None:
    parts = await collect(stage.agent(), asked(resume="gone"))
    assert end(parts).failure is None and SessionPart("s0") in parts
    assert "conversation gone is gone: starting a new one" in log(parts)
    assert "starts from the beginning" in stage.conversation("s0")[0]


async def test_tools_are_told_as_exec_tells_them(stage: Stage) -> None:
    parts = await collect(stage.agent("tools"), asked(may_edit=True))
    assert [part for part in parts if isinstance(part, ToolPart)] == [
        ToolPart("relay.acquire_lock", "src/a.py", ("src/a.py",)),
        ToolPart("file_change", "src/a.py", ("src/a.py",), (Location("src/a.py", writes=True),)),
        ToolPart("web_search", "herons"),
    ]
    assert text(parts) == "Let me look.\n\nDone." and end(parts).text == "Done."


async def test_helpers_are_told(stage: Stage) -> None:
    parts = await collect(stage.agent("helper"), asked())
    (brief,) = (part for part in parts if isinstance(part, BriefPart))
    (debrief,) = (part for part in parts if isinstance(part, DebriefPart))
    assert brief.brief == "Count the files."
    assert debrief == DebriefPart(brief.helper, "There are 2 files.")
    assert ToolPart("shell", "ls", helper=brief.helper) in parts
    assert end(parts).text == "Two."


async def test_a_message_is_delivered_in_the_turn_after_its_tool(stage: Stage) -> None:
    turn = asked()
    agent = stage.agent("work", env={"FAKE_S": "20"})
    parts: list[Part] = []
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if isinstance(part, ToolPart):
                assert turn.inbox.channel == CHANNEL and CHANNEL.hears is Hears.BOUNDARY
                turn.inbox.put(SteeringMessage("e1", "turn left"))
                turn.inbox.put(SteeringMessage("e2", "and right"))
            if DeliveredPart(("e2",), TOOL) in parts:
                break
    delivered = [part for part in parts if isinstance(part, DeliveredPart)]
    assert delivered == [DeliveredPart(("e1",), TOOL), DeliveredPart(("e2",), TOOL)]
    assert stage.conversation("s0")[1:] == ["turn left", "and right"]
    assert turn.inbox.channel is None


async def test_what_it_refuses_is_left_to_the_room(stage: Stage) -> None:
    parts = await told(stage.agent("review", env={"FAKE_S": "0.3"}), asked(), is_tool, "left", "right")
    assert end(parts).failure is None
    assert not any(isinstance(part, DeliveredPart) for part in parts)
    assert log(parts).count("a message waits for the next turn: cannot steer a review turn") == 2


async def test_twenty_messages_around_the_end_of_a_turn_are_each_told_once(stage: Stage) -> None:
    """In the conversation with a receipt, or not in it and without one: the room then has it."""
    chance = random.Random(18)
    in_turn = left = 0

    async def race(number: int) -> None:
        nonlocal in_turn, left
        folder = stage.folder / f"race-{number}"
        folder.mkdir()
        own = Stage(folder)
        turn = asked()
        agent = own.agent("work", env={"FAKE_S": "0.02"})
        seconds, word = chance.uniform(0.0, 0.09), f"word {number}"
        parts: list[Part] = []
        putting: asyncio.TimerHandle | None = None
        async with aclosing(agent.run(turn)) as stream:
            async for part in stream:
                parts.append(part)
                if isinstance(part, ToolPart):
                    putting = asyncio.get_running_loop().call_later(
                        seconds, turn.inbox.put, SteeringMessage(f"e{number}", word)
                    )
        assert putting is not None and end(parts).failure is None
        delivered = [part.ids for part in parts if isinstance(part, DeliveredPart)]
        times = own.conversation("s0").count(word)
        assert delivered == [(f"e{number}",)] * times and times <= 1, (number, seconds, delivered, times)
        in_turn, left = in_turn + times, left + 1 - times

    for first in range(0, 20, 5):
        await asyncio.gather(*(race(number) for number in range(first, first + 5)))
    assert in_turn and left, "the moments were not around the turn's end"


async def test_a_turn_that_is_cut_is_interrupted_first(stage: Stage) -> None:
    agent, turn = stage.agent("hang"), asked()
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            if isinstance(part, ToolPart):
                break
    assert stage.told("turn/interrupt") == [{"what": "turn/interrupt", "threadId": "s0", "turnId": "turn-1"}]
    assert turn.inbox.channel is None
    again = await collect(stage.agent(), asked(resume="s0"))
    assert end(again).failure is None


async def test_a_turn_that_is_too_long_ends_and_keeps_its_receipts(stage: Stage) -> None:
    turn = asked(limits=TurnLimits(timeout_s=3))
    parts = await told(stage.agent("deaf"), turn, lambda part: isinstance(part, TextPart), "word")
    assert (end(parts).failure, end(parts).detail) == (FailureClass.TIMEOUT, "The turn timed out after 3 s.")
    assert not any(isinstance(part, DeliveredPart) for part in parts)


async def test_questions_are_answered_at_once(stage: Stage) -> None:
    guard = Standing()
    parts = await collect(stage.agent("asks", guard=guard), asked(may_edit=True, room_session="room-7"))
    answers = {line["to"]: line["answer"] for line in stage.told("answer")}
    assert answers["item/commandExecution/requestApproval"] == {"decision": "decline"}
    assert answers["item/fileChange/requestApproval"] == {"decision": "accept"}
    assert answers["item/tool/requestUserInput"] == {"answers": {}}
    assert answers["something/new"]["code"] == -32601
    assert guard.asked == [("BOT", Location("a.py", None, True))] and guard.sessions == ["room-7"]
    assert "refused: rm -r x" in log(parts)


@pytest.mark.parametrize(
    ("path", "may_edit", "why"),
    [("a.py", True, REASON), ("a.py", False, "only read"), ("/etc/passwd", True, "outside")],
)
async def test_an_edit_that_nothing_allows_is_declined(
    stage: Stage, path: str, may_edit: bool, why: str
) -> None:
    agent = stage.agent("asks", env={"FAKE_PATH": path}, guard=Standing("a.py"))
    parts = await collect(agent, asked(may_edit=may_edit))
    answers = {line["to"]: line["answer"] for line in stage.told("answer")}
    assert answers["item/fileChange/requestApproval"] == {"decision": "decline"}
    assert why in log(parts) and end(parts).text == "Asked."


async def test_a_spent_limit_says_when_it_is_there_again(stage: Stage) -> None:
    agent = stage.agent("limit")
    parts = await collect(agent, asked())
    assert end(parts).failure is FailureClass.RATE_LIMIT
    assert (await agent.probe()).limits == (
        AccountLimit("5 h", 42, 4_000_000_000),
        AccountLimit("7 days", 100, 4_000_003_600),
    )
    assert end(parts).retry_at == 4_000_003_600
    lines = [line for line in log(parts).splitlines() if line.startswith("rate limits: ")]
    assert [sorted(json.loads(line.split(": ", 1)[1])) for line in lines] == [
        ["primary"],
        ["primary", "secondary"],
    ]


@pytest.mark.parametrize(
    ("act", "failure", "said"),
    [
        ("sign-in", FailureClass.NOT_SIGNED_IN, "It refuses. Sign in with `codex login`"),
        ("reconnect", FailureClass.NOT_SIGNED_IN, "Not logged in"),
        ("status", FailureClass.RATE_LIMIT, "exceeded retry limit in a loop"),
        ("broken", FailureClass.CRASH, "the sandbox broke"),
        ("silent", FailureClass.EMPTY, "without an answer"),
        ("crash", FailureClass.CRASH, "out of ink"),
    ],
)
async def test_failures(stage: Stage, act: str, failure: FailureClass, said: str) -> None:
    parts = await collect(stage.agent(act), asked())
    assert end(parts).failure is failure and said in end(parts).detail, end(parts)


async def test_a_program_that_does_not_answer_is_given_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.agents.app_server.peer.Peer.ask.__kwdefaults__", {"seconds": 1.0})
    parts = await collect(stage.agent("mute"), asked())
    assert end(parts) == EndPart(FailureClass.CRASH, "The program gave no answer (codex app-server).")


async def test_what_is_no_message_is_a_line_of_the_log(stage: Stage) -> None:
    parts = await collect(stage.agent("garbage"), asked())
    assert end(parts).text == "Hello there."
    assert "not a message: npm warn" in log(parts) and "unknown 'item/started'" in log(parts)


async def test_the_program_is_asked_once_for_its_app_server(stage: Stage) -> None:
    agent = stage.agent()
    assert (await agent.probe()).channel == CHANNEL
    await agent.probe()
    await collect(agent, asked())
    assert len(stage.told("help")) == 1
    stage.program.write_text(stage.program.read_text().replace("Usage: codex app-server", "Usage: codex"))
    seen = await agent.probe()
    assert (seen.channel.name, seen.channel.hears) == ("next turn", Hears.NEXT)
    assert "has no `codex app-server`" in seen.channel.why
    turn = asked()
    parts = await collect(agent, turn)
    assert end(parts).text == "By exec." and len(stage.told("exec")) == 1


async def test_an_argument_of_ones_own_that_only_exec_takes(stage: Stage) -> None:
    agent = stage.agent(args=("--config", "a=1", "--profile", "mine"))
    seen = await agent.probe()
    assert seen.channel.hears is Hears.NEXT and "'--profile'" in seen.channel.why
    assert end(await collect(agent, asked())).text == "By exec."
    assert not stage.told("help")


def test_which_arguments_the_app_server_takes() -> None:
    assert not_taken(("-c", "a=1", "--config=b=2", "--enable", "x", "--disable", "y")) is None
    assert not_taken(("--enable",)) == "--enable"
    assert not_taken(("-m", "gpt")) == "-m"
