"""What the room itself goes by does not land unless a person merges it, over real git, on both stores."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from relay.airspace.worktrees.merging.own_files import own_files
from relay.airspace.worktrees.merging.proposal import MergeOptions
from relay.config.verification import LandingSettings, VerificationSettings
from relay.faces.landing import LandingView
from relay.model import Caller, Refusal
from relay.verification.landing import journal
from relay.verification.landing.entry import EntryState
from relay.verification.landing.service import Landings
from tests.app.verification.place import Open, Place
from tests.engines import BOTH
from tests.git.repository import Room, git, repository

LANDED, PUT_OUT = EntryState.LANDED, EntryState.PUT_OUT
#: What an agent would have run as the user.
CONFIG = json.dumps({"worktrees": {"setup": "touch /tmp/owned"}})


async def planned(place: Place) -> dict[str, str]:
    view = LandingView(place.settings, place.registry, Landings(place.store), place.policies)
    return {row["agent"]: row["why"] for row in await view.plan()}


@BOTH
async def test_an_agent_does_not_land_what_the_room_goes_by(open_place: Open) -> None:
    place = await open_place(files={"config.json": "{}\n"})
    before = git(place.folder, "rev-parse", "main")
    await place.work("AVA", {"ava.py": "x = 1\n", "config.json": CONFIG})
    await place.work("BEN", {"policies/all.yaml": "- {name: unit, tier: 1}\n"})
    await place.work("CLEO", {"cleo.py": "x = 1\n", "docs/config.json": CONFIG})
    why = await planned(place)
    assert "changes what this room itself goes by" in why["AVA"] and "config.json" in why["AVA"]
    assert "policies/all.yaml" in why["BEN"] and why["CLEO"] == ""

    # As `POST /land` does it with an agent's own key; and as a person's `/land all`.
    await Landings(place.store).ask(Caller("AVA", "here"))
    ava, ben, cleo = await place.land("AVA", "BEN", "CLEO")
    assert [entry.state for entry in (ava, ben, cleo)] == [PUT_OUT, PUT_OUT, LANDED]
    assert "does not land by itself: it changes what this room itself goes by" in ava.reason
    assert "config.json" in ava.reason and "worktrees merge AVA" in ava.reason
    assert "policies/all.yaml" in ben.reason
    assert place.main("config.json") == "{}" and (place.folder / "config.json").read_text() == "{}\n"
    # Nothing was committed for it either.
    assert git(place.at("AVA"), "rev-parse", "HEAD") == before
    with pytest.raises(Refusal, match="does not land by itself") as refused:
        await place.actions.merge("AVA", "AVA")
    assert refused.value.code == "own_files"

    # A person has seen it, and merges it.
    proposed = await place.actions.propose("AVA", "ann", MergeOptions())
    assert proposed["files"] == 2
    assert (await place.actions.merge("AVA", "ann"))["success"]
    assert place.main("config.json") == CONFIG
    # What the main branch has is none of the branch's changes any more.
    await place.work("AVA", {"more.py": "x = 1\n"})
    assert (await planned(place))["AVA"] == ""
    assert (await place.land("AVA"))[0].state is LANDED


@BOTH
async def test_one_that_turns_up_in_the_queue_is_put_out_there_too(open_place: Open) -> None:
    """Looked at before the room's policies were where they are now."""
    place = await open_place()
    await place.work("AVA", {"rules/all.yaml": "- {name: unit}\n"})
    asked = await Landings(place.store).ask(Caller("AVA", "here"))
    assert asked["success"]
    entry = (await place.store.read(journal.open_entries))[0]
    await place.queue.pins.pin(entry)
    assert (await place.entry(entry.number)).state is EntryState.WAITING
    moved = replace(
        place.settings.current,
        verification=VerificationSettings(policies="rules"),
        landing=LandingSettings(required=True),
    )
    place.settings.current = place.registry.settings = moved
    await place.queue.drain(["AVA"])
    ended = await place.entry(entry.number)
    assert ended.state is PUT_OUT and "rules/all.yaml" in ended.reason
    # Direct merges are refused in such a room: git is what is left.
    assert f"git -C {place.folder} merge {ended.branch}" in ended.reason


def test_a_file_of_the_rooms_own_is_known_by_each_of_its_names(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"app.py": "1\n"})
    settings = Room(repo, "A").settings
    asked = ["app.py", "config.json", "Config.JSON", "x/config.json", "policies/a.yaml", "policies/b.YML"]
    asked += [
        "policies",
        "policies/README.md",
        "policies/deep/a.yaml",
        "policies2/a.yaml",
        "conf/room.json",
        "conf",
    ]
    found = ["config.json", "Config.JSON", "policies/a.yaml", "policies/b.YML", "policies"]
    assert own_files(settings, repo, asked) == found
    # A link leads to another file, or from another checkout.
    (repo / "conf").mkdir()
    (repo / "conf" / "room.json").write_text("{}\n")
    (repo / "config.json").symlink_to("conf/room.json")
    (repo / "policies").mkdir()
    (repo / "shared.txt").write_text("")
    (repo / "policies" / "a.yaml").symlink_to("../shared.txt")
    assert own_files(settings, repo, [*asked, "shared.txt"]) == [
        *found,
        "conf/room.json",
        "conf",
        "shared.txt",
    ]
    (tmp_path / "link").symlink_to(repo)
    assert own_files(settings, tmp_path / "link", ["config.json"]) == ["config.json"]
    # Elsewhere it is nobody's but the user's.
    outside = replace(settings, path=tmp_path / "away" / "config.json")
    assert own_files(outside, repo, asked) == []
    # Policies at the top, and above: only they count.
    top = replace(settings, verification=VerificationSettings(policies="."))
    assert own_files(top, repo, ["app.py", "a.yaml", "policies/a.yaml"]) == ["a.yaml"]
