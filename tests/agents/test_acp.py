"""Agents over ACP, against a real subprocess that speaks the protocol with the package's agent side."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from relay.agents.acp.calls import lines_of
from relay.agents.acp.turn import _usage_of
from relay.agents.factory import AcpAgent, AgentSpec, Permissions, SpecError, build_agent
from relay.agents.registry import acp_presets
from relay.agents.setup.mcp import McpServer
from relay.model import (
    LOCKED,
    FailureClass,
    Location,
    LockRefusal,
    PermissionAnswer,
    PermissionRequest,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
)
from tests.agents.conftest import FAKES, collect, end, log, text
from tests.standing import REASON, Standing

LIMITS = TurnLimits(timeout_s=60)


class Person:
    """Answers every permission request with the option of that kind; None: nobody answers."""

    def __init__(self, kind: str | None) -> None:
        self.kind = kind
        self.asked: list[tuple[PermissionRequest, float]] = []
        self.begun = asyncio.Event()
        self.gone = False

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        self.asked.append((request, timeout_s))
        self.begun.set()
        if self.kind == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                self.gone = True
        option = next((one for one in request.options if one.kind == self.kind), None)
        return PermissionAnswer(option, "ann" if option else "", "" if option else "nobody answered")


class Stage:
    """A folder with an agent in it, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        (self.tree / "src").mkdir(parents=True)
        (self.tree / "a.py").write_text("one\ntwo\n")
        (self.tree / "src" / "a.py").write_text("one\ntwo\n")

    def agent(self, act: str = "answer", *, caps: str = "", env: dict[str, str] | None = None, **more: Any):
        asks = {name: more.pop(name) for name in ("guard", "permits") if name in more}
        own = {"FAKE_ACT": act, "FAKE_DIR": str(self.folder), "FAKE_CAPS": caps, **(env or {})}
        own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if "site-packages" in path)
        command = (sys.executable, str(FAKES / "acp_agent.py"))
        spec = AgentSpec("BOT", kind="acp", cmd=command, cwd=self.tree, env=own, **more)
        return AcpAgent(spec, daemon_env={"PATH": os.environ["PATH"], "HOME": str(self.folder)}, **asks)

    def told(self, what: str | None = None) -> list[dict[str, Any]]:
        path = self.folder / "told.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if what in (None, line["what"])]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def edits(**more: Any) -> Turn:
    return Turn("BOT", "do it", may_edit=True, limits=LIMITS, **more)


def reads(**more: Any) -> Turn:
    return Turn("BOT", "do it", limits=LIMITS, **more)


async def test_a_turn_streams_and_says_what_it_used(stage: Stage) -> None:
    parts = await collect(stage.agent(), reads(context="[ann] before"))
    assert [part for part in parts if isinstance(part, TextPart)] == [TextPart("Hello "), TextPart("there.")]
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    assert [part for part in parts if isinstance(part, UsagePart)] == [UsagePart(12, 9, cache_read_tokens=3)]
    assert [part for part in parts if isinstance(part, SessionPart)] == [SessionPart("s0")]
    assert stage.told("initialize") == [
        {"what": "initialize", "read": True, "write": False, "terminal": False}
    ]
    assert stage.told("new") == [{"what": "new", "cwd": str(stage.tree)}]
    (prompt,) = stage.told("prompt")
    assert "do it" in prompt["text"] and "[ann] before" in prompt["text"]


async def test_tools_tell_their_places_once(stage: Stage) -> None:
    parts = await collect(stage.agent("tools"), edits())
    edit, later, make, read = (part for part in parts if isinstance(part, ToolPart))
    whole, line = Location("src/a.py", None, True), Location("src/a.py", (2, 2), True)
    assert edit == ToolPart("edit", "Edit src/a.py", ("src/a.py",), (whole, line))
    assert later == ToolPart("", "", ("src/b.py",), (Location("src/b.py", (7, 7), True),))
    assert make == ToolPart("execute", "make test")
    assert read == ToolPart("read", "Read c.py", ("src/a.py",), (Location("src/a.py", None, False),))
    assert text(parts) == "Let me look.\n\nDone." and end(parts).text == "Done."


async def test_without_its_program_it_is_not_installed(stage: Stage) -> None:
    agent = AcpAgent(
        AgentSpec("BOT", kind="acp", preset="claude", cwd=stage.tree), daemon_env={"PATH": str(stage.folder)}
    )
    seen = await agent.probe()
    assert (seen.installed, seen.fix) == (False, "npm install -g @agentclientprotocol/claude-agent-acp")
    parts = await collect(agent, reads())
    assert end(parts).failure is FailureClass.NOT_INSTALLED
    assert "npm install -g @agentclientprotocol/claude-agent-acp" in end(parts).detail


async def test_an_installed_one_tells_its_version(stage: Stage) -> None:
    program = stage.folder / "codex-acp"
    program.write_text("#!/bin/sh\necho '@agentclientprotocol/codex-acp 2.6.0'\n")
    program.chmod(0o755)
    agent = AcpAgent(
        AgentSpec("BOT", kind="acp", preset="codex", cwd=stage.tree),
        daemon_env={"PATH": f"{stage.folder}:/usr/bin:/bin"},
    )
    assert (await agent.probe()).version == "2.6.0"


# -- conversations


@pytest.mark.parametrize(("caps", "how"), [("resume load", "resume"), ("load", "load")])
async def test_a_conversation_goes_on(stage: Stage, caps: str, how: str) -> None:
    agent = stage.agent(caps=caps)
    first = await collect(agent, reads())
    second = await collect(agent, reads(resume="s0"))
    assert end(first).failure is end(second).failure is None
    assert [part for part in second if isinstance(part, SessionPart)] == [SessionPart("s0")]
    assert stage.told(how) == [{"what": how, "session": "s0"}]
    assert len(stage.told("new")) == 1
    assert text(second) == "Hello there.", "what was said before is not said again"


@pytest.mark.parametrize("caps", ["resume", "load", ""])
async def test_a_conversation_that_is_gone_is_started_anew(stage: Stage, caps: str) -> None:
    parts = await collect(stage.agent(caps=caps), reads(resume="gone"))
    assert (end(parts).failure, text(parts)) == (None, "Hello there.")
    assert [part for part in parts if isinstance(part, SessionPart)] == [SessionPart("s0")]
    assert "starting a new one" in log(parts)
    assert "no longer available" in stage.told("prompt")[0]["text"]


# -- permissions


async def test_an_edit_in_the_folder_is_allowed_without_asking_a_person(stage: Stage) -> None:
    person, guard = Person("reject_once"), Standing()
    parts = await collect(stage.agent("permit", permits=person, guard=guard), edits())
    assert end(parts).text == "The answer was yes."
    assert (stage.tree / "a.py").read_text() == "one\n2\n"
    assert person.asked == []
    assert guard.asked == [("BOT", Location("a.py", (2, 2), True))]


async def test_a_place_is_told_from_the_top_of_the_checkout(stage: Stage) -> None:
    """The agent works in a folder of its worktree, and may edit the others."""
    guard, person = Standing("a.py"), Person("reject_once")
    where = {"cwd": stage.tree / "src", "root": stage.tree}
    agent = stage.agent("permit", guard=guard, permits=person)
    parts = await collect(agent, edits(**where))
    assert end(parts).text == "The answer was yes." and person.asked == []
    assert guard.asked == [("BOT", Location("src/a.py", (2, 2), True))]
    agent = stage.agent("files", env={"FAKE_PATH": "../a.py"}, guard=guard)
    parts = await collect(agent, edits(**where))
    assert REASON in text(parts) and (stage.tree / "a.py").read_text() == "one\ntwo\n"


async def test_an_edit_in_a_turn_that_may_only_read_is_rejected(stage: Stage) -> None:
    person = Person("allow_once")
    parts = await collect(stage.agent("permit", permits=person), reads())
    assert end(parts).text == "The answer was no." and "may only read" in log(parts)
    assert person.asked == [] and (stage.tree / "a.py").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("allow_once", "yes", "ann"),
        ("allow_always", "always", "ann"),
        ("reject_once", "no", "ann"),
        (None, "no", "nobody answered"),
    ],
)
async def test_a_command_is_a_persons_to_allow(
    stage: Stage, kind: str | None, answer: str, said: str
) -> None:
    person = Person(kind)
    env = {"FAKE_KIND": "execute", "FAKE_COMMAND": f"\x1b[2Jnpm run deploy\n# {'x' * 9000}"}
    agent = stage.agent("permit", env=env, permits=person, permission_timeout_s=7.0)
    parts = await collect(agent, edits())
    assert end(parts).text == f"The answer was {answer}." and said in log(parts)
    ((request, timeout_s),) = person.asked
    assert (request.agent, request.title, request.tool, timeout_s) == ("BOT", "execute a.py", "execute", 7.0)
    # He sees what would run, as it would, but for what steers a screen and what is very long.
    assert request.command.startswith("npm run deploy\n# xx") and len(request.command) < 4010
    assert [option.label for option in request.options][1] == "Always (as its program keeps it)"
    assert [option.kind for option in request.options] == ["allow_once", "allow_always", "reject_once"]


async def test_a_command_that_would_write_what_is_held_asks_no_person(stage: Stage) -> None:
    """What its words surely say is the guard's to judge; the rest is a person's, as ever."""
    person, guard = Person("allow_once"), Standing("a.py")
    env = {"FAKE_KIND": "execute", "FAKE_COMMAND": "cat a.py; sed -i s/two/2/ a.py"}
    parts = await collect(stage.agent("permit", env=env, permits=person, guard=guard), edits())
    assert "This shell command would write a.py" in log(parts) and person.asked == []
    assert {path.path for _, path in guard.asked} == {"a.py"}
    env["FAKE_COMMAND"] = "cat a.py > copy.py; python3 build.py"
    parts = await collect(stage.agent("permit", env=env, permits=person, guard=guard), edits())
    assert end(parts).text == "The answer was yes." and len(person.asked) == 1
    assert guard.asked[-1][1].path == "copy.py"


async def test_the_room_s_tools_need_no_leave(stage: Stage) -> None:
    """It is given the room's server with its own identity, and may use it when nobody is there to be asked."""
    titles = {
        "mcp__relay__acquire_lock": "yes",
        "mcp.relay.who": "yes",
        "get_work (relay MCP Server)": "yes",
        "mcp__relay__who; rm -rf .": "no",
        "mcp__other__who": "no",
    }
    server = McpServer(("/bin/relay", "mcp"))
    for title, answer in titles.items():
        agent = stage.agent("permit", env={"FAKE_KIND": "execute", "FAKE_TITLE": title}, mcp=server)
        parts = await collect(agent, reads(room_session="c-1"))
        assert end(parts).text == f"The answer was {answer}.", title
    told = stage.told("mcp")[0]["server"]
    assert (told["name"], told["command"], told["args"]) == ("relay", "/bin/relay", ["mcp"])
    handed = {one["name"]: one["value"] for one in told["env"]}
    assert (handed["RELAY_AGENT_ID"], handed["RELAY_SESSION_ID"]) == ("BOT", "c-1")


async def test_without_people_it_is_refused_and_said(stage: Stage) -> None:
    parts = await collect(stage.agent("permit", env={"FAKE_KIND": "execute"}), edits())
    assert end(parts).text == "The answer was no." and "nobody who could answer is connected" in log(parts)


async def test_an_edit_outside_of_the_folder_is_a_persons_to_allow(stage: Stage) -> None:
    person = Person("reject_once")
    (stage.tree / "out").symlink_to(stage.folder)
    for path in ("../b.py", str(stage.folder / "b.py"), "out/b.py"):
        parts = await collect(stage.agent("permit", env={"FAKE_PATH": path}, permits=person), edits())
        assert end(parts).text == "The answer was no."
    assert len(person.asked) == 3


async def test_a_turn_that_ends_takes_its_question_back(stage: Stage) -> None:
    person = Person("wait")
    agent = stage.agent("permit", env={"FAKE_KIND": "execute"}, permits=person)
    stream = agent.run(edits())
    await anext(stream)
    reading = asyncio.create_task(anext(stream))
    await person.begun.wait()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await stream.aclose()
    assert person.gone


# -- the guard


async def test_a_contested_edit_is_not_made_and_the_agent_reads_why(stage: Stage) -> None:
    guard, person = Standing("a.py"), Person("allow_once")
    parts = await collect(stage.agent("steered", guard=guard, permits=person), edits())
    assert (end(parts).failure, end(parts).text) == (None, "I steer clear.")
    first, second = stage.told("prompt")
    assert REASON in second["text"] and first["session"] == second["session"]
    assert [one["chosen"] for one in stage.told("answer")] == ["cancelled"]
    assert len(stage.told("cancel")) == 1
    assert (stage.tree / "a.py").read_text() == "one\ntwo\n" and person.asked == []
    assert [part for part in parts if isinstance(part, UsagePart)][-1] == UsagePart(
        24, 18, cache_read_tokens=6
    )


async def test_one_that_asks_again_and_again_is_rejected_in_the_end(stage: Stage) -> None:
    parts = await collect(stage.agent("permit", guard=Standing("a.py")), edits())
    assert end(parts).text == "The answer was no."
    assert [one["chosen"] for one in stage.told("answer")] == ["cancelled"] * 3 + ["no"]
    assert (stage.tree / "a.py").read_text() == "one\ntwo\n"


async def test_one_that_does_not_end_its_prompt_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.agents.acp.turn.YIELD_S", 0.2)
    parts = await collect(stage.agent("stubborn_deaf", guard=Standing("a.py")), edits())
    assert end(parts).failure is FailureClass.CRASH and "did not end its prompt" in end(parts).detail


# -- files


async def test_files_are_written_and_read_in_the_folder(stage: Stage) -> None:
    path = stage.tree / "deep" / "new.py"
    parts = await collect(stage.agent("files", env={"FAKE_PATH": str(path)}), edits())
    assert "'written' 'text\\n' -32601" in text(parts)
    assert path.read_text() == "new\ntext\n"


@pytest.mark.parametrize("path", ["../b.py", "/tmp/relay-test-b.py", "out/b.py", "."])
async def test_files_outside_are_refused(stage: Stage, path: str) -> None:
    (stage.tree / "out").symlink_to(stage.folder)
    parts = await collect(stage.agent("files", env={"FAKE_PATH": path}), edits())
    assert text(parts).count("-32010") == 2 and "outside" in text(parts) and "outside" in log(parts)
    assert not (stage.folder / "b.py").exists() and not Path("/tmp/relay-test-b.py").exists()


async def test_a_turn_that_may_only_read_writes_nothing(stage: Stage) -> None:
    parts = await collect(stage.agent("files"), reads())
    assert "-32010 BOT may read" in text(parts) and (stage.tree / "a.py").read_text() == "one\ntwo\n"
    assert "'two\\n'" in text(parts)


async def test_a_contested_file_is_not_written_and_the_error_says_why(stage: Stage) -> None:
    parts = await collect(stage.agent("files", guard=Standing("a.py")), edits())
    assert REASON in text(parts) and (stage.tree / "a.py").read_text() == "one\ntwo\n"


# -- ends


@pytest.mark.parametrize(
    ("act", "failure", "detail"),
    [
        ("auth", FailureClass.NOT_SIGNED_IN, "Authentication required"),
        ("crash", FailureClass.CRASH, "ended with exit code 3. It said: Fatal: out of ink"),
        ("leave", FailureClass.CRASH, "in the middle of its turn"),
        ("quota", FailureClass.RATE_LIMIT, "429 rate limit"),
        ("refusal", FailureClass.CRASH, "refused to go on"),
        ("silent", FailureClass.EMPTY, "without an answer"),
        ("version", FailureClass.CRASH, "version 7"),
    ],
)
async def test_how_a_turn_fails(stage: Stage, act: str, failure: FailureClass, detail: str) -> None:
    parts = await collect(stage.agent(act), reads())
    assert end(parts).failure is failure and detail in end(parts).detail, parts
    assert (end(parts).retry_at is not None) == (failure is FailureClass.RATE_LIMIT)
    assert "\x1b" not in end(parts).detail + log(parts)


async def test_a_sign_in_is_told_how(stage: Stage) -> None:
    program = stage.folder / "gemini"
    program.symlink_to(FAKES / "acp_agent.py")
    own = {"FAKE_ACT": "auth", "FAKE_DIR": str(stage.folder)}
    own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    path = f"{stage.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    spec = AgentSpec("BOT", kind="acp", preset="gemini", cwd=stage.tree, env=own)
    parts = await collect(AcpAgent(spec, daemon_env={"PATH": path}), reads())
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN
    assert "Sign in with `gemini`" in end(parts).detail
    assert stage.told("initialize")[0]["read"] is False


async def test_one_that_does_not_speak_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.agents.acp.turn.HELLO_S", 1.5)
    parts = await collect(stage.agent("mute"), reads())
    assert end(parts).failure is FailureClass.CRASH and "did not speak" in end(parts).detail


async def test_a_program_that_speaks_something_else_is_a_crash(stage: Stage) -> None:
    for command in (("/bin/cat",), ("/bin/echo", "hello"), ("/bin/false",)):
        agent = AcpAgent(AgentSpec("BOT", kind="acp", cmd=command, cwd=stage.tree), daemon_env={})
        parts = await collect(agent, reads())
        assert end(parts).failure is FailureClass.CRASH, parts


async def test_garbage_on_its_output_is_logged_and_ends_nothing(stage: Stage) -> None:
    parts = await collect(stage.agent("garbage"), reads())
    assert (end(parts).failure, end(parts).text) == (None, "Hello there.")
    assert "not a message: npm warn deprecated" in log(parts) and log(parts).count("not a message") == 6


async def test_output_beyond_the_limit_is_dropped_and_said(stage: Stage) -> None:
    turn = Turn("BOT", "do it", limits=TurnLimits(60, max_output_bytes=100_000))
    parts = await collect(stage.agent("huge"), turn)
    assert end(parts).truncated and len(text(parts)) == 100_000 and len(end(parts).text or "") == 100_000


async def test_a_message_beyond_the_limit_is_dropped_and_said(stage: Stage) -> None:
    parts = await collect(stage.agent("oversize"), reads())
    assert (end(parts).text, end(parts).truncated) == ("short", True) and "was dropped" in log(parts)


async def test_a_flood_keeps_its_order(stage: Stage) -> None:
    parts = await collect(stage.agent("flood"), reads())
    assert text(parts).split() == [str(number) for number in range(5000)]


async def test_a_turn_over_its_time_is_cancelled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, parts = asyncio.get_running_loop(), []
    clock = loop.time
    turn = Turn("BOT", "do it", limits=TurnLimits(timeout_s=3600))
    async with aclosing(stage.agent("hang").run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if part == TextPart("thinking"):  # its time passes now, however long the start of it took
                monkeypatch.setattr(loop, "time", lambda: clock() + 3600)
    assert (end(parts).failure, text(parts)) == (FailureClass.TIMEOUT, "thinking")
    assert "3600 s" in end(parts).detail and len(stage.told("cancel")) == 1


async def test_a_closed_turn_is_cancelled(stage: Stage) -> None:
    async with aclosing(stage.agent("hang").run(reads())) as stream:
        async for part in stream:
            if part == TextPart("thinking"):
                break
    assert stage.told("cancel") == [{"what": "cancel", "session": "s0"}]


async def test_what_does_not_hear_is_ended_with_all_that_it_started(stage: Stage) -> None:
    async with aclosing(stage.agent("deaf").run(reads())) as stream:
        async for part in stream:
            if part == TextPart("working"):
                break
    child = int((stage.folder / "child").read_text())
    assert not Path(f"/proc/{child}").exists()


# -- what needs no process


def test_lines_of_an_exchange_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("".join(f"{number}\n" for number in range(1, 11)))
    table: list[tuple[str, str, tuple[int, int] | None]] = [
        ("4\n5\n6\n", "4\nfive\n6\n", (5, 5)),
        ("4\n5\n", "four\nfive\n", (4, 5)),
        ("5\n", "5\n5a\n", (6, 6)),
        ("4\n5\n6\n", "4\n6\n", (5, 5)),
        ("not there", "x", None),
        ("", "x", None),
    ]
    for old, new, lines in table:
        assert lines_of(path, old, new) == lines, (old, new)
    assert lines_of(tmp_path / "none", "x", "y") is None


@pytest.mark.parametrize("preset", acp_presets())
def test_no_preset_lets_edits_go_unasked(preset: str) -> None:
    modes = acp_presets()[preset].modes
    assert modes[Permissions.EDIT] == modes[Permissions.READ_ONLY] != modes[Permissions.SKIP_ALL_CHECKS]


def test_the_kind_is_built_and_wants_a_program() -> None:
    assert build_agent(AgentSpec("BOT", kind="acp", preset="gemini")).kind == "acp"
    with pytest.raises(SpecError, match="preset"):
        AgentSpec("BOT", kind="acp")


async def test_a_file_that_another_session_holds_is_not_written_in_either_way(stage: Stage) -> None:
    guard = Standing()
    guard.locks = {"a.py": LockRefusal(LOCKED, "a.py", "*.py", "CODEX", "s2", 1_800_000_000.0, 7)}
    parts = await collect(stage.agent("steered", guard=guard), edits(room_session="s-bot"))
    assert (end(parts).failure, end(parts).text) == (None, "I steer clear.")
    assert "a.py is locked by CODEX (by its lock on *.py)" in stage.told("prompt")[1]["text"]
    parts = await collect(stage.agent("files", guard=guard), edits(room_session="s-bot"))
    assert "locked by CODEX" in text(parts) and (stage.tree / "a.py").read_text() == "one\ntwo\n"
    assert guard.sessions and set(guard.sessions) == {"s-bot"}


@pytest.mark.parametrize("kind", ["goes on", "ends"])
async def test_an_edit_that_was_never_asked_about_is_seen_and_taken_back(stage: Stage, kind: str) -> None:
    """ACP 2 drops the client's files, and a program's settings may let edits pass: the folder itself is watched."""
    guard = Standing()
    guard.locks = {"a.py": LockRefusal(LOCKED, "a.py", "*.py", "CODEX", "s2", 1_800_000_000.0, 7)}
    turn = edits(room_session="s-bot")
    parts = await collect(stage.agent("unasked", guard=guard, env={"FAKE_KIND": kind}), turn)
    assert (end(parts).failure, end(parts).text) == (None, "I took it back.")
    _, second = stage.told("prompt")
    assert "a.py was changed without asking. a.py is locked by CODEX" in second["text"]
    assert "Undo that edit first." in second["text"]
    assert "a.py was changed without asking" in log(parts)
    assert len(stage.told("prompt")) == 2 and (stage.tree / "a.py").read_text() == "one\ntwo\n"


async def test_an_edit_that_nothing_stands_against_needs_no_word(stage: Stage) -> None:
    parts = await collect(stage.agent("unasked", guard=Standing(), env={"FAKE_KIND": "ends"}), edits())
    assert (end(parts).failure, end(parts).text) == (None, "Done.")
    assert "without asking" not in log(parts) and len(stage.told("prompt")) == 1


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        # As the adapters of claude and codex say it: the kinds stand apart, and the thoughts are in the output.
        (
            {"inputTokens": 3, "cachedReadTokens": 1000, "cachedWriteTokens": 7, "outputTokens": 5}
            | {"totalTokens": 1015, "thoughtTokens": 2},
            UsagePart(3, 5, cache_write_tokens=7, cache_read_tokens=1000),
        ),
        # The protocol allows both: here the cached ones are in the input, and the thoughts beside the output.
        (
            {"inputTokens": 1010, "cachedReadTokens": 1000, "cachedWriteTokens": 7, "outputTokens": 3}
            | {"totalTokens": 1015, "thoughtTokens": 2},
            UsagePart(3, 5, cache_write_tokens=7, cache_read_tokens=1000),
        ),
        ({"inputTokens": 3, "outputTokens": 5}, UsagePart(3, 5)),
        (None, UsagePart()),
        ({"inputTokens": "many"}, UsagePart()),
    ],
)
def test_the_kinds_of_tokens_of_a_prompt(told: object, usage: UsagePart) -> None:
    assert _usage_of(told) == usage


def test_a_preset_that_does_not_speak_the_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="agy does not speak ACP; these presets do: claude, codex, gemini"):
        AcpAgent(AgentSpec("BOT", kind="acp", preset="agy", cwd=tmp_path))
