"""Explorations from the order to the merge, with real git, real processes and both databases; and through kills."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.app.merge.exploration import orders
from relay.app.merge.exploration.explorer import BusyElsewhere
from relay.app.merge.exploration.winner import NotSeen
from relay.base.files import alone_in
from relay.log.events import put_setting
from relay.merge.exploration import journal
from relay.merge.exploration.journal import State, Status, VariantRun
from relay.model import Refusal
from relay.store.ports import StoreBusy
from tests.app.merge.exploration_room import FILE, TESTS, ExplorationRoom, agent, living, writes
from tests.engines import BOTH, SQLITE, check_log
from tests.git.repository import commit

pytestmark = BOTH
TESTED = f"tests: {{run: [{sys.executable}, -c, {TESTS!r}]}}\n"
SCORED = (
    "comparison: {metrics: [test_pass_rate, lines_of_code, agent_cost, dependency_count], "
    "weights: [0.5, 0.3, 0.1, 0.1]}\n"
)
#: The source's example (003, section 5.2): the shortest passes, the others are long or broken.
AGENTS = {
    "AVA": writes("redis = 1\n" * 45),
    "BEN": writes("broken = 1\n" * 3),
    "CAT": writes("memory = 1\n" * 20),
}
Open = Callable[..., Awaitable[ExplorationRoom]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    rooms: list[ExplorationRoom] = []

    async def open_one(agents: dict[str, dict[str, Any]] | None = None, **more: Any) -> ExplorationRoom:
        rooms.append(await ExplorationRoom.open(tmp_path, agents or AGENTS, **more))
        return rooms[-1]

    yield open_one
    for room in rooms:
        await check_log(room.store)
        await room.store.close()


async def test_the_best_variant_is_merged_and_the_others_are_kept(opened: Open) -> None:
    room = await opened()
    await room.order(FILE + SCORED + TESTED + "auto_select: highest_score\n")
    done = await room.explorer.go(1)
    assert (done.state, done.winner) == (State.DONE, "in-memory"), await room.runs()
    assert (room.folder / "cache.py").read_text() == "memory = 1\n" * 20
    assert done.merged == room.git("rev-parse", "main")
    runs = await room.runs()
    assert {name: run.passing for name, run in runs.items()} == {
        "redis": True,
        "memcached": False,
        "in-memory": True,
    }
    assert runs["in-memory"].metrics == {
        "test_pass_rate": 1.0,
        "lines_of_code": 20.0,
        "dependency_count": 0.0,
    }
    assert "does not report what it costs" in runs["redis"].notes["agent_cost"]
    assert done.matrix["redis"] == [1.0, 0.0, 0.0, 1.0]
    # The losers stay where nobody stumbles over them, and nothing else does.
    assert room.kept() == [
        f"refs/relay/explorations/x1/{name}" for name in ("in-memory", "memcached", "redis")
    ]
    assert room.git("show", "refs/relay/explorations/x1/redis:cache.py") == ("redis = 1\n" * 45).rstrip()
    assert room.worktrees() == []
    assert [branch for branch in room.branches() if "x1" in branch] == []
    (event,) = await room.events(journal.ENDED)
    assert (event.outputs["winner"], event.outputs["merged"]) == ("in-memory", done.merged)
    assert len(await room.events(journal.VARIANT_ENDED)) == 3
    (told,) = [text for text in await room.said() if "| variant |" in text]
    assert "| in-memory (winner) | completed | pass | 1 | 20 | unknown | 0 |" in told


@SQLITE
async def test_main_untouched_until_merge(opened: Open) -> None:
    """The main branch, its index and its files are as they were until the winner is merged."""
    room = await opened()
    (room.folder / "a.py").write_text("a person's own work\n")
    (room.folder / "own.py").write_text("untracked\n")
    before, merges = room.state_of_main(), list[str]()
    real = room.explorer._parts.merge

    async def merge(run: VariantRun, at: str, by: str, text: str, seen: str, taken: bool) -> tuple[str, str]:
        assert room.state_of_main() == before
        merges.append(run.name)
        return await real(run, at, by, text, seen, taken)

    room.merge = merge
    await room.restart()
    await room.order(FILE + TESTED + "auto_select: highest_score\n")
    done = await room.explorer.go(1)
    assert (done.state, merges) == (State.DONE, ["in-memory"])
    assert (room.folder / "cache.py").read_text() == "memory = 1\n" * 20
    assert (room.folder / "a.py").read_text() == "a person's own work\n"
    assert (room.folder / "own.py").read_text() == "untracked\n"


async def test_without_a_policy_people_choose_and_main_stays(opened: Open) -> None:
    room = await opened()
    before = room.state_of_main()
    await room.order(FILE + TESTED)
    waiting = await room.explorer.go(1)
    assert (waiting.state, waiting.winner) == (State.WAITING, None)
    assert (room.folder / ".relay" / "explorations" / ".gitignore").read_text() == "*\n"
    assert waiting.recommendation.startswith("in-memory has the highest score")
    assert room.state_of_main() == before
    assert room.worktrees() == []
    assert len([branch for branch in room.branches() if "x1" in branch]) == 3
    assert any("`/explore take x1 redis`" in text for text in await room.said())


@SQLITE
async def test_no_variant_passing_is_no_automatic_winner(opened: Open) -> None:
    room = await opened({**AGENTS, "AVA": writes("broken\n"), "CAT": writes("broken\n")})
    await room.order(FILE + TESTED + "auto_select: highest_score\n")
    waiting = await room.explorer.go(1)
    assert (waiting.state, waiting.winner) == (State.WAITING, None)
    assert "No variant passes its tests" in waiting.recommendation


@SQLITE
async def test_a_variant_at_its_budget_is_stopped_and_its_work_is_kept(opened: Open) -> None:
    slow = "import os, pathlib, time; pathlib.Path('cache.py').write_text('half'); " + (
        "pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(3600)"
    )
    room = await opened({**AGENTS, "AVA": agent(slow)})
    budget = "budget: {max_duration_seconds: 5}\n"
    await room.order(FILE + TESTED + budget + "auto_select: highest_score\n")
    done = await room.explorer.go(1)
    assert (done.state, done.winner) == (State.DONE, "in-memory")
    run = (await room.runs())["redis"]
    assert (run.status, run.detail, run.score) == (Status.BUDGET_EXCEEDED, "max_duration_seconds", None)
    assert run.usage.seconds >= 5
    assert room.git("show", f"{run.ref}:cache.py") == "half"
    assert living([int(room.git("show", f"{run.ref}:pid"))]) == []
    ended = {event.outputs["name"]: event.outputs for event in await room.events(journal.VARIANT_ENDED)}
    assert ended["redis"]["which"] == "max_duration_seconds"
    assert done.matrix.keys() == {"memcached", "in-memory"}


@SQLITE
async def test_a_variant_that_fails_or_changes_nothing_says_so(opened: Open) -> None:
    room = await opened(
        {**AGENTS, "AVA": agent("import sys; sys.exit('no luck')"), "BEN": agent("print('hm')")}
    )
    await room.order(FILE)
    waiting = await room.explorer.go(1)
    runs = await room.runs()
    assert (runs["redis"].status, "no luck" in runs["redis"].detail) == (Status.FAILED, True)
    assert (runs["memcached"].status, runs["memcached"].detail) == (Status.FAILED, "it changed no file")
    assert waiting.state is State.WAITING


@SQLITE
async def test_what_the_room_goes_by_is_merged_only_where_a_person_took_it(opened: Open) -> None:
    more = "pathlib.Path('policies').mkdir(); pathlib.Path('policies/all.yaml').write_text('- {name: unit}')"
    room = await opened({**AGENTS, "CAT": writes("memory = 1\n", more)})
    before = room.git("rev-parse", "main")
    await room.order(FILE + TESTED + "auto_select: highest_score\n")
    waiting = await room.explorer.go(1)
    assert (waiting.state, waiting.winner) == (State.WAITING, "in-memory")
    assert "does not land by itself: it changes what this room itself goes by" in waiting.trouble
    assert "policies/all.yaml" in waiting.trouble and "A person who has looked at it" in waiting.trouble
    assert room.git("rev-parse", "main") == before and not (room.folder / "cache.py").exists()
    # An agent is no person, whatever it takes.
    for by, state in (("AVA", State.WAITING), ("ann", State.DONE)):
        await room.store.write(lambda tx, by=by: orders.take(tx, 1, "in-memory", by=by))
        assert (await room.explorer.go(1)).state is state
    assert (room.folder / "policies" / "all.yaml").is_file()


async def test_with_nothing_to_take_it_ends(opened: Open) -> None:
    broken = agent("raise SystemExit(3)")
    room = await opened({"AVA": broken, "BEN": broken, "CAT": {**broken, "cmd": ["/nowhere/program"]}})
    before = room.state_of_main()
    await room.order(FILE + "auto_select: highest_score\n")
    ended = await room.explorer.go(1)
    assert ended.state is State.ENDED
    assert "No variant has finished" in ended.recommendation
    assert room.state_of_main() == before
    assert room.worktrees() == []
    assert [branch for branch in room.branches() if "x1" in branch] == []


@SQLITE
async def test_a_winner_that_conflicts_waits_for_people(opened: Open) -> None:
    room = await opened()

    async def meanwhile(
        run: VariantRun, at: str, by: str, text: str, seen: str, taken: bool
    ) -> tuple[str, str]:
        commit(room.folder, {"cache.py": "theirs = 1\n"})
        return await real(run, at, by, text, seen, taken)

    real, room.merge = room.explorer._parts.merge, meanwhile
    room.explorer._parts = replace(room.explorer._parts, merge=meanwhile)
    await room.order(FILE + TESTED + "auto_select: highest_score\n")
    waiting = await room.explorer.go(1)
    assert waiting.state is State.WAITING
    assert "conflict in cache.py" in waiting.trouble
    assert (room.folder / "cache.py").read_text() == "theirs = 1\n"
    assert any("could not be merged" in text for text in await room.said())


@SQLITE
@pytest.mark.parametrize(
    ("answer", "winner"),
    [("I like it.\n\nWINNER: redis", "redis"), ("WINNER: memcached", None), ("Hard to say.", None)],
)
async def test_an_agent_reviews(opened: Open, answer: str, winner: str | None) -> None:
    """The reviewer may choose among those that pass, and people do where it does not."""
    room = await opened({**AGENTS, "REV": agent(f"print({answer!r})")})
    await room.order(FILE + TESTED + "auto_select: {agent_review: {reviewer_config: REV}}\n")
    done = await room.explorer.go(1)
    assert done.winner == winner
    assert done.state is (State.WAITING if winner is None else State.DONE)


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("when", ["begun", "at work", "left", "compared", "merged"])
async def test_a_killed_process_is_gone_on_from(opened: Open, when: str, tmp_path: Path) -> None:
    """Wherever it is killed: it ends as it would have, with one merge."""
    once = tmp_path / "once"
    slow = writes(
        "memory = 1\n" * 20,
        f"import time; once = pathlib.Path({str(once)!r}); "
        "first = not once.exists(); once.write_text('x'); first and time.sleep(3600)"
        if when == "at work"
        else "0",
    )
    room = await opened({**AGENTS, "CAT": slow})
    await room.order(FILE + TESTED + "auto_select: highest_score\n")
    if when == "at work":
        going = asyncio.create_task(room.explorer.go(1))
        async with asyncio.timeout(60):
            while not once.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        assert (await room.runs())["in-memory"].status is Status.IN_PROGRESS
    else:
        _kill(room, when)
        with pytest.raises((Killed, BaseExceptionGroup)):
            await room.explorer.go(1)
    await room.restart()
    done = await room.explorer.go(1)
    assert (done.state, done.winner) == (State.DONE, "in-memory")
    assert room.git("rev-list", "--count", "--merges", "main") == "1"
    assert (room.folder / "cache.py").read_text() == "memory = 1\n" * 20
    assert room.worktrees() == []
    assert len(await room.events(journal.ENDED)) == 1
    attempts = {"at work": (2,), "left": (1, 2)}.get(when, (1,))
    assert (await room.runs())["in-memory"].attempt in attempts


def _kill(room: ExplorationRoom, when: str) -> None:
    """Let the process end behind a step."""
    explorer = room.explorer
    if when == "merged":
        real = explorer._parts.merge

        async def merge(
            run: VariantRun, at: str, by: str, text: str, seen: str, taken: bool
        ) -> tuple[str, str]:
            await real(run, at, by, text, seen, taken)
            raise Killed

        explorer._parts = replace(explorer._parts, merge=merge)
        return
    method = {"begun": "_begin", "left": "_left", "compared": "_compare"}[when]
    step = getattr(explorer, method)

    async def and_die(*args: Any) -> None:
        await step(*args)
        raise Killed

    setattr(explorer, method, and_die)


@SQLITE
async def test_a_variant_that_was_cut_off_twice_has_failed(opened: Open) -> None:
    room = await opened()
    await room.order(FILE)
    base = room.git("rev-parse", "main")
    exploration = replace(await room.row(), base=base)
    run = replace(
        (await room.runs())["redis"], status=Status.IN_PROGRESS, attempt=2, branch="tw/ann/x1-redis"
    )
    await room.store.write(lambda tx: journal.save(tx, exploration))
    await room.store.write(lambda tx: journal.save_variant(tx, run))
    await room.explorer.places.ensure(run, base)
    for other in ("memcached", "in-memory"):
        named = replace((await room.runs())[other], branch=f"tw/ann/x1-{other}")
        await room.store.write(lambda tx, named=named: journal.save_variant(tx, named))  # type: ignore[misc]
    await room.explorer.go(1)
    runs = await room.runs()
    assert (runs["redis"].status, runs["redis"].detail) == (
        Status.FAILED,
        "relay was ended while it ran, twice",
    )


@SQLITE
async def test_one_process_at_a_time(opened: Open) -> None:
    room = await opened()
    await room.order(FILE)
    folder = room.explorer.places.folder(1)
    folder.mkdir(parents=True)
    with alone_in(folder), pytest.raises(BusyElsewhere):
        await room.explorer.go(1)


@SQLITE
async def test_a_branch_that_is_there_is_not_taken(opened: Open) -> None:
    room = await opened()
    room.git("branch", "mine")
    await room.order(FILE.replace("agent_config: AVA", "agent_config: AVA, branch_name: mine"))
    ended = await room.explorer.go(1)
    assert ended.state is State.ENDED
    assert "A branch is where mine of redis would be" in ended.trouble
    assert "mine" in room.branches()


@SQLITE
async def test_files_are_taken_from_another_variant(opened: Open) -> None:
    more = "pathlib.Path('doc.py').write_text('of redis\\n'); pathlib.Path('a.py').unlink()"
    room = await opened({**AGENTS, "AVA": writes("redis = 1\n", more)})
    await room.order(FILE + TESTED)
    await room.explorer.go(1)
    runs, waiting = await room.runs(), await room.row()
    taken = await room.explorer.places.composed(
        waiting, runs["in-memory"], {"doc.py": runs["redis"], "a.py": runs["redis"]}
    )
    listed = room.git("ls-tree", "-r", "--name-only", taken).split()
    assert listed == [".gitignore", "cache.py", "doc.py"]
    assert room.git("show", f"{taken}:cache.py") == ("memory = 1\n" * 20).rstrip()
    with pytest.raises(Refusal, match="is no file of redis or in-memory"):
        await room.explorer.places.composed(waiting, runs["in-memory"], {"none.py": runs["redis"]})


@SQLITE
async def test_what_relay_joins_is_shown_before_a_person_takes_it(opened: Open) -> None:
    """Without tests a merge beyond git lands when exactly this tree was seen, and is taken again."""
    room = await opened()
    await room.order(FILE)
    await room.explorer.go(1)
    calls: list[str] = []

    async def merge(run: VariantRun, at: str, by: str, text: str, seen: str, taken: bool) -> tuple[str, str]:
        calls.append(seen)
        if seen != "a" * 40:
            raise NotSeen("a" * 40, "+joined", "no test is configured")
        return await real(run, at, by, text, seen, taken)

    real = room.explorer._parts.merge
    room.explorer._parts = replace(room.explorer._parts, merge=merge)

    async def take(name: str) -> State:
        await room.store.write(lambda tx: orders.take(tx, 1, name, by="ann"))
        return (await room.explorer.go(1)).state

    assert await take("redis") is State.WAITING
    assert "+joined" in (await room.said())[-1]
    assert "Look at it, then take it again" in (await room.row()).trouble
    # Another choice has not been seen.
    assert await take("in-memory") is State.WAITING
    assert await take("in-memory") is State.DONE
    assert calls == ["", "", "a" * 40]


async def test_what_a_person_ended_names_its_cause(opened: Open) -> None:
    room = await opened()
    await room.order(FILE)
    await room.explorer.go(1)
    (began,) = await room.events(journal.BEGUN)
    await room.store.write(lambda tx: orders.end(tx, 1, by="ann", cause=[began.id]))
    (ended,) = await room.events(journal.ENDED)
    assert ended.parents == (began.id,) and ended.outputs["state"] == "ended"


@SQLITE
async def test_a_database_that_is_busy_ends_no_variant(opened: Open) -> None:
    room = await opened()
    await room.order(FILE)
    real, failed = room.store.write, list[str]()

    async def write(work: Any, **more: Any) -> Any:
        if len(failed) < 2 and any(run.ended for run in (await room.runs()).values()):
            failed.append("busy")
            raise StoreBusy("locked by another process")
        return await real(work, **more)

    room.explorer._store.write = write  # type: ignore[method-assign]
    assert (await room.explorer.go(1)).state is State.WAITING
    assert len(failed) == 2
    assert {run.status for run in (await room.runs()).values()} == {Status.COMPLETED}


async def test_what_another_machine_has_begun_is_left_to_it(opened: Open) -> None:
    room = await opened()
    await room.order(FILE)
    await room.store.write(lambda tx: put_setting(tx, "exploration:1:place", "elsewhere:/srv/x1"))
    before = room.state_of_main()
    with pytest.raises(BusyElsewhere):
        await room.explorer.go(1)
    assert room.worktrees() == []
    assert room.state_of_main() == before
    assert {run.status for run in (await room.runs()).values()} == {Status.WAITING}
