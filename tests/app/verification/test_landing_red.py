"""A main branch that fails its tests, from the queue's side, on both stores."""

from __future__ import annotations

from relay.app.needs.merges import merge_needs
from relay.app.needs.need import Kind
from relay.verification import journal as verifications
from relay.verification import present
from relay.verification.landing.entry import EntryState
from tests.app.verification.place import AGENTS, Open, policy, python
from tests.engines import BOTH
from tests.git.repository import commit

pytestmark = BOTH

LANDED, PUT_OUT, WAITING = EntryState.LANDED, EntryState.PUT_OUT, EntryState.WAITING
NO_BROKEN = python(
    "import pathlib, sys; sys.exit(any('BROKEN' in file.read_text() for file in pathlib.Path().glob('*.py')))"
)


async def test_a_red_main_stays_red_until_its_tests_pass(open_place: Open) -> None:
    place = await open_place(files={"app.py": "BROKEN = 1\n"})
    place.have(policy("unit", NO_BROKEN, patterns=["*.py"]), policy("docs", python("0"), patterns=["*.md"]))

    async def need() -> tuple[str, str] | None:
        """Its id, and the verification that it names, once all that is asked for is verified."""
        await place.queue.step()
        for one in await place.store.read(verifications.open_verifications):
            await place.verifier.finished(one.number)
        needs, *_ = await place.store.read(lambda tx: merge_needs(tx, AGENTS, 1.0))
        found = [need for need in needs if need.kind is Kind.MAIN_FAILS]
        return (found[0].id, found[0].ref) if found else None

    async def stands(agent: str) -> str:
        trees = {agent: place.registry.worktrees[agent].work.snapshot.tree}  # type: ignore[union-attr]
        told = await place.store.read(lambda tx: present.of_work(tx, trees))
        return told[agent].said if agent in told else ""

    await place.work("AVA", {"ava.py": "x = 1\n"})
    (ava,) = await place.land("AVA")
    assert ava.state is WAITING and await stands("AVA") == ""
    red = await need()
    assert red is not None and red[0] == f"main-fails:{red[1]}"
    # What its tests are not for lands: it is the same need, of what main is then.
    await place.work("BEN", {"more.md": "more\n"})
    (ben,) = await place.land("BEN")
    assert ben.state is LANDED
    still = await need()
    assert still is not None and (still[0], still[1] != red[1]) == (red[0], True)
    # A person mends it by hand: who waited lands, and what is bad is put out.
    commit(place.folder, {"app.py": "fine = 1\n"})
    assert await need() is None
    await place.queue.drain()
    assert (await place.entry(ava.number)).state is LANDED
    await place.work("CLEO", {"cleo.py": "BROKEN = 1\n"})
    (cleo,) = await place.land("CLEO")
    assert cleo.state is PUT_OUT
    assert await stands("CLEO") == f"Its tests failed (v{cleo.verification})."
    assert await need() is None
