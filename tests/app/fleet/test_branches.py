"""The agents' branches between clones of one codebase: what goes to the remote, what stays, what git says then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from relay.airspace.shared.shared_work import SharedWork, of_json
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.app.fleet.branches import FleetBranches
from relay.config.settings import LiveSettings
from relay.git.remotes import push_own_refs
from relay.log.encoding import dumps, loads
from tests.git.repository import Room, commit, git, lines, repository

OWN = "refs/relay/fleet/0123abcd/laptop%3a%7e%2fx/"
FORMER = "refs/relay/fleet/laptop%3a%7e%2fx/"
SECRET = "token = 'ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8'\n"


class Place:
    """A clone with one agent, as one member has it."""

    def __init__(self, folder: Path, name: str, agent: str, room: str = "0123abcd") -> None:
        self.room = Room(folder, agent, storage="postgres", fleet={"name": name})
        self.agent = agent
        self.branches = FleetBranches(LiveSettings(self.room.settings), self.room.registry, lambda: room)
        turns = SimpleNamespace(working=dict, agents=lambda: [agent])
        self.source = WorkingSetSource(self.room.registry, turns)

    async def own(self) -> SharedWork:
        """What it tells of its agent, as it comes to the others."""
        await self.room.look()
        await self.source.working_sets()
        target = await self.source.target()
        assert target is not None
        await self.source.trials(target)
        work = self.source.own_work()[self.agent]
        come = of_json(self.agent, loads(dumps(work.as_json())))
        assert come == work
        return work

    async def push(self) -> bool:
        return await self.branches.push([await self.own()])


@pytest.fixture
async def places(tmp_path: Path) -> tuple[Path, Place, Place]:
    """A bare repository, and two clones of it."""
    bare = tmp_path / "bare.git"
    first = repository(tmp_path / "one")
    git(tmp_path, "clone", "-q", "--bare", str(first), str(bare))
    git(first, "remote", "add", "origin", str(bare))
    git(first, "fetch", "-q", "origin")
    git(tmp_path, "clone", "-q", str(bare), "two")
    made = Place(first, "laptop:~/x", "AVA"), Place(tmp_path / "two", "server", "BEN")
    for place in made:
        await place.room.open()
    return bare, *made


def refs(bare: Path) -> dict[str, str]:
    listed = git(bare, "for-each-ref", "--format=%(refname) %(objectname)", "refs/relay/").splitlines()
    return dict(line.split(" ") for line in listed)


async def test_a_branch_comes_to_the_other_member_and_git_tries_it(places: tuple[Path, Place, Place]) -> None:
    bare, one, two = places
    for place, mark in ((one, " ava"), (two, " ben")):
        (place.room.at(place.agent) / "a.py").write_text(lines(1, 20, mark))
    work = await one.own()
    assert not one.branches.has(work) and one.branches.wants([work])
    heads = git(bare, "for-each-ref", "refs/heads/")
    assert await one.push() and one.branches.has(work) and not one.branches.wants([work])
    assert refs(bare) == {f"{OWN}AVA": work.commit}
    assert git(bare, "for-each-ref", "refs/heads/") == heads

    await two.own()
    other = replace(work, pushed=True, member="laptop:~/x")
    pair = ("AVA", "BEN")
    two.source.take_others({"AVA": other})
    sets = {found.agent: found for found in await two.source.working_sets()}
    assert [touch.path for touch in sets["AVA"].files] == ["a.py"] and two.source.pairs() == [pair]
    assert await two.source.merges([pair], {}, most=1) == {}
    assert two.source.untried([pair], {}) == {pair} == two.source.out_of_reach([pair])
    # What a tool has only named is in no commit that git could be asked about.
    two.source.take_others({"AVA": replace(other, commit="")})
    assert two.source.untried([pair], {}) == {pair} and not two.source.out_of_reach([pair])
    # What comes while a look is under way is tried with the next one.
    two.source.take_others({"AVA": replace(other, coming=True)})
    await two.source.working_sets()
    here = await two.branches.fetch([other])
    assert here == {work.commit: {"a.py": lines(1, 20, " ava")}}
    two.source.take_others({"AVA": replace(other, at_hand=True, texts=here[work.commit])})
    assert two.source.coming([pair]) == {pair} and not two.source.out_of_reach([pair])
    await two.source.working_sets()
    assert not two.source.coming([pair])
    merges = await two.source.merges([pair], {}, most=1)
    merge = merges[pair]
    assert merge is not None and merge.conflicts == ("a.py",)
    assert two.source.text(sets["AVA"], "a.py") == lines(1, 20, " ava")

    # Main went on at one machine and not at the other: that is no conflict of the two.
    (one.room.at("AVA") / "a.py").write_text(lines(1, 20))
    commit(one.room.folder, {"b.py": lines(1, 10, " main")})
    git(one.room.at("AVA"), "merge", "-q", "main")
    (one.room.at("AVA") / "new.py").write_text("x = 1\n")
    (two.room.at("BEN") / "b.py").write_text(lines(1, 10, " ben"))
    assert await one.push()
    other = replace(await one.own(), pushed=True)
    assert other.target != await two.source.target()
    await two.own()
    here = await two.branches.fetch([other])
    two.source.take_others({"AVA": replace(other, at_hand=other.commit in here)})
    merges = await two.source.merges([pair], await two.source.trials((await two.own()).target), most=1)
    assert merges[pair] is not None and merges[pair].conflicts == ()

    # With nothing in hand the ref goes.
    git(one.room.at("AVA"), "clean", "-fdq")
    assert await one.push() and refs(bare) == {}


async def test_what_looks_like_a_secret_stays_and_what_fails_is_tried_again(
    places: tuple[Path, Place, Place],
) -> None:
    bare, one, _ = places
    tree = one.room.at("AVA")
    (tree / "keys.py").write_text(SECRET)
    assert await one.push() and refs(bare) == {}
    assert "The branch of AVA stays here: a secret seems to stand in keys.py (" in one.branches.trouble
    assert not one.branches.will_have(await one.own())
    # The branch of another agent here is on its way all the same.
    assert one.branches.will_have(replace(await one.own(), agent="BOB", commit="1" * 40))
    (tree / "keys.py").write_text("token = None\n")
    moved = bare.with_name("elsewhere.git")
    bare.rename(moved)
    assert not await one.push()
    assert one.branches.trouble.startswith("The agents' branches cannot be pushed: ")
    assert not one.branches.will_have(await one.own())
    moved.rename(bare)
    assert await one.push() and one.branches.trouble == ""
    assert list(refs(bare)) == [f"{OWN}AVA"]


async def test_what_has_landed_at_the_remote_is_not_looked_at_again(
    places: tuple[Path, Place, Place],
) -> None:
    """A landing moves main at the remote and here, and not this clone's own ref of the remote's main."""
    bare, one, _ = places
    (one.room.folder / "keys.py").write_text(SECRET)
    git(one.room.folder, "add", "-A")
    git(one.room.folder, "commit", "-qm", "landed with a secret, as its own member allowed")
    git(one.room.folder, "push", "-q", str(bare), "HEAD:main")
    git(one.room.folder, "update-ref", "refs/relay/common/origin/main", "HEAD")
    tree = one.room.at("AVA")
    git(tree, "merge", "-q", "--ff-only", git(one.room.folder, "rev-parse", "HEAD").strip())
    (tree / "new.py").write_text("new = 1\n")
    assert await one.push() and one.branches.trouble == ""
    assert len(refs(bare)) == 1


async def test_without_a_remote_nothing_is_pushed_or_waited_for(places: tuple[Path, Place, Place]) -> None:
    _, one, _ = places
    git(one.room.folder, "remote", "remove", "origin")
    (one.room.at("AVA") / "a.py").write_text(lines(1, 20, " ava"))
    assert await one.push() and one.branches.trouble == ""
    work = await one.own()
    assert not one.branches.has(work) and not one.branches.will_have(work)


async def test_two_rooms_with_members_of_one_name_leave_each_others_refs(
    places: tuple[Path, Place, Place], tmp_path: Path
) -> None:
    bare, one, _ = places
    git(tmp_path, "clone", "-q", str(bare), "other")
    other = Place(tmp_path / "other", "laptop:~/x", "AVA", room="89efcdab")
    await other.room.open()
    for place, mark in ((one, " one"), (other, " other")):
        (place.room.at("AVA") / "a.py").write_text(lines(1, 20, mark))
    assert await one.push() and await other.push()
    ref = "refs/relay/fleet/89efcdab/laptop%3a%7e%2fx/AVA"
    expected = {f"{OWN}AVA": (await one.own()).commit, ref: (await other.own()).commit}
    assert refs(bare) == expected
    # A daemon that has just started asks what is there.
    again = FleetBranches(LiveSettings(one.room.settings), one.room.registry, lambda: "0123abcd")
    assert await again.push([]) and refs(bare) == {ref: expected[ref]}


async def test_refs_that_do_not_name_the_room_go_with_the_first_push_and_are_fetched_until_then(
    places: tuple[Path, Place, Place],
) -> None:
    bare, one, two = places
    (one.room.at("AVA") / "a.py").write_text(lines(1, 20, " ava"))
    work = await one.own()
    alternate = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(one.room.registry.scratch.folder / "objects")}
    assert one.room.registry.main is not None
    before = replace(one.room.registry.main.git, env=alternate)
    # What goes deeper is of a room, whatever its id.
    deeper = f"{FORMER}laptop/AVA"
    await push_own_refs(
        before, str(bare), dict.fromkeys([f"{FORMER}AVA", f"{FORMER}GONE", deeper], work.commit)
    )
    pushed = replace(work, pushed=True, member="laptop:~/x")
    assert list(await two.branches.fetch([pushed])) == [work.commit]
    assert await one.push() and set(refs(bare)) == {f"{OWN}AVA", deeper}


async def test_before_the_first_survey_it_is_not_known_that_there_is_no_remote(
    places: tuple[Path, Place, Place],
) -> None:
    _, one, _ = places
    (one.room.at("AVA") / "a.py").write_text(lines(1, 20, " ava"))
    work = await one.own()
    starting = Place(one.room.folder, "laptop:~/x", "AVA")
    assert await starting.branches.push([]) and starting.branches.will_have(work)
    assert starting.branches.wants([])
    await starting.room.open()
    assert await starting.branches.push([work]) and starting.branches.has(work)
