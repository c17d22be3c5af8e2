"""`relay demo` as a new user runs it: real processes, real worktrees, a real room (issue, "Seen working")."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from relay.app.demo.collide_scene import BOTH, PRICES
from relay.app.demo.land_scene import FAILING, PAIR, TESTS
from relay.app.demo.swarm.codebase import Item, items, stands
from tests.git.repository import git
from tests.outside import REPO, eventually

#: Longer than a demo takes on a loaded machine of 2 cores; it has its own limits inside.
LIMIT_S = 280.0


async def play(folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "relay.cli",
            "demo",
            "--json",
            "--pace",
            "0",
            "--folder",
            str(folder),
            *words,
        ),
        env={**kept, "PYTHONPATH": str(REPO)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    story = err.decode()
    assert out.strip(), story
    return process.returncode or 0, json.loads(out), story


def left_over(folder: Path) -> list[str]:
    """Processes that still work in the demo's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        told = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(str(folder) in word for word in told):
            found.append(" ".join(told))
    return found


def passes(repository: Path, commit: str) -> bool:
    """Do the tests of the landing's codebase pass on this commit?"""
    git(repository, "checkout", "-q", "--detach", commit)
    return subprocess.run(TESTS, cwd=repository, capture_output=True, check=False).returncode == 0


async def test_with_the_airspace_all_merge_and_without_it_one_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, told, story = await play(folder)
    assert (code, told["ok"]) == (0, True), story
    with_it, without = told["acts"]
    assert (with_it["levels"], with_it["steered"]) == (["advisory", "resolution"], ["BEN"])
    assert sorted(with_it["merged"]) == ["AVA", "BEN", "CLEO"]
    assert with_it["intents"] == {"AVA": ["src/shop/session.py"], "BEN": ["src/shop/visits.py"]}
    assert "HOLD: AVA (1 file committed)" in story and "STEER: BEN" in story
    assert (without["levels"], list(without["refused"])) == ([], ["BEN"])
    assert "conflict in src/shop/session.py" in without["refused"]["BEN"]
    assert left_over(folder) == []


async def test_an_agent_that_ignores_its_advisories_is_refused_and_a_person_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, told, story = await play(folder, "--stubborn", "--only-with")
    assert (code, told["ok"]) == (0, True), story
    (act,) = told["acts"]
    assert act["refused_writes"] >= 1 and act["person_asked"]
    assert "My edit of src/shop/session.py was refused" in story
    assert left_over(folder) == []


async def test_the_rewind_takes_one_agents_work_back_and_a_handoff_is_retried(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, told, story = await play(folder, "--rewind")
    assert (code, told["ok"]) == (0, True), story
    assert told["green"] == {
        "at first": True,
        "when BEN had gone astray": False,
        "when it was taken back": True,
        "when it was undone": False,
        "when it was taken back again": True,
    }
    assert told["taken_back"] == ["shop/prices.py", "tests/test_prices.py"]
    assert told["handoffs"] == [False, True] and told["same_tree"] and told["output_kept"]
    assert "you took back what BEN did since good" in story
    assert "BEN handed on to CLEO (h1): 2 of 2 rules passed." in story
    assert left_over(folder) == []


async def test_two_agents_collide_and_three_variants_race(tmp_path: Path) -> None:
    """A join and a question, then the source's cache example (003, section 5.2): real processes, merges and tests."""
    folder = tmp_path / "demo"
    code, told, story = await play(folder, "--merge")
    assert (code, told["ok"]) == (0, True), story
    collision = told["collision"]
    assert collision["joined"] == ["imports", "added"]
    assert (collision["asked"], collision["answered"]) == ("c1", "resolved")
    assert collision["stands"] and collision["green"]
    assert "relay joined shop/prices.py by imports and additions." in story
    prices = (folder / "code" / PRICES).read_text()
    assert BOTH in prices and "import json\nimport math\nimport statistics\n" in prices
    race = told["race"]
    assert race["statuses"] == {
        "redis": "completed",
        "memcached": "budget_exceeded",
        "in-memory": "completed",
    }
    assert (race["winner"], race["which"], race["merged"]) == ("in-memory", "max_duration_seconds", True)
    assert race["scores"]["in-memory"] > race["scores"]["redis"]
    assert "| redis | completed | fail | 0.95 |" in story
    assert "_held = {}" in (folder / "code" / "cache.py").read_text()
    assert left_over(folder) == []


async def test_six_branches_land_and_main_is_never_red(tmp_path: Path) -> None:
    """One breaks the tests only together with another: it is put out, mends it, and lands last."""
    folder = tmp_path / "demo"
    code, told, story = await play(folder, "--land")
    assert (code, told["ok"]) == (0, True), story
    (put_out,) = (entry for entry in told["ended"] if entry["state"] == "put_out")
    sixth = put_out["agent"]
    assert sixth in PAIR and f"FAIL: {FAILING}" in put_out["output"]
    assert "main passed without it then" in put_out["reason"]
    assert set(told["alone"].values()) == {"passed"}
    first, *others = told["batches"]
    assert (len(first["agents"]), first["state"]) == (6, "failed")
    assert len(others) >= 2 and others[-1] == {**others[-1], "agents": [sixth], "state": "passed"}
    assert len(told["landed"]) == 6 and told["landed"][-1] == sixth
    assert f"{sixth}'s branch did not land" in story
    assert f"the tests FAIL ({first['by']}); the queue halves them" in story
    # What it says of main, looked at in the repository that it leaves.
    repository = folder / "code"
    commits = git(repository, "rev-list", "--first-parent", "--reverse", "main").split()
    assert commits == [commit["commit"] for commit in told["main"]] and len(commits) == 7
    assert [passes(repository, commit) for commit in commits] == [True] * 7
    assert (told["red"], told["tested"]) == (0, True)
    assert left_over(folder) == []


async def test_a_swarm_lands_all_and_what_is_lost_without_relay_is_what_git_says(tmp_path: Path) -> None:
    """Four agents and two people. Each figure is looked at again, in the repositories that are left."""
    folder = tmp_path / "demo"
    words = ("--swarm", "--items", "24", "--agents", "4", "--pace", "0.2")
    async with asyncio.TaskGroup() as group:
        taken_out = group.create_task(take_one_out(folder / "with" / ".relay"))
        code, told, story = await play(folder, *words)
    assert (code, told["ok"]) == (0, True), story
    work = items(told["seed"], 24)
    with_it, without = told["runs"]
    assert (with_it["relay"], without["relay"]) == (True, False)
    # With relay: every item is on main, each merge of main is one that git does, and the tests pass.
    repository = folder / "with" / "code"
    assert with_it["found"]["landed"] == [item.number for item in work] == standing(repository, work)
    assert (with_it["found"]["conflicts"], with_it["found"]["lost"]) == (0, [])
    merges = [line.split() for line in git(repository, "log", "--merges", "--format=%P", "main").splitlines()]
    assert len(merges) == with_it["found"]["merges"] == 24
    assert not any(conflict(repository, ours, theirs) for ours, theirs in merges)
    assert with_it["found"]["tests"] == "passed" and passes(repository, "main")
    assert taken_out.result() and with_it["again"] == 1  # and it is done anew
    done = {git(repository, "log", "-1", "--format=%an", commit).strip() for _, commit in merges}
    assert {"ann", "bob"} <= done  # people do their part
    # Without it: a real merge of each pair of commits ends as it was counted, and main has what was merged.
    repository = folder / "without" / "code"
    journals = (folder / "without").glob("journal-*.jsonl")
    tried = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    assert sorted(each["item"] for each in tried) == [item.number for item in work]
    found = without["found"]
    lost = sorted(each["item"] for each in tried if conflict(repository, each["onto"], each["commit"]))
    assert (found["lost"], found["conflicts"]) == (lost, len(lost))
    assert found["landed"] == standing(repository, work) == sorted({item.number for item in work} - {*lost})
    assert (found["tests"] == "passed") == passes(repository, "main")
    assert left_over(folder) == []


async def take_one_out(room: Path) -> str:
    """Somebody takes an agent's branch out of the landing queue; whose it was."""

    async def address() -> Any:
        state = room / "state.json"
        return json.loads(state.read_text())["url"] if state.exists() else None

    url = await eventually(address, "the room is open", within_s=60)
    key = (room / "token").read_text().strip()
    async with aiohttp.ClientSession(url, headers={"X-API-Key": key}) as http:

        async def taken_out() -> str:
            async with http.get("/api/landing") as answer:
                agents = [entry["agent"] for entry in (await answer.json())["queue"]]
            for agent in agents:
                if agent not in ("ann", "bob"):
                    async with http.post(f"/api/landing/{agent}/cancel", json={"name": "eve"}) as answer:
                        if (await answer.json())["success"]:
                            return str(agent)
            return ""

        return str(await eventually(taken_out, "a branch is in the queue", within_s=LIMIT_S))


def standing(repository: Path, work: list[Item]) -> list[int]:
    """The items whose whole change is on main."""
    git(repository, "checkout", "-q", "--detach", "main")
    return [item.number for item in work if stands(item, lambda path: (repository / path).read_text())]


def conflict(repository: Path, ours: str, theirs: str) -> bool:
    """Does `git merge` conflict? Merged for real, in the repository's checkout."""
    git(repository, "checkout", "-q", "--detach", ours)
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    words = ["git", *who, "merge", "-q", "--no-ff", "--no-edit", theirs]
    merged = subprocess.run(words, cwd=repository, capture_output=True, check=False)
    if merged.returncode:
        assert git(repository, "ls-files", "--unmerged")
        git(repository, "merge", "--abort")
    return merged.returncode != 0


async def test_a_folder_that_is_used_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relay.cli", "demo", "--folder", str(tmp_path)),
        env={**kept, "PYTHONPATH": str(REPO)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 1
    assert "is not empty" in " ".join(out.decode().split())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


async def test_a_swarm_at_several_machines_lands_all_on_their_common_remote(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    words = ("--swarm", "--items", "8", "--agents", "3", "--machines", "2", "--only-with")
    code, told, story = await play(folder, *words)
    assert (code, told["ok"], told["machines"]) == (0, True, 2), story
    work, place = items(told["seed"], 8), folder / "with"
    mains = {
        git(place / name, "rev-parse", "main").strip() for name in ("common.git", "code", "machine-2/code")
    }
    assert len(mains) == 1
    assert standing(place / "code", work) == [item.number for item in work]
    assert told["runs"][0]["found"]["conflicts"] == 0 and passes(place / "code", "main")
    merges = git(place / "code", "log", "--merges", "--format=%P", "main").splitlines()
    done = {git(place / "code", "log", "-1", "--format=%an", line.split()[1]).strip() for line in merges}
    assert done & {"AVA", "CLEO", "ann"} and done & {"BEN", "bob"}  # both machines do their part
