"""What verifies a change, over real programs in real trees, on both stores."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.app.verification import verifier as module
from relay.config.verification import VerificationSettings
from relay.model import Refusal
from relay.store.ports import StoreBusy, Tx
from relay.verification import approvals, journal, present
from relay.verification.approvals import Answer
from relay.verification.executors import inline
from relay.verification.verification import Outcome, State
from tests.app.verification.place import Open, Place, policy, python
from tests.engines import BOTH, T0, Clock, all_events, check_log

pytestmark = BOTH

PASSES, FAILS = python("print('fine')"), python("print('a.py:3: no'); raise SystemExit(2)")
SENSITIVE = {
    "name": "security review",
    "tier": 4,
    "executor": "manual",
    "patterns": ["**/auth/**"],
}


async def worked(open_place: Open, **settings: object) -> Place:
    place = await open_place(**settings)
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    return place


async def test_static_analysis_verification(open_place: Open) -> None:
    """004, "Static analysis verification (Tier 0)": runs inline, in the tree, and stores the result."""
    place = await worked(open_place)
    place.have(policy("lint", python("print(open('app.py').read())"), tier=0))
    done = await place.verify()
    assert (done.state, done.tier, done.decides, done.reason) == (State.PASSED, 0, "lint", "")
    (result,) = await place.results(done)
    assert (result.state, result.exit_code, result.attempt, result.tree) == (
        Outcome.PASSED,
        0,
        1,
        done.change.tree,
    )
    assert "return 2" in result.output and done.change.files == ("app.py",)
    ended = (await all_events(place.store, "verification.ended"))[0]
    assert ended.outputs["first_pass"] is True and ended.snapshot == done.change.tree
    await check_log(place.store)


async def test_all_run_and_the_highest_tier_decides(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("lint", FAILS, tier=0), policy("unit", PASSES, tier=1))
    done = await place.verify()
    assert (done.state, done.decides) == (State.PASSED, "unit")
    assert done.reason == "lint failed (exit code 2). It does not decide: its tier is lower."
    states = {result.policy: result.state for result in await place.results(done)}
    assert states == {"lint": Outcome.FAILED, "unit": Outcome.PASSED}


async def test_a_failure_is_run_again_once(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("unit", FAILS))
    done = await place.verify()
    assert (done.state, done.reason) == (State.FAILED, "unit failed (exit code 2).")
    assert [result.attempt for result in await place.results(done)] == [1, 2]
    assert (await all_events(place.store, "verification.ended"))[0].outputs["lines"] == "a.py:3: no"


async def test_what_passes_the_second_time_is_flaky(open_place: Open, tmp_path: Path) -> None:
    place = await worked(open_place)
    mark = tmp_path / "was-here"
    code = f"import pathlib, sys; p = pathlib.Path({str(mark)!r}); was = p.exists(); p.touch(); sys.exit(not was)"
    place.have(policy("unit", python(code), sandbox="off"))
    done = await place.verify()
    first, second = await place.results(done)
    assert (done.state, first.state, second.state) == (State.PASSED, Outcome.FAILED, Outcome.PASSED)
    assert second.flaky and second.reason == "it failed, and passed when it was run again"
    assert (await all_events(place.store, "verification.ended"))[0].outputs["first_pass"] is False


async def test_the_same_tree_and_policy_is_not_run_twice(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("unit", PASSES))
    first, second = await place.verify(), await place.verify()
    (result,) = await place.results(second)
    assert result.reused == first.number and result.as_json()["reused"] == first.name
    # Another program, or somebody who asks for it, runs it anew.
    place.have(policy("unit", python("print('other')")))
    (other,) = await place.results(await place.verify())
    assert other.reused is None
    await place.store.write(lambda tx: journal.again(tx, second, by="ann"))
    again = await place.verifier.finished(second.number)
    attempts = await place.results(again)
    assert [(each.attempt, each.reused) for each in attempts] == [(1, first.number), (2, None)]
    assert again.change.id == second.change.id


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"run": ["no-such-tool", "x"]}, "there is no program 'no-such-tool'"),
        (
            {"run": PASSES, "env": ["RELAY_NO_SUCH"]},
            "RELAY_NO_SUCH is not set in the environment of the room",
        ),
        ({"executor": "e2b", "run": PASSES}, "nothing here carries out e2b"),
        ({"executor": "github", "workflow": "a.yml"}, "nothing here carries out github"),
    ],
)
async def test_what_is_missing_is_an_error_and_never_success(
    open_place: Open, more: dict[str, object], reason: str
) -> None:
    place = await worked(open_place)
    made = {"name": "unit", "tier": 1, "executor": "inline", "patterns": ["*"], **more}
    place.have(made, policy("lint", PASSES, tier=0))
    done = await place.verify()
    assert (done.state, done.reason) == (State.ERROR, f"unit could not run: {reason}.")


@pytest.mark.parametrize("sandbox", ["auto", "off"])
@pytest.mark.parametrize("program", ["./missing.sh", "./app.py", "/usr/no-such-tool"])
async def test_a_program_that_cannot_be_started_is_no_failure(
    open_place: Open, program: str, sandbox: str
) -> None:
    place = await worked(open_place)
    place.have(policy("unit", [program, "x"], sandbox=sandbox))
    done = await place.verify()
    assert done.state is State.ERROR
    assert done.reason.startswith("unit could not run: ") and program in done.reason


async def test_a_required_sandbox_without_one_is_an_error(
    open_place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "bubblewrap", lambda: (None, "bubblewrap is not installed"))
    place = await worked(open_place)
    place.have(policy("strict", PASSES, tier=2, sandbox="required"))
    done = await place.verify()
    assert done.reason == "strict could not run: the policy requires a sandbox: bubblewrap is not installed."
    place.have(policy("loose", PASSES))
    (result,) = await place.results(await place.verify())
    assert (result.state, result.sandboxed) == (Outcome.PASSED, False)


async def test_nothing_configured_is_not_tested(open_place: Open) -> None:
    place = await worked(open_place)
    assert (await place.verify()).reason == "There are no policies."
    place.have(policy("docs", PASSES, patterns=["*.md"]))
    done = await place.verify()
    assert (done.state, done.tier, done.reason) == (State.NOT_TESTED, None, "No policy is for it.")
    place.have({"name": "broken"})
    done = await place.verify()
    assert done.state is State.ERROR and "all.yaml:1: `tier`" in done.reason


async def test_what_takes_too_long_is_ended(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("slow", python("import time; time.sleep(60)"), timeout_s=1))
    done = await place.verify()
    assert (done.state, done.reason) == (State.FAILED, "slow was ended: it was ended after 1 s.")


async def test_manual_review_is_asked_of_people(open_place: Open) -> None:
    """004, "Manual review required (Tier 4)": what ran is there before a person decides, once."""
    place = await open_place()
    await place.work("AVA", {"src/auth/a.py": "x = 1\n"})
    place.have(SENSITIVE, policy("unit", PASSES))
    made = await place.ask()
    run = asyncio.create_task(place.verifier.finished(made.number))
    (asked,) = await _waiting(place)
    assert (asked.policies, asked.files) == (("security review",), ("src/auth/a.py",))
    states = {result.policy: result.state for result in await place.results(made)}
    assert states == {"security review": Outcome.WAITING, "unit": Outcome.PASSED}
    # Who is about to merge it is told.
    stands = await place.store.read(lambda tx: present.of_work(tx, {"AVA": ""}))
    assert stands["AVA"].said == "A person has to agree to it, and nobody has yet (v1)."
    await place.store.write(lambda tx: approvals.decide(tx, asked.number, Answer.APPROVED, by="ann"))
    done = await run
    assert (done.state, done.tier) == (State.PASSED, 4)
    with pytest.raises(Refusal, match=r"a1 is approved by ann, .* ago: it is decided once"):
        await place.store.write(lambda tx: approvals.decide(tx, 1, Answer.REJECTED, by="eve"))
    # The same files, approved before, are asked about no more.
    assert (await place.verify()).state is State.PASSED


async def test_a_persons_word_is_none_for_what_fails(open_place: Open) -> None:
    """Nobody is asked about a change whose tests fail, whatever the tier of who would have to agree."""
    place = await open_place()
    await place.work("AVA", {"src/auth/a.py": "x = 1\n"})
    place.have(SENSITIVE, policy("unit", FAILS))
    done = await place.verify()
    assert (done.state, done.tier, done.reason) == (State.FAILED, 4, "unit failed (exit code 2).")
    assert await place.store.read(approvals.waiting) == []


async def test_the_same_is_asked_once(open_place: Open) -> None:
    """Of two verifications of one tree, one asks; the answer is for both."""
    place = await open_place()
    await place.work("AVA", {"auth/a.py": "x = 1\n"})
    place.have(SENSITIVE)
    first = await place.ask()
    run = asyncio.create_task(place.verifier.finished(first.number))
    (asked,) = await _waiting(place)
    second = await place.ask()
    other = asyncio.create_task(place.verifier.finished(second.number))
    while not [r for r in await place.results(second) if r.state is Outcome.WAITING]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await place.verifier.look()
    assert [each.number for each in await place.store.read(approvals.waiting)] == [asked.number]
    await place.store.write(lambda tx: approvals.decide(tx, asked.number, Answer.APPROVED, by="ann"))
    assert [(await run).state, (await other).state] == [State.PASSED, State.PASSED]
    agreed = await place.store.read(lambda tx: approvals.agreed(tx, second.number))
    assert [each.decided_by for each in agreed] == ["ann"]


async def test_a_rejection_says_why(open_place: Open) -> None:
    place = await open_place()
    await place.work("AVA", {"auth/a.py": "x = 1\n"})
    place.have(SENSITIVE)
    made = await place.ask()
    run = asyncio.create_task(place.verifier.finished(made.number))
    (asked,) = await _waiting(place)
    await place.store.write(
        lambda tx: approvals.decide(tx, asked.number, Answer.REJECTED, by="ann", reason="a key is in it")
    )
    done = await run
    assert (done.state, done.reason) == (State.FAILED, "security review: ann rejected it: a key is in it.")


async def test_an_approval_expires_and_that_is_no_approval(open_place: Open) -> None:
    place = await open_place(verification=VerificationSettings(approval_s=1.0))
    await place.work("AVA", {"auth/a.py": "x = 1\n"})
    place.have(SENSITIVE)
    made = await place.ask()
    while (now := await place.store.read(lambda tx: journal.load(tx, made.number))).state not in (
        State.ERROR,
        State.PASSED,
    ):
        await place.verifier.look()
        await asyncio.sleep(0.05)
    assert now.reason == "security review could not run: nobody has approved it in time."


async def test_a_run_that_needs_approval_is_run_first(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("deploy", PASSES, tier=3, requires_approval=True))
    made = await place.ask()
    run = asyncio.create_task(place.verifier.finished(made.number))
    (asked,) = await _waiting(place)
    first, second = await place.results(made)
    assert (first.state, second.state) == (Outcome.PASSED, Outcome.WAITING)
    await place.store.write(lambda tx: approvals.decide(tx, asked.number, Answer.APPROVED, by="ann"))
    assert (await run).state is State.PASSED


async def test_an_approval_makes_no_failure_good(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("deploy", FAILS, tier=3, requires_approval=True))
    done = await place.verify()
    assert (done.state, done.reason) == (State.FAILED, "deploy failed (exit code 2).")
    assert not await all_events(place.store, "approval.asked")


async def test_what_a_person_said_of_a_run_is_not_reused_as_a_run(open_place: Open) -> None:
    place = await worked(open_place)
    place.have(policy("deploy", PASSES, tier=3, requires_approval=True))
    for _ in range(2):
        made = await place.ask()
        run = asyncio.create_task(place.verifier.finished(made.number))
        (asked,) = await _waiting(place)
        await place.store.write(lambda tx, n=asked.number: approvals.decide(tx, n, Answer.APPROVED, by="ann"))
        assert (await run).state is State.PASSED
    ran, said = await place.results(made)
    assert "fine" in ran.output and (ran.reused, said.reason) == (1, "ann approved it")


async def test_a_policy_that_is_gone_decides_nothing(open_place: Open) -> None:
    place = await worked(open_place)
    lint = policy("lint", FAILS, tier=0)
    place.have(policy("integration", PASSES, tier=2), lint)
    done = await place.verify()
    assert done.state is State.PASSED
    place.have(lint)
    await place.store.write(lambda tx: journal.again(tx, done, by="ann"))
    again = await place.verifier.finished(done.number)
    assert (again.state, again.decides, again.reason) == (State.FAILED, "lint", "lint failed (exit code 2).")


async def test_a_second_attempt_that_was_cut_off_is_flaky_still(open_place: Open, tmp_path: Path) -> None:
    place = await worked(open_place)
    mark, go = tmp_path / "was-here", tmp_path / "go"
    code = (
        f"import pathlib, sys, time; p, go = pathlib.Path({str(mark)!r}), pathlib.Path({str(go)!r})\n"
        "if not p.exists(): p.touch(); sys.exit(1)\n"
        "while not go.exists(): time.sleep(0.05)"
    )
    place.have(policy("unit", python(code), sandbox="off"))
    made = await place.ask()
    await place.verifier.look()
    async with asyncio.timeout(60):
        while [r.state for r in await place.results(made)][1:] != [Outcome.RUNNING]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await place.verifier.close()
    go.touch()
    done = await place.verifier.finished(made.number)
    assert done.state is State.PASSED and (await place.results(done))[1].flaky


async def test_programs_get_files_as_they_are_and_no_options(open_place: Open) -> None:
    place = await open_place(files={"old.py": "x = 1\n"})
    code = "import os, sys; [os.stat(p) for p in sys.argv[1:]]; print(sorted(map(os.fsencode, sys.argv[1:])))"
    place.have(policy("lint", [*python(code), "{files}"]))
    (place.at("AVA") / "old.py").unlink()
    Path(os.fsdecode(bytes(place.at("AVA")) + b"/caf\xe9")).touch()
    await place.work("AVA", {"--fix": "", "a b": "", "new\nline": ""})
    done = await place.verify()
    (result,) = await place.results(done)
    assert done.state is State.PASSED and "--fix" in (done.change.files or ())
    assert result.output == "[b'./--fix', b'a b', b'caf\\xe9', b'new\\nline']\n"


async def test_nothing_runs_for_files_that_are_all_deleted(open_place: Open) -> None:
    place = await open_place()
    place.have(policy("lint", ["ls", "{files}"]))
    (place.at("AVA") / "app.py").unlink()
    await place.look()
    assert (await place.verify()).state is State.NOT_TESTED


async def test_what_was_cut_off_is_run_again(open_place: Open, tmp_path: Path) -> None:
    """Ten at once, ended in the middle: none is lost or doubled."""
    place = await worked(open_place)
    go = tmp_path / "go"
    code = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    place.have(*[policy(f"unit {at}", python(f"{code}\nprint({at})"), sandbox="off") for at in range(10)])
    made = await place.ask()
    await place.verifier.look()
    while not [r for r in await place.results(made) if r.state is Outcome.RUNNING]:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await place.verifier.close()
    go.touch()
    done = await place.verifier.finished(made.number)
    results = await place.results(done)
    assert done.state is State.PASSED
    assert [(each.attempt, each.state) for each in results] == [(1, Outcome.PASSED)] * 10
    assert len(await all_events(place.store, "verification.result")) == 10


async def test_what_was_called_off_while_it_ran_has_no_verdict_later(
    open_place: Open, tmp_path: Path
) -> None:
    """What its program found by then is not told, nobody is asked, it is not tried again, and its program ends."""
    place = await worked(open_place)
    go = tmp_path / "go"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    code = f"{wait}\nraise SystemExit(1)"
    place.have(policy("unit", python(code), sandbox="off", requires_approval=True))
    made = await place.ask()

    async def runs() -> None:
        await place.verifier.look()
        async with asyncio.timeout(60):
            while [r.state for r in await place.results(made)] != [Outcome.RUNNING]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def cancel(tx: Tx) -> None:
        await journal.cancel(tx, await journal.load(tx, made.number), "nobody wants it")

    await runs()
    (task,) = place.verifier._running.values()
    await place.store.write(cancel)
    go.touch()
    await asyncio.wait([task])
    assert [r.state for r in await place.results(made)] == [Outcome.CANCELLED]
    assert await all_events(place.store, "verification.result") == []
    assert await place.store.read(approvals.waiting) == []

    go.unlink()
    made = await place.ask()
    await runs()
    (task,) = place.verifier._running.values()
    await place.store.write(cancel)
    await place.verifier.look()
    assert task.cancelled() or task.done()


async def test_an_agents_verifications_are_read_page_by_page(open_place: Open) -> None:
    place = await open_place()
    made = [await place.ask() for _ in range(3)]
    before = made[2].number
    older = await place.store.read(lambda tx: journal.newest_of_agent(tx, "AVA", 5, before))
    assert [each.number for each in older] == [made[1].number, made[0].number]


async def test_one_event_is_one_verification(open_place: Open) -> None:
    place = await worked(open_place)
    change = (await place.ask()).change

    async def ask(id: str) -> int:
        made = replace(change, id=id)
        return (await place.store.write(lambda tx: journal.ask(tx, made, source_key="turn:1"))).number

    assert await ask("a") == await ask("b")


async def test_a_fault_inside_gives_no_verdict(open_place: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await worked(open_place)
    place.have(policy("unit", PASSES))

    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(module, "first_attempt", broken)
    done = await place.verify()
    assert (done.state, done.reason) == (
        State.ERROR,
        "RuntimeError inside the room; its log has the details.",
    )


async def test_a_database_that_is_busy_gives_no_verdict(open_place: Open) -> None:
    """What a run could not write is written later: the verification goes on where it was."""
    place = await worked(open_place)
    place.have(policy("unit", PASSES), policy("lint", PASSES, tier=0))
    made = await place.ask()
    real, writes = place.store.write, list[str]()

    async def write(work: Any, **more: Any) -> Any:
        writes.append("asked")
        if len(writes) in (2, 3):  # the first is that it was routed; these are that its runs begin
            raise StoreBusy("locked by another process")
        return await real(work, **more)

    place.verifier._store.write = write  # type: ignore[method-assign]
    done = await place.verifier.finished(made.number)
    assert (done.state, done.reason) == (State.PASSED, "")


async def _waiting(place: Place) -> list[approvals.Approval]:
    async with asyncio.timeout(60):
        while not (asked := await place.store.read(approvals.waiting)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return asked


async def test_paths_of_the_tree_are_told_as_in_the_repository(open_place: Open) -> None:
    """The folder of the export is gone when somebody reads what was printed."""
    place = await worked(open_place)
    place.have(policy("unit", python("import os; print(os.path.abspath('app.py') + ':3: no')")))
    (result,) = await place.results(await place.verify())
    assert result.output == "app.py:3: no\n"


async def test_its_times_are_by_the_clock_of_the_database(open_place: Open) -> None:
    """Rows of several machines are compared."""
    place = await open_place(clock=Clock())
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    place.have(policy("lint", PASSES))
    for done in (await place.verify(), await place.verify()):  # the second is the first one's run again
        (result,) = await place.results(done)
        times = (done.at, done.began, done.ended, result.began, result.ended)
        assert done.state is State.PASSED and times == (T0,) * 5
