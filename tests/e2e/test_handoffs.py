"""Work that is handed on in a room that runs: checked, tried again on a branch, received as it was checked."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.conftest import Open
from tests.e2e.test_timeline import events_of
from tests.e2e.test_worktrees import in_git
from tests.git.repository import git
from tests.outside import Outside, eventually, program

#: Writes what does not pass, and mends it when it is told so.
DEVELOPER = """
import pathlib, sys
prompt = sys.stdin.read()
mended = "did not pass" in prompt and "NEVER" not in prompt
pathlib.Path("work.txt").write_text("good" if mended else "bad")
pathlib.Path("output.log").write_text("ignored")
if not mended:
    with open("tries.txt", "a") as tries:
        tries.write("a try\\n")
print("I wrote work.txt.")
"""
RECEIVER = """
import pathlib, sys
prompt = sys.stdin.read()
print("WAS TOLD:", prompt)
pathlib.Path("checked.txt").write_text("by the receiver")
"""
PASSES = "import pathlib, sys; sys.exit(pathlib.Path('work.txt').read_text() != 'good')"


#: Snapshots and the journal may be kept at any moment, for other reasons.
KEPT = "refs/relay/checkpoints"


def handoffs(**more: Any) -> dict[str, Any]:
    return {
        "roles": [{"name": "developer"}, {"name": "qa"}],
        "transitions": [
            {"from_role": "developer", "to_role": "qa", "rules": ["AllTestsPass"]},
        ],
        "rules": {"AllTestsPass": {"run": [sys.executable, "-c", PASSES]}},
        **more,
    }


async def _open(open_room: Open, **more: Any) -> Outside:
    agents = (
        program("AVA", "-c", DEVELOPER, role="developer"),
        program("BEN", "-c", RECEIVER, role="qa"),
    )
    one = await open_room(*agents, start=False, handoffs=handoffs(**more))
    in_git(one.folder)
    with (one.folder / ".gitignore").open("a") as ignored:
        ignored.write("*.log\n*.out\n")
    git(one.folder, "commit", "-q", "-am", "ignore")
    await one.start()
    return one


async def _said(one: Outside, text: str, speaker: str = "RELAY") -> dict[str, Any]:
    found: dict[str, Any] = await one.until_said(re.escape(text), speaker=speaker)
    return found


async def _order(one: Outside, line: str) -> str:
    """A command, and what the room answers."""
    posted = await one.post(line)
    answer = await one.reply_to(posted["id"], "RELAY")
    return str(answer["body"])


async def test_a_pipeline_fails_once_tries_again_and_passes(open_room: Open) -> None:
    one = await _open(open_room)
    said = await _order(one, "/pipeline make it good")
    assert said == "The pipeline begins: AVA (developer) -> BEN (qa)."
    await _said(
        one,
        "Handoff h1 from AVA to BEN did not pass: AllTestsPass failed (exit code 1). AVA tries again, 1 of 3.",
    )
    await _said(one, "AVA handed on to BEN (h1): 1 of 1 rule passed.")
    await _said(one, "The pipeline is through: BEN (qa) was the last. Task: make it good")
    told = next(entry for entry in await one.entries() if "WAS TOLD" in entry["body"])["body"]
    assert "AVA (developer) handed on to you (qa)" in told
    assert "I wrote work.txt." in told
    assert "make it good" in told
    ben, ava = (one.folder / ".relay" / "worktrees" / name for name in ("ben", "ava"))
    await one.end()

    failed, passed = await events_of(one, "handoff")
    assert not failed.outputs["validation"]["passed"]
    info = failed.outputs["validation"]["failure_info"]
    assert info["failed_rules"] == ["AllTestsPass"]
    assert info["suggested_action"] == {"kind": "retry", "max_retries": 3, "current_attempt": 1}
    assert info["retry_role"] == "developer"
    assert passed.outputs["validation"]["passed"]
    assert (passed.outputs["from_agent"], passed.outputs["to_role"]) == ("AVA", "qa")
    metrics = passed.outputs["metrics"]
    assert metrics["files_modified"] == 2
    assert metrics["loc_delta"] == [2, 0]
    assert metrics["events_produced"] > 4
    assert metrics["role_duration_ms"] > 0
    assert metrics["test_pass_rate"] is None
    tree, commit = passed.snapshot, passed.outputs["commit"]
    assert git(ben, "rev-parse", "HEAD") == commit
    assert git(ben, "rev-parse", "HEAD^{tree}") == tree, "the receiver began with that tree"
    assert git(ben, "write-tree") == tree
    assert (ben / "checked.txt").exists()
    assert passed.branch is not None
    assert passed.branch.startswith("tw/")
    assert passed.branch.endswith("/developer-1-retry-1")
    assert git(one.folder, "rev-parse", passed.branch) == commit, "each attempt stays on its branch"
    assert git(one.folder, "rev-parse", f"{passed.branch}~1^{{tree}}") == failed.snapshot
    assert git(ava, "rev-parse", "HEAD") == commit, "its own branch has what it handed on"
    assert git(ava, "status", "--porcelain") == ""
    changes = [event for event in await events_of(one, "files.changed") if event.lane == "BEN"]
    assert [event.file_touches for event in changes] == [("checked.txt",)], "and wrote nothing else"
    made = await events_of(one, "checkpoint.made")
    assert [
        (event.outputs["name"], event.outputs["metadata"].get("validation_passed")) for event in made
    ] == [("handoff:developer->qa", False), ("milestone:first green", None), ("handoff:developer->qa", True)]
    (rule,) = failed.outputs["validation"]["rules_checked"]
    assert (rule["rule"], rule["state"], rule["exit_code"]) == ("AllTestsPass", "failed", 1)
    assert (
        git(one.folder, "log", "-1", "--format=%(trailers:key=TimeWarp-Agent-Id,valueonly)", commit).strip()
        == "AVA"
    )


async def test_people_are_asked_when_no_retry_is_left(open_room: Open) -> None:
    one = await _open(open_room, max_retries=1)
    await _order(one, "/pipeline NEVER")
    asked = await _said(
        one,
        "Handoff h1 from AVA to BEN did not pass: AllTestsPass failed (exit code 1). Nobody tries again by itself "
        "after 1 retry. What now? `/handoff h1 retry`, `/handoff h1 skip <reason>`, `/handoff h1 branch <name>`, or "
        "`/handoff h1 escalate` to end it here.",
    )
    assert asked["meta"]["handoff"] == 1
    (waits,) = (await one.get("/api/handoffs"))["handoffs"]
    assert (waits["state"], waits["answers"]) == ("asked", ["retry", "skip", "branch", "escalate"])
    assert (await _order(one, "/handoff h1 skip")).startswith("Say why it is skipped")
    assert "is not through" in await _order(one, "/handoff @AVA @BEN")
    assert (await _order(one, "/handoff #1 branch main")).startswith("The branch main is there already.")
    assert "cannot be a branch's name" in await _order(one, "/handoff #1 branch ../x")
    await _order(one, "/handoff #1 branch other-way")
    await _said(one, "Nobody tries again by itself after 2 retries")
    skipped = await _order(one, "/handoff #1 skip a person looked at it")
    assert skipped == "ann skipped the rules of handoff h1 from AVA to BEN: a person looked at it"
    told = await _said(one, "WAS TOLD", speaker="BEN")
    assert "Skipped by ann: a person looked at it" in told["body"]
    await _said(one, "The pipeline is through")
    await one.end()
    kinds = [
        (event.outputs["validation"]["failure_info"] or {}).get("suggested_action", {}).get("kind")
        for event in await events_of(one, "handoff")
    ]
    assert kinds == ["retry", "escalate", "branch", "escalate", "skip"]
    assert git(one.folder, "rev-parse", "--verify", "other-way")


#: Waits for ever the first time, and passes then.
WAITS = """
import os, pathlib, time
mark = pathlib.Path({mark!r})
if not mark.exists():
    mark.write_text(str(os.getpid()))
    time.sleep(600)
"""


async def test_a_daemon_killed_while_a_rule_runs_goes_on(open_room: Open, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    waits = {"run": [sys.executable, "-c", WAITS.format(mark=str(mark))]}
    one = await _open(open_room, rules={"AllTestsPass": waits})
    await _order(one, "/pipeline once")

    async def began() -> bool:
        return mark.exists() and bool(mark.read_text())

    await eventually(began, "the rule runs")
    rule = psutil.Process(int(mark.read_text()))
    one.kill()
    await eventually(lambda: _over(rule), "the rule ends with the daemon")
    await one.start()
    await _said(one, "The pipeline is through")
    await one.end()
    (handed,) = await events_of(one, "handoff")
    assert handed.outputs["validation"]["passed"]
    answers = [
        entry for entry in one.file_lines() if isinstance(entry[1], dict) and entry[1].get("speaker") == "BEN"
    ]
    assert len(answers) <= 1
    tree = one.folder / ".relay" / "worktrees" / "ben"
    assert git(tree, "rev-parse", "HEAD^{tree}") == handed.snapshot
    checks = one.folder / ".relay" / "checks"
    assert not checks.exists() or not [*checks.iterdir()]


async def _over(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True  # it ended between the two looks


async def test_invalid_handoff_changes_nothing(open_room: Open) -> None:
    one = await _open(open_room)

    async def made() -> bool:
        rows = (await one.get("/api/worktrees"))["worktrees"]
        return {row["agent"] for row in rows} >= {"AVA", "BEN"}

    await eventually(made, "the worktrees are made")

    def state() -> list[str]:
        worktrees = [one.folder / ".relay" / "worktrees" / name for name in ("ava", "ben")]
        return [
            git(one.folder, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", KEPT),
            *(git(each, "status", "--porcelain", "-b") for each in worktrees),
        ]

    before = state()
    for line, why in (
        ("/handoff ava nobody", "There is no role 'nobody', and no such agent."),
        ("/handoff @AVA @AVA", "AVA cannot hand on to itself."),
        ("/handoff qa developer", "The qa does not hand on to the developer."),
        ("/handoff @AVA @ZOE", "There is no agent"),
        ("/handoff @AVA", "Say who hands on and to whom"),
        ("/handoff h7 retry", "There is no handoff h7."),
        ("/handoff h7 perhaps", "Say what becomes of it"),
        ("/pipeline", "Say what is to be done."),
    ):
        answer = await _order(one, line)
        assert why in answer, line
    assert state() == before
    assert (await one.ask("POST", "/api/handoffs", json={"name": "ann", "from": "@AVA", "to": "x"}))[0] == 200
    wrong = await one.ask("POST", "/api/handoffs/1", json={"name": "ann", "answer": "skip"})
    assert wrong[0] == 400
    assert "Say why it is skipped" in wrong[1]["error"]["message"]
    assert state() == before
    await one.end()
    assert await events_of(one, "handoff") == []
    assert await events_of(one, "checkpoint.made") == []


async def test_without_a_role_or_with_a_running_turn_nothing_is_handed_on(open_room: Open) -> None:
    slow = "import sys, time; sys.stdin.read(); time.sleep(600)"
    agents = (
        program("AVA", "-c", slow, role="developer"),
        program("BEN", "-c", RECEIVER, role="qa"),
        program("CAT", "-c", RECEIVER),
    )
    more = [{"name": "security"}]
    one = await open_room(*agents, start=False, handoffs=handoffs(roles=[*handoffs()["roles"], *more]))
    in_git(one.folder)
    await one.start()
    assert await _order(one, "/pipeline x") == (
        'No agent has the role security. Set `"role": "security"` of one in the configuration.'
    )
    assert "CAT has no role." in await _order(one, "/handoff @AVA @CAT")
    asked = await one.post("@AVA wait")
    await one.until_job(asked["id"], "AVA", "active")
    assert "AVA's turn is running." in await _order(one, "/handoff @AVA @BEN")
    assert await one.get("/api/handoffs") == {"handoffs": []}
    await one.end()
    assert await events_of(one, "handoff") == []


async def test_what_is_handed_on_by_command_shows_everywhere(open_room: Open) -> None:
    one = await _open(open_room)
    asked = await one.post("@AVA did not pass")
    await one.reply_to(asked["id"], "AVA")
    done = await one.ask(
        "POST", "/api/handoffs", json={"name": "ann", "from": "developer", "to": "@BEN", "text": "look at it"}
    )
    assert done[1]["reason"] == "Handoff h1 from AVA (developer) to BEN (qa): 1 rule is checked."
    told = await _said(one, "WAS TOLD", "BEN")
    assert "Task:\n  look at it" in told["body"]
    log = await one.relay("timeline", "log", "--type", "handoff")
    assert re.search(r"AVA +handed on to BEN: passed", log.out), log.all
    shown = json.loads((await one.relay("timeline", "show", "handoff:developer->qa", "--json")).out)
    assert shown["type"] in ("handoff", "checkpoint.made")
    events = (await one.get("/api/timeline?type=handoff"))["events"]
    assert [event["type"] for event in events] == ["handoff"]
    assert (await one.get("/api/handoffs"))["handoffs"] == []
    await one.end()
