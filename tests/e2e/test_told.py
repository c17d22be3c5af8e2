"""What an agent's hook tells it in the middle of its turn, in a room that runs."""

from __future__ import annotations

from pathlib import Path

import relay
from tests.e2e.conftest import Open
from tests.outside import Outside, eventually, program

#: Asks as Claude Code's hook does after each tool, until it is told something. Answers with what it was told.
LISTENER = """
import json, os, subprocess, sys, time
sys.stdin.read()
for _ in range(600):
    event = json.dumps({"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_name": "Bash"}]})
    words = [sys.executable, "-I", "-S", sys.argv[1], "told", "--format", "claude"]
    words += ["--config", os.environ["RELAY_CONFIG"]]
    done = subprocess.run(words, input=event, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done
    if done.stdout:
        print(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
        break
    time.sleep(0.1)
"""


async def working(one: Outside) -> bool:
    (agent, *_) = [agent for agent in (await one.get("/api/state"))["agents"] if agent["name"] == "BOT"]
    return bool(agent["running"]) and agent["channel"]["hears"] == "boundary"


async def test_a_hook_tells_a_running_turn_what_a_person_says(open_room: Open) -> None:
    script = str(Path(relay.__file__).with_name("guard_cli.py"))
    one = await open_room(program("BOT", "listener.py", script), files={"listener.py": LISTENER})
    posted = await one.post("@BOT begin")
    await eventually(lambda: working(one), "a turn that hears")
    told = await one.post("/steer @BOT turn left")
    answer = await one.reply_to(posted["id"], "BOT")
    assert "turn left" in answer["body"] and "[ann]" in answer["body"]
    assert answer["meta"]["heard"] == [
        {"message": told["id"], "number": told["number"], "speaker": "ann", "after": "Bash"}
    ]
    (job,) = (await one.get(f"/api/queue?messages={told['id']}"))["jobs"]
    assert (job["state"], job["heard_after"], job["answer_id"]) == ("done", "Bash", answer["id"])
