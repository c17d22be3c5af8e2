"""`relay demo` as a new user runs it: real processes, real worktrees, a real room (issue, "Seen working")."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from relay.app.demo.collide_scene import BOTH, PRICES
from relay.app.demo.land_scene import FAILING, PAIR, TESTS
from tests.git.repository import git
from tests.outside import REPO

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
    assert "main passes without it" in put_out["reason"]
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
