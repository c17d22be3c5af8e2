"""The live scanner: when it looks, what it shows, and what it costs while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from relay.airspace.advisories import intents, table
from relay.airspace.advisories.intents import Source
from relay.airspace.live import history
from relay.airspace.live.observer import with_intents, without
from relay.airspace.live.picture import PictureSample
from relay.airspace.readings import Level
from relay.airspace.worktrees.view import rows
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.git.trial_merge import Merge, Target, Trial, Verdict
from relay.model import Refusal
from relay.model.actions import DeclareIntent
from relay.model.working_set import WorkingSet, all_paths
from relay.store.ports import Tx
from tests.airspace.house import House
from tests.airspace.parts import FILE, NAMES, open_airspace_store, touch, work
from tests.airspace.parts import AirspaceRoom as Room
from tests.engines import BOTH, Clock
from tests.git.repository import commit, git, lines, repository, room
from tests.room.parts import until

pytestmark = BOTH

PAIR = ("CLAUDE", "CODEX")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    store = await open_airspace_store(tmp_path)
    yield House(Room(store, Clock()))
    await store.close()


async def test_two_in_one_file_are_seen_told_and_shown(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE), work("ann", "docs/a.md")]
    await house.tick()
    (said,) = await house.room.said()
    assert said.body.startswith(f"both change {FILE}; HOLD: CLAUDE (2 files committed), STEER: CODEX")
    state = await house.live.state()
    assert [(one["agentId"], one["kind"], one["branch"]) for one in state["agents"]] == [
        ("CLAUDE", "agent", "relay/claude"),
        ("CODEX", "agent", "relay/codex"),
        ("ann", "person", "relay/ann"),
    ]
    (link,) = state["links"]
    assert (link["a"], link["b"], link["level"], link["channels"]) == (*PAIR, "resolution", {"overlap": 0.9})
    assert link["readings"]["overlap"]["evidence"][0]["path"] == FILE
    assert state["counts"] == {
        "agents": 3,
        "pairs": 3,
        "clear": 2,
        "advisory": 0,
        "resolution": 1,
        "files": 1,
    }
    assert [one["steer"] for one in state["advisories"]] == [["CODEX"]]
    assert set(state) == {
        *("profile", "enabled", "thresholds", "agents", "links", "advisories", "positions"),
        *("fileCoordinates", "counts", "graph", "precision", "at", "text", "unchecked"),
    }
    assert "**resolution:**" in house.live.who_is_near() == state["text"]
    house.trees.why = "It is not known what is merged into."
    assert house.live.who_is_near().endswith("It is not known what is merged into.")


async def test_nothing_begins_and_nothing_ends_while_main_is_not_known(house: House) -> None:
    house.trees.why = "It is not known what is merged into."
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    await house.tick()
    assert not await house.room.said() and (await house.live.state())["links"] == []
    assert house.live.who_is_near() == house.trees.why
    assert house.scanner._due_at() == house.room.clock() + house.room.settings.tick_s, "it looks again"
    house.trees.main = Target("main", "1" * 40)
    await house.tick()
    assert (await house.room.only()).open
    house.trees.main, house.trees.sets = None, []
    await house.tick()
    assert (await house.room.only()).open


@pytest.mark.parametrize("muted", [(), ("lib/**", "src/**")])
async def test_the_scanner_and_the_page_say_the_same_of_a_pair(
    house: House, tmp_path: Path, muted: tuple[str, ...]
) -> None:
    repo = repository(tmp_path / "repo", {"src/a.py": lines(1, 20), "b.py": lines(1, 9)})
    told = {"muted": list(muted)}
    one = await room(repo, "CLAUDE", "CODEX", airspace=told)
    git(one.at("CLAUDE"), "mv", "src", "lib")
    commit(one.at("CLAUDE"))
    commit(one.at("CODEX"), {"src/new.py": lines(1, 5)})  # git asks where it belongs now
    await one.look()
    house.room.settings = one.settings.airspace
    turns = SimpleNamespace(working=dict, agents=lambda: NAMES)
    house.scanner.observer.worktrees = WorkingSetSource(one.registry, turns)
    await house.tick()
    found = {row["agent"]: row["collides"] for row in (await rows(one.registry))[0]}
    (paths,) = [tuple(each["paths"]) for each in found["CLAUDE"]]
    assert house.scanner.observer.conflicts[PAIR] == paths == ("lib/new.py",)
    # What is muted is no matter of an advisory; that git cannot merge it is said all the same.
    assert "git cannot merge" in house.live.who_is_near()
    assert (await house.live.state())["counts"]["resolution"] == (0 if muted else 1)


async def test_an_intent_ends_with_the_work_that_it_was_about_whoever_merged_it(house: House) -> None:
    house.trees.main = Target("main", "1" * 40)
    house.trees.sets = [work("CLAUDE", FILE)]
    house.trees.tried = {"CLAUDE": Trial(Verdict.CLEAN), "CODEX": Trial(Verdict.NOTHING)}

    async def means(agent: str, path: str, session: str = "s1") -> None:
        now = house.room.clock()
        declared = DeclareIntent(agent, (path,))
        await house.room.store.write(
            lambda tx: intents.declare(tx, declared, source=Source.AGENT, by=agent, now=now, session=session)
        )

    async def meant() -> dict[str, list[str]]:
        await house.tick()
        state = await house.live.state()
        return {one["agentId"]: one["intent"] for one in state["agents"] if one["intent"]}

    await means("CLAUDE", FILE)
    await means("CODEX", "src/other.py")
    assert await meant() == {"CLAUDE": [FILE], "CODEX": ["src/other.py"]}, "CODEX has not begun"
    # A person's git merges it: git says at the next look that nothing is left.
    house.trees.sets, house.trees.tried = [], dict.fromkeys(NAMES[:2], Trial(Verdict.NOTHING))
    house.room.clock.move(1.0)
    await means("CLAUDE", "src/next.py", "s2")
    await house.tick()
    assert await meant() == {"CLAUDE": ["src/next.py"], "CODEX": ["src/other.py"]}
    await house.tick()
    ended = [one.outputs for one in await house.room.events(intents.DECLARED)][-1]
    assert ended == {"agent": "CLAUDE", "paths": [], "source": "agent", "by": "RELAY"}


async def test_before_the_first_look_has_ended_nothing_is_said_to_be_seen(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.trees.sets, house.trees.main = [work("CLAUDE", FILE)], Target("main", "c1")
    house.trees.tried = {"CLAUDE": Trial(None)}
    looking, go_on, real = asyncio.Event(), asyncio.Event(), house.trees.working_sets

    async def held() -> Sequence[WorkingSet]:
        looking.set()
        await go_on.wait()
        return await real()

    monkeypatch.setattr(house.trees, "working_sets", held)
    first = asyncio.create_task(house.tick())
    await looking.wait()

    async def asked(tx: Tx) -> str:
        return await house.live.take_main(tx, "CLAUDE", by="ann")

    assert (await house.live.state())["at"] is None
    with pytest.raises(Refusal, match="has not looked at the worktrees yet"):
        await house.room.store.write(asked)
    go_on.set()
    await first
    assert (await house.live.state())["at"]
    assert await house.room.store.write(asked) == "ann asked CLAUDE to merge main into its branch."


async def test_what_git_says_comes_into_the_same_tick(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    house.trees.told[PAIR] = Merge((FILE,))
    await house.tick()
    assert house.trees.asked == [[PAIR]] and house.measure.scans == 2
    one = await house.room.only()
    assert one.conflict and one.evidence[0].text == "git cannot merge them"


async def test_muted_files_are_not_measured_and_their_conflicts_do_not_count(house: House) -> None:
    lock = "web/package-lock.json"
    house.trees.sets = [work("CLAUDE", lock, FILE), work("CODEX", lock, FILE)]
    house.trees.told[PAIR] = Merge((lock,))
    await house.tick()
    assert all(lock not in all_paths(one.files) for one in house.measure.given)
    one = await house.room.only()
    assert one.files == (FILE,) and not one.conflict
    shown = (await house.live.state())["agents"][0]["files"]
    assert [touch["path"] for touch in shown] == [lock, FILE], "the page shows them all the same"


async def test_a_declared_intent_is_looked_at_and_reaches_traffic_at_most(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE)]
    await house.room.store.write(
        lambda tx: intents.declare(
            tx, DeclareIntent("GEMINI", (FILE,)), source=Source.COMMAND, by="ann", now=house.room.clock()
        )
    )
    await house.tick()
    one = await house.room.only()
    assert one.level is Level.TRAFFIC and len(await house.room.jobs()) == 2


async def test_who_only_declares_is_an_agent_of_somebody_elses(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("ann", "docs/a.md")]
    await house.room.store.write(
        lambda tx: intents.declare(
            tx,
            DeclareIntent("dev", ("src/b.py",)),
            source=Source.AGENT,
            by="dev",
            now=house.room.clock(),
            session="s1",
        )
    )
    await house.tick()
    kinds = {one["agentId"]: one["kind"] for one in (await house.live.state())["agents"]}
    assert kinds == {"CLAUDE": "agent", "ann": "person", "dev": "agent"}


async def test_an_intent_of_an_answer_sets_nobody_to_work(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE), work("GEMINI", "src/free.py")]
    await house.tick()
    before = len(await house.room.jobs())
    await house.room.turn("CODEX", "INTENT: src/free.py")
    await house.tick()
    assert {one.latched[-1].agent for one in await house.room.all()} == {"CODEX", "GEMINI"}
    assert len(await house.room.said()) == 2 and len(await house.room.jobs()) == before


async def test_a_worktree_that_is_gone_ends_its_advisories_with_the_reason(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    await house.tick()
    house.trees.sets = [work("CLAUDE", FILE)]
    await house.tick()
    assert (await house.room.only()).closed_why == "CODEX no longer has anything in hand"
    assert (await house.room.said())[-1].body.startswith("clear: CLAUDE and CODEX")


async def test_while_all_is_clear_and_nothing_changes_nothing_runs(house: House) -> None:
    house.room.settings = replace(house.room.settings, tick_s=0.01)
    house.trees.sets = [work("CLAUDE", FILE)]
    async with house.running():
        await until(lambda: _true(house.scanner.ticks == 1))
        await asyncio.sleep(0.2)
        assert house.scanner.ticks == 1
        house.scanner.poke()
        await until(lambda: _true(house.scanner.ticks == 2))


async def test_while_a_pair_is_near_it_looks_each_tick(house: House) -> None:
    settings = replace(house.room.settings, tick_s=0.01)
    house = House(Room(house.room.store, asyncio.get_running_loop().time, settings))
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    async with house.running():
        await until(lambda: _true(house.scanner.ticks > 4))
        house.trees.sets = [work("CLAUDE", FILE)]
        await until(lambda: _true(house.room.protocol.clear))
    assert len(await house.room.said()) == 2


async def test_an_intent_declared_elsewhere_wakes_it(house: House) -> None:
    house.room.settings = replace(house.room.settings, tick_s=0.01)
    house.trees.sets = [work("CLAUDE", FILE)]
    async with house.running():
        await until(lambda: _true(house.scanner.ticks == 1))
        await asyncio.sleep(0.05)
        await house.room.store.write(
            lambda tx: intents.declare(
                tx, DeclareIntent("CODEX", (FILE,)), source=Source.AGENT, by="CODEX", now=house.room.clock()
            )
        )
        await until(house.room.all)
    assert (await house.room.only()).level is Level.TRAFFIC


async def test_no_frame_is_made_while_nobody_listens_and_then_the_whole_of_it(house: House) -> None:
    house.listened.clear()
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    async with house.running():
        await until(lambda: _true(house.scanner.ticks > 0 and house.scanner.to_show.is_set()))
        assert not house.frames
        house.listened.set()
        await until(lambda: _true(bool(house.frames)))
    assert house.frames[0]["counts"]["resolution"] == 1
    assert "fileCoordinates" in house.frames[0]


async def test_frames_tell_the_whole_state(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    async with house.running():
        await until(lambda: _true(bool(house.frames)))
    assert house.frames[-1]["counts"]["resolution"] == 1


async def test_switched_off_it_measures_nothing_and_ends_what_stands(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    await house.tick()
    house.room.settings = replace(house.room.settings, enabled=False)
    scans = house.measure.scans
    await house.tick()
    assert house.measure.scans == scans and not (await house.room.only()).open
    assert house.scanner._due_at() is None
    state = await house.live.state()
    assert not state["enabled"] and state["agents"] == [] and state["links"] == []


# -- the history


async def test_the_history_has_what_changed_and_not_more_often_than_it_may(house: House) -> None:
    for count in range(1, 6):
        house.trees.sets = [work("CLAUDE", *(f"src/{n}.py" for n in range(count)))]
        await house.tick(2.0)
    samples = await house.live.past(None, None)
    assert [one["positions"]["CLAUDE"][0] for one in samples] == [0.1, 0.4]
    assert house.scanner._due_at() == pytest.approx(house.room.clock() - 2.0 + history.EVERY_S)
    await house.tick(60.0)
    await house.tick(60.0)
    assert len(await house.live.past(None, None)) == 3, "what does not change is not kept again"
    assert len(await house.room.events(history.SAMPLED)) == 3


async def test_the_history_ends_where_its_hours_do(house: House) -> None:
    house.room.settings = replace(house.room.settings, history_h=1.0)
    house.trees.sets = [work("CLAUDE", FILE)]
    await house.tick()
    began = house.room.clock()
    house.trees.sets = [work("CLAUDE", FILE, "src/free.py")]
    await house.tick(3000.0)
    assert len(await house.live.past(None, None)) == 2
    assert len(await house.live.past(began + 1, None)) == 1
    assert len(await house.live.past(None, began)) == 1
    house.room.clock.move(1000.0)
    assert len(await house.live.past(0.0, None)) == 1


async def test_a_long_history_is_thinned_evenly(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 4)
    for at in range(10):
        sample = PictureSample(float(at), {"A": (0.1 * at, 0.0, 0.0)}, {}, ())
        await house.room.store.write(lambda tx, sample=sample: history.put(tx, sample, 1e9))
    found = await house.room.store.read(lambda tx: history.between(tx, 0.0, 10.0))
    assert [one["positions"]["A"][0] for one in found] == [0.0, 0.3, 0.6, 0.9]


@pytest.mark.parametrize(
    ("why", "after", "differs"),
    [
        ("the same", PictureSample(9.0, {"A": (0.0, 0.0, 0.0)}, {PAIR: (0.5, Level.TRAFFIC)}, ("1",)), False),
        (
            "hardly moved",
            PictureSample(9.0, {"A": (0.01, 0.0, 0.0)}, {PAIR: (0.51, Level.TRAFFIC)}, ("1",)),
            False,
        ),
        ("moved", PictureSample(9.0, {"A": (0.1, 0.0, 0.0)}, {PAIR: (0.5, Level.TRAFFIC)}, ("1",)), True),
        ("riskier", PictureSample(9.0, {"A": (0.0, 0.0, 0.0)}, {PAIR: (0.6, Level.TRAFFIC)}, ("1",)), True),
        (
            "another level",
            PictureSample(9.0, {"A": (0.0, 0.0, 0.0)}, {PAIR: (0.5, Level.CLEAR)}, ("1",)),
            True,
        ),
        ("no link", PictureSample(9.0, {"A": (0.0, 0.0, 0.0)}, {}, ("1",)), True),
        ("no advisory", PictureSample(9.0, {"A": (0.0, 0.0, 0.0)}, {PAIR: (0.5, Level.TRAFFIC)}, ()), True),
        (
            "foretold",
            PictureSample(
                9.0,
                {"A": (0.0, 0.0, 0.0)},
                {PAIR: (0.5, Level.TRAFFIC)},
                ("1",),
                frozenset({PAIR}),
            ),
            True,
        ),
        (
            "one more",
            PictureSample(9.0, {"A": (0, 0, 0), "B": (0, 0, 0)}, {PAIR: (0.5, Level.TRAFFIC)}, ("1",)),
            True,
        ),
    ],
)
def test_what_is_another_picture(why: str, after: PictureSample, differs: bool) -> None:
    before = PictureSample(1.0, {"A": (0.0, 0.0, 0.0)}, {PAIR: (0.5, Level.TRAFFIC)}, ("1",))
    assert after.differs(before) is differs, why


# -- the sets


def test_intents_join_the_sets_and_make_one_for_who_has_none() -> None:
    declared = {"CODEX": {FILE: frozenset({Source.ANSWER})}, "CLAUDE": {"b": frozenset({Source.COMMAND})}}
    made = with_intents({"CLAUDE": WorkingSet("CLAUDE", intent=(touch("b"),))}, declared)
    assert [(name, [t.path for t in one.intent]) for name, one in made.items()] == [
        ("CLAUDE", ["b"]),
        ("CODEX", [FILE]),
    ]


def test_a_rename_out_of_a_muted_file_is_still_measured() -> None:
    moved = replace(touch("a/CHANGELOG.md"), new_path="src/new.py")
    one = WorkingSet("A", (touch("CHANGELOG.md"), moved))
    assert without(one, ("**/CHANGELOG*",)).files == (moved,)


async def _true(value: bool) -> bool:
    return value


async def test_marks_and_the_list_of_advisories(house: House) -> None:
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", FILE)]
    await house.tick()
    one = await house.room.only()
    marked = await house.live.mark(one.id, "noise", by="ann")
    assert marked is not None and (marked["mark"], marked["marked_by"]) == ("noise", "ann")
    assert await house.live.mark("none", "noise", by="ann") is None
    listed = await house.live.advisories(10)
    assert [each["id"] for each in listed["advisories"]] == [one.id] and listed["precision"]["noise"] == 1
    assert (await house.room.store.read(table.counts))["open"] == 1


async def test_a_merge_that_a_follower_tells_of_from_its_thread_is_looked_at(house: House) -> None:
    house.room.settings = replace(house.room.settings, tick_s=0.01)
    async with house.running():
        await until(lambda: _true(house.scanner.ticks == 1))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(house.scanner.merged, "CODEX")
        await until(lambda: _true(house.scanner.ticks > 1))


async def test_who_has_merged_holds_nobody_up_any_more(house: House) -> None:
    """CODEX's branch still conflicts with the main one, and it is for CODEX to mend that."""
    house.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    house.trees.told[PAIR] = Merge((FILE,))
    await house.tick()
    assert house.room.protocol.steer("CODEX", FILE) is not None
    house.scanner.merged("CLAUDE")
    house.trees.sets = [WorkingSet("CLAUDE"), work("CODEX", FILE)]
    await house.tick()
    assert house.room.protocol.steer("CODEX", FILE) is None
    one = await house.room.only()
    assert not one.open and one.closed_why == "CLAUDE merged" and str(one.outcome) == "true"
    assert (await house.live.state())["links"] == []


async def test_the_words_of_current_work_are_compared(house: House) -> None:
    async def asked(agents: Collection[str]) -> Mapping[str, Sequence[str]]:
        assert set(agents) == {"CLAUDE", "CODEX", "ann"}
        return {"CLAUDE": ["The cart's total is wrong"]}

    house = House(house.room, asked=asked)
    house.trees.sets = [work("CLAUDE", FILE), work("CODEX", "src/other.py"), work("ann", "docs/a.md")]
    house.trees.commits = {"CODEX": ["Round the cart's total"]}
    await house.tick()
    # Of ann nothing is known: it is in no pair.
    assert house.measure.words.keys() == {PAIR}
    assert house.measure.words[PAIR].cosine > 0.3
    assert house.measure.words[PAIR].terms == (), "CODEX was asked for nothing"
    (told,) = house.live.in_hand("CODEX", [FILE, "src/free.py"])
    assert told.startswith(f"CLAUDE changes {FILE} now, lines 1-10, for: The cart's total is wrong.")
    assert house.live.in_hand("CLAUDE", [FILE]) == []
