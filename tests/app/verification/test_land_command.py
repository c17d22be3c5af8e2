"""`relay land` where no room runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relay.app.verification.commands.land_command import _Here
from tests.app.verification.place import Open, policy, python
from tests.engines import BOTH

pytestmark = BOTH


async def test_a_room_that_starts_meanwhile_does_not_empty_its_folder(
    open_place: Open, tmp_path: Path
) -> None:
    place = await open_place()
    place.have(policy("unit", python("import os; print(os.getcwd())")))
    here = _Here(place.store, replace(place.settings.current), tmp_path / "land")
    try:
        await here.registry.open()
        await here.registry.refresh()
        made = await place.ask()
        await place.work("AVA", {"ava.py": "x = 1\n"})
        await here.registry.refresh()
        done = await here.landing.verifier.finished(made.number)
        (result,) = await place.results(done)
    finally:
        await here.landing.close()
        await here.tools.close()
    assert result.output.startswith(str(tmp_path / "land" / "verification"))
