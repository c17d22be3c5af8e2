"""The HTTP routes of the worktrees, over a real registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.faces.http.routes.worktrees import WorktreeRoutes
from relay.faces.worktrees import WorktreesService
from tests.faces.house import House, house, reader_of
from tests.git.repository import UNRECORDED, Room, commit, git, own_branch, repository, room, write


@asynccontextmanager
async def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[House, Room]]:
    one = await room(repository(tmp_path / "repo"), "A")
    service = WorktreesService(UNRECORDED, one.registry, one.actions)
    table = WorktreeRoutes(service, reader_of("A")).table()
    from relay.faces.http import app as http
    from tests.faces import house as stands_in

    real = http.create_app

    def with_worktrees(*args: Any, **more: Any) -> Any:
        app = real(*args, **more)
        app.add_routes(table)
        return app

    monkeypatch.setattr(stands_in, "create_app", with_worktrees)
    async with house(tmp_path) as made:
        yield made, one


async def test_they_want_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, monkeypatch) as (made, _):
        for method, path in (
            ("GET", "/api/worktrees"),
            ("GET", "/api/worktrees/A/diff"),
            ("POST", "/api/worktrees/A/merge"),
            ("POST", "/api/worktrees/A/remove"),
        ):
            async with made.client.request(method, path) as answer:
                assert answer.status == 401


async def test_they_list_show_merge_and_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, monkeypatch) as (made, one):
        write(one.at("A"), {"a.py": "x\n"})
        await one.look()
        status, told, _ = await made.ask("GET", "/api/worktrees")
        assert status == 200 and (told["trouble"], told["troubles"], told["polling"]) == ("", {}, "")
        [row] = told["worktrees"]
        assert (row["agent"], row["branch"], row["files"], row["insertions"], row["deletions"]) == (
            "A",
            own_branch("a"),
            1,
            1,
            20,
        )
        assert (row["ahead"], row["behind"], row["dirty"], row["own"], row["merges"]) == (
            0,
            0,
            True,
            True,
            "clean",
        )
        assert (row["conflicts"], row["path"]) == ([], str(one.at("A")))
        status, told, _ = await made.ask("GET", "/api/worktrees/a/diff")
        assert status == 200 and "+x" in told["diff"] and told["base"] == git(one.folder, "rev-parse", "main")
        (file,) = told["files"]
        assert (file["path"], file["old_path"], file["change"]) == ("a.py", None, "M")
        assert (file["insertions"], file["deletions"], file["binary"]) == (1, 20, False)
        # By their contents a person's mark of it is known again.
        assert file["old"] == git(one.folder, "rev-parse", "main:a.py") and file["new"] != file["old"]
        assert (file["old_mode"], file["new_mode"], file["uncommitted"]) == ("100644", "100644", True)
        status, told, _ = await made.ask("POST", "/api/worktrees/A/merge")
        assert (status, told["success"]) == (200, True)
        assert told["commit"] == git(one.folder, "rev-parse", "main")
        assert git(one.folder, "log", "-1", "--format=%an") == "A"
        status, told, _ = await made.ask("POST", "/api/worktrees/A/remove", json={"name": "ann"})
        assert (status, told["success"], told["kept"]) == (200, True, None)
        assert (await made.ask("GET", "/api/worktrees"))[1]["worktrees"] == []


async def test_a_refusal_is_an_answer_and_a_stranger_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as (made, one):
        status, told, _ = await made.ask("POST", "/api/worktrees/A/merge", json={"name": "ann"})
        assert (status, told["success"], told["commit"]) == (200, False, None)
        assert "nothing" in told["reason"]
        write(one.at("A"), {"a.py": "agent\n"})
        commit(one.folder, {"a.py": "main\n"})
        status, told, _ = await made.ask("POST", "/api/worktrees/A/merge", json={"name": "ann"})
        assert (status, told["success"]) == (200, False)
        assert "conflict in a.py" in told["reason"] and "@A" in told["fix"]
        assert told["fix"] not in told["reason"]
        for method, path in (("GET", "diff"), ("POST", "merge"), ("POST", "remove")):
            assert (await made.ask(method, f"/api/worktrees/NOBODY/{path}"))[0] == 404
        assert (await made.ask("POST", "/api/worktrees/A/merge", json={"name": "A"}))[0] == 403
        assert (await made.ask("POST", "/api/worktrees/A/merge", json={"how": "so"}))[0] == 400
        assert (await made.ask("GET", "/api/worktrees?x=1"))[0] == 400


async def test_they_show_a_merge_before_it_is_made_and_take_another_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as (made, one):
        git(one.folder, "config", "user.name", "Ann Lee")
        git(one.folder, "config", "user.email", "ann@example.com")
        commit(one.at("A"), {"a.py": "x\n"}, "Add x")
        ask = "/api/worktrees/A/merge?method=squash&name=ann"
        status, told, _ = await made.ask("GET", ask)
        assert status == 200
        assert (told["author"], told["committer"]) == ("A <a@relay>", "Ann Lee <ann@example.com>")
        assert (told["branch"], told["into"], told["method"], told["note"]) == (
            own_branch("a"),
            "main",
            "squash",
            "",
        )
        assert told["text"] == "Add x\n" and told["trailers"] == ["Co-authored-by: Ann <ann@example.org>"]
        assert git(one.folder, "log", "-1", "--format=%s") == "first"
        body = {"name": "ann", "method": "squash", "message": "Add y", "head": told["head"]}
        status, done, _ = await made.ask("POST", "/api/worktrees/A/merge", json=body)
        assert (status, done["success"]) == (200, True) and done["kept"].startswith("refs/relay/kept/a/")
        assert git(one.folder, "log", "-1", "--format=%cn %B").split("\n") == [
            "Ann Lee Add y",
            "",
            "Co-authored-by: Ann <ann@example.org>",
        ]
        status, again, _ = await made.ask("GET", ask)
        assert (status, again["success"]) == (200, False) and "nothing to merge" in again["reason"]
        write(one.at("A"), {"b.py": "y\n"})
        late = {"head": told["head"]}
        status, again, _ = await made.ask("POST", "/api/worktrees/A/merge", json=late)
        assert (status, again["success"]) == (200, False) and "has changed since" in again["reason"]
        for path, json in (
            ("merge", {"method": "rebase"}),
            ("merge", {"message": 1}),
            ("discard", {"kept": "x"}),
        ):
            assert (await made.ask("POST", f"/api/worktrees/A/{path}", json=json))[0] == 400
        assert (await made.ask("GET", "/api/worktrees/A/merge?method=x"))[0] == 400


async def test_they_discard_and_bring_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, monkeypatch) as (made, one):
        write(one.at("A"), {"a.py": "x\n"})
        status, done, _ = await made.ask("POST", "/api/worktrees/A/discard", json={"name": "ann"})
        assert (status, done["success"]) == (200, True) and done["kept"] in done["reason"]
        assert (one.at("A") / "a.py").read_text() != "x\n"
        status, back, _ = await made.ask("POST", "/api/worktrees/A/restore", json={"kept": done["kept"]})
        assert (status, back["success"]) == (200, True)
        assert (one.at("A") / "a.py").read_text() == "x\n"
        status, back, _ = await made.ask("POST", "/api/worktrees/A/restore", json={})
        assert (status, back["success"]) == (200, False) and "already" in back["reason"]
