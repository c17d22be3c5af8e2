"""What the room does with agents that fail, spend, flood, hang or are not there, and with its dispatcher."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.conftest import Open
from tests.outside import REPO, Json, Outside, agent, eventually, program

#: Fails as long as the file `broken` is there.
MENDABLE = """
import os, sys
sys.stdin.read()
if os.path.exists("broken"):
    print("the flux is out of order", file=sys.stderr)
    sys.exit(3)
print("I work.")
"""
FLOOD = """
import sys
sys.stdin.read()
for _ in range(1600):
    sys.stdout.write("flood " * 10923)
"""


async def test_a_breaker_opens_is_said_and_closed_by_a_person(open_room: Open) -> None:
    one = await open_room(
        program("MEND", "mend.py"),
        agent("ECHO"),
        files={"mend.py": MENDABLE, "broken": ""},
        queue={"max_attempts": 1},
    )
    for n in range(3):
        posted = await one.post(f"@MEND try {n}")
        job = await one.until_job(posted["id"], "MEND", "dead")
        assert job["error_class"] == "crash"
    said = await one.until_said("circuit is open after 3 failures", speaker="RELAY")
    assert "/try @MEND" in said["body"]
    breaker = (await one.agent("MEND"))["breaker"]
    assert (breaker["state"], breaker["failures"], breaker["threshold"]) == ("open", 3, 3)
    posted = await one.post("@MEND once more")
    job = await one.until_job(posted["id"], "MEND", "skipped")
    assert "circuit open" in job["reason"]
    # Where every active agent is asked, it is told of the one that is left out, and why.
    posted = await one.post("who can?")
    assert "circuit open" in (await one.until_job(posted["id"], "MEND", "skipped"))["reason"]
    await one.reply_to(posted["id"], "ECHO")
    one.kill()
    await one.start()
    assert (await one.agent("MEND"))["breaker"]["state"] == "open"
    (one.folder / "broken").unlink()
    resumed = await one.post("/resume @MEND")
    assert "may work again" in (await one.reply_to(resumed["id"], "RELAY"))["body"]
    posted = await one.post("@MEND and now?")
    assert (await one.reply_to(posted["id"], "MEND"))["body"] == "I work."
    assert (await one.agent("MEND"))["breaker"]["state"] == "closed"
    # And what was lost meanwhile can be had again.
    number = next(e["number"] for e in await one.entries() if e["body"] == "@MEND once more")
    await one.post(f"/retry #{number}")
    await eventually(lambda: _answered(one, number), "the retried message to be answered")


async def _answered(one: Outside, number: int) -> bool:
    id = next(entry["id"] for entry in await one.entries() if entry["number"] == number)
    return any(job["message_id"] == id and job["state"] == "done" for job in await one.jobs())


async def test_a_half_open_breaker_lets_one_probe_through(open_room: Open) -> None:
    one = await open_room(
        program("MEND", "mend.py"),
        files={"mend.py": MENDABLE, "broken": ""},
        queue={"max_attempts": 1},
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 2}},
    )
    first = await one.post("@MEND try")
    await one.until_job(first["id"], "MEND", "dead")
    (one.folder / "broken").unlink()

    async def probed() -> bool:
        posted = await one.post("@MEND again")
        job = await one.until_job(posted["id"], "MEND", "skipped", "done")
        return bool(job["state"] == "done")

    await eventually(probed, "the probe", every_s=0.5)
    await one.until_said("answers again; its circuit is closed", speaker="RELAY")


async def test_a_failed_turn_is_tried_again_and_then_dead(open_room: Open) -> None:
    one = await open_room(program("MEND", "mend.py"), files={"mend.py": MENDABLE, "broken": ""})
    posted = await one.post("@MEND thrice")
    job = await one.until_job(posted["id"], "MEND", "dead")
    assert job["attempts"] == 3
    said = await one.until_said(r"could not answer.*/retry m", speaker="RELAY")
    assert "flux is out of order" in said["body"]


async def test_a_program_gets_the_limit_of_open_files_that_the_room_was_started_with(open_room: Open) -> None:
    asks = "import resource\nprint('files', *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    one = await open_room(program("ASKS", "asks.py"), files={"asks.py": asks}, start=False)
    await one.start(words=["prlimit", "--nofile=300:4096"])
    posted = await one.post("@ASKS how many?")
    assert (await one.reply_to(posted["id"], "ASKS"))["body"] == "files 300 4096"


async def test_a_spent_budget_is_said(open_room: Open) -> None:
    one = await open_room(agent("ECHO", budget={"turns_per_hour": 2}))
    for n in range(2):
        posted = await one.post(f"@ECHO turn {n}")
        await one.reply_to(posted["id"], "ECHO")
    posted = await one.post("@ECHO turn too many")
    job = await one.until_job(posted["id"], "ECHO", "skipped")
    assert "budget spent" in job["reason"]
    said = await one.reply_to(posted["id"], "RELAY")
    assert re.search("ECHO does not answer: budget spent.*2 turns", said["body"]), said["body"]
    assert (await one.agent("ECHO"))["budget"]["turns_per_hour"] == {"used": 2, "limit": 2}


async def test_money_and_tokens_are_counted_and_enforced(open_room: Open) -> None:
    spending = "- say: done\n  usage: {input_tokens: 90, output_tokens: 20, cost_usd: 0.6}\n"
    one = await open_room(
        agent("RICH", "spend.yaml", budget={"usd_per_day": 1.0}),
        agent("WORDY", "spend.yaml", budget={"tokens_per_day": 100}),
        files={"spend.yaml": spending},
    )
    for name, turns in (("RICH", 2), ("WORDY", 1)):
        for _ in range(turns):
            posted = await one.post(f"@{name} spend")
            await one.reply_to(posted["id"], name)
        posted = await one.post(f"@{name} spend more")
        job = await one.until_job(posted["id"], name, "skipped")
        assert "budget spent" in job["reason"]


async def test_what_is_read_again_from_a_cache_does_not_spend_the_tokens_of_the_day(open_room: Open) -> None:
    used = "{input_tokens: 30, cache_write_tokens: 20, cache_read_tokens: 90000, output_tokens: 10}"
    one = await open_room(
        agent("LONG", "spend.yaml", budget={"tokens_per_day": 100}),
        files={"spend.yaml": f"- say: done\n  usage: {used}\n"},
    )
    for _ in range(2):
        posted = await one.post("@LONG spend")
        answer = await one.reply_to(posted["id"], "LONG")
    assert answer["meta"]["usage"] == {
        "input_tokens": 30,
        "cache_write_tokens": 20,
        "cache_read_tokens": 90000,
        "output_tokens": 10,
        "cost_usd": 0.0,
    }
    assert (await one.agent("LONG"))["budget"]["tokens"] == {
        "used": 120,
        "limit": 100,
        "input": 60,
        "cache_write": 40,
        "cache_read": 180000,
        "output": 20,
    }
    posted = await one.post("@LONG spend more")
    job = await one.until_job(posted["id"], "LONG", "skipped")
    assert "120 of 100 tokens in the last day (new input 60, cache writes 40, output 20" in job["reason"]
    assert "180,000 cache reads do not count" in job["reason"]


async def test_cancel_ends_the_turn_and_its_processes(open_room: Open) -> None:
    hang = "import subprocess, sys, time\nsubprocess.Popen(['sleep', '300'])\ntime.sleep(300)\n"
    one = await open_room(program("HANG", "hang.py"), files={"hang.py": hang})
    posted = await one.post("@HANG work")
    behind = None

    async def runs() -> bool:
        return len(one.agent_processes("HANG")) >= 3

    await eventually(runs, "the agent and its child")
    behind = await one.post("@HANG and this")
    assert (await one.agent("HANG"))["running"]["message_id"] == posted["id"]
    cancelled = await one.post("/cancel @HANG")
    assert "HANG" in (await one.reply_to(cancelled["id"], "RELAY"))["body"]
    job = await one.until_job(posted["id"], "HANG", "skipped")
    assert job["error_class"] == "cancelled"
    await one.until_job(behind["id"], "HANG", "skipped")

    async def gone() -> bool:
        return not one.agent_processes()

    await eventually(gone, "its processes to end")
    nothing = await one.post("/cancel @HANG")
    assert "nothing to cancel" in (await one.reply_to(nothing["id"], "RELAY"))["body"]


async def test_pause_holds_and_resume_goes_on(open_room: Open) -> None:
    one = await open_room(agent("ECHO"))
    status, told = await one.ask("POST", "/api/agents/ECHO/pause", json={"name": "ann"})
    assert (status, told["success"]) == (200, True)
    posted = await one.post("@ECHO wait for it")
    other = await one.post("/who")
    assert "paused" in (await one.reply_to(other["id"], "RELAY"))["body"]
    await one.until_job(posted["id"], "ECHO", "pending")
    await one.ask("POST", "/api/agents/ECHO/resume", json={"name": "ann"})
    await one.reply_to(posted["id"], "ECHO")


async def test_a_rate_limited_agent_is_parked_and_not_called_broken(open_room: Open) -> None:
    limited = "- match: now\n  fail: rate_limit\n  detail: too many\n  retry_in_s: 3\n- say: fine\n"
    one = await open_room(agent("BUSY", "busy.yaml"), agent("ECHO"), files={"busy.yaml": limited})
    posted = await one.post("@BUSY now")
    said = await one.until_said("BUSY is rate limited until", speaker="RELAY")
    assert "too many" in said["body"]
    shown = await one.agent("BUSY")
    assert shown["breaker"]["failures"] == 0
    assert shown["parked_until"]
    assert (await one.until_job(posted["id"], "BUSY", "pending"))["attempts"] == 0
    other = await one.post("@ECHO you may")
    await one.reply_to(other["id"], "ECHO")
    (one.folder / "busy.yaml").write_text("- say: fine\n")


async def test_a_flood_is_cut_and_said(open_room: Open) -> None:
    one = await open_room(program("FLOOD", "flood.py"), agent("ECHO"), files={"flood.py": FLOOD})
    flooded = await one.post("@FLOOD 100 MB please")
    posted = await one.post("@ECHO is there room?")
    await one.reply_to(posted["id"], "ECHO")
    answer = await one.reply_to(flooded["id"], "FLOOD")
    assert answer["meta"]["truncated"] is True
    assert 100_000 < len(answer["body"]) <= 1_048_576


async def test_silence_and_a_signal_are_failures_with_a_name(open_room: Open) -> None:
    die = "import os, sys\nsys.stdin.read()\nos.kill(os.getpid(), 9)\n"
    one = await open_room(
        program("MUTE", "mute.py"),
        program("DIES", "dies.py"),
        program("LATE", "late.py", timeout_s=1),
        files={
            "mute.py": "import sys\nsys.stdin.read()\n",
            "dies.py": die,
            "late.py": "import time\ntime.sleep(99)\n",
        },
        queue={"max_attempts": 1},
    )
    posted = await one.post("@MUTE @DIES @LATE speak")
    for name, kind in (("MUTE", "empty"), ("DIES", "crash"), ("LATE", "timeout")):
        assert (await one.until_job(posted["id"], name, "dead"))["error_class"] == kind


async def test_who_is_not_installed_is_skipped_with_the_reason(open_room: Open) -> None:
    one = await open_room(
        {"name": "GONE", "kind": "command", "cmd": ["no-such-program-anywhere"]}, agent("ECHO")
    )
    posted = await one.post("@GONE hello")
    job = await one.until_job(posted["id"], "GONE", "skipped")
    assert job["error_class"] == "not_installed"
    assert "no-such-program-anywhere" in job["reason"]
    assert "GONE does not answer" in (await one.reply_to(posted["id"], "RELAY"))["body"]
    assert (await one.agent("GONE"))["installed"] is False
    unmentioned = await one.post("anybody?")
    await one.until_job(unmentioned["id"], "ECHO", "done")
    assert not any(j["message_id"] == unmentioned["id"] and j["agent"] == "GONE" for j in await one.jobs())


async def test_a_preset_that_is_not_there_says_how_to_install_it(open_room: Open) -> None:
    one = await open_room({"name": "CLAUDE", "preset": "claude"}, start=False)
    bare = one.folder / "bin"
    bare.mkdir()
    await one.start(env={"PATH": f"{bare}:/usr/bin:/bin"})
    posted = await one.post("what can you do without me?")
    answer = await one.reply_to(posted["id"], "RELAY")
    assert "npm install -g @anthropic-ai/claude-code" in answer["body"]
    assert (await one.agent("CLAUDE"))["fix"]


async def test_with_no_agents_the_steward_answers_everything(open_room: Open) -> None:
    one = await open_room()
    for body in ("hello", "is anybody there?"):
        posted = await one.post(body)
        answer = await one.reply_to(posted["id"], "RELAY")
        assert "none is configured" in answer["body"] and "how to install one" in answer["body"]
    posted = await one.post("how do I install an agent?")
    assert "config.json" in (await one.reply_to(posted["id"], "RELAY"))["body"]
    posted = await one.post("@RELAY help")
    assert "/help" in (await one.reply_to(posted["id"], "RELAY"))["body"]


async def test_a_slow_agent_holds_nobody_up_and_takes_what_waits_together(open_room: Open) -> None:
    slow = "- delay_s: 1.5\n  say: '{agent} heard {body}'\n"
    one = await open_room(agent("SLOW", "slow.yaml"), agent("ECHO"), files={"slow.yaml": slow})
    first = await one.post("@SLOW one")
    await one.until_job(first["id"], "SLOW", "active")
    rest = [await one.post(f"@SLOW more-{n}") for n in range(4)]
    quick = await one.post("@ECHO quick")
    await one.reply_to(quick["id"], "ECHO")
    assert any(j["state"] != "done" and j["agent"] == "SLOW" for j in await one.jobs())
    for posted in rest:
        await one.until_job(posted["id"], "SLOW", "done")
    answers = [entry for entry in await one.entries() if entry["speaker"] == "SLOW"]
    assert len(answers) == 2
    folded = [job["folded_into"] for job in await one.jobs() if job["agent"] == "SLOW"]
    assert len([into for into in folded if into]) == 3


# -- the dispatcher


@pytest.fixture
async def ollama() -> AsyncIterator[str]:
    """The fake Ollama as a process of its own; its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.ollama", "--model", "tiny"),
        cwd=REPO,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    yield url
    process.kill()
    await process.wait()


async def _tell(one: Outside, url: str, **what: Any) -> Json:
    async with one.session.post(f"{url}/fake", json=what) as answer:
        told: Json = await answer.json()
        return told


def _dispatching(url: str) -> Json:
    return {"enabled": True, "ollama_host": url, "model": "tiny", "timeout_s": 2}


async def test_the_dispatcher_routes_absorbs_and_clarifies(open_room: Open, ollama: str) -> None:
    one = await open_room(agent("LEFT"), agent("RIGHT"), dispatcher=_dispatching(ollama))
    routed = await one.post("a thing for right, please")
    await one.reply_to(routed["id"], "RIGHT")
    assert [job["agent"] for job in await one.jobs()] == ["RIGHT"]
    entry = next(e for e in await one.entries() if e["id"] == routed["id"])
    decision = entry["meta"]["decision"]
    assert (decision["action"], decision["agents"]) == ("route", ["RIGHT"])
    assert decision["reason"]
    assert decision["took_ms"] >= 0
    absorbed = await one.post("thanks a lot")
    answer = await one.reply_to(absorbed["id"], "DISPATCHER")
    assert (answer["kind"], answer["body"]) == ("dispatcher", "You are welcome.")
    unclear = await one.post("fix it")
    assert (await one.reply_to(unclear["id"], "DISPATCHER"))["body"] == "What is broken?"
    assert len(await one.jobs()) == 1
    status, told = await one.ask(
        "POST", f"/api/messages/{unclear['id']}/route", json={"agents": ["LEFT"], "name": "ann"}
    )
    assert (status, told["success"]) == (200, True)
    await one.reply_to(unclear["id"], "LEFT")
    assert (await one.get("/api/state"))["dispatcher"]["state"] == "ok"


@pytest.mark.parametrize("mode", ["hang", "slow", "bad_content", "unknown_agent", "missing_model", "cut"])
async def test_without_the_dispatcher_everyone_is_asked_and_it_is_said_once(
    open_room: Open, ollama: str, mode: str
) -> None:
    one = await open_room(agent("LEFT"), agent("RIGHT"), dispatcher=_dispatching(ollama))
    await _tell(one, ollama, mode=mode)
    for n in range(2):
        posted = await one.post(f"number {n}")
        await one.reply_to(posted["id"], "LEFT")
        await one.reply_to(posted["id"], "RIGHT")
    notices = [e for e in await one.entries() if e["meta"].get("notice") == "dispatcher"]
    assert len(notices) == 1, notices
    assert (await one.get("/api/state"))["dispatcher"]["state"] == "fallback"
    await _tell(one, ollama, mode="answer")
    posted = await one.post("for right only")
    await one.until_said("The dispatcher decides again", speaker="RELAY")
    again = await one.post("for right only, again")
    await one.reply_to(again["id"], "RIGHT")
    assert not any(j["message_id"] == again["id"] and j["agent"] == "LEFT" for j in await one.jobs())
    assert posted["id"] != again["id"]


async def test_a_mention_does_not_wait_for_the_dispatcher(open_room: Open, ollama: str) -> None:
    one = await open_room(agent("LEFT"), agent("RIGHT"), dispatcher=_dispatching(ollama))
    await _tell(one, ollama, mode="hang")
    posted = await one.post("@LEFT now; mail right@example.com, and `@RIGHT` is code")
    await one.reply_to(posted["id"], "LEFT")
    both = await one.post("@all of you")
    await one.reply_to(both["id"], "LEFT")
    await one.reply_to(both["id"], "RIGHT")
    asked = await _tell(one, ollama)
    assert not any("now; mail" in json.dumps(request) for request in asked["requests"])
    assert not any(j["message_id"] == posted["id"] and j["agent"] == "RIGHT" for j in await one.jobs())


async def test_the_latest_of_several_is_routed_with_the_earlier_folded_in(open_room: Open) -> None:
    one = await open_room(agent("ECHO"), jitter={"quiet_s": 2, "medium_s": 2, "busy_s": 2})
    first = await one.post("the roof leaks")
    second = await one.post("and the door is open")
    await one.reply_to(second["id"], "ECHO")
    assert [job["message_id"] for job in await one.jobs()] == [second["id"]]
    entry = next(e for e in await one.entries() if e["id"] == first["id"])
    assert entry["meta"]["folded_into"] == second["id"]


async def test_agents_that_mention_agents_stop_at_the_hop_limit(open_room: Open) -> None:
    one = await open_room(
        agent("PING", "ping.yaml"),
        agent("PONG", "pong.yaml"),
        files={"ping.yaml": "- say: '@PONG yours'\n", "pong.yaml": "- say: '@PING yours'\n"},
        room={"agent_mentions": True, "hop_limit": 3},
    )
    await one.post("@PING go")
    await one.until_said("agents have asked each other 3 times", speaker="RELAY")
    before = [e for e in await one.entries() if e["kind"] == "agent"]
    assert len(before) == 4
    await one.post("/continue")

    async def more() -> bool:
        return len([e for e in await one.entries() if e["kind"] == "agent"]) >= 7

    await eventually(more, "the agents to go on")


async def test_a_broken_script_is_said_and_read_again(open_room: Open) -> None:
    """What is wrong is said with its line, and what was mended counts without a restart."""
    broken = "- say: one\n- say: [two\n- say: three\n"
    one = await open_room(agent("BOT", "bot.yaml"), agent("ECHO"), files={"bot.yaml": broken})

    async def seen() -> bool:
        return bool((await one.agent("BOT"))["broken"])

    await eventually(seen, "the broken script")
    shown = await one.agent("BOT")
    assert shown["installed"] is False and "bot.yaml: line 3: is not YAML" in shown["detail"]
    asked = await one.post("/who")
    who = (await one.reply_to(asked["id"], "RELAY"))["body"]
    assert "**BOT** is broken (" in who and "line 3" in who and "not installed" not in who
    posted = await one.post("@BOT hello")
    job = await one.until_job(posted["id"], "BOT", "skipped")
    assert "bot.yaml: line 3: is not YAML" in job["reason"]
    (one.folder / "bot.yaml").write_text("- say: Mended.\n")
    posted = await one.post("@BOT hello again")
    assert (await one.reply_to(posted["id"], "BOT"))["body"] == "Mended."

    async def mended() -> bool:
        told = await one.agent("BOT")
        return told["installed"] is True and told["broken"] is False

    await eventually(mended, "the mended script")
