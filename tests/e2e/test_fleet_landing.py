"""Landing in a fleet: branches are in the clones of several members, and main is their common remote's."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of, leads, said
from tests.e2e.test_landing import landed
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

WRITES = """\
- match: three
  write: {app.py: "x = 3\\n"}
  say: done
- match: four
  write: {app.py: "x = 4\\n"}
  say: done
- match: again
  write: {again.py: "x = 2\\n"}
  say: done
- match: change
  write: {"{agent}.py": "x = 1\\n"}
  say: done
- match: key
  write: {keys.py: "token = 'KEY'\\n"}
  say: done
- say: hello
""".replace("KEY", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")


def remote_of(folder: Path) -> Path:
    """A bare repository whose main has one file."""
    made = folder / "made"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    (made / "app.py").write_text("x = 1\n")
    commit(made)
    git(folder, "clone", "-q", "--bare", "made", "common.git")
    return folder / "common.git"


async def members_of(
    open_room: Open,
    folder: Path,
    *names: str,
    remote: bool = True,
    start: bool = True,
    shared: bool = False,
    muted: bool = False,
    **fleet: Any,
) -> list[Outside]:
    """Members M1, M2, ... each with one agent and its own clone of one remote, started one after the other. `muted`:
    nobody is told of collisions, so no agent is asked to take main in."""
    common = remote_of(folder)
    agents = [[agent(name, "w.yaml", shared=shared)] for name in names]
    rooms = await fleet_of(open_room, *agents, **fleet)
    for name, room in zip(names, rooms, strict=True):
        settings = json.loads(room.path.read_text())
        airspace = {**settings.get("airspace", {}), **({"muted": ["**"]} if muted else {})}
        room.configure({**settings, "workspace": {"repo": "code"}, "airspace": airspace})
        (room.folder / "w.yaml").write_text(WRITES.replace("{agent}", name.lower()))
        git(room.folder, "clone", "-q", str(common), "code")
        if not remote:
            git(code(room), "remote", "remove", "origin")
        if start:
            await room.start()
    return rooms


def code(room: Outside) -> Path:
    return room.folder / "code"


def main_of(folder: Path) -> str:
    return git(folder, "rev-parse", "main")


async def changed(room: Outside, name: str, text: str = "change") -> None:
    posted = await room.post(f"@{name} {text}")
    await room.reply_to(posted["id"], name)


async def has(room: Outside, path: str) -> None:
    """The main checkout of this member has the file, once it has followed."""

    async def there() -> bool:
        return (code(room) / path).exists() and git(code(room), "status", "--porcelain") == ""

    await eventually(there, f"{path} in {room.folder.name}'s checkout")


async def waits(room: Outside, name: str, words: str) -> Json:
    async def look() -> Json | None:
        queue = (await room.get("/api/landing"))["queue"]
        return next((one for one in queue if one["agent"] == name and words in one["note"]), None)

    entry: Json = await eventually(look, f"{name} waits: {words}")
    return entry


async def test_an_agent_of_another_member_lands_and_all_members_have_it(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    assert await leads(one, "M1")
    await changed(one, "BRAVO")
    common = tmp_path / "common.git"
    # From before refs named their room.
    git(common, "update-ref", "refs/relay/landing/M2/BRAVO", "main")
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO")
    assert main_of(common) == entry["commit"]
    (ref,) = git(common, "for-each-ref", "--format=%(refname)", "refs/relay/landing/").split()
    assert re.fullmatch("refs/relay/landing/[0-9a-f]{8}/M2/BRAVO", ref)
    for room in (one, two):
        await has(room, "bravo.py")
    # Its own worktree follows at its member, so what it does next begins there.
    tree = next((two.folder / ".relay").rglob("app.py"), None) or next(two.folder.rglob("bravo/app.py"))

    async def follows() -> bool:
        return git(tree.parent, "rev-parse", "HEAD") == entry["commit"]

    await eventually(follows, "BRAVO's worktree to follow")
    # Asked for at the other member, of both, and in a shell there.
    await changed(two, "ALFA")
    await changed(two, "BRAVO", "again")
    asked = await two.relay("land", "BRAVO", "--json")
    assert asked.code == 0, asked.all
    await two.post("/land @ALFA")
    await landed(two, "ALFA")
    for room in (one, two):
        await has(room, "alfa.py")
        await has(room, "again.py")
    assert main_of(common) == main_of(code(one)) == main_of(code(two))


async def test_who_is_killed_between_the_push_and_the_word_of_it_has_landed_once(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    assert await leads(one, "M1") and one.process is not None
    await changed(one, "BRAVO")
    common = tmp_path / "common.git"
    hook = common / "hooks" / "post-receive"
    hook.write_text(
        f'#!/bin/sh\nwhile read old new ref; do [ "$ref" = refs/heads/main ] && kill -9 {one.process.pid}; done\n'
    )
    hook.chmod(0o755)
    await two.post("/land @BRAVO")

    async def dead() -> bool:
        return one.process is not None and one.process.poll() is not None

    await eventually(dead, "the leader to be killed")
    hook.unlink()
    pushed = main_of(common)
    assert main_of(code(one)) != pushed  # so it was killed before it moved its own main
    entry = await landed(two, "BRAVO")
    assert (entry["commit"], main_of(common)) == (pushed, pushed)
    await has(two, "bravo.py")
    await one.start()
    await has(one, "bravo.py")
    merges = git(common, "log", "--merges", "--format=%H", "main").split()
    ended = [each for each in (await one.get("/api/landing"))["ended"] if each["agent"] == "BRAVO"]
    assert merges == [pushed] and [each["state"] for each in ended] == ["landed"]


async def test_what_somebody_pushes_meanwhile_stays_and_the_batch_is_done_anew(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    common, made = tmp_path / "common.git", tmp_path / "made"
    # Just before the leader's push is taken, another one is.
    (made / "person.py").write_text("x = 1\n")
    commit(made)
    git(made, "push", "-q", str(common), "main:refs/heads/aside")
    hook = common / "hooks" / "pre-receive"
    aside = git(common, "rev-parse", "aside")
    hook.write_text(
        "#!/bin/sh\nwhile read old new ref; do\n"
        '[ "$ref" = refs/heads/main ] || continue\n'
        f"rm hooks/pre-receive\nunset GIT_QUARANTINE_PATH\ngit update-ref refs/heads/main {aside}\ndone\n"
    )
    hook.chmod(0o755)
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO")
    assert main_of(common) == entry["commit"] and not hook.exists()
    assert git(common, "merge-base", "main", "aside") == aside
    for room in (one, two):
        await has(room, "bravo.py")
        await has(room, "person.py")


async def test_a_person_s_work_is_left_alone_and_they_are_told(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "ALFA")
    (code(two) / "alfa.py").write_text("mine\n")
    await one.post("/land @ALFA")
    await landed(one, "ALFA")
    await one.until_said(r"Agents at M2 do not see what has landed: .*alfa\.py", speaker="RELAY")
    assert (code(two) / "alfa.py").read_text() == "mine\n"
    # Its own agents land all the same.
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO")
    await landed(one, "BRAVO")
    (code(two) / "alfa.py").unlink()
    for path in ("alfa.py", "bravo.py"):
        await has(two, path)


async def test_without_a_common_remote_a_branch_of_another_waits_and_says_where_it_is(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", remote=False)
    await changed(one, "ALFA")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO @ALFA")
    entry = await waits(one, "BRAVO", "the clone of M2")
    assert "no git remote `origin`" in entry["note"]
    await landed(one, "ALFA")
    assert (code(one) / "alfa.py").exists() and not (code(two) / "alfa.py").exists()
    assert (await waits(two, "BRAVO", "the clone of M2"))["state"] == "asked"


async def test_where_main_is_not_pushed_each_leader_lands_its_own(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", push_main=False)
    common = tmp_path / "common.git"
    before = main_of(common)
    await changed(one, "ALFA")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO @ALFA")
    entry = await waits(one, "BRAVO", "the clone of M2")
    assert "`fleet.push_main` is false" in entry["note"]
    await landed(one, "ALFA")
    assert (code(one) / "alfa.py").exists() and not (code(two) / "alfa.py").exists()
    # Whoever leads next goes on with what is in its own clone.
    assert (await one.script("stop.sh")).code == 0
    entry = await landed(two, "BRAVO")
    assert main_of(code(two)) == entry["commit"] and (code(two) / "bravo.py").exists()
    assert not (code(two) / "alfa.py").exists()
    refs = git(common, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert [ref for ref in refs if "/fleet/" not in ref] == [f"refs/heads/main {before}"]


async def test_a_branch_waits_while_its_member_is_away_and_lands_when_it_is_back(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    two.kill()
    await one.until_said(r"^The relay M2 gives no sign of life", speaker="RELAY")
    await one.post("/land @BRAVO")
    entry = await waits(one, "BRAVO", "its branch is in the clone of M2, which is away")
    assert entry["state"] == "asked"
    # A shell beside the room that was killed does not land it past the one who leads.
    asked = await two.relay("land", "BRAVO", "--no-wait", "--json")
    assert json.loads(asked.out)["waiting"] == ["BRAVO"], asked.all
    await two.start()
    entry = await landed(one, "BRAVO")
    assert main_of(tmp_path / "common.git") == entry["commit"]
    await has(one, "bravo.py")


async def test_a_conflict_with_main_is_settled_at_the_leader_and_lands_by_the_queue(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", muted=True)
    await changed(one, "ALFA", "three")
    await changed(one, "BRAVO", "four")
    await one.post("/land @ALFA")
    first = await landed(one, "ALFA")
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO", "put_out")
    assert "conflict in app.py" in entry["reason"]
    assert main_of(tmp_path / "common.git") == first["commit"]
    for room in (one, two):
        assert (code(room) / "app.py").read_text() == "x = 3\n"
    # Its branch is in the clone of M2, and M1 carries the choice out.
    assert await leads(one, "M1") and "`/resolve c1 1` to `5`" in entry["reason"]
    await two.post("/resolve c1 2")
    settled = await two.until_said(r"^c1 is settled", speaker="RELAY")
    assert "`/land @BRAVO` lands it" in settled["body"], settled
    await two.post("/land @BRAVO")
    # Nothing tests what comes of it: a person looks at it, wherever they are.
    asked = await two.until_said(r"^a1: BRAVO's branch is to land on main", speaker="RELAY")
    assert "app.py by what was chosen" in asked["body"] and "+x = 4" in asked["body"], asked
    await waits(two, "BRAVO", "a person has to look (a1)")
    await two.post("/approve a1")
    entry = await landed(one, "BRAVO")
    assert main_of(tmp_path / "common.git") == entry["commit"]

    async def followed() -> bool:
        return all((code(room) / "app.py").read_text() == "x = 4\n" for room in (one, two))

    await eventually(followed, "both main checkouts to follow")


async def test_a_choice_is_refused_where_the_other_member_has_moved_on(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", muted=True)
    await changed(one, "ALFA", "three")
    await changed(one, "BRAVO", "four")
    await one.post("/land @ALFA")
    await landed(one, "ALFA")
    await one.post("/land @BRAVO")
    await landed(one, "BRAVO", "put_out")
    # What BRAVO has now says something else in that place.
    tree = next(two.folder.rglob("bravo/app.py"))
    tree.write_text("x = 5\ny = 5\n")

    async def told() -> bool:
        listed = (await one.get("/api/worktrees"))["worktrees"]
        return any(row["insertions"] == 2 for row in listed if row["agent"] == "BRAVO")

    await eventually(told, "M1 to hear of the edit")
    await one.post("/resolve c1 2")
    said = await one.until_said(r"c1 is gone: BRAVO or main has changed app\.py since", speaker="RELAY")
    assert "They conflict in app.py now" in said["body"], said


async def test_a_branch_with_what_looks_like_a_secret_stays_at_its_member(
    open_room: Open, tmp_path: Path
) -> None:
    one, _ = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    common = tmp_path / "common.git"
    before = main_of(common)
    for name, at in (("BRAVO", "M2"), ("ALFA", "M1")):
        await changed(one, name, "key")
        await one.post(f"/land @{name}")
        entry = await landed(one, name, "put_out")
        assert f"{name}'s branch stays at {at}: a secret seems to stand in keys.py (" in entry["reason"]
        assert "Take it out of the branch's commits" in entry["reason"]
    assert git(common, "for-each-ref", "--format=%(objectname)").split() == [before]


async def test_a_branch_with_too_many_commits_to_look_through_says_how_they_get_there(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    tree = next(two.folder.rglob("bravo/app.py")).parent
    commits = "for at in $(seq 200); do echo $at > many.txt; git add -A; git commit -qm $at; done"
    await asyncio.to_thread(subprocess.run, ["sh", "-c", commits], cwd=tree, check=True)
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO", "put_out")
    assert "200 commits or more that the remote has not got" in entry["reason"]
    assert "secret" not in entry["reason"] and "`git push origin HEAD` in BRAVO's worktree" in entry["reason"]
    git(tree, "push", "-q", "origin", "HEAD")
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO")
    assert main_of(tmp_path / "common.git") == entry["commit"]


async def test_an_agent_s_change_is_verified_where_it_lives(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    policy = {
        "name": "unit",
        "tier": 1,
        "executor": "inline",
        "patterns": ["*"],
        "run": ["python3", "-c", "1"],
    }
    (two.folder / "policies").mkdir()
    (two.folder / "policies" / "all.yaml").write_text(json.dumps([policy]))
    assert await leads(one, "M1")

    async def verified(number: int) -> Json | None:
        _, made = await one.ask("GET", f"/api/verifications/{number}")
        return made if made.get("state") in ("passed", "failed", "error", "not_tested") else None

    # Its turn, and what a person asks for at the member that leads, which has no policies.
    await changed(one, "BRAVO")
    turn: Any = await eventually(lambda: verified(1), "the turn to be verified")
    assert (turn["state"], turn["agent"], turn["source"]) == ("passed", "BRAVO", "turn"), turn
    await one.post("/verify @BRAVO")
    asked: Any = await eventually(lambda: verified(2), "what was asked for to be verified")
    assert (asked["state"], asked["source"]) == ("passed", "person"), asked
    # What is of the leader's own agents has no policy there.
    await one.post("/verify @ALFA")
    own: Any = await eventually(lambda: verified(3), "ALFA's to be looked at")
    assert own["state"] == "not_tested", own


async def test_what_people_have_on_main_at_a_member_lands_with_its_agent_s_work_and_that_is_said(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", start=False)
    for number in (1, 2):
        (code(two) / f"ann{number}.py").write_text("x = 1\n")
        git(code(two), "add", ".")
        git(code(two), "-c", "user.name=Ann", "commit", "-qm", f"Add ann{number}")
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO")
    first = await landed(one, "BRAVO")
    await one.until_said(
        r"It landed with 2 commits of Ann's that were on main at M2: Add ann1, Add ann2\.", speaker="RELAY"
    )
    for room in (one, two):
        await has(room, "ann2.py")
        await has(room, "bravo.py")
        # git knows in each clone what the remote has.
        assert git(code(room), "rev-parse", "origin/main") == first["commit"]
        assert "ahead" not in git(code(room), "status", "-sb")
    # What the remote has is not said again.
    await changed(one, "BRAVO", "again")
    await one.post("/land @BRAVO")
    await landed(one, "BRAVO")
    told = [line for line in await said(one) if "It landed with" in line]
    assert len(told) == 1, told
