"""git's hooks, run by git itself: a commit, a merge and a push of what another session holds are refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import relay
from relay import cli
from relay.app.daemon.coordination import take_in
from relay.app.guard.lookup import reasons_against
from relay.coordination.locks.service import Locks
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.coordination.desk import over
from tests.engines import all_events

PACKAGE = str(Path(relay.__file__).parent.parent)
CODEX, CLAUDE = Caller("CODEX", "s-codex"), Caller("CLAUDE", "s-claude")


@dataclass
class Site:
    """A repository whose hooks ask a room that does not run, and what they would find there."""

    top: Path
    home: Path
    env: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    clock: float = 0.0
    _store: Store | None = None

    @property
    def config(self) -> Path:
        return self.home / "room" / "config.json"

    @property
    def database(self) -> Path:
        return self.config.parent / ".relay" / "events.db"

    def git(self, *words: str, at: Path | None = None, ok: bool = True, **env: str) -> str:
        """What git says, on both outputs."""
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.top,
            env={**self.env, **self.extra, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) is ok, (words, said)
        return said

    def relay(self, *words: str, ok: bool = True, at: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "relay.cli", *words, "--config", str(self.config)],
            cwd=at or self.top,
            env={**self.env, "PYTHONPATH": PACKAGE},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    def write(self, **files: str) -> None:
        for name, text in files.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, *names: str, ok: bool = True, **env: str) -> str:
        """Change these files and commit them."""
        for name in names:
            file = self.top / name
            self.put(name, f"{file.read_text() if file.exists() else ''}more\n")
        self.git("add", "-A")
        return self.git("commit", "-m", "work", ok=ok, **env)

    @property
    def store(self) -> Store:
        if self._store is None:
            opened = engines.join(str(self.database), engines.SCHEMAS, clock=lambda: time.time() + self.clock)
            self._store = self.loop.run_until_complete(opened)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self.loop.run_until_complete(self._store.close())
        self.loop.close()

    def run(self, work: Callable[[Locks], Awaitable[Any]]) -> Any:
        """Do something to the room's locks."""
        return self.loop.run_until_complete(work(over(self.store).locks))

    def lock(self, *paths: str, by: Caller = CODEX, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.run(lambda locks: locks.acquire(by, paths, **more))
        assert answer["success"], answer
        return answer

    def free(self, *paths: str, by: Caller = CODEX) -> None:
        for path in paths:
            self.run(lambda locks, path=path: locks.release(by, path))

    def told(self, type: str) -> list[dict[str, Any]]:
        """The events of this type, once what the hooks kept is taken in."""

        async def work(locks: Locks) -> Any:
            await take_in(self.store, self.database.parent)
            found = await all_events(self.store, type)
            return [one.outputs for one in found]

        found: list[dict[str, Any]] = self.run(work)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    home = tmp_path / "home"
    top = home / "project"
    (home / "room").mkdir(parents=True)
    top.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        **{f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    one = Site(top, home, env)
    one.config.write_text(json.dumps({"agents": [], "workspace": {"repo": str(top)}}))
    one.git("init", "-b", "main")
    one.write(**{"a.py": "one\n", "b.py": "two\n", "src/c.py": "three\n"})
    one.git("add", "-A")
    one.git("commit", "-m", "first")
    yield one
    one.close()


@pytest.fixture
def guarded(site: Site) -> Site:
    assert "asked before each commit" in site.relay("guard", "install")
    return site


def test_a_commit_of_what_another_holds_is_refused_until_it_is_free(guarded: Site) -> None:
    guarded.commit("a.py")
    guarded.lock("a.py", reason="a refactoring")
    said = guarded.commit("a.py", ok=False)
    assert (
        "a.py is locked by CODEX until" in said and "a refactoring" in said and "RELAY_GUARD_OVERRIDE" in said
    )
    assert "(stale" not in said and "relay locks" in said
    guarded.git("restore", "--staged", "--worktree", "a.py")
    guarded.commit("b.py")
    # The holder itself commits, by its own identity; another session of the same agent is another.
    guarded.commit("a.py", RELAY_AGENT_ID="CODEX", RELAY_SESSION_ID="s-codex")
    said = guarded.commit("a.py", ok=False, RELAY_AGENT_ID="CODEX", RELAY_SESSION_ID="other")
    assert "locked by CODEX" in said and "OVERRIDE" not in said
    guarded.free("a.py")
    guarded.commit("a.py")
    refused = guarded.told("guard.refused")
    assert [(one["by"] == "CODEX", one["paths"], one["act"]) for one in refused] == [
        (False, ["a.py"], "commit"),
        (True, ["a.py"], "commit"),
    ]


def test_whatever_a_commit_does_to_a_path_is_asked_about(guarded: Site) -> None:
    """Renames on both sides, deletions, names of every kind, patterns and folders, a part of the work."""
    odd = ["with blank,&.py", "größe.py", "src/a*b.py", "api:x", "42", "-n"]
    guarded.write(**dict.fromkeys(odd, "text\n" * 30))
    guarded.git("add", "-A")
    guarded.git("commit", "-m", "names")
    steps: list[tuple[str, list[list[str]]]] = [
        ("a.py", [["mv", "a.py", "z.py"]]),
        ("z.py", [["mv", "a.py", "z.py"]]),
        ("A.py", [["mv", "a.py", "A.py"]]),
        ("a.py", [["mv", "a.py", "A.py"]]),
        ("a.py", [["rm", "a.py"]]),
        ("src", [["rm", "src/c.py"]]),
        ("src/**/*.py", [["mv", "src/c.py", "d.txt"]]),
        ("größe.py", [["rm", "größe.py"]]),
        ("gro\u0308ße.py", [["rm", "größe.py"]]),
        ("with blank,&.py", [["rm", "with blank,&.py"]]),
        ("src/a\\*b.py", [["rm", "src/a*b.py"]]),
        ("./api:x", [["rm", "./api:x"]]),
        ("42", [["rm", "42"]]),
        ("./-n", [["rm", "--", "-n"]]),
    ]
    for locked, calls in steps:
        guarded.lock(locked)
        for call in calls:
            guarded.git(*call)
        said = guarded.git("commit", "-m", "x", ok=False)
        assert "is locked by CODEX" in said, (locked, said)
        guarded.git("reset", "-q", "--hard")
        guarded.free(locked)
    # A logical key is no file, and a file that looks like a pattern is one file.
    guarded.lock("api:x", "src/a\\*b.py")
    guarded.commit("api:x", "src/c.py", "src/aXb.py")
    guarded.free("api:x", "src/a\\*b.py")
    guarded.lock("b.py")
    guarded.put("b.py", "other\n")
    guarded.put("a.py", "other\n")
    guarded.git("commit", "-m", "part", "a.py")  # with an index of its own
    guarded.git("commit", "-m", "part", "b.py", ok=False)
    guarded.git("commit", "-a", "-m", "all", ok=False)
    guarded.git("commit", "--amend", "-m", "again")
    guarded.git("commit", "--no-verify", "-a", "-m", "git's own way round")


def test_a_session_whose_lease_ran_out_is_refused(guarded: Site) -> None:
    me = {"RELAY_AGENT_ID": "CLAUDE", "RELAY_SESSION_ID": "s-claude"}
    guarded.clock = -120.0
    guarded.lock("a.py", by=CLAUDE, ttl_s=60.0)
    guarded.clock = 0.0
    said = guarded.commit("a.py", ok=False, **me)
    assert "stale_token" in said and "Your lease on a.py ran out" in said and "OVERRIDE" not in said
    assert "Acquire again what ran out" in said and "release" not in said  # which the locks refuse
    guarded.commit("a.py")  # nobody holds it: a person may, and so may another agent
    guarded.commit("a.py", RELAY_AGENT_ID="CODEX", RELAY_SESSION_ID="s-codex")
    guarded.lock("a.py", by=CLAUDE)
    guarded.commit("a.py", **me)
    guarded.free("a.py", by=CLAUDE)

    # So is one whose claim was lost in its sleep, though another came and went.
    async def claimed(locks: Locks) -> None:
        work = over(guarded.store).work
        await work.submit(CODEX, "fix", "x", files=["b.py"])
        guarded.clock = -120.0
        await work.get(CLAUDE, lease_s=60.0)
        guarded.clock = 0.0
        assert len(await work.take_back()) == 1

    guarded.run(claimed)
    guarded.lock("b.py")
    guarded.free("b.py")
    said = guarded.commit("b.py", ok=False, **me)
    assert "stale_token" in said and "Your lease on b.py ran out" in said
    guarded.lock("b.py", by=CLAUDE)
    guarded.commit("b.py", **me)


def test_a_person_overrides_with_a_reason_that_is_recorded_and_an_agent_does_not(guarded: Site) -> None:
    guarded.lock("a.py")
    said = guarded.commit("a.py", ok=False, RELAY_AGENT_ID="CLAUDE", RELAY_GUARD_OVERRIDE="because")
    assert "OVERRIDE" not in said and "RELAY_AGENT_ID" not in said, "it has said its name"
    # The shell of an agent's program is nobody's who may override; with its name the holder commits its own file.
    for mark in ("CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI"):
        said = guarded.commit("a.py", ok=False, RELAY_GUARD_OVERRIDE="because", **{mark: "1"})
        assert "RELAY_AGENT_ID=NAME git commit ... (the name in your MCP settings)" in said
        assert "OVERRIDE" not in said and "RELAY_AGENT_ID=CODEX" not in said, (
            "nobody is handed the holder's name"
        )
    guarded.commit("a.py", CLAUDECODE="1", RELAY_AGENT_ID="CODEX")
    # Settings of a person's are no marks.
    guarded.lock("b.py", by=CLAUDE)
    said = guarded.commit("a.py", "b.py", ok=False, CLAUDE_CODE_USE_BEDROCK="1", CODEX_HOME="/x")
    assert "OVERRIDE" in said and "gives its name: RELAY_AGENT_ID=NAME git commit" in said
    guarded.git("restore", "--staged", "--worktree", "b.py")
    said = guarded.commit("a.py", RELAY_GUARD_OVERRIDE="the build is broken")
    assert "1 refused files let through; the room is told when it starts" in said
    (told,) = guarded.told("guard.overridden")
    assert told["reason"] == "the build is broken" and told["paths"] == ["a.py"] and told["act"] == "commit"
    assert told["refusals"][0]["locked_by"] == "CODEX"


def test_what_nobody_can_be_asked_about_is_refused(guarded: Site) -> None:
    guarded.database.rename(guarded.database.with_suffix(".away"))
    said = guarded.commit("a.py", ok=False)
    assert (
        "it cannot be checked" in said
        and "there is no database at" in said
        and "RELAY_GUARD_OVERRIDE" in said
    )
    assert "ask a person" in guarded.git("commit", "-m", "x", ok=False, RELAY_AGENT_ID="CLAUDE")
    said = guarded.git("commit", "-m", "x", ok=False, CLAUDECODE="1", RELAY_GUARD_OVERRIDE="the room is gone")
    assert "RELAY_AGENT_ID=NAME git commit" in said and "OVERRIDE" not in said
    guarded.database.write_text("no database")
    assert "cannot be read" in guarded.git("commit", "-m", "x", ok=False)
    said = guarded.git("commit", "-m", "x", RELAY_GUARD_OVERRIDE="the room is gone")
    kept = guarded.config.parent / ".relay" / "guard.log"
    assert "overridden. The room could not be asked" in said and str(kept) in said
    assert json.loads(kept.read_text().splitlines()[-1])["reason"] == "the room is gone"
    guarded.config.rename(guarded.config.with_suffix(".away"))
    assert "cannot be read" in guarded.commit("a.py", ok=False)


def test_hooks_that_were_there_run_first_and_come_back(site: Site) -> None:
    hooks = site.top / ".git" / "hooks"
    before = hooks / "pre-commit"
    before.write_text(
        "#!/bin/sh\necho was here $# >> ran\necho b >> added.py\ngit add added.py\n[ ! -e stop ]\n"
    )
    before.chmod(0o755)
    push = hooks / "pre-push"
    push.write_text('#!/bin/sh\ncat > pushed; echo "$1" >> pushed\n')
    push.chmod(0o755)
    site.git("init", "--bare", str(site.home / "far.git"))
    for _ in range(2):
        site.relay("guard", "install")
    assert json.loads(site.relay("guard", "status", "--json"))["repositories"][0]["ok"]
    site.git("add", "-A")
    site.commit("a.py")
    assert (site.top / "ran").read_text() == "was here 0\n"
    site.lock("added.py")
    assert "added.py is locked" in site.commit("b.py", ok=False), "what an earlier hook adds is asked about"
    site.free("added.py")
    (site.top / "stop").write_text("")
    assert "relay" not in site.git("commit", "-m", "x", ok=False)
    (site.top / "stop").unlink()
    site.git("push", str(site.home / "far.git"), "main")
    said = (site.top / "pushed").read_text()
    assert said.startswith("refs/heads/main ") and said.endswith("far.git\n")
    site.relay("guard", "uninstall")
    assert sorted(one.name for one in hooks.iterdir() if not one.name.endswith(".sample")) == [
        "pre-commit",
        "pre-push",
    ]
    assert before.read_text().startswith("#!/bin/sh\necho was here")
    assert "no hooks of relay" in site.relay("guard", "uninstall")
    site.relay("guard", "status", ok=False)


def test_what_cannot_be_installed_leaves_no_hook(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(site.home))
    monkeypatch.delenv("RELAY_POSTGRES_DSN", raising=False)
    words = ["--config", str(site.config)]
    kept = site.config.parent / ".relay"
    kept.write_text("in the way")
    assert cli.main(["guard", "install", *words]) == 1
    assert cli.main(["guard", "status", *words]) == 1
    kept.unlink()
    # The hooks ask a room on PostgreSQL, and need no address of its database; nor does who installs them.
    told = json.loads(site.config.read_text())
    site.config.write_text(json.dumps({**told, "storage": "postgres"}))
    capsys.readouterr()
    # Whoever reads what it says may have gone.
    ends = os.pipe()
    os.close(ends[0])
    with os.fdopen(ends[1], "w") as gone, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", gone)
        assert cli.main(["guard", "install", *words]) == 0
    assert capsys.readouterr().err == ""
    assert cli.main(["guard", "status", *words]) == 0
    assert "asked before each commit" in capsys.readouterr().out


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_where_hooks_are_elsewhere_a_folder_of_our_own_passes_them_on(site: Site, scope: str) -> None:
    """As husky has it: a folder of the checkout, named by core.hooksPath."""
    for name in ("pre-commit", "commit-msg", "post-commit"):
        site.put(f".husky/_/{name}", f"#!/bin/sh\necho {name} >> ran\n")
        (site.top / ".husky/_" / name).chmod(0o755)
    site.git("config", scope, "core.hooksPath", ".husky/_")
    was = sorted(path.name for path in (site.top / ".husky" / "_").iterdir())
    for _ in range(2):
        site.relay("guard", "install")
    site.lock("a.py")
    assert "locked by CODEX" in site.commit("a.py", ok=False)
    assert (site.top / "ran").read_text() == "pre-commit\n"
    site.free("a.py")
    site.commit("a.py")
    assert (site.top / "ran").read_text().split() == ["pre-commit", "pre-commit", "commit-msg", "post-commit"]
    # A worktree has no such folder, and is asked all the same.
    tree = site.home / "tree"
    site.git("worktree", "add", "-b", "side", str(tree))
    (tree / "b.py").write_text("x\n")
    site.lock("b.py")
    assert "locked by CODEX" in site.git("commit", "-a", "-m", "x", at=tree, ok=False)
    assert json.loads(site.relay("guard", "status", "--json"))["repositories"][0]["ok"]
    site.relay("guard", "uninstall")
    assert site.git("config", scope, "core.hooksPath").strip() == ".husky/_"
    if scope == "--global":
        site.git("config", "--local", "core.hooksPath", ok=False)
    assert sorted(path.name for path in (site.top / ".husky" / "_").iterdir()) == was
    assert not (site.top / ".git" / "relay-hooks").exists()
    assert "relay" not in (site.top / ".git" / "config").read_text()


def test_a_merge_is_asked_about_what_it_writes_itself(guarded: Site) -> None:
    tree = guarded.home / "tree"
    guarded.git("worktree", "add", "-b", "side", str(tree))
    guarded.commit("a.py")
    (tree / "b.py").write_text("side\n")
    guarded.git("commit", "-a", "-m", "side", at=tree)
    guarded.lock("a.py")
    # What is on the main branch already is nobody's write any more, also while somebody holds it.
    guarded.git("merge", "--no-ff", "-m", "up to date", "main", at=tree)
    guarded.free("a.py")
    guarded.lock("b.py")
    said = guarded.git("merge", "--no-ff", "-m", "land", "side", ok=False)
    assert "this merge is refused" in said and "b.py is locked by CODEX" in said and "a.py" not in said
    guarded.git("merge", "--abort")
    guarded.free("b.py")
    guarded.git("merge", "--no-ff", "-m", "land", "side")
    # While the main checkout looks at an older commit, nobody knows here which branch is main, and it is said.
    guarded.commit("a.py")
    guarded.lock("a.py")
    guarded.git("checkout", "--detach", "HEAD")
    said = guarded.git("merge", "--no-ff", "-m", "up to date", "main", at=tree, ok=False)
    assert "a.py is locked by CODEX" in said and "The main checkout is on no branch" in said
    guarded.git("merge", "--abort", at=tree)
    guarded.git("checkout", "main")
    guarded.git("merge", "--no-ff", "-m", "up to date", "main", at=tree)
    guarded.free("a.py")
    # A conflict that is resolved by hand is a write.
    (tree / "a.py").write_text("side\n")
    guarded.git("commit", "-a", "-m", "side", at=tree)
    guarded.commit("a.py")
    guarded.lock("a.py")
    guarded.git("merge", "main", at=tree, ok=False)
    (tree / "a.py").write_text("both\n")
    assert "a.py is locked" in guarded.git("commit", "-a", "-m", "mine", at=tree, ok=False)


def test_a_push_is_asked_about_what_the_remote_has_not_got(guarded: Site) -> None:
    far = guarded.home / "far.git"
    guarded.git("init", "--bare", "-b", "main", str(far))
    guarded.git("remote", "add", "origin", str(far))
    guarded.lock("src/c.py")
    # A remote of which nothing is known gets every file.
    assert "src/c.py is locked" in guarded.git("push", "origin", "main", ok=False)
    guarded.free("src/c.py")
    guarded.git("push", "origin", "main")
    guarded.lock("src/c.py")
    guarded.commit("a.py")
    guarded.git("push", "origin", "main")
    guarded.git("push", "origin", "main:other")
    guarded.git("switch", "-q", "-c", "topic")
    guarded.free("src/c.py")
    guarded.commit("src/c.py")
    guarded.lock("src/c.py")
    said = guarded.git("push", "origin", "topic", ok=False)
    assert "this push is refused" in said and "src/c.py is locked by CODEX" in said and "git ..." in said
    guarded.git("push", "origin", "topic", RELAY_AGENT_ID="CODEX", RELAY_SESSION_ID="s-codex")
    guarded.git("push", "origin", "topic:copy")  # the remote has these commits
    # What is pushed may be written with blanks, and hold what Python takes for the end of a line.
    guarded.git("push", "origin", "HEAD@{0 seconds ago}:refs/heads/by-time")
    guarded.git("push", "origin", "topic:odd\u2028name")
    # To take a commit away from the remote changes its files too.
    guarded.git("reset", "-q", "--hard", "main")
    assert "src/c.py is locked" in guarded.git("push", "--force", "origin", "topic", ok=False)
    guarded.git("push", "origin", ":copy")  # `topic` still has them there
    guarded.git("push", "origin", ":by-time", "topic:keep")
    guarded.git("push", "origin", ":odd\u2028name")
    guarded.git("push", "origin", ":keep")
    assert "src/c.py is locked" in guarded.git("push", "origin", ":topic", ok=False)
    # A commit of the remote's that is not here: what a forced push does is not known.
    other = guarded.home / "other"
    guarded.git("clone", "-q", str(far), str(other))
    (other / "a.py").write_text("theirs\n")
    guarded.git("commit", "-a", "-m", "theirs", at=other)
    guarded.git("push", "origin", "main", at=other)
    guarded.commit("b.py")
    said = guarded.git("push", "--force", "origin", "topic:main", ok=False)
    assert "it cannot be checked" in said and "fetch first" in said
    guarded.git("tag", "-a", "v1", "-m", "one", "main")
    guarded.git("push", "origin", "v1")


def test_an_edit_of_another_checkout_is_looked_up_too(site: Site) -> None:
    """Before an edit, while the room does not run: the same file, whichever worktree it is edited in."""
    site.commit("src/c.py")
    site.lock("src/c.py")
    tree, far = site.home / "tree", site.home / "far"
    site.git("worktree", "add", "-b", "side", str(tree))
    site.git("init", str(far))

    def against(at: Path, *places: Path) -> list[str]:
        return reasons_against(str(site.config), str(at), [str(one) for one in places], "CLAUDE", "s-claude")

    for at in (site.top, tree):
        for top in (site.top, tree):
            assert "src/c.py is locked by CODEX" in "".join(against(at, top / "src/c.py")), (at, top)
    assert against(tree, far / "src/c.py", site.home / "src/c.py", Path("/src/c.py")) == []
