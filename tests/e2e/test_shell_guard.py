"""What a shell writes, in a room that runs: asked about before it, recorded behind it, and told to who holds it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from relay import guard_cli
from relay.model import Caller
from tests.e2e.conftest import Open
from tests.e2e.test_guard import locks_of
from tests.e2e.test_worktrees import in_git
from tests.engines import all_events
from tests.outside import eventually, program

#: Asks the hook before each command, as its program would, and runs what may be run. Ends when the test says so.
SHELL = """
import json, os, subprocess, sys, time
from pathlib import Path
hook, room = sys.argv[1], Path(os.environ["RELAY_CONFIG"]).parent
told = {}
for command in (
    "sed -i s/old/new/ held.md",
    "cat held.md | wc -l; echo free > free.md",
    "python3 make.txt",
):
    edit = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": os.getcwd(), "session_id": "x"}
    asked = subprocess.run([sys.executable, "-I", "-S", hook, "hook", "--agent", "WRITER", "--config",
                            os.environ["RELAY_CONFIG"]], input=json.dumps(edit), capture_output=True, text=True)
    said = json.loads(asked.stdout or "{}").get("hookSpecificOutput", {})
    told[command] = said.get("permissionDecisionReason", "ran") + asked.stderr
    if "permissionDecision" not in said:
        subprocess.run(["bash", "-c", command], check=True)
while not (room / "go").exists():
    time.sleep(0.05)
words = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-a", "-m", "mine"]
told["commit"] = subprocess.run(words, capture_output=True, text=True).stderr
print("told " + json.dumps(told))
"""
MAKE = 'open("held.md", "a").write("made\\n")\nopen("made.md", "w").write("made\\n")\n'


async def test_a_shell_is_asked_before_it_writes_and_seen_when_it_did(open_room: Open) -> None:
    script = str(Path(guard_cli.__file__))
    files = {"shell.py": SHELL, "make.txt": MAKE, "held.md": "old\n"}
    one = await open_room(program("WRITER", "shell.py"), files=files, start=False)
    agent = program("WRITER", str(one.folder / "shell.py"), script)
    one.configure({**json.loads(one.path.read_text()), "agents": [agent]})
    in_git(one.folder)
    await one.start()
    install = await one.run(sys.executable, "-m", "relay.cli", "guard", "install", "--config", str(one.path))
    assert install.code == 0, install.all
    async with locks_of(one) as (store, locks):
        assert (await locks.acquire(Caller("CODEX", "s-codex"), ["held.md"], reason="a rewrite"))["success"]
        posted = await one.post("@WRITER go")

        # While its turn runs: both are told, and the log has what was written, by which command.
        said = await one.until_said("nobody was asked", speaker="RELAY")
        assert said["to"] == ["WRITER", "CODEX"] and said["meta"]["urgent"] is True
        assert said["meta"]["paths"] == ["held.md"] and said["meta"]["command"] == "python3 make.txt"
        assert "@WRITER wrote `held.md`" in said["body"] and "CODEX holds it until" in said["body"]

        async def recorded() -> dict[str, str]:
            found = {
                touch["path"]: (event.outputs["source"], event.outputs["command"])
                for event in await all_events(store, "files.changed")
                for touch in event.outputs["touches"]
            }
            return found if found.keys() >= {"free.md", "held.md", "made.md"} else {}

        found = await eventually(recorded, "what its shell wrote is recorded")
        assert found == {
            "free.md": ("tool", "cat held.md | wc -l; echo free > free.md"),
            "held.md": ("tool", "python3 make.txt"),
            "made.md": ("tool", "python3 make.txt"),
        }

        (one.folder / "go").touch()
        answer = await one.reply_to(posted["id"], "WRITER")
        told = json.loads(answer["body"].partition("told ")[2])
        refused = told["sed -i s/old/new/ held.md"]
        assert refused.startswith("This shell command would write held.md. held.md is locked by CODEX until")
        assert '"a rewrite"' in refused and "Nothing of the command ran." in refused
        assert told["cat held.md | wc -l; echo free > free.md"] == told["python3 make.txt"] == "ran"
        assert "held.md is locked by CODEX" in told["commit"]
        # One fact, one event: the end of the turn adds nothing, and nobody is told twice.
        assert len([e for e in await all_events(store, "files.changed") if "held.md" in e.file_touches]) == 1
        assert len([entry for entry in await one.entries() if "nobody was asked" in entry["body"]]) == 1
