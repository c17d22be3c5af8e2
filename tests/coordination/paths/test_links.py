"""A lock on a path through a symbolic link is one on what the link leads to, as it is before an edit."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.base.git_checkouts import within
from relay.coordination.paths.links import followed
from relay.faces.room_locks import RoomHolds
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from relay.store.ports import Store
from tests import engines
from tests.coordination.desk import over
from tests.engines import BOTH, SCHEMAS
from tests.standing import Folders

ANN, BEN = Caller("ANN", "s1"), Caller("BEN", "s2")


def planted(top: Path) -> Path:
    """A checkout: `lib` leads to `src`, and other links lead elsewhere."""
    (top / "src" / "deep").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / "src" / "a.py").write_text("one\n")
    (top / "src" / "{x}.py").write_text("one\n")
    (top / "AGENTS.md").write_text("be good\n")
    for link, leads in {
        "lib": "src",
        "deep": "lib/deep",
        "CLAUDE.md": "AGENTS.md",
        "src/up": "..",
        "broken": "src/later",
        "out": "/etc",
        "out.txt": "/etc/hosts",
        "round": "about",
        "about": "round",
        "absolute": str(top / "src"),
        "o*d": "src",
    }.items():
        (top / link).symlink_to(leads)
    return top


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return planted(tmp_path / "tree")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("asked", "locked"),
    [
        ("lib/a.py", "src/a.py"),
        ("./lib//a.py", "src/a.py"),
        ("lib", "src"),
        ("deep/x.py", "src/deep/x.py"),
        ("CLAUDE.md", "AGENTS.md"),
        ("src/up/AGENTS.md", "AGENTS.md"),
        ("broken/x.py", "src/later/x.py"),
        ("absolute/a.py", "src/a.py"),
        ("lib/\\{x\\}.py", "src/{x}.py"),
        ("lib/{x}.py", "src/{x}.py"),
        ("o\\*d/a.py", "src/a.py"),
        ("lib/**", "src/**"),
        ("lib/*.py", "src/*.py"),
        ("{lib,docs}/*.py", "{src/*.py,docs/*.py}"),
        # What no link is in the way of stays as it was said; wildcards follow none.
        ("src/a.py", "src/a.py"),
        ("{src,docs}/*.py", "{src,docs}/*.py"),
        ("l*b/a.py", "l*b/a.py"),
        ("new/file.py", "new/file.py"),
        ("lib:x", "lib:x"),
        # A link that leads nowhere in the repository is a file of it like others.
        ("out.txt", "out.txt"),
        ("out", "out"),
        ("round", "round"),
    ],
)
async def test_what_a_path_means(store: Store, tree: Path, asked: str, locked: str) -> None:
    locks = over(store, root=tree).locks
    answer = await locks.acquire(ANN, [asked])
    assert (answer["success"], answer["file_path"]) == (True, locked)
    if not set("*{\\:") & set(asked) and locked != asked:
        assert within(tree, tree / asked) == locked, "the edit hook says the same"
    assert [one["file_path"] for one in await locks.check(BEN, [asked])] == [locked]
    assert (await locks.release(ANN, asked))["success"] and await locks.check(BEN) == []


@pytest.mark.parametrize("asked", ["out/passwd", "round/x", "out/*.py", "{src,out}/a.py"])
async def test_a_link_that_leads_out_is_refused(store: Store, tree: Path, asked: str) -> None:
    locks = over(store, root=tree).locks
    with pytest.raises(Refusal) as refused:
        await locks.acquire(ANN, ["src/a.py", asked])
    assert refused.value.code == "bad_path" and "link" in refused.value.message
    assert await locks.check(ANN) == []


async def test_links_are_looked_at_beside_the_loop_and_only_of_as_many_as_may_be_asked(
    store: Store, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[threading.Thread] = []

    def seen(path: str, root: Path) -> str:
        looked.append(threading.current_thread())
        return followed(path, root)

    monkeypatch.setattr("relay.coordination.locks.service.followed", seen)
    locks = over(store, root=tree).locks
    heavy = [f"lib/{number}/{'a*' * 90}{{a,b}}" for number in range(100)]
    for many in ([f"lib/{number}" for number in range(257)], heavy, ["lib/a.py", "/etc/passwd"]):
        with pytest.raises(Refusal):
            await locks.acquire(ANN, many)
    assert looked == []
    assert (await locks.acquire(ANN, ["lib/a.py"]))["file_path"] == "src/a.py"
    assert (await locks.release(ANN, "lib/a.py"))["success"]
    assert looked and threading.current_thread() not in looked


@BOTH
async def test_two_spellings_are_one_lock_at_every_interface(store: Store, tree: Path) -> None:
    desk = over(store, root=tree)
    locks, work = desk.locks, desk.work
    assert (await locks.acquire(ANN, ["src/a.py"]))["success"]
    blocked = await locks.acquire(BEN, ["lib/a.py"])
    assert (blocked["success"], blocked["locked_by"]) == (False, "ANN")
    assert (await locks.acquire(BEN, ["lib/b.py", "src/b.py"]))["locks"][1:] == []
    assert (await locks.status(BEN, "lib/a.py"))["locked"]
    assert (await locks.explain(BEN, "lib/a.py"))["why"]
    assert (await locks.renew(ANN, "lib/a.py", ttl_s=7200.0))["success"]
    holds = RoomHolds(root=tree)
    assert len(await store.read(lambda tx: holds.meeting(tx, "lib"))) == 2
    person = Caller("ann", "web", person=True)
    assert (await locks.force_release(person, ForceRelease("lib/a.py", "x")))["file_path"] == "src/a.py"
    # A task's files are what their links lead to when it is submitted: its claim locks and extends those.
    made = await work.submit(ANN, "fix", "x", files=["lib/c.py"])
    assert (await work.task(ANN, made["task_id"]))["files"] == ["src/c.py"]
    assert (await work.get(BEN))["files"] == ["src/c.py"]
    assert (await locks.acquire(ANN, ["lib/c.py"]))["locked_by"] == "BEN"


async def test_each_worktree_has_its_own_links(store: Store, tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "vendor").mkdir(parents=True)
    (other / "lib").symlink_to("vendor")
    locks = over(store, root=tree, checkouts=Folders(tree, {"BEN": other})).locks
    assert (await locks.acquire(ANN, ["lib/a.py"]))["file_path"] == "src/a.py"
    assert (await locks.acquire(BEN, ["lib/a.py"]))["file_path"] == "vendor/a.py"
    gone = over(store, root=tmp_path / "nowhere").locks
    assert (await gone.acquire(ANN, ["lib/b.py"]))["file_path"] == "lib/b.py"
