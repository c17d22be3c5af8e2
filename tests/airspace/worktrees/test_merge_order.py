"""Who is set back, decided: what git says keeps an advisory open, and what it does not say ends none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.advisories import table, wording
from relay.airspace.advisories.rules.advisory import Advisory, Outcome, Steering
from relay.airspace.worktrees.merging.order import best_order
from relay.git.trial_merge import Target, Trial, Verdict
from relay.model import Refusal
from tests.airspace.parts import FILE, AirspaceRoom, near, open_airspace_store, work
from tests.engines import BOTH, Clock

pytestmark = BOTH
PAIR = ("CLAUDE", "CODEX")
CLEAN, NOTHING, UNKNOWN = Trial(Verdict.CLEAN), Trial(Verdict.NOTHING), Trial(None)
ONE, TWO = Target("main", "1" * 40), Target("main", "2" * 40)


def torn(*paths: str) -> Trial:
    return Trial(Verdict.CONFLICTS, paths or (FILE,), {path: ((40, 58),) for path in paths or (FILE,)})


@pytest.fixture
async def airspace(tmp_path: Path) -> AsyncIterator[AirspaceRoom]:
    store = await open_airspace_store(tmp_path)
    yield AirspaceRoom(store, Clock())
    await store.close()


async def look(
    airspace: AirspaceRoom,
    target: Target = ONE,
    conflicts: Mapping[Any, tuple[str, ...]] | None = None,
    seconds: float = 2.0,
    **trials: Trial,
) -> None:
    both = {"CLAUDE": CLEAN, "CODEX": CLEAN} | trials
    await airspace.tick(seconds, trials=both, target=target, conflicts=conflicts or {})


async def bodies(airspace: AirspaceRoom) -> list[str]:
    return [one.body for one in await airspace.said()]


async def part(airspace: AirspaceRoom) -> Advisory:
    """The two met, and are far apart by every measure now."""
    await airspace.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE, conflicts={PAIR: (FILE,)})
    airspace.seen.clear()
    return await airspace.only()


async def test_a_pair_is_not_clear_while_git_cannot_merge_it(airspace: AirspaceRoom) -> None:
    await part(airspace)
    await look(airspace, conflicts={PAIR: (FILE,)})
    await look(airspace)  # git was not asked, or did not answer: that ends nothing
    await look(airspace, CODEX=UNKNOWN)
    one = await airspace.only()
    assert one.open and one.evidence and one.steering is not Steering.LEFT
    assert not [body for body in await bodies(airspace) if "clear" in body]
    await look(airspace, conflicts={PAIR: ()})
    assert (await bodies(airspace))[-1] == (
        f"clear: CLAUDE and CODEX are apart again in {FILE} (git merges CLAUDE and CODEX into main)"
    )
    assert not (await airspace.only()).open


async def test_who_was_left_behind_is_against_main_and_has_not_left(airspace: AirspaceRoom) -> None:
    opened = await part(airspace)
    airspace.sets["CLAUDE"] = replace(airspace.sets["CLAUDE"], files=())
    await airspace.tick(
        2.0,
        trials={"CLAUDE": NOTHING, "CODEX": torn()},
        target=TWO,
        merged=frozenset({"CLAUDE"}),
        conflicts={PAIR: ()},
    )
    one = await airspace.only()
    assert (one.id, one.open, one.part, one.steering) == (opened.id, True, ("CODEX",), Steering.WAITING)
    assert one.outcome is Outcome.TRUE and not one.unanswered
    told = (await airspace.said())[-1]
    assert told.to == ("CODEX",)
    assert told.body.startswith(
        f"CODEX does not merge into main now: git finds conflicts in {FILE} (lines 40-58) "
        "(the work of CLAUDE is in main)\n\nCODEX: Now merge main into your branch. "
    )
    assert [job.agent for job in await airspace.jobs() if job.message_id == told.id] == ["CODEX"]
    assert airspace.protocol.steer("CODEX", FILE) is None, "it has to settle the conflict in this file"
    said = len(await bodies(airspace))
    # Another process on this database, and the same again: nothing is said twice, and nothing ends.
    airspace.protocol = airspace.another()
    await airspace.protocol.load()
    for _ in range(3):
        await look(airspace, TWO, CLAUDE=NOTHING, CODEX=torn())
        await look(airspace, TWO, CLAUDE=NOTHING, CODEX=UNKNOWN)
    assert len(await bodies(airspace)) == said and (await airspace.only()).open
    await look(airspace, TWO, CLAUDE=NOTHING)
    assert (await bodies(airspace))[-1] == f"clear: CODEX merges clean into main again ({FILE})"
    assert (await airspace.only()).outcome is Outcome.TRUE


async def told_of(airspace: AirspaceRoom) -> list[str]:
    return [body for body in await bodies(airspace) if "does not merge into main now" in body]


async def test_each_landing_that_reaches_new_files_is_told(airspace: AirspaceRoom) -> None:
    await look(airspace, CODEX=torn())
    await look(airspace, TWO, CODEX=torn())
    await look(airspace, Target("main", "3" * 40), CODEX=torn())
    assert len(await told_of(airspace)) == 1, "it knows of this file"
    await look(airspace, Target("main", "4" * 40), CODEX=torn(FILE, "src/free.py"))
    assert "src/free.py" in (await bodies(airspace))[-1] and len(await told_of(airspace)) == 2
    counts = await airspace.store.read(table.counts)
    assert (counts["true"], counts["open"]) == (0, 0), "it forecasts nothing"


async def test_a_second_landing_in_the_same_file_is_told_with_its_lines(airspace: AirspaceRoom) -> None:
    def at(*lines: tuple[int, int]) -> Trial:
        return Trial(Verdict.CONFLICTS, (FILE,), {FILE: lines})

    await look(airspace, CODEX=at((44, 44)))
    # The agent's own edits move it, and no landing made that.
    await look(airspace, CODEX=at((46, 47)))
    await look(airspace, TWO, CODEX=at((46, 47)))
    assert len(await told_of(airspace)) == 1
    await look(airspace, TWO, CODEX=UNKNOWN)
    three = Target("main", "3" * 40)
    await look(airspace, three, CODEX=UNKNOWN)
    await look(airspace, three, CODEX=at((46, 47), (62, 62)))
    for _ in range(3):
        await look(airspace, three, CODEX=at((46, 47), (62, 62)))
    assert len(await told_of(airspace)) == 2
    assert f"{FILE} (lines 46-47, 62)" in (await bodies(airspace))[-1]
    # One of the two is taken back, and nothing is new by that.
    await look(airspace, Target("main", "4" * 40), CODEX=at((62, 62)))
    assert len(await told_of(airspace)) == 2


async def test_the_room_never_says_clear_of_who_is_set_back_elsewhere(airspace: AirspaceRoom) -> None:
    """CODEX is against main already, in an advisory of its own, when it meets CLAUDE, and CLAUDE is merged."""
    await look(airspace, CODEX=torn("src/free.py"))
    airspace.sets["CODEX"] = work("CODEX", FILE, "src/free.py", started_at=2.0)
    airspace.sets["CLAUDE"] = work("CLAUDE", FILE, committed=3.0)
    airspace.seen[PAIR] = near(0.9)
    await look(airspace, conflicts={PAIR: (FILE,)}, CODEX=torn("src/free.py"))
    assert len([one for one in await airspace.all() if one.open]) == 2
    del airspace.seen[PAIR]
    airspace.sets["CLAUDE"] = replace(airspace.sets["CLAUDE"], files=())
    both = {"CLAUDE": NOTHING, "CODEX": torn("src/free.py", FILE)}
    await airspace.tick(2.0, trials=both, target=TWO, merged=frozenset({"CLAUDE"}), conflicts={PAIR: ()})
    assert not [body for body in await bodies(airspace) if body.startswith("clear")]
    assert f"over: CLAUDE merged; CODEX does not merge into main ({FILE})" in await bodies(airspace)
    assert f"src/free.py (lines 40-58), {FILE} (lines 40-58)" in (await told_of(airspace))[-1]
    (one,) = [one for one in await airspace.all() if one.open]
    assert (one.part, one.number > 0) == (("CODEX",), True)
    await look(airspace, TWO, CLAUDE=NOTHING)
    assert (await bodies(airspace))[-1].startswith("clear: CODEX merges clean into main again")


async def test_after_clear_the_conflict_is_told_anew(airspace: AirspaceRoom) -> None:
    """Another branch is out for a moment, work is discarded and restored: the last word is what git says."""
    await look(airspace, CODEX=torn())
    for _ in range(3):
        await look(airspace, Target("old", "0" * 40))
        assert (await bodies(airspace))[-1] == f"clear: CODEX merges clean into old again ({FILE})"
        await look(airspace, CODEX=torn())
        assert (await bodies(airspace))[-1].startswith("CODEX does not merge into main now")
        one = next(one for one in await airspace.all() if one.open)
        assert one.number and one.text.startswith("CODEX does not merge into main now")
        await look(airspace, CODEX=torn())
        await look(airspace, CODEX=UNKNOWN)
        await look(airspace, CODEX=torn())
    assert len(await told_of(airspace)) == 4, "once each time"


async def test_a_further_file_is_told_though_main_stands_still(airspace: AirspaceRoom) -> None:
    await look(airspace, CODEX=torn())
    for _ in range(3):
        await look(airspace, CODEX=torn(FILE, "src/free.py"))
        await look(airspace, CODEX=torn())
    assert len(await told_of(airspace)) == 1, "it was told just now"
    await look(airspace, seconds=airspace.protocol.rules.cooldown_s, CODEX=torn(FILE, "src/free.py"))
    assert "src/free.py" in (await bodies(airspace))[-1]
    for _ in range(3):
        await look(airspace, CODEX=torn())
        await look(airspace, CODEX=torn(FILE, "src/free.py"))
    assert len(await told_of(airspace)) == 2


@pytest.mark.parametrize("torn_in", [FILE, "src/free.py"])
async def test_who_is_set_back_goes_behind_who_merges(airspace: AirspaceRoom, torn_in: str) -> None:
    await airspace.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE, conflicts={PAIR: (FILE,)})
    assert airspace.protocol.steer("CODEX", FILE) is not None
    before = len(await bodies(airspace))
    for _ in range(3):
        await look(airspace, TWO, {PAIR: (FILE,)}, CLAUDE=torn(torn_in))
    told = (await bodies(airspace))[before:]
    assert len(told) == 2, "which orders hold now, and what keeps CLAUDE from merging"
    orders = next(body for body in told if "CODEX: hold. Go on with your work." in body)
    assert "HOLD: CODEX (CLAUDE was set back), STEER: CLAUDE" in orders
    assert f"CLAUDE: make no further change in {FILE}; CODEX goes first." in orders
    assert not any("CLAUDE: hold" in body or "; CLAUDE goes first. Take" in body for body in told)
    assert (
        airspace.protocol.steer("CODEX", FILE) is None and airspace.protocol.steer("CLAUDE", FILE) is not None
    )
    # It stays so once CLAUDE merges again, and a person's word is above it.
    await look(airspace, TWO, {PAIR: (FILE,)})
    assert airspace.protocol.steer("CLAUDE", FILE) is not None
    await first(airspace, "CLAUDE")
    await look(airspace, Target("main", "3" * 40), {PAIR: (FILE,)}, CLAUDE=torn(torn_in))
    assert (
        airspace.protocol.steer("CLAUDE", FILE) is None and airspace.protocol.steer("CODEX", FILE) is not None
    )


async def test_who_settles_a_conflict_may_edit_its_file(airspace: AirspaceRoom) -> None:
    """Its merge is under way: it goes behind nobody for it, and whoever it gives way to, it may settle this file."""
    markers = replace(torn(), unsettled=True)
    await look(airspace, CLAUDE=markers, CODEX=markers)
    airspace.sets |= {
        "CLAUDE": work("CLAUDE", FILE, committed=3.0),
        "CODEX": work("CODEX", FILE, "src/free.py"),
    }
    airspace.seen[PAIR] = near(0.9, FILE, "src/free.py")
    await look(airspace, conflicts={PAIR: (FILE, "src/free.py")}, CLAUDE=markers)
    assert airspace.protocol.steer("CLAUDE", FILE) is None
    await look(airspace, conflicts={PAIR: (FILE, "src/free.py")}, CLAUDE=markers, CODEX=markers)
    assert airspace.protocol.steer("CODEX", FILE) is None
    assert airspace.protocol.steer("CODEX", "src/free.py") is not None


async def test_what_is_not_settled_has_the_same_lines_as_before(airspace: AirspaceRoom) -> None:
    await look(airspace, CODEX=torn())
    markers = Trial(Verdict.CONFLICTS, (FILE,), {FILE: ((40, 58),)}, unsettled=True, merging=True)
    await look(airspace, CODEX=markers)
    assert (await airspace.only()).set_back["CODEX"].merging
    shown = wording.shown(await airspace.only())
    assert f"git finds conflicts in {FILE} (lines 40-58)" in shown["text"]
    assert f"conflicts are not settled in {FILE} (lines 40-58);" in shown["line"]
    assert shown["set_back"][0]["unsettled"] is True
    assert len(await told_of(airspace)) == 1


async def test_a_branch_that_is_gone_is_over_and_not_clear(airspace: AirspaceRoom) -> None:
    await look(airspace, CODEX=torn())
    await airspace.tick(2.0, trials={"CLAUDE": CLEAN}, target=ONE)
    assert (await bodies(airspace))[-1] == f"over: CODEX no longer has a worktree ({FILE})"
    await look(airspace, TWO, CODEX=torn())
    await look(airspace, TWO, CODEX=NOTHING)
    assert (await bodies(airspace))[-1] == f"over: CODEX has nothing left to merge ({FILE})"


async def test_the_two_may_meet_anew_while_one_is_set_back(airspace: AirspaceRoom) -> None:
    await part(airspace)
    airspace.sets["CLAUDE"] = replace(airspace.sets["CLAUDE"], files=())
    await look(airspace, TWO, {PAIR: ()}, CLAUDE=NOTHING, CODEX=torn())
    airspace.sets["CLAUDE"] = work("CLAUDE", "src/free.py")
    airspace.sets["CODEX"] = work("CODEX", FILE, "src/free.py")
    airspace.seen[PAIR] = near(0.9, "src/free.py")
    await look(airspace, TWO, {PAIR: ("src/free.py",)}, seconds=airspace.settings.cooldown_s, CODEX=torn())
    found = {one.part: one for one in await airspace.all() if one.open}
    assert set(found) == {("CODEX",), PAIR}


async def test_a_person_says_who_goes_first(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    before = await airspace.only()
    assert (before.roles.hold, before.roles.steer) == (("CLAUDE",), ("CODEX",))
    told = await airspace.store.write(
        lambda tx: airspace.protocol.go_first(tx, "CODEX", airspace.sets, by="ann", now=airspace.clock())
    )
    assert told == "ann decided: CODEX goes first; CLAUDE gives way."
    await airspace.protocol.load()
    assert (
        airspace.protocol.steer("CODEX", FILE) is None and airspace.protocol.steer("CLAUDE", FILE) is not None
    )
    said = (await airspace.said())[-1]
    assert "CLAUDE: make no further change" in said.body and "HOLD: CODEX (ann says so)" in said.body
    # It stays so, whatever is committed, and who owes no answer is not reminded of one.
    await airspace.tick(airspace.settings.answer_s + 1)
    assert (await airspace.only()).roles.steer == ("CLAUDE",)
    assert not await airspace.protocol.remind()
    with pytest.raises(Refusal, match="not part of a resolution advisory"):
        await airspace.store.write(
            lambda tx: airspace.protocol.go_first(tx, "GEMINI", airspace.sets, by="ann", now=airspace.clock())
        )


async def first(airspace: AirspaceRoom, agent: str) -> None:
    await airspace.store.write(
        lambda tx: airspace.protocol.go_first(tx, agent, airspace.sets, by="ann", now=airspace.clock())
    )
    await airspace.protocol.load()


@pytest.mark.parametrize("gone", PAIR)
async def test_a_decision_ends_with_the_work_that_it_was_about(airspace: AirspaceRoom, gone: str) -> None:
    """Of the one that goes first or of the other, by whoever's merge; another intent keeps the advisory open."""
    await airspace.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE)
    await first(airspace, "CODEX")
    assert (await airspace.only()).decided_against("CLAUDE") == "ann decided that CODEX goes first"
    assert (await airspace.only()).decided_against("CODEX") == ""
    await look(airspace)
    assert (await airspace.only()).roles.hold == ("CODEX",)
    airspace.seen[PAIR] = near(0.6)
    await look(airspace, TWO, **{gone: NOTHING})
    assert (await airspace.only()).open and not (await airspace.only()).decided_against("CLAUDE")
    airspace.seen[PAIR] = near(0.95)
    await look(airspace, TWO, seconds=600.0)
    one = await airspace.only()
    assert (one.roles.hold, one.reason) == (("CLAUDE",), "HOLD: CLAUDE (3 files committed), STEER: CODEX")


async def test_only_what_does_something_is_offered(airspace: AirspaceRoom) -> None:
    await airspace.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE)

    async def offered() -> list[str]:
        return [one["command"] for one in (await airspace.only()).as_json()["actions"]]

    # Nobody lacks anything of main: there is nothing to take in.
    assert await offered() == ["/first @CLAUDE", "/first @CODEX", "/stop @CODEX"]
    assert airspace.protocol.decided() == set()
    await first(airspace, "CODEX")
    assert airspace.protocol.decided() == {"CODEX"}
    assert await offered() == ["/first @CLAUDE", "/stop @CLAUDE"]
    with pytest.raises(Refusal, match="CODEX goes first already: ann decided that"):
        await first(airspace, "CODEX")
    await first(airspace, "CLAUDE")
    assert await offered() == ["/first @CODEX", "/stop @CODEX"], "the later word holds"
    await look(airspace, TWO, CODEX=torn())
    assert "/update @CODEX" in await offered()


async def test_who_goes_on_is_asked_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.tick(airspace.settings.answer_s)
    await airspace.protocol.remind()
    await airspace.tick(airspace.settings.steer_s)
    await airspace.protocol.remind()
    asked = [one for one in await airspace.asked_people() if "A person decides who goes on" in one.body]
    assert len(asked) == 1
    assert [each["command"] for each in asked[0].meta["actions"]] == [
        "/first @CLAUDE",
        "/first @CODEX",
        "/stop @CODEX",
    ]
    assert (await airspace.only()).steering is Steering.STAYED


@pytest.mark.parametrize(
    ("merging", "pairs", "order"),
    [
        ("ABC", [], "A B C"),
        ("ABC", ["AB", "BC"], "A C B!"),
        ("ABC", ["AB", "AC", "BC"], "A B! C!"),
        ("ABCD", ["AB", "AC", "AD"], "B C D A!"),
    ],
)
def test_the_least_entangled_goes_first(merging: str, pairs: Sequence[str], order: str) -> None:
    collisions = {(pair[0], pair[1]): ("f",) for pair in pairs}
    turns = best_order(list(merging), [], collisions)
    assert " ".join(turn.agent + "!" * bool(turn.first) for turn in turns) == order
    # A person's word comes before that, also of who has to merge main first.
    told = best_order(list(merging), [], collisions, decided={"C"})
    assert told[0].agent == "C" and {turn.agent for turn in told} == set(merging)
    told = best_order(list(merging[:-1]), [merging[-1]], collisions, decided={merging[-1]})
    assert (told[0].agent, bool(told[0].first)) == (merging[-1], True)
    # Whose tests failed comes last, and is set back by those that it collides with.
    told = best_order(list(merging), [], collisions, decided={merging[0]}, failed={merging[0]: "v1"})
    assert (told[-1].agent, told[-1].failed) == (merging[0], "v1") and len(told) == len(merging)
    assert bool(told[-1].first) == any(merging[0] in turn.sets_back for turn in told)
    # After these, who would undo what another landed.
    undoes = {merging[0]: [{"agent": "Z", "path": "f", "commit": "1" * 40}], merging[1]: []}
    told = best_order(list(merging), [], collisions, failed={merging[-1]: "v1"}, undoes=undoes)
    assert [turn.agent for turn in told if turn.undoes] == [merging[0]] == [told[-1].agent]
    # Of equals, who has the right of way.
    assert best_order(["A", "B"], [], {("A", "B"): ("f",)}, lambda one, _: one == "A")[0].agent == "B"
