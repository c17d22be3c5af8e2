"""`relay merge check` in real repositories: four levels, with and without a configuration."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.app.merge import check
from relay.app.wiring.schema import SCHEMAS
from relay.config.loading import load
from relay.config.settings import LiveSettings
from relay.faces.merge_look import MergeLook
from relay.log.events import Lane
from relay.model import Caller, Refusal
from relay.model.touches import Kind, Source, Touch
from relay.store.open import opened_store
from relay.timeline.file_changes import record_changes
from tests.git.repository import git, own_branch, repository

PRICE = """def total(items, rate):
    amount = 0
    for item in items:
        amount += item
    return amount * rate
"""
SHOWN = "from price import total\n\n\ndef shown(items):\n    return str(total(items, 2))\n"
TEST = "import price, sys\nsys.exit(0 if price.limit() <= price.most() else 1)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    files: dict[str, str | bytes] = {"price.py": PRICE, "shown.py": SHOWN, "notes.txt": "one\ntwo\nthree\n"}
    return repository(tmp_path / "repo", files)


def commit(repo: Path, branch: str, files: dict[str, str | None]) -> None:
    """A commit on a branch, which starts from main where it is not there."""
    if branch != "main":
        git(repo, "checkout", "-q", "-B", branch, "main")
    for name, text in files.items():
        if text is None:
            (repo / name).unlink()
        else:
            (repo / name).write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", branch)
    git(repo, "checkout", "-q", "main")


def checked(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = check.main([*argv, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else {}


def test_levels_1_to_3(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = PRICE.replace("items, rate", "items, tax, rate").replace("amount * rate", "amount * rate * tax")
    commit(repo, "a", {"price.py": a, "shown.py": SHOWN.replace("items, 2", "items, 1, 2")})
    report = "from price import total\n\n\ndef report(items):\n    return total(items, 3)\n"
    commit(
        repo, "b", {"price.py": PRICE.replace("amount * rate", "round(amount * rate)"), "report.py": report}
    )
    code, found = checked(capsys, "a", "b", "--repo", str(repo))
    assert code == 1 and found["not_run"] == [4]
    assert [one["level"] for one in found["conflicts"]] == [2, 3, 1, 3]  # the worst first
    by_level = {one["level"]: one for one in reversed(found["conflicts"])}
    base = git(repo, "rev-parse", "main")
    assert {one["base"] for one in found["conflicts"]} == {base}
    assert (by_level[1]["path"], by_level[1]["entity"]) == ("price.py", None)
    assert by_level[1]["a"]["after"] == git(repo, "rev-parse", "a:price.py")
    assert (by_level[2]["kind"], by_level[2]["severity"]) == ("signature_changed", "critical")
    third = by_level[3]
    assert (third["kind"], third["path"], third["entity"]) == ("signature_and_call", "price.py", "total")
    assert "report (report.py:4-5)" in third["evidence"][1] and "does not give rate" in third["evidence"][0]
    assert third["a"]["before"] == PRICE.rstrip("\n") and "total(items, 3)" in third["b"]["after"]
    assert all(one["state"] == "open" and one["a"]["lane"] is None for one in found["conflicts"])

    said = [line for one in found["conflicts"] for line in one["evidence"]]
    assert any(line.startswith(("a ", "b ")) for line in said)
    assert not any(line.startswith(("A ", "B ")) for line in said)

    code, only = checked(capsys, "b", "a", "--repo", str(repo), "--level", "3")
    assert code == 1 and only["not_run"] == []
    mirrored, other = only["conflicts"]
    assert (other["kind"], other["severity"]) == ("behaviour_and_call", "medium")
    assert (mirrored["b"]["before"], mirrored["id"]) == (third["a"]["before"], third["id"])
    assert check.main(["a", "b", "--repo", str(repo), "--level", "1-2"]) == 1
    shown = capsys.readouterr().out
    assert "level 2, critical: signature_changed, price.py total" in shown
    assert "2 conflicts on level 1, 2." in shown
    assert check.main(["a", "b", "--repo", str(repo), "--level", "1"]) == 1
    assert "1 conflict on level 1." in capsys.readouterr().out


def test_none_and_wrong_use(repo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    commit(repo, "a", {"notes.txt": "one\ntwo\nfour\n"})
    commit(repo, "b", {"other.py": "def other():\n    return 1\n"})
    assert checked(capsys, "a", "b", "--repo", str(repo)) == (
        0,
        {"conflicts": [], "not_run": [4], "why_not": {"4": "no command is configured: set merge.test"}},
    )
    assert check.main(["a", "b", "--repo", str(repo)]) == 0
    assert "level 4 was not run: no command" in capsys.readouterr().out
    assert check.main(["a", "nowhere", "--repo", str(repo)]) == 2
    assert "nowhere is no branch, commit or agent" in capsys.readouterr().err
    assert check.main(["a", "b", "--repo", str(tmp_path / "none")]) == 2
    git(repo, "checkout", "-q", "--orphan", "alone")
    git(repo, "commit", "-q", "-m", "alone", "--allow-empty")
    assert check.main(["a", "alone", "--repo", str(repo)]) == 2
    assert "no common history" in capsys.readouterr().err
    for words in (["a"], ["a", "b", "--level", "5"], ["a", "b", "--level", "3-2"], ["a", "b", "--what"]):
        with pytest.raises(SystemExit) as ended:
            check.main(words)
        assert ended.value.code == 2


def together(repo: Path) -> None:
    """Two branches, each right alone: a limit, and how much there may be."""
    base = "def limit():\n    return 5\n\n\n# far\n# apart\n# lines\n\n\ndef most():\n    return 10\n"
    commit(repo, "main", {"price.py": base, "check.py": TEST})
    commit(repo, "a", {"price.py": base.replace("return 5", "return 9")})
    commit(repo, "b", {"price.py": base.replace("return 10", "return 7")})


def configured(repo: Path, *argv: str, timeout_s: float = 60) -> str:
    """A configuration outside of the repository."""
    path = repo.parent / "relay.json"
    merge = {"test": list(argv), "test_timeout_s": timeout_s}
    path.write_text(json.dumps({"agents": [], "workspace": {"repo": str(repo)}, "merge": merge}))
    return str(path)


def test_l4_without_command_not_run(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    together(repo)
    code, found = checked(capsys, "a", "b", "--repo", str(repo), "--level", "4")
    assert (code, found["conflicts"], found["not_run"]) == (0, [], [4])
    assert check.main(["a", "b", "--config", configured(repo), "--level", "4"]) == 0
    assert "level 4 was not run: no command is configured" in capsys.readouterr().out


def test_l4_finds_what_only_the_merged_tree_fails(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    together(repo)
    config = configured(repo, sys.executable, "check.py")
    code, found = checked(capsys, "a", "b", "--config", config)
    assert code == 1 and found["not_run"] == []
    (conflict,) = found["conflicts"]
    assert (conflict["level"], conflict["kind"], conflict["path"]) == (4, "tests_fail_together", None)
    assert conflict["a"]["after"] == git(repo, "rev-parse", "a")
    assert checked(capsys, "main", "b", "--config", config)[0] == 0
    # What fails on one side alone is no conflict of the two.
    commit(repo, "c", {"check.py": "raise SystemExit(3)\n"})
    assert checked(capsys, "a", "c", "--config", config, "--level", "4") == (
        0,
        {"conflicts": [], "not_run": [], "why_not": {}},
    )
    commits = git(repo, "rev-list", "--all", "--count")
    assert (commits, git(repo, "status", "--porcelain")) == ("5", "")


def test_l4_that_cannot_end_or_start_was_not_run(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    together(repo)
    slow = configured(repo, sys.executable, "-c", "import time; time.sleep(60)", timeout_s=1)
    code, found = checked(capsys, "a", "b", "--config", slow, "--level", "4")
    assert (code, found["not_run"]) == (0, [4]) and "ended after 1 s" in found["why_not"]["4"]
    _, found = checked(capsys, "a", "b", "--config", configured(repo, "no-such-program"), "--level", "4")
    assert found["not_run"] == [4] and "no program" in found["why_not"]["4"]
    commit(repo, "c", {"price.py": "def limit():\n    return 1\n"})
    _, found = checked(capsys, "a", "c", "--config", slow, "--level", "4")
    assert found["not_run"] == [4] and "cannot merge" in found["why_not"]["4"]


def test_a_room_says_whose_work_it_is(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By an agent's name or branch; its last recorded write of the file stands on its side."""
    claude, codex = own_branch("CLAUDE"), own_branch("CODEX")
    commit(repo, claude, {"price.py": PRICE.replace("amount = 0", "amount = 1")})
    commit(repo, codex, {"price.py": PRICE.replace("amount += item", "amount += item or 0")})
    path = repo.parent / "relay.json"
    agents = [{"name": name, "cmd": "cat"} for name in ("CLAUDE", "CODEX")]
    path.write_text(json.dumps({"agents": agents, "workspace": {"repo": str(repo)}}))
    lane = Lane("s1", "CLAUDE")

    async def record() -> str:
        async with opened_store(load(path), SCHEMAS) as store:
            touch = Touch("price.py", "1", "2", Kind.WRITE)
            event = await store.write(
                lambda tx: record_changes(
                    tx, lane, [touch], source=Source.TREE, before="t", after="u", worktree="CLAUDE"
                )
            )
            assert event is not None
            return event.id

    assert (
        checked(capsys, "CLAUDE", "codex", "--config", str(path), "--level", "2")[0] == 1
    )  # no room has run
    event = asyncio.run(record())
    for names in (("CLAUDE", "codex"), (claude, codex)):
        code, found = checked(capsys, *names, "--config", str(path), "--level", "2")
        (conflict,) = found["conflicts"]
        assert (code, conflict["kind"]) == (1, "both_changed")
        assert (conflict["a"]["lane"], conflict["a"]["event"]) == (lane.key, event)
        assert (conflict["b"]["lane"], conflict["b"]["event"]) == (None, None)


async def test_the_tool_answers_as_the_command(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    together(repo)
    path = configured(repo, sys.executable, "check.py")
    look: Any = MergeLook(None, LiveSettings(load(Path(path))))  # type: ignore[arg-type]
    for level in (None, "1-3"):
        words = ["--level", level] if level else []
        said = await look.check(Caller("BOT", "s1"), "a", "b", level)
        code, told = await asyncio.to_thread(checked, capsys, "a", "b", "--config", path, *words)
        assert said == told and bool(told["conflicts"]) == (level is None) == bool(code)
    for a in ("nowhere", "-o", "--repo=/"):
        with pytest.raises(Refusal, match=r"is no branch, commit or agent here") as refused:
            await look.check(Caller("BOT", "s1"), a, "b", None)
        assert refused.value.code == "not_found"
