"""A main branch that fails its tests, from the queue's side, on both stores."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from relay.app.needs.merges import merge_needs
from relay.app.needs.need import Kind
from relay.app.verification import main_branch
from relay.app.verification.orders import VerificationOrders
from relay.model import Refusal
from relay.model.actions import Verify
from relay.verification import journal as verifications
from relay.verification import present
from relay.verification.landing.entry import EntryState
from relay.verification.verification import Change, Source, State, Verification
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


async def test_a_red_main_that_is_tested_again_or_cannot_be_tested(
    open_place: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await open_place()
    down = tmp_path / "down"
    unit = policy("unit", python(f"import os, sys; sys.exit(os.path.exists({str(down)!r}))"), sandbox="off")
    place.have(unit)
    down.touch()
    await place.work("AVA", {"ava.py": "x = 1\n"})
    (ava,) = await place.land("AVA")
    assert ava.state is WAITING

    async def red() -> present.RedMain | None:
        return await place.store.read(present.of_main)

    async def finish() -> None:
        await place.queue.step()
        for one in await place.store.read(verifications.open_verifications):
            await place.verifier.finished(one.number)

    first = await red()
    assert first is not None
    # A commit that cannot be tested takes nothing back, and is tested after a while.
    place.have({**unit, "executor": "nothing"})
    commit(place.folder, {"more.py": "x = 1\n"})
    await finish()
    still = await red()
    assert still is not None and (still.id, still.of.number) == (first.id, first.of.number)
    (error,) = await place.store.read(lambda tx: verifications.newest_of_agent(tx, present.RELAY))
    assert error.state is State.ERROR
    place.have(unit)
    monkeypatch.setattr(main_branch, "AGAIN_S", -1.0)
    await finish()
    assert (await place.store.read(lambda tx: verifications.load(tx, error.number))).state is State.FAILED
    still = await red()
    assert still is not None and (still.id, still.of.change.commit) == (first.id, error.change.commit)
    # Tested again it is a verification of its own: it fails until that one has passed.
    orders = VerificationOrders(place.registry)
    down.unlink()
    failed = still.of
    said = await place.store.write(lambda tx: orders.carry_out(tx, Verify(failed.number), by="ann"))
    still = await red()
    assert still is not None and still.again is not None and said.startswith(f"{still.again.name} tests main")
    with pytest.raises(Refusal, match="tests it again already"):
        await place.store.write(lambda tx: orders.carry_out(tx, Verify(failed.number), by="ann"))
    await place.verifier.finished(still.again.number)
    assert await red() is None
    # Who waited for it is judged anew, though main has not moved.
    await asyncio.wait_for(place.queue.drain(), 60)
    assert (await place.entry(ava.number)).state is LANDED


def test_nobody_is_named_while_an_earlier_commit_has_no_verdict() -> None:
    def of(
        number: int, state: State, files: str = "a.py", again: int = 0, ended: float = 0.0
    ) -> Verification:
        about: dict[str, object] = {"merge": {"of": number}} | ({present.OF: again} if again else {})
        commit = f"c{again or number}"
        change = Change(f"{number}", Source.LANDING, present.RELAY, "ann", commit=commit, about=about)
        return Verification(number, replace(change, files=tuple(files.split())), state, ended=ended or number)

    ok, bad, runs = State.PASSED, State.FAILED, State.RUNNING
    red = present.red([of(4, bad, "b.py", ended=4.0), of(3, runs), of(2, ok)])
    assert red is not None and red.merge is None and red.unclear is not None and red.unclear.number == 3
    assert red.id == "main-fails:v4"
    red = present.red([of(4, bad, "b.py", ended=4.0), of(3, bad, ended=9.0), of(2, ok)])
    assert red is not None and (red.merge, red.id) == ({"of": 3}, "main-fails:v4")
    red = present.red([of(4, bad, "b.py"), of(3, ok), of(2, ok)])
    assert red is not None and (red.merge, red.id) == ({"of": 4}, "main-fails:v4")
    # What passes refutes what it tests itself: a later commit by the same files, and no earlier one.
    assert present.red([of(5, ok, "a.py b.py"), of(4, bad, "b.py"), of(3, bad)]) is None
    red = present.red([of(5, ok, "b.py"), of(4, bad, "b.py"), of(3, bad)])
    assert red is not None and red.of.number == 3
    red = present.red([of(5, ok, again=3), of(4, bad), of(3, bad)])
    assert red is not None and red.of.number == 4
