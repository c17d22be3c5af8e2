"""Who leads a fleet's landing: a member that can, and none that would part main from what the others share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_has, leads, members, said
from tests.e2e.test_fleet_landing import changed, code, has, main_of, members_of, waits
from tests.e2e.test_landing import landed
from tests.git.repository import git
from tests.outside import Outside, eventually

LEAVES = "The relay M1 cannot land what waits, and leaves the lead to one that can."


async def told(room: Outside, words: str) -> int:
    return sum(words in line for line in await said(room))


async def trouble(room: Outside) -> str:
    return str((await room.get("/api/state"))["fleet"]["remote"]["trouble"])


async def tells(room: Outside, name: str, words: str) -> None:
    """A member has told the others that it cannot land; no words: that it can."""

    async def there() -> bool:
        tells = "strpos(m.cannot_land, $2) > 0" if words else "coalesce(m.cannot_land, '') = $2"
        return await fleet_has(room, f"m.name = $1 AND {tells}", name, words)

    await eventually(there, f"{name} to tell: {words or 'that it can land'}")


async def fetched(room: Outside, name: str) -> None:
    """The common remote has what this member's agent has."""

    async def there() -> bool:
        return bool(git(code(room), "ls-remote", "origin", f"refs/relay/fleet/*/{name}/*"))

    await eventually(there, f"the refs of {name} at the remote")


async def test_a_leader_without_a_clone_leaves_the_lead_to_one_that_lands(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", start=False)
    shutil.rmtree(code(one))
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await changed(two, "BRAVO")
    assert await leads(two, "M1")  # nothing is to land: it goes on
    await two.post("/land @BRAVO")
    await landed(two, "BRAVO")
    await has(two, "bravo.py")
    assert await leads(two, "M2")
    assert await told(two, LEAVES) == 1
    await two.until_said(r"M1 has no clone to land in\. Start it in a clone of the code", speaker="RELAY")
    await tells(two, "M1", "M1 has no clone")
    assert await told(two, "M1 has no clone to land in. Start it in a clone of the code") == 1
    why = (await members(two))["M1"]["cannot_land"]
    assert "M1 has no clone" in why
    # M2 leads and lands; that M1 cannot is said all the same, at both.
    for room in (one, two):
        checked = await room.script("healthcheck.sh", "--json")
        line = next(each for each in json.loads(checked.out)["checks"] if each["name"] == "fleet")
        assert line["status"] == "warning" and line["detail"].count(f"M1 cannot land: {why}") == 1, line
        listed = await room.relay("fleet")
        assert f"\nM1 cannot land: {why}" in listed.out, listed.all
    lost = "Agents at M1 have no worktrees, and only read: "
    assert len([line for line in await said(two) if line.startswith(lost)]) == 1, await said(two)
    # Where nobody else can, it leads all the same.
    assert (await two.script("stop.sh")).code == 0

    async def again() -> bool:
        return await leads(one, "M1")

    await eventually(again, "M1 to lead")
    # M2 has worktrees, and it is known all the same what was said of M1.
    one.kill()
    await one.start()
    assert len([line for line in await said(one) if line.startswith(lost)]) == 1, await said(one)


async def test_a_person_s_files_at_the_leader_hold_nobody_up(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    assert await leads(one, "M1")
    (code(one) / "bravo.py").write_text("mine\n")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO")
    assert main_of(tmp_path / "common.git") == entry["commit"]
    await has(two, "bravo.py")
    assert await leads(two, "M2") and await told(one, LEAVES) == 1
    assert (code(one) / "bravo.py").read_text() == "mine\n"
    assert await told(one, "has untracked files where the merge would write: bravo.py") == 1
    # Files that git knows are in the way only where main moves; M2 cannot go on either now, so it keeps the lead.
    (code(one) / "bravo.py").unlink()
    await has(one, "bravo.py")
    for room in (one, two):
        (code(room) / "app.py").write_text("x = 5\n")
    await changed(one, "ALFA", "three")
    await one.post("/land @ALFA")
    await tells(one, "M2", "uncommitted work in files that the merge changes: ")
    await tells(one, "M1", "uncommitted work in files that the merge changes: ")
    leader = next(name for name, row in (await members(one)).items() if row["leader"])
    # Nothing is pushed that the leader's own checkout cannot follow.
    assert (await one.get("/api/landing"))["queue"] and main_of(tmp_path / "common.git") == entry["commit"]
    git(code(one), "checkout", "-q", "app.py")
    git(code(two), "checkout", "-q", "app.py")
    await landed(one, "ALFA")
    await tells(one, leader, "")


async def test_a_main_that_has_parted_leaves_the_lead_to_others(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    assert await leads(one, "M1")
    (code(one) / "mine.py").write_text("x = 1\n")
    git(code(one), "add", "mine.py")
    git(code(one), "commit", "-qm", "Mine")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO")
    await landed(one, "BRAVO")
    await has(two, "bravo.py")
    assert await leads(two, "M2") and await told(one, LEAVES) == 1
    assert await told(one, "`git push origin main` there shares them") == 1


async def test_a_member_without_the_remote_of_the_others_lands_nothing_and_says_why(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", start=False)
    git(code(one), "remote", "rename", "origin", "upstream")
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    why = "The clone of M1 has no git remote `origin`, by which main is shared with M2"

    async def known() -> bool:
        return why in await trouble(one)

    await eventually(known, "the trouble to be known")
    assert "`git remote add origin ADDRESS` there adds it" in await trouble(one)
    assert await trouble(two) == ""
    checked = await one.script("healthcheck.sh", "--json")
    line = next(each for each in json.loads(checked.out)["checks"] if each["name"] == "fleet")
    assert line["status"] == "warning" and why in line["detail"], line
    assert "M1 leads; 2 members are here" in line["detail"], line
    # Its agent's branch waits, and says where; the other one's lands, by the other.
    await changed(one, "ALFA")
    await changed(one, "BRAVO")
    await one.post("/land @ALFA @BRAVO")
    await landed(one, "BRAVO")
    assert await leads(two, "M2") and await told(one, LEAVES) == 1
    await waits(one, "ALFA", "its branch is in the clone of M1, which has no git remote `origin`")
    # It leads again where nobody else is, and does not part main either.
    assert (await two.script("stop.sh")).code == 0
    before = main_of(code(one))
    entry = await waits(one, "ALFA", why)
    assert await told(one, f"ALFA's branch waits in the landing queue: {entry['note']}") == 1
    asked = await one.relay("land", "ALFA")
    assert asked.code == 1 and f"ALFA: waits: {entry['note']}" in asked.out, asked.all
    assert main_of(code(one)) == before
    git(code(one), "remote", "rename", "upstream", "origin")
    entry = await landed(one, "ALFA")
    assert main_of(tmp_path / "common.git") == entry["commit"]

    async def well() -> bool:
        return await trouble(one) == ""

    await eventually(well, "the trouble to be over")


async def test_a_leader_whose_push_is_refused_leaves_the_lead_to_one_that_may_push(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO", start=False)
    # What M1 has for the remote takes no branch, as with a key that may not: the same refs and objects, and a hook.
    common, barred = tmp_path / "common.git", tmp_path / "barred.git"
    (common / "packed-refs").unlink(missing_ok=True)
    git(common, "fetch", "-q", str(tmp_path / "made"), "+main:main")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(barred))
    for name in ("refs", "objects"):
        shutil.rmtree(barred / name)
        (barred / name).symlink_to(common / name)
    hook = barred / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        '#!/bin/sh\nwhile read old new ref; do case "$ref" in refs/heads/*) echo no write for you >&2; exit 1;; '
        "esac; done\n"
    )
    hook.chmod(0o755)
    git(code(one), "remote", "set-url", "origin", str(barred))
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await changed(one, "BRAVO")
    await one.post("/land @BRAVO")
    entry = await landed(one, "BRAVO")
    assert main_of(tmp_path / "common.git") == entry["commit"] and await leads(two, "M2")
    assert await told(one, LEAVES) == 1 and await told(one, "does not take what is to land on main") == 1
