"""Who is set back, decided: what git says keeps an advisory open, and what it does not say ends none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.advisories import table, wording
from relay.airspace.advisories.rules.advisory import Advisory, Outcome, Steering
from relay.airspace.worktrees.merge_order import best_order
from relay.git.trial_merge import Target, Trial, Verdict
from relay.model import Refusal
from tests.airspace.parts import FILE, Sky, near, open_sky, work
from tests.engines import BOTH, Clock

pytestmark = BOTH
PAIR = ("CLAUDE", "CODEX")
CLEAN, NOTHING, UNKNOWN = Trial(Verdict.CLEAN), Trial(Verdict.NOTHING), Trial(None)
ONE, TWO = Target("main", "1" * 40), Target("main", "2" * 40)


def torn(*paths: str) -> Trial:
    return Trial(Verdict.CONFLICTS, paths or (FILE,), {path: ((40, 58),) for path in paths or (FILE,)})


@pytest.fixture
async def sky(tmp_path: Path) -> AsyncIterator[Sky]:
    store = await open_sky(tmp_path)
    yield Sky(store, Clock())
    await store.close()


async def look(
    sky: Sky,
    target: Target = ONE,
    conflicts: Mapping[Any, tuple[str, ...]] | None = None,
    seconds: float = 2.0,
    **trials: Trial,
) -> None:
    both = {"CLAUDE": CLEAN, "CODEX": CLEAN} | trials
    await sky.tick(seconds, trials=both, target=target, conflicts=conflicts or {})


async def bodies(sky: Sky) -> list[str]:
    return [one.body for one in await sky.said()]


async def part(sky: Sky) -> Advisory:
    """The two met, and are far apart by every measure now."""
    await sky.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE, conflicts={PAIR: (FILE,)})
    sky.seen.clear()
    return await sky.only()


async def test_a_pair_is_not_clear_while_git_cannot_merge_it(sky: Sky) -> None:
    await part(sky)
    await look(sky, conflicts={PAIR: (FILE,)})
    await look(sky)  # git was not asked, or did not answer: that ends nothing
    await look(sky, CODEX=UNKNOWN)
    one = await sky.only()
    assert one.open and one.evidence and one.steering is not Steering.LEFT
    assert not [body for body in await bodies(sky) if "clear" in body]
    await look(sky, conflicts={PAIR: ()})
    assert (await bodies(sky))[-1] == (
        f"clear: CLAUDE and CODEX are apart again in {FILE} (git merges CLAUDE and CODEX into main)"
    )
    assert not (await sky.only()).open


async def test_who_was_left_behind_is_against_main_and_has_not_left(sky: Sky) -> None:
    opened = await part(sky)
    sky.sets["CLAUDE"] = replace(sky.sets["CLAUDE"], files=())
    await sky.tick(
        2.0,
        trials={"CLAUDE": NOTHING, "CODEX": torn()},
        target=TWO,
        merged=frozenset({"CLAUDE"}),
        conflicts={PAIR: ()},
    )
    one = await sky.only()
    assert (one.id, one.open, one.part, one.steering) == (opened.id, True, ("CODEX",), Steering.WAITING)
    assert one.outcome is Outcome.TRUE and not one.unanswered
    told = (await sky.said())[-1]
    assert told.to == ("CODEX",)
    assert told.body.startswith(
        f"CODEX does not merge into main now: git finds conflicts in {FILE} (lines 40-58) "
        "(the work of CLAUDE is in main)\n\nCODEX: Now merge main into your branch. "
    )
    assert [job.agent for job in await sky.jobs() if job.message_id == told.id] == ["CODEX"]
    assert sky.protocol.steer("CODEX", FILE) is None, "it has to settle the conflict in this file"
    said = len(await bodies(sky))
    # Another process on this database, and the same again: nothing is said twice, and nothing ends.
    sky.protocol = sky.another()
    await sky.protocol.load()
    for _ in range(3):
        await look(sky, TWO, CLAUDE=NOTHING, CODEX=torn())
        await look(sky, TWO, CLAUDE=NOTHING, CODEX=UNKNOWN)
    assert len(await bodies(sky)) == said and (await sky.only()).open
    await look(sky, TWO, CLAUDE=NOTHING)
    assert (await bodies(sky))[-1] == f"clear: CODEX merges clean into main again ({FILE})"
    assert (await sky.only()).outcome is Outcome.TRUE


async def told_of(sky: Sky) -> list[str]:
    return [body for body in await bodies(sky) if "does not merge into main now" in body]


async def test_each_landing_that_reaches_new_files_is_told(sky: Sky) -> None:
    await look(sky, CODEX=torn())
    await look(sky, TWO, CODEX=torn())
    await look(sky, Target("main", "3" * 40), CODEX=torn())
    assert len(await told_of(sky)) == 1, "it knows of this file"
    await look(sky, Target("main", "4" * 40), CODEX=torn(FILE, "src/free.py"))
    assert "src/free.py" in (await bodies(sky))[-1] and len(await told_of(sky)) == 2
    counts = await sky.store.read(table.counts)
    assert (counts["true"], counts["open"]) == (0, 0), "it forecasts nothing"


async def test_a_second_landing_in_the_same_file_is_told_with_its_lines(sky: Sky) -> None:
    def at(*lines: tuple[int, int]) -> Trial:
        return Trial(Verdict.CONFLICTS, (FILE,), {FILE: lines})

    await look(sky, CODEX=at((44, 44)))
    # The agent's own edits move it, and no landing made that.
    await look(sky, CODEX=at((46, 47)))
    await look(sky, TWO, CODEX=at((46, 47)))
    assert len(await told_of(sky)) == 1
    await look(sky, TWO, CODEX=UNKNOWN)
    three = Target("main", "3" * 40)
    await look(sky, three, CODEX=UNKNOWN)
    await look(sky, three, CODEX=at((46, 47), (62, 62)))
    for _ in range(3):
        await look(sky, three, CODEX=at((46, 47), (62, 62)))
    assert len(await told_of(sky)) == 2
    assert f"{FILE} (lines 46-47, 62)" in (await bodies(sky))[-1]
    # One of the two is taken back, and nothing is new by that.
    await look(sky, Target("main", "4" * 40), CODEX=at((62, 62)))
    assert len(await told_of(sky)) == 2


async def test_the_room_never_says_clear_of_who_is_set_back_elsewhere(sky: Sky) -> None:
    """CODEX is against main already, in an advisory of its own, when it meets CLAUDE, and CLAUDE is merged."""
    await look(sky, CODEX=torn("src/free.py"))
    sky.sets["CODEX"] = work("CODEX", FILE, "src/free.py", started_at=2.0)
    sky.sets["CLAUDE"] = work("CLAUDE", FILE, committed=3.0)
    sky.seen[PAIR] = near(0.9)
    await look(sky, conflicts={PAIR: (FILE,)}, CODEX=torn("src/free.py"))
    assert len([one for one in await sky.all() if one.open]) == 2
    del sky.seen[PAIR]
    sky.sets["CLAUDE"] = replace(sky.sets["CLAUDE"], files=())
    both = {"CLAUDE": NOTHING, "CODEX": torn("src/free.py", FILE)}
    await sky.tick(2.0, trials=both, target=TWO, merged=frozenset({"CLAUDE"}), conflicts={PAIR: ()})
    assert not [body for body in await bodies(sky) if body.startswith("clear")]
    assert f"over: CLAUDE merged; CODEX does not merge into main ({FILE})" in await bodies(sky)
    assert f"src/free.py (lines 40-58), {FILE} (lines 40-58)" in (await told_of(sky))[-1]
    (one,) = [one for one in await sky.all() if one.open]
    assert (one.part, one.number > 0) == (("CODEX",), True)
    await look(sky, TWO, CLAUDE=NOTHING)
    assert (await bodies(sky))[-1].startswith("clear: CODEX merges clean into main again")


async def test_after_clear_the_conflict_is_told_anew(sky: Sky) -> None:
    """Another branch is out for a moment, work is discarded and restored: the last word is what git says."""
    await look(sky, CODEX=torn())
    for _ in range(3):
        await look(sky, Target("old", "0" * 40))
        assert (await bodies(sky))[-1] == f"clear: CODEX merges clean into old again ({FILE})"
        await look(sky, CODEX=torn())
        assert (await bodies(sky))[-1].startswith("CODEX does not merge into main now")
        one = next(one for one in await sky.all() if one.open)
        assert one.number and one.text.startswith("CODEX does not merge into main now")
        await look(sky, CODEX=torn())
        await look(sky, CODEX=UNKNOWN)
        await look(sky, CODEX=torn())
    assert len(await told_of(sky)) == 4, "once each time"


async def test_a_further_file_is_told_though_main_stands_still(sky: Sky) -> None:
    await look(sky, CODEX=torn())
    for _ in range(3):
        await look(sky, CODEX=torn(FILE, "src/free.py"))
        await look(sky, CODEX=torn())
    assert len(await told_of(sky)) == 1, "it was told just now"
    await look(sky, seconds=sky.protocol.rules.cooldown_s, CODEX=torn(FILE, "src/free.py"))
    assert "src/free.py" in (await bodies(sky))[-1]
    for _ in range(3):
        await look(sky, CODEX=torn())
        await look(sky, CODEX=torn(FILE, "src/free.py"))
    assert len(await told_of(sky)) == 2


@pytest.mark.parametrize("torn_in", [FILE, "src/free.py"])
async def test_who_is_set_back_goes_behind_who_merges(sky: Sky, torn_in: str) -> None:
    await sky.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE, conflicts={PAIR: (FILE,)})
    assert sky.protocol.steer("CODEX", FILE) is not None
    before = len(await bodies(sky))
    for _ in range(3):
        await look(sky, TWO, {PAIR: (FILE,)}, CLAUDE=torn(torn_in))
    told = (await bodies(sky))[before:]
    assert len(told) == 2, "which orders hold now, and what keeps CLAUDE from merging"
    orders = next(body for body in told if "CODEX: hold. Go on with your work." in body)
    assert "HOLD: CODEX (CLAUDE was set back), STEER: CLAUDE" in orders
    assert f"CLAUDE: make no further change in {FILE}; CODEX goes first." in orders
    assert not any("CLAUDE: hold" in body or "; CLAUDE goes first. Take" in body for body in told)
    assert sky.protocol.steer("CODEX", FILE) is None and sky.protocol.steer("CLAUDE", FILE) is not None
    # It stays so once CLAUDE merges again, and a person's word is above it.
    await look(sky, TWO, {PAIR: (FILE,)})
    assert sky.protocol.steer("CLAUDE", FILE) is not None
    await first(sky, "CLAUDE")
    await look(sky, Target("main", "3" * 40), {PAIR: (FILE,)}, CLAUDE=torn(torn_in))
    assert sky.protocol.steer("CLAUDE", FILE) is None and sky.protocol.steer("CODEX", FILE) is not None


async def test_who_settles_a_conflict_may_edit_its_file(sky: Sky) -> None:
    """Its merge is under way: it goes behind nobody for it, and whoever it gives way to, it may settle this file."""
    markers = replace(torn(), unsettled=True)
    await look(sky, CLAUDE=markers, CODEX=markers)
    sky.sets |= {"CLAUDE": work("CLAUDE", FILE, committed=3.0), "CODEX": work("CODEX", FILE, "src/free.py")}
    sky.seen[PAIR] = near(0.9, FILE, "src/free.py")
    await look(sky, conflicts={PAIR: (FILE, "src/free.py")}, CLAUDE=markers)
    assert sky.protocol.steer("CLAUDE", FILE) is None
    await look(sky, conflicts={PAIR: (FILE, "src/free.py")}, CLAUDE=markers, CODEX=markers)
    assert sky.protocol.steer("CODEX", FILE) is None
    assert sky.protocol.steer("CODEX", "src/free.py") is not None


async def test_the_lines_of_markers_are_named_as_such(sky: Sky) -> None:
    await look(sky, CODEX=torn())
    markers = Trial(Verdict.CONFLICTS, (FILE,), {FILE: ((40, 81),)}, unsettled=True)
    await look(sky, CODEX=markers)
    shown = wording.shown(await sky.only())
    assert f"git finds conflicts in {FILE} (lines 40-58)" in shown["text"]
    assert f"conflicts are not settled in {FILE} (lines 40-81), git's markers counted" in shown["line"]
    assert shown["set_back"][0]["unsettled"] is True
    assert len(await told_of(sky)) == 1


async def test_a_branch_that_is_gone_is_over_and_not_clear(sky: Sky) -> None:
    await look(sky, CODEX=torn())
    await sky.tick(2.0, trials={"CLAUDE": CLEAN}, target=ONE)
    assert (await bodies(sky))[-1] == f"over: CODEX no longer has a worktree ({FILE})"
    await look(sky, TWO, CODEX=torn())
    await look(sky, TWO, CODEX=NOTHING)
    assert (await bodies(sky))[-1] == f"over: CODEX has nothing left to merge ({FILE})"


async def test_the_two_may_meet_anew_while_one_is_set_back(sky: Sky) -> None:
    await part(sky)
    sky.sets["CLAUDE"] = replace(sky.sets["CLAUDE"], files=())
    await look(sky, TWO, {PAIR: ()}, CLAUDE=NOTHING, CODEX=torn())
    sky.sets["CLAUDE"] = work("CLAUDE", "src/free.py")
    sky.sets["CODEX"] = work("CODEX", FILE, "src/free.py")
    sky.seen[PAIR] = near(0.9, "src/free.py")
    await look(sky, TWO, {PAIR: ("src/free.py",)}, seconds=sky.settings.cooldown_s, CODEX=torn())
    found = {one.part: one for one in await sky.all() if one.open}
    assert set(found) == {("CODEX",), PAIR}


async def test_a_person_says_who_goes_first(sky: Sky) -> None:
    await sky.meet()
    before = await sky.only()
    assert (before.roles.hold, before.roles.steer) == (("CLAUDE",), ("CODEX",))
    told = await sky.store.write(
        lambda tx: sky.protocol.go_first(tx, "CODEX", sky.sets, by="ann", now=sky.clock())
    )
    assert told == "ann decided: CODEX goes first; CLAUDE gives way."
    await sky.protocol.load()
    assert sky.protocol.steer("CODEX", FILE) is None and sky.protocol.steer("CLAUDE", FILE) is not None
    said = (await sky.said())[-1]
    assert "CLAUDE: make no further change" in said.body and "HOLD: CODEX (ann says so)" in said.body
    # It stays so, whatever is committed, and who owes no answer is not reminded of one.
    await sky.tick(sky.settings.answer_s + 1)
    assert (await sky.only()).roles.steer == ("CLAUDE",)
    assert not await sky.protocol.remind()
    with pytest.raises(Refusal, match="not part of a resolution advisory"):
        await sky.store.write(
            lambda tx: sky.protocol.go_first(tx, "GEMINI", sky.sets, by="ann", now=sky.clock())
        )


async def first(sky: Sky, agent: str) -> None:
    await sky.store.write(lambda tx: sky.protocol.go_first(tx, agent, sky.sets, by="ann", now=sky.clock()))
    await sky.protocol.load()


@pytest.mark.parametrize("gone", PAIR)
async def test_a_decision_ends_with_the_work_that_it_was_about(sky: Sky, gone: str) -> None:
    """Of the one that goes first or of the other, by whoever's merge; another intent keeps the advisory open."""
    await sky.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE)
    await first(sky, "CODEX")
    assert (await sky.only()).decided_against("CLAUDE") == "ann decided that CODEX goes first"
    assert (await sky.only()).decided_against("CODEX") == ""
    await look(sky)
    assert (await sky.only()).roles.hold == ("CODEX",)
    sky.seen[PAIR] = near(0.6)
    await look(sky, TWO, **{gone: NOTHING})
    assert (await sky.only()).open and not (await sky.only()).decided_against("CLAUDE")
    sky.seen[PAIR] = near(0.95)
    await look(sky, TWO, seconds=600.0)
    one = await sky.only()
    assert (one.roles.hold, one.reason) == (("CLAUDE",), "HOLD: CLAUDE (3 files committed), STEER: CODEX")


async def test_only_what_does_something_is_offered(sky: Sky) -> None:
    await sky.meet(trials={"CLAUDE": CLEAN, "CODEX": CLEAN}, target=ONE)

    async def offered() -> list[str]:
        return [one["command"] for one in (await sky.only()).as_json()["actions"]]

    # Nobody lacks anything of main: there is nothing to take in.
    assert await offered() == ["/first @CLAUDE", "/first @CODEX", "/stop @CODEX"]
    assert sky.protocol.decided() == set()
    await first(sky, "CODEX")
    assert sky.protocol.decided() == {"CODEX"}
    assert await offered() == ["/first @CLAUDE", "/stop @CLAUDE"]
    with pytest.raises(Refusal, match="CODEX goes first already: ann decided that"):
        await first(sky, "CODEX")
    await first(sky, "CLAUDE")
    assert await offered() == ["/first @CODEX", "/stop @CODEX"], "the later word holds"
    await look(sky, TWO, CODEX=torn())
    assert "/update @CODEX" in await offered()


async def test_who_goes_on_is_asked_once(sky: Sky) -> None:
    await sky.meet()
    await sky.tick(sky.settings.answer_s)
    await sky.protocol.remind()
    await sky.tick(sky.settings.steer_s)
    await sky.protocol.remind()
    asked = [one for one in await sky.asked_people() if "A person decides who goes on" in one.body]
    assert len(asked) == 1
    assert [each["command"] for each in asked[0].meta["actions"]] == [
        "/first @CLAUDE",
        "/first @CODEX",
        "/stop @CODEX",
    ]
    assert (await sky.only()).steering is Steering.STAYED


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
    # Of equals, who has the right of way.
    assert best_order(["A", "B"], [], {("A", "B"): ("f",)}, lambda one, _: one == "A")[0].agent == "B"
