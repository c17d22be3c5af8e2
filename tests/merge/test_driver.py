"""relay as git's merge driver, in real repositories; and `relay merge` on files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.app.merge import driver
from relay.app.merge.command import main

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
    assert text.startswith("import os\nimport abc\nimport re\n\n<<<<<<< ours\nx = 2\n|||||||")
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
            "import os\n<<<<<<< ours\nimport abc\n||||||| base\n=======\nimport re\n>>>>>>> theirs\n\nx = 1\n"
        )


def test_binary_files_are_left_as_ours(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("base", "ours", "theirs")]
    for name, data in zip(names, (b"\0a", b"\0b", b"\0c"), strict=True):
        Path(name).write_bytes(data)
    assert driver.main([*names, "7", "a.png"]) == 1
    assert Path(names[1]).read_bytes() == b"\0b"


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
    with pytest.raises(SystemExit) as raised:
        main(["--what"])
    assert (raised.value.code, Path("out").exists()) == (2, False)


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
