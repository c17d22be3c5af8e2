"""`relay attach` and `relay detach` on a repository: what they show and write, and that every byte comes back."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from pathlib import Path

import pytest

from relay.app.attach.hook_files import CannotEdit, entries, with_entries, without_entries
from tests.git.repository import git
from tests.outside import Outside, room, settings

SETTINGS = ".claude/settings.local.json"
OWN = """{
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}
}
"""


@pytest.fixture
async def one(tmp_path: Path) -> Outside:
    async with room(tmp_path / "code", settings()) as made:
        made.env["CODEX_HOME"] = str(tmp_path / "codex")  # and not the tester's own
        git(made.folder, "init", "-q", "-b", "main")
        git(made.folder, "config", "user.name", "Ada")
        git(made.folder, "config", "user.email", "ada@example.org")
        git(made.folder, "add", "echo.yaml")
        git(made.folder, "commit", "-qm", "first")
        return made


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Each file of the checkout and of git's info, but for the room's own."""
    files = [
        path for path in folder.rglob("*") if path.is_file() and not {".relay", ".venv"} & set(path.parts)
    ]
    kept = [path for path in files if ".git" not in path.parts or path.parent.name == "info"]
    return {str(path): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in kept}


async def test_it_shows_the_change_asks_and_undoes_it_byte_for_byte(one: Outside) -> None:
    before = state(one.folder)
    shown = await one.relay("attach", "claude", "--dry-run")
    assert (shown.code, state(one.folder)) == (0, before)
    assert '+    "SessionStart": [' in shown.out
    asked = await one.relay("attach", "claude")
    assert (asked.code, state(one.folder)) == (1, before)
    assert "--yes" in asked.err

    done = await one.relay("attach", "claude", "--yes")
    assert done.code == 0, done.all
    hooks = json.loads((one.folder / SETTINGS).read_text())["hooks"]
    assert set(hooks) == {
        *(
            "SessionStart",
            "SessionEnd",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolBatch",
            "Stop",
            "Notification",
        )
    }
    assert SETTINGS not in git(one.folder, "status", "--porcelain", "-uall")
    after = state(one.folder)
    again = await one.relay("attach", "claude", "--yes")
    assert (again.code, state(one.folder)) == (0, after)
    assert "attached already" in again.out

    undone = await one.relay("detach")
    assert undone.code == 0, undone.all
    assert state(one.folder) == before
    assert not (one.folder / ".claude").exists()
    assert "not attached" in (await one.relay("detach")).out


async def test_what_stands_there_stays_and_comes_back(one: Outside) -> None:
    path = one.folder / SETTINGS
    path.parent.mkdir()
    path.write_text(OWN)
    path.chmod(0o640)
    before = state(one.folder)
    await one.relay("attach", "claude", "codex", "--yes")
    tree = json.loads(path.read_text())
    assert tree["permissions"] == {"allow": ["Bash(ls)"]}
    assert tree["hooks"]["Stop"][0] == {"hooks": [{"type": "command", "command": "mine"}]}
    assert (one.folder / ".codex/hooks.json").exists()
    await one.relay("detach")
    assert state(one.folder) == before


async def test_of_a_file_that_its_person_changed_only_ours_is_taken_out(one: Outside) -> None:
    await one.relay("attach", "claude", "--yes")
    path = one.folder / SETTINGS
    tree = json.loads(path.read_text())
    tree["model"] = "opus"
    path.write_text(json.dumps(tree, indent=4))
    undone = await one.relay("detach")
    assert "only relay's entries were taken out" in undone.out
    assert json.loads(path.read_text()) == {"model": "opus"}


async def test_what_was_changed_between_two_calls_comes_back_too(one: Outside) -> None:
    path = one.folder / SETTINGS
    path.parent.mkdir()
    path.write_text(OWN)
    await one.relay("attach", "claude", "--yes")
    path.write_text(
        path.read_text().replace("Bash(ls)", "Bash(cat)").replace(" session --format", " session  --format")
    )
    # Its person changed the file, and our entries are not what they were: the next call puts them right.
    path.write_text(path.read_text().replace(" session  --format", " session --old 1 --format"))
    assert (await one.relay("attach", "claude", "--yes")).code == 0
    await one.relay("detach")
    assert json.loads(path.read_text()) == json.loads(OWN.replace("Bash(ls)", "Bash(cat)"))


async def test_a_tracked_file_and_one_with_comments_are_left_alone(one: Outside) -> None:
    path = one.folder / SETTINGS
    path.parent.mkdir()
    path.write_text("{// mine\n}")
    refused = await one.relay("attach", "claude", "--yes")
    assert refused.code == 1
    assert "no" in refused.err and path.read_text() == "{// mine\n}"
    path.write_text("{}")
    git(one.folder, "add", "-f", SETTINGS)
    tracked = await one.relay("attach", "claude", "--yes")
    assert tracked.code == 1
    assert "git tracks it" in tracked.err


async def test_two_checkouts_share_the_excluded_line_until_the_last_is_detached(one: Outside) -> None:
    exclude = one.folder / ".git/info/exclude"
    before = exclude.read_bytes()
    git(one.folder, "worktree", "add", "-q", "../other")
    other = one.folder.parent / "other"

    async def there(word: str, *words: str) -> None:
        relay = (sys.executable, "-m", "relay.cli", word, "--config", str(one.path), *words)
        process = await asyncio.create_subprocess_exec(*relay, cwd=other, env=one.environ())
        assert await process.wait() == 0

    await one.relay("attach", "claude", "--yes")
    await there("attach", "claude", "--yes")
    await one.relay("detach")
    assert b"settings.local.json" in exclude.read_bytes()
    await there("detach")
    assert exclude.read_bytes() == before


async def test_many_at_once_leave_one_entry(one: Outside) -> None:
    before = state(one.folder)
    await asyncio.gather(*(one.relay("attach", "claude", "--yes") for _ in range(4)))
    hooks = json.loads((one.folder / SETTINGS).read_text())["hooks"]
    assert [len(groups) for groups in hooks.values()] == [1] * 7
    await asyncio.gather(*(one.relay("detach") for _ in range(3)))
    assert state(one.folder) == before


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_entries_are_put_once_and_taken_out_whole(program: str) -> None:
    wanted = entries(program, Path("/room/config.json"))
    for text in ("", "{}", OWN, '{"hooks": {}}', '{"hooks":{"PreToolUse":[{"matcher":"X","hooks":[]}]}}'):
        once = with_entries(text, wanted)
        assert with_entries(once, wanted) == once
        left = json.loads(without_entries(once))
        plain = json.loads(text or "{}")
        assert left == plain or left == {key: value for key, value in plain.items() if value}
    for broken in ("[]", "{", '{"hooks": 3}', '{"hooks": {"Stop": {}}}'):
        with pytest.raises(CannotEdit):
            with_entries(broken, wanted)
