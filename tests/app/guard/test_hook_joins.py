"""An edit beside another agent's: the hook lets it go on with a warning where a merge would join both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from relay.airspace.live import edit_joins
from relay.airspace.live.edit_guard import AirspaceGuard
from relay.airspace.live.edit_joins import EditJoins
from relay.app.wiring.merge_tools import MergeTools
from relay.config.merge import MergeSettings
from relay.faces.http.routes.guard import GuardRoutes
from relay.git.run import Git
from relay.git.trial_merge import Merge
from tests.airspace.parts import AirspaceRoom, open_airspace_store
from tests.app.guard.test_hook import edit, hook
from tests.engines import Clock
from tests.faces.house import House, house, reader_of
from tests.git.repository import Room, repository, write
from tests.standing import Folders

BASE = "import os\n\n\ndef one():\n    return os.name\n\n\ndef two():\n    return 2\n"
#: AVA's: an import, a function at the end, and a statement.
AVA = BASE.replace("import os\n", "import json\nimport os\n").replace("return 2", "return 20") + (
    "\n\ndef ava():\n    return json.dumps(1)\n"
)
IMPORT = {"old_string": "import os\n", "new_string": "import ast\nimport os\n"}
SAME = {"old_string": "    return 2\n", "new_string": "    return 200\n"}


class JoiningRoom(Room):
    merge = MergeSettings()

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        return await self.tools.join(git, ours, theirs, merge)


class Place:
    """AVA has changed app.py in its worktree; BEN's edits are asked about over HTTP, by the hook."""

    def __init__(self, one: JoiningRoom, asked: House, config: Path) -> None:
        self.one, self.house, self.config = one, asked, config

    async def edits(self, tool: str = "Edit", **given: Any) -> tuple[str, str]:
        """What the hook says of an edit of BEN's: (deny or allow, the words)."""
        given = {"file_path": str(self.one.at("BEN") / "app.py"), **given}
        code, said, note = await hook(
            edit(self.one.at("BEN"), tool, **given), config=self.config, env={"RELAY_AGENT_ID": "BEN"}
        )
        assert code == 0 and not note, note
        out = (said or {}).get("hookSpecificOutput", {})
        return out.get("permissionDecision", "allow"), out.get(
            "permissionDecisionReason", out.get("additionalContext", "")
        )


@pytest_asyncio.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    # A busy machine starts the process that merges in more than a second.
    monkeypatch.setattr("relay.faces.http.routes.guard.GUARD_S", 50.0)
    monkeypatch.setattr(edit_joins, "WITHIN_S", 40.0)
    monkeypatch.setattr("relay.faces.http.requests.reader.owner", lambda: "owner")
    one = JoiningRoom(repository(tmp_path / "repo", {"app.py": BASE}), "AVA", "BEN")
    one.tools = MergeTools(lambda: one.merge)
    await one.open()
    write(one.at("AVA"), {"app.py": AVA})
    store = await open_airspace_store(tmp_path)
    airspace = AirspaceRoom(store, Clock())
    airspace.sets = await one.look()
    joins = EditJoins(one.registry)
    guard: Any = AirspaceGuard(airspace.context, airspace.protocol, airspace, joins)
    folders = Folders(one.folder, {name: one.at(name) for name in ("AVA", "BEN")})
    routes = GuardRoutes(guard, folders, reader_of("AVA", "BEN"))
    async with house(tmp_path / "room", routes=routes.table()) as asked:
        (tmp_path / "room" / ".relay" / "state.json").write_text(json.dumps({"url": f"http://{asked.at}"}))
        yield Place(one, asked, tmp_path / "room" / "config.json")
    await joins.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "edit-joins"]
    await one.tools.close()
    await store.close()


async def test_an_edit_that_would_be_joined_goes_on_with_a_warning(place: Place) -> None:
    decision, words = await place.edits(**IMPORT)
    assert decision == "allow"
    assert words.startswith(
        "AVA changed app.py where you do; relay would join both (imports) when they are merged."
    )
    # The same by all forms in which the programs say it.
    both = BASE.replace(IMPORT["old_string"], IMPORT["new_string"])
    for tool, given in (("MultiEdit", {"edits": [IMPORT]}), ("replace", IMPORT)):
        asked = {"old_string": IMPORT["old_string"], **given}
        decision, words = await place.edits(tool, **asked)
        assert (decision, "would join both (imports)" in words) == ("allow", True), tool
    assert both.count("import") == 2


async def test_two_edits_of_one_statement_are_refused_as_before(place: Place) -> None:
    decision, words = await place.edits(**SAME)
    assert decision == "deny" and words.startswith("Steer clear of app.py: AVA has changed line")
    # One part that joins does not carry one that does not.
    asked = {"old_string": SAME["old_string"], "edits": [IMPORT, SAME]}
    assert (await place.edits("MultiEdit", **asked))[0] == "deny"


async def test_without_the_text_or_the_ladder_it_is_refused_as_before(place: Place) -> None:
    given = {"agent": "BEN", "path": "app.py", "lines": [1, 1]}
    for more in ({}, {"edits": [{"old": "not there", "new": "x"}]}):
        status, told, _ = await place.house.ask("POST", "/api/guard", json={**given, **more})
        assert (status, told["decision"]) == (200, "steer"), more
    content = {"content": BASE.replace("import os\n", "import ast\nimport os\n")}
    status, told, _ = await place.house.ask("POST", "/api/guard", json={**given, **content})
    assert (status, told["decision"]) == (200, "allow") and "would join both" in told["note"]
    for wrong in ({"edits": "x"}, {"edits": [{"old": 1, "new": "x"}]}, {"content": 1}):
        status, _, _ = await place.house.ask("POST", "/api/guard", json={**given, **wrong})
        assert status == 400, wrong
    place.one.merge = MergeSettings(ladder="git")
    assert (await place.edits(**IMPORT))[0] == "deny"


async def test_what_is_not_known_in_time_or_fails_is_refused_as_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_joins, "WITHIN_S", 0.0)
    assert (await place.edits(**IMPORT))[0] == "deny"
    monkeypatch.setattr(edit_joins, "WITHIN_S", 40.0)
    place.one.registry.worktrees["AVA"].snapshot = None
    assert (await place.edits(**IMPORT))[0] == "deny"


async def test_a_standing_resolution_gives_way_to_a_join_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = SimpleNamespace(
        steer=lambda agent, path: SimpleNamespace(reason="both change it", advisory="a1"),
        ahead=lambda agent, advisory: ["AVA"],
        behind=lambda agent: frozenset(),
    )
    context = SimpleNamespace(settings=SimpleNamespace(enabled=True, muted=()))
    registry = place.one.registry
    guard = AirspaceGuard(context, protocol, SimpleNamespace(sets={}), EditJoins(registry))  # type: ignore[arg-type]
    from relay.model import Location

    joined = BASE.replace("import os\n", "import ast\nimport os\n").encode()
    told = await guard.decide("BEN", Location("app.py", None, True, text=joined))
    assert not told.refused and "would join both (imports)" in told.note
    told = await guard.decide(
        "BEN", Location("app.py", None, True, text=BASE.replace("return 2", "return 3").encode())
    )
    assert (told.steer, told.advisory) == (True, "a1")
    assert (await guard.decide("BEN", Location("app.py", None, True))).steer
