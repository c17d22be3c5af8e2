"""Turns of command agents, with real processes that misbehave in every way we know."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest

from relay.agents.factory import AgentSpec, CommandAgent, Permissions
from relay.agents.registry import presets
from relay.model import FailureClass, SessionPart, Turn, TurnLimits, UsagePart
from tests.agents.conftest import MakeAgent, collect, end, log, text

SESSION = "22222222-2222-4222-8222-222222222222"
PRESETS = tuple(presets())


def calls(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]


def left(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "left").read_text().split()]


def living(pids: list[int]) -> list[int]:
    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if lives(pid)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something outside of this process, which sets no event here."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("preset", PRESETS)
async def test_an_answer(preset: str, make_agent: MakeAgent, tmp_path: Path) -> None:
    turn = Turn("BOT", "please look", context="[ANN] earlier", room_session="room-7")
    parts = await collect(make_agent(preset), turn)
    assert text(parts) == "Hello there."
    assert (end(parts).failure, end(parts).detail, end(parts).text) == (None, "", "Hello there.")
    assert SessionPart(SESSION) in parts
    usage = [part for part in parts if isinstance(part, UsagePart)][-1]
    assert (usage.input_tokens, usage.output_tokens) == (12, 9)
    assert usage.cost_usd == (0.25 if preset == "claude" else 0.0)

    (call,) = calls(tmp_path)
    assert "please look" in call["prompt"] and "[ANN] earlier" in call["prompt"]
    assert not any("please look" in argument for argument in call["argv"])
    assert call["cwd"] == str(tmp_path)


async def test_agy_is_asked_by_a_message_on_its_stream_of_input(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    """Never as an argument of -p: that is limited, and everybody on the machine can read it."""
    await collect(make_agent("agy"), Turn("BOT", 'say "heron"\nplease'))
    (call,) = calls(tmp_path)
    line, rest = call["prompt"].split("\n", 1)
    (block,) = json.loads(line)["message"]["content"]
    assert json.loads(line)["event"] == "user" and rest == ""
    assert block["type"] == "text" and 'say "heron"\nplease' in block["text"]
    assert "-p" not in call["argv"] and "--print" not in call["argv"]


async def test_the_environment_is_the_list_and_nothing_else(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent("claude", env={"MINE": "1"})
    daemon = {
        **agent._daemon_env,
        "RELAY_POSTGRES_DSN": "postgres://secret",
        "RELAY_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "OPENAI_API_KEY": "another program's",
        "ANTHROPIC_API_KEY": "its own",
        "RELAY_CONFIG": "/room/config.json",
        "LC_ALL": "C.UTF-8",
    }
    await collect(CommandAgent(agent.spec, daemon_env=daemon), Turn("BOT", "hi", room_session="room-7"))
    (call,) = calls(tmp_path)
    env = call["env"]
    assert "secret" not in " ".join(env.values())
    assert "OPENAI_API_KEY" not in env
    assert env["ANTHROPIC_API_KEY"] == "its own"
    assert env["MINE"] == "1"
    relay = {name: value for name, value in env.items() if name.startswith("RELAY_")}
    assert relay == {
        "RELAY_AGENT_ID": "BOT",
        "RELAY_AGENT_TYPE": "claude",
        "RELAY_SESSION_ID": "room-7",
        "RELAY_CONFIG": "/room/config.json",
    }


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_conversation_goes_on(preset: str, make_agent: MakeAgent, tmp_path: Path) -> None:
    parts = await collect(make_agent(preset), Turn("BOT", "hi", resume=SESSION))
    assert end(parts).failure is None
    (call,) = calls(tmp_path)
    flag = {"codex": "resume", "agy": "--conversation", "pi": "--session"}.get(preset, "--resume")
    assert call["argv"][call["argv"].index(flag) + 1] == SESSION


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_lost_conversation_is_started_anew_once(
    preset: str, make_agent: MakeAgent, tmp_path: Path
) -> None:
    parts = await collect(make_agent(preset), Turn("BOT", "hi", resume="gone"))
    assert end(parts).failure is None and text(parts) == "Hello there."
    assert "conversation gone is gone: starting a new one" in log(parts)
    first, second = calls(tmp_path)
    assert "gone" in first["argv"] and "gone" not in second["argv"]
    assert (
        "starts from the beginning" in second["prompt"] and "starts from the beginning" not in first["prompt"]
    )


@pytest.mark.parametrize("preset", PRESETS)
async def test_not_signed_in(preset: str, make_agent: MakeAgent) -> None:
    parts = await collect(make_agent(preset, "sign-in"), Turn("BOT", "hi"))
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN
    assert "Sign in with" in end(parts).detail
    assert text(parts) == ""


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_rate_limit_names_its_time(preset: str, make_agent: MakeAgent) -> None:
    parts = await collect(make_agent(preset, "rate-limit"), Turn("BOT", "hi"))
    assert end(parts).failure is FailureClass.RATE_LIMIT
    assert end(parts).retry_at is not None
    assert text(parts) == ""


@pytest.mark.parametrize(
    ("act", "failure", "said"),
    [
        ("silent", FailureClass.EMPTY, "without an answer"),
        ("nothing", FailureClass.EMPTY, "without an answer"),
        ("signal", FailureClass.CRASH, "SIGKILL"),
        ("exit", FailureClass.CRASH, "exit code 3"),
        ("exit", FailureClass.CRASH, "the disk is full"),
    ],
)
@pytest.mark.parametrize("preset", PRESETS)
async def test_how_a_program_can_end(
    preset: str, act: str, failure: FailureClass, said: str, make_agent: MakeAgent
) -> None:
    parts = await collect(make_agent(preset, act), Turn("BOT", "hi"))
    assert end(parts).failure is failure
    assert said in end(parts).detail


@pytest.mark.parametrize("act", ["hang-deaf", "hang-family"])
async def test_a_timeout_ends_the_whole_family(act: str, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent("claude", act, timeout_s=5.0)  # time enough to start four processes on a busy machine
    parts = await collect(agent, Turn("BOT", "hi"))
    assert end(parts).failure is FailureClass.TIMEOUT
    assert "5 s" in end(parts).detail
    assert len(left(tmp_path)) == (4 if act == "hang-family" else 1)
    assert living(left(tmp_path)) == []


async def test_closing_the_iterator_ends_the_whole_family(make_agent: MakeAgent, tmp_path: Path) -> None:
    async with aclosing(make_agent("claude", "hang-family").run(Turn("BOT", "hi"))) as stream:
        assert await anext(stream) == SessionPart(SESSION)
        await until((tmp_path / "hangs").exists)
    assert len(left(tmp_path)) == 4
    assert living(left(tmp_path)) == []


async def test_cancelling_ends_the_whole_family(make_agent: MakeAgent, tmp_path: Path) -> None:
    task = asyncio.create_task(collect(make_agent("claude", "hang-family"), Turn("BOT", "hi")))
    await until((tmp_path / "hangs").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(left(tmp_path)) == 4
    assert living(left(tmp_path)) == []


async def test_even_a_second_cancellation_ends_the_whole_family(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    task = asyncio.create_task(collect(make_agent("claude", "hang-family"), Turn("BOT", "hi")))
    await until((tmp_path / "hangs").exists)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(left(tmp_path)) == []


async def test_a_shim_that_is_killed_takes_the_group_with_it(make_agent: MakeAgent, tmp_path: Path) -> None:
    task = asyncio.create_task(collect(make_agent("claude", "hang-pair"), Turn("BOT", "hi")))
    await until((tmp_path / "hangs").exists)
    # A server that other tests of this process use is its child, too.
    (shim,) = [one for one in psutil.Process().children() if any("shim" in word for word in one.cmdline())]
    shim.kill()
    async with asyncio.timeout(30):
        parts = await task
    assert end(parts).failure is FailureClass.CRASH and "SIGKILL" in end(parts).detail
    await until(lambda: not living(left(tmp_path)))


async def test_codex_without_its_service_is_asked_whether_it_is_signed_in(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    parts = await collect(make_agent("codex", "reconnect"), Turn("BOT", "hi"))
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN
    assert "codex login" in end(parts).detail
    assert living(left(tmp_path)) == []
    # With a key of its own the question has no meaning, and the turn goes on.
    agent = make_agent("codex", "reconnect", env={"CODEX_API_KEY": "k"}, timeout_s=2.0)
    assert end(await collect(agent, Turn("BOT", "hi"))).failure is FailureClass.TIMEOUT


async def test_a_grandchild_that_holds_the_output_open_does_not_hold_up_the_turn(
    make_agent: MakeAgent, tmp_path: Path
) -> None:
    async with asyncio.timeout(30):
        parts = await collect(make_agent("claude", "grandchild"), Turn("BOT", "hi"))
    assert end(parts).failure is None and end(parts).text == "I started something."
    assert len(left(tmp_path)) == 2
    assert living(left(tmp_path)) == []


async def test_a_program_that_lingers_after_its_turn_is_ended(
    make_agent: MakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.agents.command.command.LINGER_S", 0.2)
    parts = await collect(make_agent("claude", "linger"), Turn("BOT", "hi"))
    assert (end(parts).failure, end(parts).text) == (None, "All done.")
    assert living(left(tmp_path)) == []


@pytest.mark.parametrize("act", ["flood-text", "flood-line", "flood-errors"])
async def test_a_flood_of_100_mb_is_bounded(act: str, make_agent: MakeAgent) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turn = Turn("BOT", "hi", limits=TurnLimits(timeout_s=120, max_output_bytes=100_000))
    kept = 0
    async with aclosing(make_agent("claude", act).run(turn)) as stream:
        async for part in stream:
            kept += len(getattr(part, "text", "") or "") + len(getattr(part, "line", ""))
            last = part
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert end([last]).failure is None
    assert end([last]).truncated == (act != "flood-errors")
    assert kept < 400_000
    assert grown < 64, f"{grown} MiB"


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_program_that_is_not_there(preset: str, tmp_path: Path) -> None:
    agent = CommandAgent(AgentSpec("BOT", preset=preset, cwd=tmp_path), daemon_env={"PATH": str(tmp_path)})
    seen = await agent.probe()
    assert not seen.installed and seen.fix == presets()[preset].install
    parts = await collect(agent, Turn("BOT", "hi"))
    assert end(parts).failure is FailureClass.NOT_INSTALLED
    assert seen.fix in end(parts).detail


async def test_a_folder_that_is_not_there(make_agent: MakeAgent, tmp_path: Path) -> None:
    parts = await collect(make_agent(), Turn("BOT", "hi", cwd=tmp_path / "none"))
    assert end(parts).failure is FailureClass.CRASH
    assert "none" in end(parts).detail


async def test_a_probe_asks_for_the_version_once(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent("codex")
    seen = await asyncio.gather(agent.probe(), agent.probe(), agent.probe())
    assert [each.version for each in seen] == ["9.8.7"] * 3
    assert all(each.installed for each in seen)
    assert (tmp_path / "versions").read_text() == "asked\n"


async def test_permissions_reach_the_command_line(make_agent: MakeAgent, tmp_path: Path) -> None:
    turns = [
        (Permissions.AUTO, False),
        (Permissions.AUTO, True),
        (Permissions.READ_ONLY, True),
        (Permissions.EDIT, False),
        (Permissions.SKIP_ALL_CHECKS, False),
    ]
    for permissions, may_edit in turns:
        agent = make_agent("codex", permissions=permissions)
        await collect(agent, Turn("BOT", "hi", may_edit=may_edit))
    seen = [
        argv[argv.index("--sandbox") + 1] if "--sandbox" in argv else "none"
        for argv in (call["argv"] for call in calls(tmp_path))
    ]
    assert seen == ["read-only", "workspace-write", "read-only", "workspace-write", "none"]


def by_template(tmp_path: Path, *cmd: str, **more: Any) -> CommandAgent:
    spec = AgentSpec("BOT", cmd=(sys.executable, *cmd), cwd=tmp_path, **more)
    return CommandAgent(spec, daemon_env={"PATH": "/usr/bin:/bin"})


async def test_any_other_program_gets_the_prompt_and_answers_in_plain_text(tmp_path: Path) -> None:
    code = "import sys; words = sys.stdin.read(); print(sys.argv[1:], 'ask' in words, 'grüß dich')"
    agent = by_template(tmp_path, "-c", code, "--model", "{model}", "--resume", "{session}", model="m1")
    parts = await collect(agent, Turn("BOT", "ask"))
    assert text(parts) == "['--model', 'm1'] True grüß dich\n"
    assert end(parts).failure is None and end(parts).text is None
    assert (await agent.probe()).installed


async def test_a_plain_program_that_asks_for_sign_in(tmp_path: Path) -> None:
    parts = await collect(
        by_template(tmp_path, "-c", "print('Please log in first'); exit(1)"), Turn("BOT", "x")
    )
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN


async def test_an_answer_may_talk_about_rate_limits(tmp_path: Path) -> None:
    parts = await collect(
        by_template(tmp_path, "-c", "print('We have a rate limit of 429')"), Turn("BOT", "x")
    )
    assert end(parts).failure is None


async def test_a_daemon_killed_with_sigkill_leaves_no_process(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent("claude", "hang-family")
    code = (
        "import asyncio, json, sys\n"
        "from pathlib import Path\n"
        "from relay.agents.factory import AgentSpec, CommandAgent\n"
        "from relay.model import Turn\n"
        "env, path, cwd = json.loads(sys.argv[1])\n"
        "async def main():\n"
        "    spec = AgentSpec('BOT', preset='claude', cwd=Path(cwd), env=env)\n"
        "    async for part in CommandAgent(spec, daemon_env=path).run(Turn('BOT', 'hi')): pass\n"
        "asyncio.run(main())\n"
    )
    arguments = json.dumps([dict(agent.spec.env), dict(agent._daemon_env), str(tmp_path)])
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, arguments, cwd=Path(__file__).parent.parent.parent
    )
    await until((tmp_path / "hangs").exists)
    family = psutil.Process(daemon.pid).children(recursive=True)
    assert len(family) >= 2  # the shim and the program at least
    assert len(living(left(tmp_path))) == 4
    daemon.kill()
    await daemon.wait()
    await until(lambda: not living([*left(tmp_path), *(process.pid for process in family)]))


async def test_what_goes_to_the_log_steers_no_terminal(tmp_path: Path) -> None:
    code = r"import sys; sys.stderr.write('\x1b]0;owned\x07\x1b[31m  at line 7\rdone\n'); sys.exit(3)"
    spec = AgentSpec(name="BOT", cmd=(sys.executable, "-c", code), cwd=tmp_path)
    parts = await collect(CommandAgent(spec), Turn("BOT", "hi"))
    assert log(parts) == "  at line 7 done"
    assert "\x1b" not in end(parts).detail
    assert "at line 7 done" in end(parts).detail
