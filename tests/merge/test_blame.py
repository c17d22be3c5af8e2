"""Who is behind each line of a file, in repositories with agents, people, joined merges and answered conflicts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.app.merge.command import main
from relay.app.wiring.merge_tools import MergeTools
from relay.app.wiring.schema import SCHEMAS
from relay.config.merge import MergeSettings
from relay.faces.blamed_file import BlamedFile, blamed_file
from relay.model import Refusal
from relay.model.actions import Resolve
from tests.engines import BOTH, open_store
from tests.git.repository import ENV, commit, git, repository, write
from tests.merge.place import BEN_IS, Place
from tests.merge.test_landing_by_ladder import AVA, BASE, BEN, CEY, DAN

#: Both agents import on one statement, so that one line has both.
ONE = "from os import path\n\n\ndef here():\n    return path\n"
ONE_AVA = ONE.replace("import path", "import path, sep")
ONE_BEN = ONE.replace("import path", "import getcwd, path")

Open = Callable[..., Awaitable[Place]]


@pytest.fixture
async def open_place(tmp_path: Path) -> AsyncIterator[Open]:
    made: list[Any] = []

    async def open_(text: str) -> Place:
        tools, store = MergeTools(MergeSettings), await open_store(tmp_path / "room", SCHEMAS)
        made.append((tools, store))
        place = Place(store, repository(tmp_path / "repo", {"store.py": text}), tools)
        await place.registry.open()
        await place.look()
        return place

    yield open_
    for tools, store in made:
        await tools.close()
        await store.close()


async def told(place: Place, at: str | None = None) -> BlamedFile:
    return await blamed_file(
        place.folder, "store.py", at, settings=place.registry.settings, store=place.store
    )


def whose(found: BlamedFile) -> dict[str, tuple[str, str]]:
    """(kind, who) by the line's text; every line of the file is told, once."""
    rows = found.text.split("\n")[:-1]
    numbers = [line for each in found.lines for line in range(each.first, each.last + 1)]
    assert numbers == list(range(1, len(rows) + 1))
    return {
        rows[line - 1].strip(): (str(each.kind), each.who)
        for each in found.lines
        for line in range(each.first, each.last + 1)
    }


async def join(place: Place, ava: str, ben: str, **options: Any) -> None:
    """AVA's work lands, then BEN's, joined and seen."""
    for agent, text in (("AVA", ava), ("BEN", ben)):
        write(place.at(agent), {"store.py": text})
    await place.look()
    await place.actions.merge("AVA", "ann")
    await place.look()
    shown = await place.actions.propose("BEN", "ann", MergeOptions(**options))
    assert shown["joined"]
    await place.actions.merge("BEN", "ann", MergeOptions(joined=shown["tree"], **options))


@BOTH
@pytest.mark.parametrize("squash", [False, True])
async def test_lines_of_a_joined_file_are_each_sides_or_merged(open_place: Open, squash: bool) -> None:
    place = await open_place(ONE)
    await join(place, ONE_AVA + "ava = sep\n", ONE_BEN + "ben = getcwd\n", squash=squash)
    by = whose(await told(place))
    assert by["from os import getcwd, path, sep"] == ("merged", "BEN")
    assert by["ava = sep"] == ("agent", "AVA") and by["ben = getcwd"] == ("agent", "BEN")
    assert by["def here():"] == ("person", "Ann")


async def test_a_commit_that_is_younger_than_its_merge_is_its_agents(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another machine's clock; in the same second git's walk is as blind."""
    place = await open_place(ONE)
    monkeypatch.setitem(ENV, "GIT_COMMITTER_DATE", "4000000000 +0000")
    commit(place.at("AVA"), {"store.py": ONE + "ava = 1\n"})
    await place.look()
    await place.actions.merge("AVA", "ann")
    by = whose(await told(place))
    assert by["ava = 1"] == ("agent", "AVA") and by["def here():"] == ("person", "Ann")


async def test_without_a_room_the_merge_is_tried_anew(open_place: Open) -> None:
    place = await open_place(ONE)
    await join(place, ONE_AVA, ONE_BEN)
    by = whose(await blamed_file(place.folder, "store.py"))
    assert by["from os import getcwd, path, sep"] == ("merged", "BEN")


async def test_additions_of_both_stay_each_ones(open_place: Open) -> None:
    place = await open_place(BASE)
    await join(place, AVA, BEN)
    found = await told(place)
    by = whose(found)
    assert by["import csv"] == by["def rows(path):"] == ("agent", "AVA")
    assert by["import ast"] == by["def names(text):"] == ("agent", "BEN")
    assert by["import json"] == ("person", "Ann")
    shares = {(share["kind"], share["who"]): share["lines"] for share in found.as_json()["shares"]}
    assert sum(shares.values()) == len(found.text.splitlines()) and set(shares) >= {("agent", "AVA")}


async def test_what_the_ladder_put_in_another_order_is_still_of_its_side(open_place: Open) -> None:
    """Both add a definition at one place, with a line that the other has too."""
    base = "import sys\n"
    one, two = (f"\n\ndef {name}(x):\n    y = x\n    return y  # {name}\n" for name in ("alpha", "beta"))
    place = await open_place(base)
    await join(place, base + two, base + one)
    found = await told(place)
    by = whose(found)
    assert by["def beta(x):"] == by["return y  # beta"] == ("agent", "AVA")
    assert by["def alpha(x):"] == by["return y  # alpha"] == ("agent", "BEN")
    assert "merged" not in {kind for kind, _ in by.values()}


@BOTH
async def test_what_stands_in_a_conflicts_place_is_of_who_wrote_it(open_place: Open) -> None:
    both = "    return json.loads(open(path, encoding='utf-8').read())\n"
    place = await open_place(BASE)
    await place.collide(CEY, DAN)
    await place.conflicts.carry_out(Resolve(1, 3, None), by="ann", source_key="k")
    await place.open.answer(BEN_IS, "c1", both)
    await place.land()
    by = whose(await told(place))
    assert by[both.strip()] == ("ai_resolved", "BEN")
    assert by["def load(path):"] == ("person", "Ann")


async def test_a_side_that_was_chosen_is_that_sides(open_place: Open) -> None:
    place = await open_place(BASE)
    await place.collide(CEY, DAN)
    await place.conflicts.carry_out(Resolve(1, 1, None), by="ann", source_key="k")
    write(place.at("BEN"), {"store.py": DAN + "\n\nEND = 1\n"})
    await place.look()
    await place.land()
    by = whose(await told(place))
    assert by["return json.loads(open(path).read())"] == ("agent", "AVA")
    assert by["END = 1"] == ("agent", "BEN")


async def test_what_an_agent_commits_itself_is_the_agents(open_place: Open) -> None:
    place = await open_place(BASE)
    commit(place.at("AVA"), {"store.py": BASE + "\n\nAVA = 1\n"}, "by the agent's own git")
    picked = place.at("AVA")
    write(picked, {"store.py": BASE + "\n\nAVA = 1\nCOL = 2\n"})
    git(picked, "commit", "-qam", "of a colleague", "--author", "Col <col@example.org>")
    await place.look()
    assert whose(await told(place, "AVA"))["AVA = 1"] == ("agent", "AVA")
    await place.actions.merge("AVA", "ann")
    by = whose(await told(place))
    assert by["AVA = 1"] == ("agent", "AVA") and by["COL = 2"] == ("person", "Col")
    assert by["import json"] == ("person", "Ann")


def test_of_a_merge_by_hand_what_the_ladder_would_join_is_merged(tmp_path: Path) -> None:
    folder = repository(tmp_path / "repo", {"a.py": ONE, "b.py": "x = 1\n"})
    git(folder, "branch", "other")
    commit(folder, {"a.py": ONE_AVA, "b.py": "x = 2\n"})
    git(folder, "checkout", "-q", "other")
    commit(folder, {"a.py": ONE_BEN, "b.py": "x = 3\n"})
    git(folder, "checkout", "-q", "main")
    with pytest.raises(Exception, match="merge"):
        git(folder, "merge", "other")
    write(folder, {"a.py": ONE.replace("import path", "import getcwd, path, sep"), "b.py": "x = 2 + 3\n"})
    git(folder, "commit", "-qam", "merged")
    assert run(folder, "a.py")["shares"][-1] == {"kind": "merged", "who": "Ann", "lines": 1}
    assert run(folder, "b.py")["shares"] == [{"kind": "person", "who": "Ann", "lines": 1}]


def run(folder: Path, path: str, *words: str) -> dict[str, Any]:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["blame", str(folder / path), "--json", *words]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = repository(tmp_path / "repo", {"sub/ä b.txt": "one\ntwo\n"})
    commit(folder, {"sub/ä b.txt": "one\n2\n"}, "second")
    git(folder, "mv", "sub/ä b.txt", "new.txt")
    commit(folder, {}, "moved")
    assert main(["blame", str(folder / "new.txt")]) == 0
    out = capsys.readouterr().out
    assert "1) one" in out and "2) 2" in out and "2 lines: 2 Ann (person)" in out
    assert main(["blame", str(folder / "sub/ä b.txt"), "--at", "HEAD~1"]) == 0
    for words in (["gone.txt"], ["new.txt", "--at", "nothing"], ["new.txt", "--at=--all"]):
        assert main(["blame", str(folder / words[0]), *words[1:]]) == 2, words
    assert "is no branch, commit or agent here" in capsys.readouterr().err
    commit(folder, {"bytes": b"\0\1\2", "empty": ""})
    assert main(["blame", str(folder / "bytes")]) == 2
    assert "no lines of text" in capsys.readouterr().err
    assert run(folder, "empty")["lines"] == []
    assert main(["blame", str(tmp_path / "elsewhere.txt")]) == 2


async def test_what_is_not_there_is_refused(open_place: Open) -> None:
    place = await open_place(BASE)
    for path, at in (("gone.py", None), ("store.py", "#99"), ("../store.py", None)):
        with pytest.raises(Refusal):
            await blamed_file(place.folder, path, at, store=place.store)
