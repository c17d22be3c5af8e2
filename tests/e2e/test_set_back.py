"""What a merge does to the others, as a person and their agents live it: real git, a real room, to its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.git.repository import commit, git, own_branch
from tests.outside import Json, Outside, Ran, eventually, settings

#: An agent that works as real ones do: it edits, and takes main in with git when it is asked to, unless the file
#: `idle` in the room's folder says that it does not.
WORKER = """
import os, pathlib, subprocess, sys

prompt = sys.stdin.read()
name = os.environ["RELAY_AGENT_ID"]
room = pathlib.Path(sys.argv[1])
cart = pathlib.Path("src/cart.py")

def git(*words):
    subprocess.run(["git", "-c", "user.name=" + name, "-c", "user.email=x@x", *words], capture_output=True)

edit, take = prompt.rfind("edit the total"), prompt.rfind("git merge main")
with (room / f"{name}.prompts").open("a") as heard:
    heard.write(prompt + chr(10) + "=" * 8 + chr(10))
if take > edit and not (room / "idle").exists():
    git("add", "-A")
    git("commit", "-q", "-m", "mine")
    git("merge", "main")
    cart.write_text((room / "base.txt").read_text().replace("TOTAL", "all of us"))
    git("add", "-A")
    git("commit", "-q", "-m", "merge main into its branch")
    print("main is taken in.")
elif take > edit and "Resolve the markers by editing" in prompt and (room / "edits").exists():
    # As an agent that may edit and may not run git.
    cart.write_text((room / "base.txt").read_text().replace("TOTAL", "all of us"))
    print("Both sides stay.")
elif edit > take and "RELAY" not in prompt[edit:]:
    cart.write_text(cart.read_text().replace("return sum(items)", f"return sum(items)  # {name}"))
    print("Done.")
else:
    print("INTENT: none")
"""
CART = "def total(items):\n    return sum(items)\n\n\ndef other():\n    return 1\n"
Started = Callable[..., Awaitable[Outside]]


@pytest.fixture
def started(open_room: Open) -> Started:
    """A room in which each of these agents has changed the same line."""

    async def opened(*names: str, idle: bool = True, **more: Any) -> Outside:
        room = await open_room(start=False)
        agents = [
            {
                "name": name,
                "kind": "command",
                "cmd": [sys.executable, str(room.folder / "worker.py"), str(room.folder)],
            }
            for name in names
        ]
        room.configure(
            settings(*agents, airspace={"tick_s": 0.2, "cooldown_s": 5, **more.pop("airspace", {})}, **more)
        )
        (room.folder / "worker.py").write_text(WORKER)
        (room.folder / "base.txt").write_text(CART.replace("return sum(items)", "return sum(items)  # TOTAL"))
        if idle:
            (room.folder / "idle").write_text("")
        (room.folder / "src").mkdir()
        (room.folder / "src" / "cart.py").write_text(CART)
        in_git(room.folder)
        (room.folder / ".gitignore").write_text("*\n!src\n!src/cart.py\n")
        git(room.folder, "add", "-f", "src/cart.py")
        commit(room.folder)
        await room.start()
        for name in names:
            await room.reply_to((await room.post(f"@{name} edit the total"))["id"], name)
        await until(room, lambda one: one["level"] == "resolution", "a resolution advisory")
        return room

    return opened


async def rows(room: Outside) -> dict[str, Json]:
    return {row["agent"]: row for row in (await room.get("/api/worktrees"))["worktrees"]}


async def until(room: Outside, holds: Callable[[Json], bool], what: str) -> Json:
    async def look() -> Json | None:
        found: list[Json] = (await room.get("/api/airspace/advisories"))["advisories"]
        return next((one for one in found if holds(one)), None)

    found: Json = await eventually(look, what)
    return found


async def merge(room: Outside, agent: str) -> None:
    """Merge by the room, once the agent's turn is over."""

    async def look() -> bool:
        _, done = await room.ask("POST", f"/api/worktrees/{agent}/merge", json={"name": "ann"})
        assert done["success"] or "at work" in done["reason"], done
        return bool(done["success"])

    await eventually(look, f"the merge of {agent}")


async def said(room: Outside, *words: str) -> list[str]:
    return [
        one["body"]
        for one in await room.entries()
        if one["speaker"] == "RELAY" and all(w in one["body"] for w in words)
    ]


def set_back(*agents: str) -> Callable[[Json], bool]:
    return lambda one: (
        one["level"] == "resolution" and sorted(b["agent"] for b in one["set_back"]) == list(agents)
    )


async def test_who_is_set_back_by_a_merge_is_told_and_stays_so_until_git_merges_it(started: Started) -> None:
    room = await started("AVA", "BEN")
    seen = await rows(room)
    assert [(seen[a]["merges"], seen[a]["collides"]) for a in ("AVA", "BEN")] == [
        ("clean", [{"agent": "BEN", "paths": ["src/cart.py"]}]),
        ("clean", [{"agent": "AVA", "paths": ["src/cart.py"]}]),
    ]
    await merge(room, "AVA")
    one = await until(room, set_back("BEN"), "BEN against main")
    (back,) = one["set_back"]
    assert (back["branch"], back["paths"], back["lines"]) == (
        "main",
        ["src/cart.py"],
        {"src/cart.py": [[2, 2]]},
    )
    assert (one["agents"], one["order"], one["steering"]) != (["BEN"], ["AVA", "BEN"], "left")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    assert "src/cart.py (line 2)" in told["body"] and "the work of AVA is in main" in told["body"]
    assert "BEN: Now merge main into your branch" in told["body"]
    assert [each["name"] for each in told["meta"]["actions"]] == ["stop", "update"]
    # The agent is told at once too: by a turn, in which it does nothing.
    await room.reply_to(told["id"], "BEN")
    # Nothing of this is clear while git says that it is not, whatever happens: also not after a restart.
    room.kill()
    await room.start()
    await eventually(lambda: _sees(room), "a look after the start")
    await until(room, set_back("BEN"), "still BEN against main")
    assert not await said(room, "clear:") and not await said(room, "apart again")
    assert len(await said(room, "BEN does not merge into main now")) == 1
    assert (await rows(room))["BEN"]["merges"] == "conflicts"
    # A person asks again, by a button: BEN does it now, and only now all is clear.
    (room.folder / "idle").unlink()
    status, done = await room.ask(
        "POST", "/api/airspace/decide", json={"action": "update", "agent": "BEN", "name": "ann"}
    )
    assert (status, done["success"], done["reason"]) == (
        200,
        True,
        "ann asked BEN to merge main into its branch.",
    )
    await room.until_said("clear: BEN merges clean into main again", speaker="RELAY")
    assert (await rows(room))["BEN"]["merges"] == "clean"
    closed = await until(room, lambda each: each["id"] == one["id"] and each["closed_at"], "the end")
    assert (closed["verdict"], closed["closed_why"]) == (
        "true",
        "BEN merges clean into main again",
    )


async def test_an_agent_that_may_not_run_git_takes_main_in_by_editing(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    top = room.runtime / "worktrees" / "ben"
    assert "<<<<<<<" in (top / "src" / "cart.py").read_text()
    assert git(top, "rev-parse", "MERGE_HEAD") == git(room.folder, "rev-parse", "main")
    await room.until_said(r"BEN has not settled src/cart\.py \(line 2\)", speaker="RELAY")
    # Neither a merge nor a restart makes it clear while the markers stand.
    room.kill()
    await room.start()
    await eventually(lambda: _sees(room), "a look after the start")
    await until(room, set_back("BEN"), "still BEN against main")
    seen = (await rows(room))["BEN"]
    assert (seen["merges"], seen["conflicts"], seen["merging"]) == ("conflicts", ["src/cart.py"], True)
    _, done = await room.ask("POST", "/api/worktrees/BEN/merge", json={"name": "ann"})
    assert not done["success"] and "a merge is under way" in done["reason"]
    listed = await room.relay("worktrees")
    assert "conflicts not settled in src/cart.py (line 2)" in listed.out and "abort BEN" in listed.out, (
        listed.all
    )
    assert "conflicts are not settled in src/cart.py (line 2)" in await _line(room)
    # A person gives it up, and asks again: now BEN edits, and runs no git.
    gone = await room.relay("worktrees", "abort", "BEN", "--name", "ann")
    assert gone.code == 0 and "refs/relay/kept/ben/" in gone.out, gone.all
    assert "# BEN" in (top / "src" / "cart.py").read_text() and not git(top, "status", "--porcelain")
    (room.folder / "edits").write_text("")
    asked = await room.relay("airspace", "update", "BEN", "--name", "ann")
    assert asked.code == 0, asked.all
    await room.until_said(
        f"relay committed the merge of main into {own_branch('ben')} of BEN", speaker="RELAY"
    )
    await room.until_said("clear: BEN merges clean into main again", speaker="RELAY")
    listed = await room.relay("worktrees")
    assert "merges clean into main" in listed.out and "conflicts" not in listed.out, listed.all
    assert git(top, "log", "-1", "--format=%an") == "BEN"
    await merge(room, "BEN")
    assert (room.folder / "src" / "cart.py").read_text() == CART.replace(
        "return sum(items)", "return sum(items)  # all of us"
    )


async def test_the_room_decides_what_an_agent_that_is_set_back_does_not(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")
    await room.until_said(r"BEN has not settled src/cart\.py", speaker="RELAY")
    _, done = await room.ask("POST", "/api/worktrees/BEN/merge", json={"name": "ann"})
    assert not done["success"] and "a merge is under way. The room is asked about c1" in done["reason"], done
    asked = await room.until_said(r"\*\*Conflict c1\*\* in `src/cart\.py`, `total`", speaker="RELAY")
    assert "**main** (AVA), line 2" in asked["body"] and "**BEN**, line 2" in asked["body"], asked["body"]
    again = await room.reply_to((await room.post("/resolve c1"))["id"], "RELAY")
    shown = await room.relay("merge", "resolve", "c1", "--show")
    assert again["body"] == asked["body"] == shown.out.rstrip("\n"), shown.all
    said = await room.reply_to((await room.post("/resolve c1 2"))["id"], "RELAY")
    assert said["body"].endswith("Nothing of BEN's is left to decide: `/land @BEN` lands it."), said["body"]
    # All views say so from now on: the merge that relay had begun in its worktree is given up.
    row = (await rows(room))["BEN"]
    assert (row["merges"], row["merging"], row["unsettled"]) == ("joins", False, False), row
    _, done = await room.ask("POST", "/api/worktrees/BEN/merge", json={"name": "ann"})
    assert "Nothing is merged yet: relay joins 1 file" in done["reason"], done
    dry = await room.relay("worktrees", "merge", "BEN", "--dry-run", "--json", "--name", "ann")
    tree = json.loads(dry.out)["tree"]
    landed = await room.relay("worktrees", "merge", "BEN", "--joined", tree, "--name", "ann")
    assert landed.code == 0, landed.all
    assert (room.folder / "src" / "cart.py").read_text() == CART.replace("sum(items)", "sum(items)  # BEN")
    over = await until(room, lambda one: bool(one["closed_at"]), "the end of the advisory")
    assert over["closed_why"] == "BEN merges into main again; relay joins src/cart.py by what was chosen"


async def test_a_second_landing_while_a_merge_is_under_way_is_told(started: Started) -> None:
    room = await started("AVA", "BEN")
    cart = room.runtime / "worktrees" / "ben" / "src" / "cart.py"
    cart.write_text(cart.read_text().replace("return 1", "return 7"))
    await merge(room, "AVA")
    told = await room.until_said(
        r"BEN does not merge into main now.*src/cart\.py \(line 2\)", speaker="RELAY"
    )
    await room.reply_to(told["id"], "BEN")
    await room.until_said("BEN has not settled src/cart.py", speaker="RELAY")
    # It settles nothing, and a person's commit makes a further conflict in the same file.
    ours = room.folder / "src" / "cart.py"
    ours.write_text(ours.read_text().replace("return 1", "return 3"))
    commit(room.folder)
    told = await room.until_said(r"settled in src/cart\.py \(lines 2, 6\)", speaker="RELAY")
    assert not await said(room, "clear:") and len(await said(room, "BEN does not merge into main now")) == 2
    assert told["body"].split(" (the work of AVA")[0] in await _line(room)
    await room.reply_to(told["id"], "BEN")
    assert "# BEN" in cart.read_text() and "return 7" in cart.read_text()


async def _line(room: Outside) -> str:
    """The one advisory's sentence."""
    (one,) = (await room.get("/api/airspace"))["advisories"]
    return str(one["line"])


async def test_who_has_all_of_main_is_told_and_not_set_to_work(started: Started) -> None:
    room = await started("AVA", "BEN")
    commit(room.folder, {"src/cart.py": CART.replace("return 1", "return 2")})

    async def behind() -> bool:
        return bool((await rows(room))["BEN"]["behind"] == 1)

    await eventually(behind, "a look at main")
    posted = await room.post("/update @BEN")
    await room.reply_to(posted["id"], "RELAY")
    await room.until_said(f"relay merged main into {own_branch('ben')} of BEN: no conflict", speaker="RELAY")
    told = await room.until_said("asks BEN to merge main", speaker="RELAY")

    async def over() -> Json | None:
        jobs = (await room.get("/api/queue"))["jobs"]
        return next(
            (job for job in jobs if job["message_id"] == told["id"] and job["state"] == "skipped"), None
        )

    job = await eventually(over, "the end of what it was asked")
    assert job["reason"] == f"{own_branch('ben')} has all of main: nothing is left to do"
    assert "asks BEN" not in (room.folder / "BEN.prompts").read_text()
    # It is the room that says so: BEN reads of it in its next turn.
    await room.reply_to((await room.post("@BEN go on"))["id"], "BEN")
    assert "asks BEN to merge main" in (room.folder / "BEN.prompts").read_text()


async def _sees(room: Outside) -> bool:
    return bool((await room.get("/api/airspace"))["at"])


async def test_a_merge_by_a_persons_git_and_its_reset_are_seen_as_well(started: Started) -> None:
    room = await started("AVA", "BEN")
    # A person commits the same line in the main checkout: both agents are set back.
    (room.folder / "src" / "cart.py").write_text(CART.replace("sum(items)", "sum(items) + 0"))
    commit(room.folder)
    await until(room, set_back("AVA", "BEN"), "both against main")
    for name in ("AVA", "BEN"):
        assert len(await said(room, f"{name} does not merge into main now")) == 1
    git(room.folder, "reset", "-q", "--hard", "HEAD~1")
    one = await until(room, lambda each: each["level"] == "resolution" and not each["set_back"], "as before")
    assert sorted(one["agents"]) == ["AVA", "BEN"], "they still collide with one another"
    assert not await said(room, "apart again")
    # Another branch is checked out, and it is that one that is merged into.
    git(room.folder, "checkout", "-q", "-b", "release")
    (room.folder / "src" / "cart.py").write_text(CART.replace("sum(items)", "sum(items) + 1"))
    commit(room.folder)
    await until(room, set_back("AVA", "BEN"), "both against release")
    assert (await rows(room))["AVA"]["into"] == "release"
    assert await said(room, "AVA does not merge into release now")
    # What lands while no daemon runs is told at the start.
    room.kill()
    git(room.folder, "checkout", "-q", "main")
    (room.folder / "src" / "cart.py").write_text(CART.replace("return 1", "return 2"))
    commit(room.folder)
    (room.folder / "src" / "cart.py").write_text(CART.replace("sum(items)", "sum(items) + 3"))
    commit(room.folder)
    await room.start()

    def again(one: Json) -> bool:
        return set_back("AVA", "BEN")(one) and {back["branch"] for back in one["set_back"]} == {"main"}

    await until(room, again, "both against main again")
    done = await room.relay("airspace", "scan", "--repo", ".")
    assert f"git cannot merge main and {own_branch('ava')}: src/cart.py" in done.out, done.all


async def test_a_worktree_that_is_removed_ends_it_and_says_why(started: Started) -> None:
    room = await started("AVA", "BEN")
    await merge(room, "AVA")
    told = await room.until_said("BEN does not merge into main now", speaker="RELAY")
    await room.reply_to(told["id"], "BEN")

    async def removed() -> bool:
        _, done = await room.ask("POST", "/api/worktrees/BEN/remove", json={"name": "ann"})
        return bool(done["success"])

    await eventually(removed, "the removal")
    over = await room.until_said("BEN no longer has a worktree", speaker="RELAY")
    assert over["body"].startswith("over: ")
    assert not await said(room, "clear:")


async def test_a_person_says_who_goes_first_and_who_stops(started: Started) -> None:
    room = await started("AVA", "BEN", airspace={"answer_s": 600, "steer_s": 2})
    asks = await room.until_said("A person decides who goes on", speaker="RELAY")
    assert [each["label"] for each in asks["meta"]["actions"]] == [
        "AVA goes first",
        "BEN goes first",
        "Stop BEN",
    ]
    done = await room.relay("airspace", "first", "BEN", "--name", "ann")
    assert (done.code, done.out) == (0, "ann decided: BEN goes first; AVA gives way.\n"), done.all
    one = await until(room, lambda each: each["steer"] == ["AVA"], "AVA steers")
    assert (one["order"], one["hold"], one["reason"]) == (
        ["BEN", "AVA"],
        ["BEN"],
        "HOLD: BEN (ann says so), STEER: AVA",
    )
    told = await room.until_said("ann decided: BEN goes first", speaker="RELAY")
    await room.until_said("AVA: make no further change in src/cart.py", speaker="RELAY")
    # It is enforced: the one may edit, the other is refused.
    for agent, decision in (("AVA", "steer"), ("BEN", "allow")):
        top = room.runtime / "worktrees" / agent.lower() / "src" / "cart.py"
        _, answer = await room.ask("POST", "/api/guard", json={"agent": agent, "path": str(top)})
        assert answer["decision"] == decision, answer
    assert told
    await room.post("/stop @AVA")
    await room.until_said("ann stopped AVA", speaker="RELAY")
    assert (await room.agent("AVA"))["paused"]
    posted = await room.post("/update @BEN")
    refused = await room.reply_to(posted["id"], "RELAY")
    assert "BEN has all of main already: there is nothing to merge" in refused["body"]
    status, _ = await room.ask("POST", "/api/airspace/decide", json={"action": "jump", "agent": "BEN"})
    assert status == 400
    assert len(await said(room, "A person decides who goes on")) == 1


async def test_every_view_has_the_same_level_and_sentence_of_who_is_set_back_and_near(
    started: Started,
) -> None:
    room = await started("AVA", "BEN")
    # Who comes to a file in hand is told so by the answer to its intent, at each interface.
    made = await room.relay("keys", "create", "CYD", "--json")
    headers = {"X-API-Key": str(json.loads(made.out)["key"])}
    body = {"paths": ["src/cart.py"]}
    async with room.session.post(f"{room.url}/intents", json=body, headers=headers) as answer:
        told = await answer.json()
    assert [one.split(",")[0] for one in told["in_hand"]] == [
        "AVA changes src/cart.py now",
        "BEN changes src/cart.py now",
    ]
    assert all("What is your part?" in one for one in told["in_hand"]), told
    async with room.session.post(f"{room.url}/intents", json={"paths": []}, headers=headers) as answer:
        assert "in_hand" not in await answer.json()
    # A lock outlives the work, an intent does not: AVA stays near.
    made = await room.relay("keys", "create", "AVA", "--json")
    headers = {"X-API-Key": str(json.loads(made.out)["key"])}
    async with room.session.post(
        f"{room.url}/locks/acquire", json={"file_path": "src/cart.py"}, headers=headers
    ) as answer:
        told = await answer.json()
    assert told.get("success"), told
    await merge(room, "AVA")
    await until(room, lambda one: set_back("BEN")(one) and len(one["agents"]) == 2, "AVA near by its lock")
    state = await room.get("/api/airspace")
    (one,), (link,) = state["advisories"], state["links"]
    assert (one["level"], link["level"], link["risk"] < 0.7) == ("resolution", "resolution", True)
    assert (state["counts"]["advisory"], state["counts"]["resolution"]) == (0, 1)
    assert one["line"].startswith("BEN does not merge into main now: git finds conflicts in src/cart.py")
    assert "; SET BACK: BEN, TRANSMIT: AVA, BEN; " in one["line"]
    asked = await room.post("/airspace")
    answer = await room.reply_to(asked["id"], "RELAY")
    assert f"- **resolution:** {one['line']}" in answer["body"]

    # The terminal says it in the same words, with what came true by kind.
    # BEN's own turn for the set-back may change the lines between two looks.
    async def same() -> str | None:
        done = await room.relay("airspace")
        seen = await room.get("/api/airspace")
        posted = await room.post("/airspace")
        body = (await room.reply_to(posted["id"], "RELAY"))["body"]
        line = f"- **resolution:** {seen['advisories'][0]['line']}"
        return body if done.code == 0 and done.out.strip() == seen["text"] == body and line in body else None

    assert "Came true so far: resolution 1 of 1." in await eventually(
        same, "the same words at every interface"
    )


async def test_intents_and_a_decision_end_with_the_work(started: Started) -> None:
    """What outlives it: nothing. Two that collide, a word of a person, a merge, a discard, and all is quiet."""
    room = await started("AVA", "BEN")
    for name in ("AVA", "BEN"):
        await room.reply_to((await room.post(f"/intent @{name} src/cart.py"))["id"], "RELAY")
    done = await room.relay("airspace", "first", "BEN", "--name", "ann")
    assert done.code == 0, done.all
    one = await until(room, lambda each: each["steer"] == ["AVA"], "AVA steers")
    assert [each["label"] for each in one["actions"]] == ["AVA goes first", "Stop AVA"]
    again = await room.relay("airspace", "first", "BEN", "--name", "ann")
    assert again.code == 1 and "BEN goes first already: ann decided that" in again.all
    # Who merges the other one all the same is told what was decided, before and after.
    words = "ann decided that BEN goes first"

    async def shown() -> Json | None:
        told = await room.get("/api/worktrees/AVA/merge?name=ann")
        return told if "decided" in told else None

    assert (await eventually(shown, "what a merge of AVA would commit"))["decided"] == words

    async def done_by(*more: str) -> Ran | None:
        ran = await room.relay("worktrees", "merge", "AVA", *more)
        return None if "AVA is at work" in ran.out else ran  # it may be told of the decision in a turn

    dry = await eventually(partial(done_by, "--dry-run"), "what a merge of AVA would commit, in a terminal")
    assert words in dry.out, dry.all
    assert (await room.get("/api/worktrees/BEN/merge?name=ann")).get("decided", "") == ""
    merged = await eventually(partial(done_by, "--name", "ann"), "AVA is merged")
    assert merged.code == 0 and words in merged.out, merged.all
    await until(room, set_back("BEN"), "BEN against main")

    async def discarded() -> bool:
        return (await room.relay("worktrees", "discard", "BEN", "--name", "ann")).code == 0

    await eventually(discarded, "the discard")

    async def quiet() -> bool:
        state = await room.get("/api/airspace")
        return not state["advisories"] and not any(one["intent"] for one in state["agents"])

    await eventually(quiet, "nothing that outlives the work")
    asked = await room.post("/airspace")
    assert "intends to" not in (await room.reply_to(asked["id"], "RELAY"))["body"]
    for name in ("AVA", "BEN"):
        await room.reply_to((await room.post(f"@{name} edit the total, anew"))["id"], name)
    one = await until(
        room, lambda each: each["level"] == "resolution" and not each["closed_at"], "they collide"
    )
    assert "says so" not in one["line"]
