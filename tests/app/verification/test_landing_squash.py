"""Branches that land as one commit (docs/verification.md), over real git on both stores."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from relay.app.needs.merges import merge_needs
from relay.app.verification.landing_git import LandingGit
from relay.config.verification import LandingSettings
from relay.model import Caller
from relay.model.actions import Land
from relay.verification.landing import journal
from relay.verification.landing.entry import EntryState
from relay.verification.landing.service import Landings
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH, all_events, check_log
from tests.git.repository import commit, git, write

pytestmark = BOTH
LANDED = EntryState.LANDED


class Killed(BaseException):
    """The process is gone."""


async def squash(place: Place, agent: str) -> None:
    await place.store.write(lambda tx: journal.ask(tx, agent, by="ann", squash=True))


async def test_it_is_one_tested_commit_and_what_it_was_made_of_is_kept(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", python("import os; print(os.listdir('.'))")))
    commit(place.at("AVA"), {"ava.py": "x = 1\n"})
    await place.work("AVA", {"ava.py": "x = 2\n", "more.py": "y = 1\n"})
    await place.work("BEN", {"ben.py": "x = 1\n"})
    await squash(place, "AVA")
    (ben,) = await place.land("BEN")
    await place.queue.drain()
    ended = await place.store.read(lambda tx: journal.newest_ended(tx, 5))
    ava = next(entry for entry in ended if entry.agent == "AVA")
    assert (ava.state, ben.state, ava.squash, ben.squash) == (LANDED, LANDED, True, False)
    asked = await all_events(place.store, "verification.asked")
    assert [event.outputs["about"]["agents"] for event in asked] == [["AVA", "BEN"]]
    # One commit with one parent, in the agent's name; its worktree goes on from there, and BEN's merge too.
    made = str(ava.landed_as)
    assert len(git(place.folder, "rev-list", "--parents", "-1", made).split()) == 2
    assert len(git(place.folder, "rev-list", "--parents", "-1", str(ben.landed_as)).split()) == 3
    assert git(place.folder, "log", "-1", "--format=%an", made) == "AVA"
    assert git(place.folder, "show", "--format=", "--name-only", made).split() == ["ava.py", "more.py"]
    assert f"Squashed-From: {ava.at_commit} (landing {ava.number})" in git(
        place.folder, "log", "-1", "--format=%(trailers)", made
    )
    assert git(place.at("AVA"), "status", "--porcelain") == ""
    assert git(place.at("AVA"), "rev-parse", "HEAD") == git(place.folder, "rev-parse", "main")
    asked_git = ("for-each-ref", "--format=%(refname)", f"--points-at={ava.at_commit}", "refs/relay/kept")
    (kept,) = git(place.folder, *asked_git).split()
    changes = [event.outputs for event in await all_events(place.store, "worktree.changed")]
    (merged,) = [each for each in changes if each["change"] == "merged" and each["agent"] == "AVA"]
    assert (merged["method"], merged["kept"], merged["commit"]) == ("squash", kept, made)
    assert any("as one commit" in text and kept in text for text in await place.messages())
    await check_log(place.store)


async def test_one_whose_queue_was_killed_behind_the_move_is_found_on_main(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    place.have(policy("unit", python("print(1)")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    moved = LandingGit.move

    async def killed(self: LandingGit, links: Sequence[object], main: str) -> list[str]:
        await moved(self, links, main)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(LandingGit, "move", killed)
    with pytest.raises(Killed):
        await squash(place, "AVA")
        await place.queue.step()
    monkeypatch.setattr(LandingGit, "move", moved)
    head = git(place.folder, "rev-parse", "main")
    await place.queue.drain()
    (ava,) = await place.store.read(lambda tx: journal.newest_ended(tx, 5))
    assert (ava.state, ava.landed_as, git(place.folder, "rev-parse", "main")) == (LANDED, head, head)
    # Later work of the same branch is another landing's.
    await place.work("AVA", {"later.py": "x = 1\n"})
    await squash(place, "AVA")
    await place.queue.drain()
    assert (git(place.folder, "rev-parse", "main^"), place.main("later.py")) == (head, "x = 1")


async def test_a_line_in_an_agents_message_lands_nobody(open_place: Open) -> None:
    place = await open_place(landing=LandingSettings(batch=1))
    place.have(policy("unit", python("print(1)")))
    commit(place.at("BEN"), {"ben.py": "x = 1\n"})
    # What BEN has committed is no secret, and numbers are counted on.
    forged = f"Squashed-From: {git(place.at('BEN'), 'rev-parse', 'HEAD')} (landing 2)"
    write(place.at("AVA"), {"ava.py": "x = 1\n"})
    git(place.at("AVA"), "add", "-A")
    git(place.at("AVA"), "commit", "-q", "-m", f"Add ava.py\n\n{forged}")
    await place.look()
    for agent in ("AVA", "BEN"):
        await squash(place, agent)
    assert await place.queue.step()
    # Of what work it is made, relay alone says.
    told = git(place.folder, "log", "-1", "--format=%B", "main").splitlines()
    assert [line.split()[1] for line in told if line.startswith("Squashed-From")] == [
        (await place.entry(1)).at_commit
    ]
    await place.queue.drain()
    ava, ben = await place.entry(1), await place.entry(2)
    assert (ava.state, ben.state, forged.split()[1]) == (LANDED, LANDED, ben.at_commit)
    assert (ben.landed_as, place.main("ben.py")) == (git(place.folder, "rev-parse", "main"), "x = 1")
    assert git(place.folder, "rev-parse", "main^") == ava.landed_as
    await check_log(place.store)


async def test_how_it_lands_is_a_persons_wish(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("unit", python("import os, sys; sys.exit(os.path.exists('ava.py'))")))
    await place.work("AVA", {"ava.py": "x = 1\n"})
    await squash(place, "AVA")
    # The agent asks too, with its own key: its newer work lands, as the person wished.
    agent = Caller("AVA", "its-own")
    assert (await Landings(place.store).ask(agent))["success"]
    entry = await place.store.read(lambda tx: journal.open_entry(tx, "AVA"))
    assert entry is not None and (entry.asker, entry.squash) == ("ann", True)
    await place.queue.drain()
    ended = await place.entry(entry.number)
    assert (ended.state, ended.squash) == (EntryState.PUT_OUT, True)
    # *Land again* is the same order once more.
    (need,), *_ = await place.store.read(lambda tx: merge_needs(tx, ["AVA"], time.time()))
    assert need.actions[0].action == Land(("AVA",), squash=True)
    # Who asks first without a wish has a merge; a person changes it, and changes it back.
    await Landings(place.store).ask(agent)
    wishes = []
    for wish in (None, True, None, False, None):
        asked = await place.store.write(lambda tx, wish=wish: journal.ask(tx, "AVA", by="ann", squash=wish))
        wishes.append(asked[0].squash)
    assert wishes == [False, True, True, False, False]
