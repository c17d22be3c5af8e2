"""relay as git's merge driver, in real repositories; and `relay merge` on files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.app.merge import driver
from relay.app.merge.command import main
from relay.merge.text.git_text import STYLES, GitText, Hunk

BASE = "import os\n\nx = 1\n"
OURS = "import os\nimport abc\n\nx = 1\n"
THEIRS = "import os\nimport re\n\nx = 1\n"
MERGED = "import os\nimport abc\nimport re\n\nx = 1\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """git in a repository with two branches, `ours` and `theirs`, that add an import at one place."""
    folder = tmp_path / "codex"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "t")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "t@t")

    def git(*words: str, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode in ok, done.stderr + done.stdout
        return done.stdout

    git("init", "-q", "-b", "main")
    for branch, text in (("main", BASE), ("ours", OURS), ("theirs", THEIRS)):
        if branch != "main":
            git("checkout", "-q", "-b", branch, "main")
        Path("a.py").write_text(text)
        git("add", "a.py")
        git("commit", "-q", "-m", branch)
    git("checkout", "-q", "ours")
    return git


@pytest.mark.parametrize(
    "words", [("merge", "-q", "--no-edit", "theirs"), ("cherry-pick", "theirs"), ("rebase", "-q", "theirs")]
)
def test_driver(run: Callable[..., str], words: tuple[str, ...]) -> None:
    run(*words, ok=(1,))
    run(words[0], "--abort")
    assert main(["install"]) == 0
    run(*words)
    assert Path("a.py").read_text() == MERGED
    assert run("status", "--porcelain") == ""


def test_uninstalled_leaves_nothing(run: Callable[..., str]) -> None:
    attributes = Path(".git/info/attributes")
    before = run("config", "--local", "--list"), attributes.exists()
    assert main(["install"]) == 0 and main(["install"]) == 0
    assert attributes.read_text().count("merge=relay") == 1
    assert main(["uninstall"]) == 0
    assert (run("config", "--local", "--list"), attributes.exists()) == before
    attributes.write_text("*.x -text\n")
    assert main(["install"]) == 0 and main(["uninstall"]) == 0
    assert attributes.read_text() == "*.x -text\n"


def test_installed_for_all(run: Callable[..., str], tmp_path: Path) -> None:
    assert main(["install", "--global"]) == 0
    run("merge", "-q", "--no-edit", "theirs")
    assert Path("a.py").read_text() == MERGED
    assert main(["uninstall", "--global"]) == 0
    assert not (tmp_path / "xdg" / "git" / "attributes").exists()
    assert "relay" not in run("config", "--list")


def test_what_the_repository_says_of_merging_stands(run: Callable[..., str]) -> None:
    Path("sub").mkdir()
    Path(".gitattributes").write_text("*.lock merge=union\n*.png binary\n")
    Path("sub/.gitattributes").write_text("a.txt -merge\n")
    run("add", "-A")
    run("commit", "-q", "-m", "attributes")
    assert main(["install"]) == 0
    asked = run("check-attr", "merge", "x.lock", "b.png", "sub/a.txt", "a.py").splitlines()
    assert asked == [
        "x.lock: merge: union",
        "b.png: merge: unset",
        "sub/a.txt: merge: unset",
        "a.py: merge: relay",
    ]


def test_a_conflict_is_left_to_git_and_rerere(run: Callable[..., str]) -> None:
    run("config", "rerere.enabled", "true")
    for branch, value in (("ours", 2), ("theirs", 3)):
        run("checkout", "-q", branch)
        Path("a.py").write_text(Path("a.py").read_text().replace("x = 1", f"x = {value}"))
        run("commit", "-q", "-am", "a value")
    run("checkout", "-q", "ours")
    assert main(["install"]) == 0
    run("merge", "-q", "--no-edit", "theirs", ok=(1,))
    assert "UU a.py" in run("status", "--porcelain")
    text = Path("a.py").read_text()
    conflict = text.removeprefix("import os\nimport abc\nimport re\n\n")
    assert [line[:7] for line in conflict.splitlines()] == ["<<<<<<<", "x = 2", "=======", "x = 3", ">>>>>>>"]
    Path("a.py").write_text(MERGED.replace("x = 1", "x = 4"))
    run("commit", "-q", "-am", "settled")
    run("reset", "-q", "--hard", "HEAD~1")
    run("merge", "-q", "--no-edit", "theirs", ok=(1,))
    assert Path("a.py").read_text() == MERGED.replace("x = 1", "x = 4")


def test_a_crash_and_a_timeout_give_gits_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object) -> tuple[bytes, bool]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def sleep(*_: object) -> tuple[bytes, bool]:
        subprocess.run(["sleep", "60"], check=False)
        raise AssertionError

    for broken in (crash, sleep):
        monkeypatch.setattr(driver, "_merged", broken)
        names = [str(tmp_path / name) for name in ("base", "ours", "theirs")]
        for name, text in zip(names, (BASE, OURS, THEIRS), strict=True):
            Path(name).write_text(text)
        assert driver.main([*names, "7", "a.py", "--timeout-ms", "300"]) == 1
        assert Path(names[1]).read_text() == (
            "import os\n<<<<<<< ours\nimport abc\n=======\nimport re\n>>>>>>> theirs\n\nx = 1\n"
        )
        assert "a.py: relay took too long or failed; this is git's own merge" in capfd.readouterr().err


def test_binary_files_are_left_as_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / name) for name in ("base", "ours", "theirs")]
    for name, data in zip(names, (b"\0a", b"\0b", b"\0c"), strict=True):
        Path(name).write_bytes(data)
    assert driver.main([*names, "7", "a.png"]) == 1
    assert Path(names[1]).read_bytes() == b"\0b"
    assert capfd.readouterr().err == "relay merge: a.png: both changed a binary file; ours stands there\n"
    assert main([*names, "--path", "a.png", "-o", str(tmp_path / "out")]) == 1
    assert capfd.readouterr().err == "a.png: both changed a binary file; ours stands there\n"
    assert (tmp_path / "out").read_bytes() == b"\0b"


#: Both add lines of which some are alike, around a line that both change.
_SIDES = {
    "main": "one\ntwo\nx = 1\nthree\nfour\nfive\nsix\n",
    "ours": "one\ntwo\nfirst\nx = 2\nlast\nthree\nfour\nfive\nsix\n",
    "theirs": "one\ntwo\nfirst\nx = 3\nlast\nthree\nfour\nfive\nsix\n",
}


@pytest.mark.parametrize("style", ["", *STYLES])
@pytest.mark.parametrize("name", ["b.txt", "b.py"])
def test_conflicts_are_shown_as_git_shows_them(run: Callable[..., str], style: str, name: str) -> None:
    if style:
        run("config", "merge.conflictStyle", style)
    for branch, text in _SIDES.items():
        run("checkout", "-q", branch)
        Path(name).write_text(text)
        run("add", name)
        run("commit", "-q", "-m", "b")
        if branch == "main":
            for other in ("ours", "theirs"):
                run("checkout", "-q", other)
                run("merge", "-q", "main")
    run("checkout", "-q", "ours")
    shown = []
    for action in ("uninstall", "install"):
        assert main([action]) == 0
        run("merge", "-q", "theirs", ok=(1,))
        shown.append([re.sub(r"^([<|>]{7}) .*", r"\1", line) for line in Path(name).read_text().splitlines()])
        run("merge", "--abort")
    if style == "diff3" and name == "b.py":  # relay's conflict has the lines out of it that both added alike
        inside = ["<<<<<<<", "x = 2", "|||||||", "x = 1", "=======", "x = 3", ">>>>>>>"]
        assert shown[1] == ["one", "two", "first", *inside, "last", "three", "four", "five", "six"]
    else:
        assert shown[0] == shown[1]
    assert ("|||||||" in shown[1]) == (style in ("diff3", "zdiff3"))


def test_a_conflict_that_git_did_not_find_is_shown_in_the_style(git: GitText) -> None:
    hunk = Hunk(None, b"x = 1\n", b"first\nx = 2\nlast\n", b"first\nx = 3\nlast\n")
    assert git.shown(hunk, "diff3") == (hunk,)
    one, bare = Hunk(None, b"x = 1\n", b"x = 2\n", b"x = 3\n"), Hunk(None, b"", b"x = 2\n", b"x = 3\n")
    assert git.shown(hunk, "zdiff3") == (Hunk(b"first\n"), one, Hunk(b"last\n"))
    assert git.shown(hunk, "merge") == (Hunk(b"first\n"), bare, Hunk(b"last\n"))
    for alike in (Hunk(None, b"x\n", b"y\n", b"y\n"), Hunk(None, b"x\n", b"", b"y\n")):
        assert [git.shown(alike, style) for style in STYLES] == [(alike,)] * 3


def test_labels_are_gits_where_git_gives_them() -> None:
    given = driver.labels_of(["5f3c2a1", "HEAD", "side branch"], 9, "diff3")
    assert (given.base, given.ours, given.theirs, given.size) == ("5f3c2a1", "HEAD", "side branch", 9)
    for older in (["%S", "%X", "%Y"], []):
        left = driver.labels_of(older, 7, "merge")
        assert (left.base, left.ours, left.theirs) == ("base", "ours", "theirs")


def test_git_gives_the_labels(run: Callable[..., str]) -> None:
    """Of this git: its own words where it has them (2.44), and relay's where it leaves the signs as they are."""
    version = tuple(map(int, re.findall(r"[0-9]+", run("--version"))[:2]))
    for branch, value in (("ours", 2), ("theirs", 3)):
        run("checkout", "-q", branch)
        Path("a.py").write_text(Path("a.py").read_text().replace("x = 1", f"x = {value}"))
        run("commit", "-q", "-am", "a value")
    run("checkout", "-q", "ours")
    assert main(["install"]) == 0
    run("merge", "-q", "theirs", ok=(1,))
    assert f"<<<<<<< {'HEAD' if version >= (2, 44) else 'ours'}\n" in Path("a.py").read_text()


def test_what_was_joined_is_told(run: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["install"]) == 0
    said = capfd.readouterr().out
    assert "install again when that changes" in said
    done = subprocess.run(["git", "merge", "--no-edit", "theirs"], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["relay merge: joined a.py by imports"]
    run("reset", "-q", "--hard", "HEAD~1")
    for branch, value in (("ours", 2), ("theirs", 3)):
        run("checkout", "-q", branch)
        Path("a.py").write_text(Path("a.py").read_text().replace("x = 1", f"x = {value}"))
        run("commit", "-q", "-am", "a value")
    done = subprocess.run(["git", "merge", "--no-edit", "ours"], capture_output=True, text=True, check=False)
    assert "relay merge: joined parts of a.py by imports; 1 conflict left" in done.stderr.splitlines()


def test_a_path_that_looks_like_an_option(run: Callable[..., str]) -> None:
    for branch in ("main", "ours", "theirs"):
        run("checkout", "-q", branch)
        run("mv", "--", "a.py", "./-a.py")
        run("commit", "-q", "-am", "move")
    run("checkout", "-q", "ours")
    assert main(["install"]) == 0
    run("merge", "-q", "--no-edit", "theirs")
    assert Path("-a.py").read_text() == MERGED


def test_three_files(run: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    for name, text in (("o", BASE), ("a", OURS), ("b", THEIRS), ("c", BASE.replace("1", "2"))):
        Path(name).write_text(text)
    assert main(["o", "a", "b", "--path", "a.py"]) == 0
    assert capfd.readouterr().out == MERGED
    assert main(["o", "a", "b", "--path", "a.py", "-o", "out", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["status"], answer["by"], Path("out").read_text()) == ("merged", "imports", MERGED)
    Path("d").write_text(BASE.replace("1", "3"))
    assert main(["o", "c", "d", "--path", "a.py"]) == 1
    assert capfd.readouterr().out == (
        "import os\n\n<<<<<<< c\nx = 2\n||||||| o\nx = 1\n=======\nx = 3\n>>>>>>> d\n"
    )


def test_wrong_use_writes_nothing(run: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["a.py", "a.py", "missing", "-o", "out"]) == 2
    assert "missing cannot be read" in capfd.readouterr().err
    assert main(["a.py", "-o", "out"]) == 2
    assert main([]) == 2
    for wrong in (
        ["--what"],
        ["a.py", "a.py", "a.py", "--timeout-ms", "0"],
        ["--timeout-ms", "-1", "--batch", "x"],
    ):
        with pytest.raises(SystemExit) as raised:
            main([*wrong, "-o", "out"])
        assert (raised.value.code, Path("out").exists()) == (2, False)
    assert "'0': give whole milliseconds, from 1 to 600000" in capfd.readouterr().err


def test_batch(run: Callable[..., str], capfd: pytest.CaptureFixture[str]) -> None:
    for name, text in (("o", BASE), ("a", OURS), ("b", THEIRS)):
        Path(name).write_text(text)
    lines = [
        {"id": 1, "base": "o", "ours": "a", "theirs": "b", "path": "x.py", "out": "out"},
        {"id": 2, "base": "o", "ours": "gone", "theirs": "b", "path": "x.py"},
        {"id": 3, "base": "o", "ours": "o", "theirs": "b", "path": "x.py"},
    ]
    Path("batch").write_text("\n".join(map(json.dumps, lines)) + "\n{no\n")
    assert main(["--batch", "batch"]) == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(answer["id"], answer["status"], answer["by"]) for answer in answers] == [
        (1, "merged", "imports"),
        (2, "error", None),
        (3, "merged", "trivial"),
        (None, "error", None),
    ]
    assert Path("out").read_text() == MERGED


def test_batch_from_standard_input(run: Callable[..., str]) -> None:
    for name, text in (("o", BASE), ("a", OURS), ("b", THEIRS)):
        Path(name).write_text(text)
    words = [sys.executable, "-m", "relay.cli", "merge", "--batch", "-"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asked:
        assert asked.stdin is not None and asked.stdout is not None
        for id in (1, 2):
            asked.stdin.write(json.dumps({"id": id, "base": "o", "ours": "a", "theirs": "b", "path": "x.py"}))
            asked.stdin.write("\n")
            asked.stdin.flush()
            answer = json.loads(asked.stdout.readline())  # before the input ends
            assert (answer["id"], answer["status"]) == (id, "merged")
        asked.stdin.close()
        assert asked.wait() == 0
