"""What an agent holds ready in one turn stands before its next one, also after its daemon was killed."""

from __future__ import annotations

from tests.e2e.conftest import Open
from tests.e2e.test_room_memory import ask, prompts
from tests.outside import program

#: Writes down its prompt, and holds a note ready as its MCP client would: with its own key and session.
NOTER = """
import json, os, pathlib, sys, urllib.request
prompt = sys.stdin.read()
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
number = len(list(folder.iterdir()))
(folder / f"{number}.txt").write_text(prompt)
env = os.environ
state = json.load(open(os.path.join(os.path.dirname(env["RELAY_CONFIG"]), ".relay", "state.json")))
note = {"content": f"step {number}: read blocks", "critical": number == 0, "key": f"step{number}"}
head = {"X-API-Key": env["RELAY_API_KEY"], "X-Relay-Session": env["RELAY_SESSION_ID"]}
head["Content-Type"] = "application/json"
asked = urllib.request.Request(state["url"] + "/memory/working", json.dumps(note).encode(), head)
assert json.load(urllib.request.urlopen(asked))["success"]
print("Held.")
"""


def held(prompt: str) -> list[str]:
    """The lines of the working memory in a prompt."""
    _, _, behind = prompt.partition("[WORKING MEMORY] ")
    return behind.partition("\n\n")[0].split("\n")[1:]


async def test_a_conversation_goes_on_with_what_it_held_ready(open_room: Open) -> None:
    agents = [program("NOTER", "noter.py", "noter"), program("OTHER", "noter.py", "other")]
    one = await open_room(*agents, files={"noter.py": NOTER}, workspace={"worktrees": False})
    assert (await ask(one, "NOTER", "begin with the parser"))["body"] == "Held."
    await ask(one, "NOTER", "go on with the parser")
    one.kill()
    await one.start()
    await ask(one, "NOTER", "end the parser")
    first, second, third = prompts(one, "noter")
    assert "WORKING MEMORY" not in first
    notes = ["  - step0, critical: step 0: read blocks", "  - step1: step 1: read blocks"]
    assert held(second) == notes[:1] and held(third) == notes
    await ask(one, "OTHER", "and you begin with the scanner")
    assert "read blocks" not in prompts(one, "other")[0]
