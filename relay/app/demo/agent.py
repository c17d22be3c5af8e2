"""One agent of the demo: a program that reads its prompt, edits files in its worktree, and answers.

It stands in for a coding agent that has a guard before its edits: it declares what it is about to touch
(`relay airspace intent`), asks `relay guard hook` before each edit and `relay guard told` after each tool, as Claude
Code does through its settings, and obeys. It answers an advisory as the advisory asks. With `--stubborn` it pays no
attention to advisories and tries each refused edit again; the hook is asked all the same, since a coding agent's hook
is not the model's to leave out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay.app.demo.collide_scene import COLLIDE
from relay.app.demo.rewind_scene import REWIND
from relay.app.demo.scene import APPROACH, Edit, Job, job_for

SCENES = {"approach": APPROACH, "rewind": REWIND, "collide": COLLIDE}

#: What an advisory says to the one that has to give way.
_STEER = re.compile(r"STEER: ([A-Z0-9_, -]+)")
_ASKED = re.compile(r"The message to answer:\n(.*)", re.DOTALL)
#: What an agent is asked that is to settle a conflict.
_SETTLE = re.compile(r"Answer with the tool `resolve` \(id (c\d+),")
#: What the room tells an agent whose handoff has to be tried again.
NOT_PASSED = "did not pass"
#: The shortest look, in seconds.
LOOK_S = 0.5
#: How often a stubborn agent tries an edit that was refused.
TRIES = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.app.demo.agent", description=__doc__)
    parser.add_argument("--stubborn", action="store_true", help="pay no attention to advisories")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds before each edit")
    parser.add_argument("--scene", choices=SCENES, default="approach", help="what it knows to do (approach)")
    args = parser.parse_args()
    me = os.environ["RELAY_AGENT_ID"]
    match = _ASKED.search(sys.stdin.read())
    asked = match[1] if match else ""
    jobs = SCENES[args.scene].jobs
    turn = Work(me, Path.cwd(), args.pace, args.stubborn, jobs)
    job = job_for(me, asked, jobs)
    if "[RELAY]" in asked and ("HOLD" in asked or "INTENT" in asked):
        # A loaded machine may put an advisory and a person's message into one turn: both are answered.
        print("\n\n".join([*([turn.do(job)] if job else []), turn.answer(asked)]))
        return 0
    settle = _SETTLE.search(asked)
    settles = next((job.settles for job in jobs if job.agent == me and job.settles), "")
    if settle and settles:
        print(asyncio.run(resolve(settle[1], settles)))
        return 0
    if job and job.instead and NOT_PASSED in asked:
        print(turn.mend(job))
        return 0
    print(turn.do(job) if job else f"I do not know about that. I am {me}, of the demo.")
    return 0


async def resolve(conflict: str, text: str) -> str:
    """Answer a conflict by the room's tool, as a coding agent does."""
    from mcp import ClientSession  # late: it takes most of a second, and few turns answer a conflict
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-P", "-m", "relay.cli", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        given = {"id": conflict, "text": text, "reasoning": "It shows the currency and parts the thousands."}
        answer = await session.call_tool("resolve", given)
    told = answer.structured_content or {}
    return f"{conflict} is settled." if told.get("success") else f"{conflict} was not settled: {told}"


class Work:
    """What one turn does in the agent's worktree."""

    def __init__(self, me: str, folder: Path, pace: float, stubborn: bool, jobs: Sequence[Job]) -> None:
        self.me, self.folder, self.pace, self.stubborn = me, folder, pace, stubborn
        self.jobs = jobs
        #: It was asked in the middle of this turn what it will touch.
        self.intent_asked = False
        self.note = folder / self._git("rev-parse", "--git-path", "relay-demo-job").strip()

    def do(self, job: Job) -> str:
        """Do the job, or go round when the guard says so."""
        self.note.write_text(job.word)
        self._declare(_paths(job))
        for edit in job.edits:
            time.sleep(self.pace)
            refused = self._refused(edit)
            for _ in range(TRIES - 1 if self.stubborn else 0):
                refused = refused and self._refused(edit)
            if refused:
                if self.stubborn or not job.instead:
                    return f"My edit of {edit.path} was refused: {refused}"
                return f"My edit of {edit.path} was refused: {refused}\n{self._go_round(job)}"
            self._edit(edit)
            if self._turns_away(job, "Edit"):
                return self._on_the_way(job)
        for _ in range(job.looks):
            time.sleep(max(self.pace, LOOK_S))
            if self._turns_away(job, "Bash"):
                return self._on_the_way(job)
        if job.commit:
            self._commit(job.commit)
        return f"{job.say}\n{_intent(job)}" if self.intent_asked else job.say

    def _on_the_way(self, job: Job) -> str:
        whole = next((one for one in self.jobs if one.word == job.of), job)
        return f"I was told in the middle of my turn.\n{self._go_round(whole)}"

    def _turns_away(self, job: Job, tool: str) -> bool:
        """After a tool: is this agent told to give way? Nobody else's words are read."""
        asked = {"hook_event_name": "PostToolUse", "tool_name": tool, "cwd": str(self.folder)}
        told = self._hook("told", asked).get("hookSpecificOutput", {}).get("additionalContext", "")
        steer = _STEER.search(told) if "[RELAY]" in told else None
        self.intent_asked |= "[RELAY]" in told and "INTENT" in told
        gives_way = steer is not None and self.me in re.split(r"[, ]+", steer[1])
        return gives_way and not self.stubborn and bool(job.instead or job.of)

    def mend(self, job: Job) -> str:
        """Do what was missing the first time."""
        for edit in job.instead:
            time.sleep(self.pace)
            self._edit(edit)
        self._commit(job.commit)
        return job.instead_say

    def answer(self, advisory: str) -> str:
        """Say what it is about to touch, and give way when it is told to."""
        job = job_for(self.me, f"({self.note.read_text()})", self.jobs) if self.note.exists() else None
        if self.stubborn:
            return "I am busy."
        steer = _STEER.search(advisory)
        if job and job.instead and steer and self.me in re.split(r"[, ]+", steer[1]):
            return self._go_round(job)
        if job is None or not job.edits:
            return "I will touch no more files."
        return f"I work on {', '.join(_paths(job))}.\n{_intent(job)}"

    def _go_round(self, job: Job) -> str:
        for path in {edit.path for edit in job.edits}:
            self._git("checkout", "--quiet", "HEAD", "--", path)
        for edit in job.instead:
            self._edit(edit)
        paths = ", ".join(sorted({edit.path for edit in job.instead}))
        return f"{job.instead_say}\nINTENT: {paths}"

    def _declare(self, paths: list[str]) -> None:
        """Say what it is about to touch, as any agent may; a room that does not take it is no reason to stop."""
        words = [sys.executable, "-P", "-m", "relay.cli", "airspace", "intent", *paths]
        subprocess.run(words, capture_output=True, check=False)

    def _refused(self, edit: Edit) -> str:
        """Ask the guard as Claude Code would; the reason when it says no."""
        if edit.new is None:
            return ""
        target = self.folder / edit.path
        tool = {"file_path": str(target), "old_string": edit.old, "new_string": edit.new}
        asked = {
            "hook_event_name": "PreToolUse",
            "session_id": os.environ.get("RELAY_SESSION_ID", ""),
            "cwd": str(self.folder),
            "tool_name": "Edit" if edit.old else "Write",
            "tool_input": tool if edit.old else {"file_path": str(target), "content": edit.new},
        }
        answer = self._hook("hook", asked).get("hookSpecificOutput", {})
        denied = answer.get("permissionDecision") == "deny"
        return str(answer.get("permissionDecisionReason", "it was denied")) if denied else ""

    def _hook(self, which: str, asked: Mapping[str, object]) -> dict[str, Any]:
        """What a hook of relay's says, as JSON."""
        words = [sys.executable, "-P", "-m", "relay.cli", "guard", which, "--format", "claude"]
        config = os.environ.get("RELAY_CONFIG")
        words += ["--config", config] if config else []
        ran = subprocess.run(
            words, input=json.dumps(dict(asked)), capture_output=True, text=True, check=False
        )
        answer = json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout.strip() else {}
        return answer if isinstance(answer, dict) else {}

    def _edit(self, edit: Edit) -> None:
        path = self.folder / edit.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if edit.new is None:
            path.unlink()
            return
        if not edit.old:
            path.write_text(edit.new)
            return
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise SystemExit(f"{edit.path} does not hold what {self.me} wants to change")
        path.write_text(text.replace(edit.old, edit.new))

    def _commit(self, subject: str) -> None:
        self._git("add", "--all")
        self._git("-c", f"user.name={self.me}", "-c", "user.email=demo@relay", "commit", "-qm", subject)

    def _git(self, *words: str) -> str:
        ran = subprocess.run(["git", *words], cwd=self.folder, capture_output=True, text=True, check=True)
        return ran.stdout


def _intent(job: Job) -> str:
    return f"INTENT: {', '.join(_paths(job)) or 'none'}"


def _paths(job: Job) -> list[str]:
    return sorted({edit.path for edit in job.edits})


if __name__ == "__main__":
    raise SystemExit(main())
