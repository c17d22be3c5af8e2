"""Agents that change files, in worktrees of a room that runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.conftest import Open
from tests.git.repository import commit, git, own_branch
from tests.outside import Outside, agent, eventually

WRITES = """
- match: append
  write: {notes.md: "one\\ntwo\\nmine\\n", "sub/new.md": "new\\n"}
  say: "Done."
- say: "{agent} heard {body}"
"""


def in_git(folder: Path) -> None:
    (folder / "notes.md").write_text("one\ntwo\n")
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text(
        "*.yaml\n*.py\n*.sh\n.venv\nconfig.json\nspeaker.lock\nrelay\nscripts\n"
    )
    commit(folder)


async def _with_git(open_room: Open, ann: bool = False, **more: object) -> Outside:
    """`ann`: git knows the person as Ann Lee, by whom the room names the branches that it makes at its start."""
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES}, start=False, **more)
    in_git(one.folder)
    if ann:
        git(one.folder, "config", "user.name", "Ann Lee")
        git(one.folder, "config", "user.email", "ann@example.com")
    await one.start()
    return one


async def test_an_answer_names_what_it_changed_and_a_person_merges_it(open_room: Open) -> None:
    one = await _with_git(open_room)
    posted = await one.post("@WRITER append a line")
    answer = await one.reply_to(posted["id"], "WRITER")
    assert answer["meta"]["worktree"] == {
        "branch": own_branch("writer"),
        "files": 2,
        "insertions": 2,
        "deletions": 0,
    }
    assert (one.folder / "notes.md").read_text() == "one\ntwo\n"

    async def seen() -> bool:
        rows = (await one.get("/api/worktrees"))["worktrees"]
        return [(row["agent"], row["files"], row["dirty"], row["merges"]) for row in rows] == [
            ("WRITER", 2, True, "clean")
        ]

    await eventually(seen, "the changes in the list")
    told = await one.get("/api/worktrees/WRITER/diff")
    assert "+mine" in told["diff"] and not told["truncated"]

    # A hand's edit of the very line is seen by who shows the branch: lines and sizes say nothing of it.
    async def tree() -> str:
        (air,) = (await one.get("/api/airspace"))["agents"]
        return str(air["tree"])

    async def seen_as(wanted: bool) -> bool:
        return (await tree() == before) is wanted

    before, notes = await tree(), Path((await one.get("/api/worktrees"))["worktrees"][0]["path"]) / "notes.md"
    own = notes.read_text()
    notes.write_text(own.replace("mine", "hers"))
    await eventually(lambda: seen_as(False), "the hand's edit")
    notes.write_text(own)
    await eventually(lambda: seen_as(True), "that it was taken back")
    status, done = await one.ask("POST", "/api/worktrees/WRITER/merge", json={"name": "ann"})
    assert (status, done["success"]) == (200, True)
    assert (one.folder / "notes.md").read_text() == "one\ntwo\nmine\n"
    assert git(one.folder, "rev-parse", "main") == done["commit"]
    await one.until_said(f"ann merged {own_branch('writer')} of WRITER into main: 2 files", speaker="RELAY")
    status, done = await one.ask("POST", "/api/worktrees/WRITER/merge", json={"name": "ann"})
    assert (status, done["success"]) == (200, False)
    assert "nothing" in done["reason"]
    posted = await one.post("@WRITER hello")
    assert "worktree" not in (await one.reply_to(posted["id"], "WRITER"))["meta"]


async def test_a_worktree_outlives_the_daemon(open_room: Open) -> None:
    one = await _with_git(open_room)
    posted = await one.post("@WRITER append a line")
    await one.reply_to(posted["id"], "WRITER")
    one.kill()
    listed = await _relay(one, "worktrees", "--json")
    assert [row["agent"] for row in json.loads(listed)["worktrees"]] == ["WRITER"]
    await one.start()

    async def seen() -> bool:
        rows = (await one.get("/api/worktrees"))["worktrees"]
        return [(row["files"], row["own"]) for row in rows] == [(2, True)]

    await eventually(seen, "the worktree again")
    assert "notes.md" in await _relay(one, "worktrees", "show", "writer")
    assert "merged" in await _relay(one, "worktrees", "merge", "WRITER", "--name", "ann")


@pytest.mark.parametrize("runs", [True, False])
async def test_a_person_reads_the_message_changes_it_and_takes_work_back(open_room: Open, runs: bool) -> None:
    one = await _with_git(open_room, ann=True)
    posted = await one.post("@WRITER please append a line to the notes.")
    await one.reply_to(posted["id"], "WRITER")
    if not runs:
        one.kill()
    told = await _relay(one, "worktrees", "merge", "--squash", "--dry-run", "WRITER")
    assert f"{own_branch('writer', 'Ann Lee')} into main as one commit: 1 commit, 2 files." in told
    assert "Author:    WRITER <writer@relay>\nCommitter: Ann Lee <ann@example.com>\n" in told
    assert f"    Append a line to the notes (m{posted['number']})\n" in f"{told}\n"
    assert git(one.folder, "log", "--format=%s") == "change"
    if runs:
        said = await _relay(one, "worktrees", "discard", "WRITER", "--name", "ann")
        assert (
            f"ann discarded the work on {own_branch('writer', 'Ann Lee')}" in said
            and "refs/relay/kept/writer/" in said
        )
        assert (
            await _relay(one, "worktrees", "show", "WRITER")
        ).strip() == f"{own_branch('writer', 'Ann Lee')} changes nothing."
        # The command that the room names works as it is printed.
        [back] = re.findall(r"`(\S*relay worktrees restore WRITER[^`]*)`", said)
        assert "brought back" in await _relay(one, *shlex.split(back)[1:])
    await _relay(one, "worktrees", "merge", "WRITER", "--squash", "-m", "Note it", "-m", "In two files.")
    shown, _, trailers = git(one.folder, "log", "-1", "--format=%an|%cn|%B").partition("\n\nTimeWarp-")
    assert shown == "WRITER|Ann Lee|Note it\n\nIn two files."
    assert trailers.count("\nTimeWarp-") == 4
    assert (one.folder / "notes.md").read_text() == "one\ntwo\nmine\n"


async def test_a_branch_is_discarded_brought_back_and_merged_by_what_a_person_types(open_room: Open) -> None:
    one = await _with_git(open_room)
    posted = await one.post("@WRITER append a line")
    await one.reply_to(posted["id"], "WRITER")

    async def typed(line: str) -> str:
        return str((await one.reply_to((await one.post(line))["id"], "RELAY"))["body"])

    async def changes() -> str:
        return str((await one.get("/api/worktrees/WRITER/diff"))["diff"])

    # A line that proves nobody does none of it.
    for line in ("/merge @WRITER", "/discard @WRITER", "/restore @WRITER"):
        one.echo(f"[bob] {line}")
        guarded = await one.until_said(f"^{line}$", speaker="bob")
        assert "lifts a guard" in (await one.reply_to(guarded["id"], "RELAY"))["body"]
    assert await typed("/discard @writer") == "`/restore @WRITER` brings the work back."
    kept = re.search(
        r"kept in `(\S+)`", (await one.until_said("ann discarded the work", speaker="RELAY"))["body"]
    )
    assert kept and not await changes()
    assert "nothing" in await typed("/merge @WRITER")
    assert (
        await typed(f"/restore @WRITER {kept[1]}")
        == "`/discard @WRITER` takes the work off the branch again."
    )
    assert "+mine" in await changes()
    said = await typed("/merge @WRITER squash")
    assert (one.folder / "notes.md").read_text() == "one\ntwo\nmine\n"
    assert len(git(one.folder, "log", "-1", "--format=%P", "main").split()) == 1
    taken = await typed(re.sub(r"^`|` takes the merge back\.$", "", said))
    assert taken == "Once its branch has the work, `/land @WRITER` lands it again."
    assert (one.folder / "notes.md").read_text() == "one\ntwo\n"
    # What was done is told once, however it was ordered.
    said_once = [entry["body"] for entry in await one.entries() if entry["speaker"] == "RELAY"]
    for news in (
        "ann discarded the work",
        "ann brought back the work",
        "ann merged ",
        "ann took back the merge",
    ):
        assert sum(body.startswith(news) for body in said_once) == 1


async def test_a_message_is_written_in_the_persons_editor(
    open_room: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await _with_git(open_room)
    posted = await one.post("@WRITER append a line")
    await one.reply_to(posted["id"], "WRITER")
    editor = one.folder / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/^Merge.*/Mine: &/' \"$1\"\n")
    editor.chmod(0o755)
    for told in (str(editor), "false", "true && false"):
        monkeypatch.setenv("VISUAL", told)
        done = await one.relay("worktrees", "merge", "WRITER", "--edit")
        if told == str(editor):
            assert done.code == 0, done.all
            assert (
                git(one.folder, "log", "-1", "--format=%s")
                == f"Mine: Merge {own_branch('writer')}: Append a line (m{posted['number']})"
            )
            (one.folder / ".relay" / "worktrees" / "writer" / "more.md").write_text("x\n")
        else:
            assert done.code == 1 and "nothing was merged" in done.err
    assert (await one.relay("worktrees", "show", "WRITER", "-m", "x")).code == 2


async def test_the_command_says_what_to_do_once_and_in_words_of_a_terminal(open_room: Open) -> None:
    # Switched off, or it would be told at once that it is set back, in a turn of its own.
    one = await _with_git(open_room, airspace={"enabled": False})
    posted = await one.post("@WRITER append a line")
    await one.reply_to(posted["id"], "WRITER")
    commit(one.folder, {"notes.md": "one\ntwo\ntheirs\n"})
    done = await one.relay("worktrees", "merge", "WRITER")
    told = f"{done.out}{done.err}"
    assert done.code == 1 and "conflict in notes.md" in told and told.count("/update @WRITER") == 1
    done = await one.relay("worktrees", "merge", "NOBODY")
    assert done.code == 1 and "no worktree of NOBODY" in done.err
    assert "relay worktrees" in done.err and "/api/" not in done.err


async def test_without_a_repository_the_room_says_once_that_agents_only_read(open_room: Open) -> None:
    one = await open_room(agent("WRITER", "w.yaml"), files={"w.yaml": WRITES})
    said = await one.until_said("not in a git repository", speaker="RELAY")
    assert "only read" in said["body"]
    posted = await one.post("@WRITER append a line")
    await one.until_job(posted["id"], "WRITER", "dead")
    assert "not in a git" in (await one.get("/api/worktrees"))["trouble"]
    one.kill()
    await one.start()
    assert sum("only read" in entry["body"] for entry in await one.entries()) == 1


async def _relay(one: Outside, *words: str) -> str:
    done = await one.relay(*words)
    assert done.code == 0, done.all
    return done.out


MEETS = """
- match: RELAY
  say: "INTENT: none"
- match: "write"
  write: {notes.md: "one\\n{agent}\\n"}
  say: "Done."
"""


async def test_what_stood_before_a_restart_stands_after_it(open_room: Open) -> None:
    agents = [agent(name, "m.yaml") for name in ("DEE", "BEN")]
    one = await open_room(*agents, files={"m.yaml": MEETS}, start=False, airspace={"tick_s": 0.2})
    in_git(one.folder)
    await one.start()
    for name in ("DEE", "BEN"):
        await one.reply_to((await one.post(f"@{name} write"))["id"], name)

    async def standing() -> list[tuple[str, list[str]]]:
        found = (await one.get("/api/airspace/advisories"))["advisories"]
        return [(each["id"], each["steer"]) for each in found if each["level"] == "resolution"]

    await eventually(standing, "a resolution advisory")
    before = await standing()
    one.kill()
    await one.start()

    async def seen() -> bool:
        return bool((await one.get("/api/airspace"))["links"])

    await eventually(seen, "a look after the start")
    assert await standing() == before
    entries = await one.entries()
    assert not [entry for entry in entries if "apart again" in entry["body"]]

    # A person says what it was worth, by the message that told of it.
    told, other = (
        next(f"m{entry['number']}" for entry in entries if ("advisory" in entry["meta"]) is wanted)
        for wanted in (True, False)
    )

    async def marks() -> list[tuple[str | None, str | None]]:
        found = (await one.get("/api/airspace/advisories"))["advisories"]
        return [(each["mark"], each["marked_by"]) for each in found]

    async def typed(line: str) -> str:
        return str((await one.reply_to((await one.post(line))["id"], "RELAY"))["body"])

    assert (await typed(f"/mark {told} noise")).startswith("ann says that it is noise: ")
    assert await marks() == [("noise", "ann")]
    assert f"{other} is no advisory" in await typed(f"/mark {other} noise")
    one.echo(f"[bob] /mark {told} useful")
    forged = await one.until_said(f"^/mark {told} useful$", speaker="bob")
    assert "lifts a guard" in (await one.reply_to(forged["id"], "RELAY"))["body"]
    said = await one.relay("airspace", "mark", told, "useful", "--name", "bea")
    assert (said.code, await marks()) == (0, [("useful", "bea")]), said
    said = await one.relay("airspace", "mark", other, "useful")
    assert said.code == 1 and "no advisory" in said.err
    await typed(f"/mark {told} none")
    assert await marks() == [(None, None)]
