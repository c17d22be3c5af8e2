"""git as relay calls it: nothing of a repository runs, and nothing outlives its call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from relay.git.checkout import Head, head_of
from relay.git.run import Git, GitError
from tests.git.repository import commit, git, lines, repository, room, write

HOOKS = (
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "push-to-checkout",
)


def set_traps(repo: Path, marker: Path) -> None:
    """Everything in a repository that git would run, each leaving its name in the folder `marker`."""
    marker.mkdir()
    hooks = marker.parent / "hooks"
    hooks.mkdir()
    for name in HOOKS:
        hook = hooks / name
        hook.write_text(f"#!/bin/sh\ntouch {marker}/hook-{name}\n")
        hook.chmod(0o755)
        real = repo / ".git" / "hooks" / name
        real.parent.mkdir(exist_ok=True)
        real.write_text(hook.read_text())
        real.chmod(0o755)

    def trap(name: str) -> str:
        script = marker.parent / f"trap-{name}"
        script.write_text(f"#!/bin/sh\ntouch {marker}/{name}\ncat\n")
        script.chmod(0o755)
        return str(script)

    for key, value in {
        "core.hooksPath": str(hooks),
        "core.fsmonitor": trap("fsmonitor"),
        "core.pager": trap("pager"),
        "core.editor": trap("editor"),
        "core.sshCommand": trap("ssh"),
        "core.askPass": trap("askpass"),
        "core.gitProxy": trap("proxy"),
        "core.alternateRefsCommand": trap("alternates"),
        "diff.external": trap("external-diff"),
        "diff.evil.command": trap("diff-command"),
        "diff.evil.textconv": trap("textconv"),
        "filter.evil.clean": trap("clean"),
        "filter.evil.smudge": trap("smudge"),
        "filter.evil.process": trap("process"),
        "filter.evil.required": "true",
        "merge.evil.driver": trap("merge-driver") + " %O %A %B",
        "merge.default": "evil",
        "commit.gpgSign": "true",
        "gpg.program": trap("gpg"),
        "log.showSignature": "true",
        "credential.helper": trap("credential"),
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{trap('transport')}",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "alias.status": "!" + trap("alias"),
        "gc.auto": "1",
        "interactive.diffFilter": trap("diff-filter"),
        "submodule.recurse": "true",
    }.items():
        git(repo, "config", key, value)


async def test_nothing_of_a_hostile_repository_runs(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"a.py": lines(1, 30), "b.py": lines(1, 9)})
    inner = repository(tmp_path / "inner")
    git(repo, "submodule", "--quiet", "add", str(inner), "sub")
    commit(repo, {".gitattributes": "*.py filter=evil diff=evil merge=evil\n"}, "attributes")
    marker = tmp_path / "ran"
    set_traps(repo, marker)
    sub = tmp_path / "repo" / ".git" / "modules" / "sub"
    git(repo / "sub", "config", "core.fsmonitor", str(tmp_path / "trap-fsmonitor"))
    assert sub.is_dir()
    checkouts = [{"name": "ANN", "path": str(repo)}]
    one = await room(repo, "CLAUDE", "CODEX", workspace={"checkouts": checkouts})
    assert one.registry.trouble == "" and one.registry.troubles == {}
    claude, codex = one.at("CLAUDE"), one.at("CODEX")
    write(claude, {"a.py": lines(1, 29) + "claude\n", "new.py": "x\n"})
    write(codex, {"a.py": "codex\n" + lines(2, 30)})
    write(repo, {"b.py": lines(1, 8) + "ann\n", "sub/a.py": "changed\n"})
    for name in one.registry.worktrees:
        one.registry.worktrees[name].mark_stale(["a.py", "new.py", "b.py", "sub/a.py"])
    await one.registry.refresh()
    sets = await one.look()
    assert {name: sorted(file.path for file in each.files) for name, each in sets.items()} == {
        "CLAUDE": ["a.py", "new.py"],
        "CODEX": ["a.py"],
        "ANN": ["b.py"],
    }
    merges = await one.merges([("CLAUDE", "CODEX"), ("CLAUDE", "ANN")])
    assert all(merge.clean for merge in merges.values()) and len(merges) == 2
    place = await one.turns.before_turn("CLAUDE")
    assert place is not None and place.cwd == claude
    assert (await one.turns.after_turn("CLAUDE")) is None
    with pytest.raises(Exception, match="git filter"):
        await one.actions.merge("CLAUDE", "Bob")
    removed = await one.actions.remove("CODEX", "Bob")
    assert removed["kept"]
    assert sorted(one.name for one in marker.iterdir()) == []
    # The traps are armed: a plain git falls into them.
    (repo / "a.py").write_text("x\n")
    with suppress(subprocess.CalledProcessError):  # it falls over its own filter
        git(repo, "add", "a.py")
    assert {"fsmonitor", "process"} <= {one.name for one in marker.iterdir()}


async def test_a_hostile_merge_runs_nothing(tmp_path: Path) -> None:
    """Without filters a merge goes through, past every hook."""
    repo = repository(tmp_path / "repo", {"a.py": lines(1, 30)})
    commit(repo, {".gitattributes": "*.py diff=evil merge=evil\n"}, "attributes")
    marker = tmp_path / "ran"
    set_traps(repo, marker)
    one = await room(repo, "CLAUDE")
    write(one.at("CLAUDE"), {"a.py": lines(1, 29) + "claude\n"})
    done = await one.actions.merge("CLAUDE", "Bob")
    assert done["success"]
    assert (repo / "a.py").read_text().endswith("claude\n")
    assert sorted(one.name for one in marker.iterdir()) == []


@pytest.fixture
def slow_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that starts a process and hangs; the file has both of their ids once it does."""
    bin = tmp_path / "bin"
    bin.mkdir()
    slow = bin / "git"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 600 &\necho $! >> {tmp_path}/pid\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    return tmp_path / "pid"


def _hangs(pids: Path) -> bool:
    return pids.exists() and len(pids.read_text().split()) == 2


async def test_a_call_has_a_limit_of_time_and_leaves_no_process(tmp_path: Path, slow_git: Path) -> None:
    call = asyncio.create_task(Git(tmp_path).run("status", timeout_s=1.0))
    while not _hangs(slow_git) and not call.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    with pytest.raises(GitError, match="timed out after"):
        await call
    await _all_gone(slow_git)
    call = asyncio.create_task(Git(tmp_path).run("status"))
    while not _hangs(slow_git):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _all_gone(slow_git)


async def test_a_call_that_is_cancelled_while_git_starts_leaves_no_process(
    tmp_path: Path, slow_git: Path
) -> None:
    call = asyncio.create_task(Git(tmp_path).run("status"))
    for _ in range(2):
        await asyncio.sleep(0)
    while not _hangs(slow_git):
        time.sleep(0.01)  # noqa: ASYNC251 - so that the loop has not taken git's pipes by then
    call.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await call
    await _all_gone(slow_git)


async def _all_gone(pids: Path) -> None:
    for pid in pids.read_text().split() if pids.exists() else ():  # it may have been ended before it said
        async with asyncio.timeout(20):
            while _runs(int(pid)):  # noqa: ASYNC110 - the kernel is asked, not an event
                await asyncio.sleep(0.01)
    pids.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_call_has_a_limit_of_output(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"big": b"x" * 100_000})
    with pytest.raises(GitError, match="more than 1,000 bytes"):
        await Git(repo).run("cat-file", "blob", "HEAD:big", most=1000)


async def test_what_git_says_is_in_the_error(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    with pytest.raises(GitError, match=r"git cat-file: .*nothing"):
        await Git(repo).run("cat-file", "blob", "nothing")
    with pytest.raises(GitError, match="no folder"):
        await Git(tmp_path / "gone").run("status")


async def test_no_configuration_of_the_user_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Somebody\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        patch.setenv("GIT_DIR", "/nowhere")
        repo = repository(tmp_path / "repo")
        assert await Git(repo).maybe("config", "user.name") is None
        assert await Git(repo).line("rev-parse", "--is-inside-work-tree") == "true"


async def test_where_a_checkout_stands(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    first = git(repo, "rev-parse", "HEAD")
    assert await head_of(Git(repo)) == Head("main", first)
    git(repo, "update-ref", "refs/heads/HEAD", first)  # git finds both when it is asked for HEAD
    assert await head_of(Git(repo)) == Head("main", first)
    git(repo, "update-ref", "-d", "refs/heads/HEAD")
    git(repo, "checkout", "-q", "--detach")
    assert await head_of(Git(repo)) == Head(None, first)
    git(repo, "checkout", "-q", "--orphan", "a/new")
    assert await head_of(Git(repo)) == Head("a/new", None)
    assert await head_of(Git(tmp_path)) == Head(None, None)
