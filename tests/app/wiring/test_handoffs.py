"""Handoffs step by step, on both databases, with real git and real rules; and through kills at any point."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.app.needs.work import handoff_needs
from relay.app.wiring.handoffs.checks import HandoffChecks
from relay.app.wiring.handoffs.orders import HandoffOrders
from relay.app.wiring.handoffs.steps import HandoffSteps
from relay.app.wiring.schema import SCHEMAS
from relay.config.settings import LiveSettings
from relay.git.run import Git
from relay.log import events
from relay.log.events import Event
from relay.log.verify import verify
from relay.model import Kind, Message, Refusal
from relay.model.actions import AnswerHandoff, HandoffAnswer, HandOn, RunPipeline
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.journal.values import Job, JobState
from relay.store.ports import Store, Tx
from relay.timeline.checkpoints import find
from relay.timeline.handoffs import journal
from relay.timeline.handoffs.journal import Handoff, State
from tests import engines
from tests.engines import BOTH, SQLITE, Clock
from tests.git.repository import Room, git, repository, write
from tests.room.parts import all_messages

pytestmark = BOTH
GOOD = "import pathlib, sys; sys.exit('good' not in pathlib.Path('work.txt').read_text())"
HANDOFFS = {
    "roles": [{"name": "developer", "artifacts": ["*.txt"]}, {"name": "qa"}],
    "transitions": [
        {"from_role": "developer", "to_role": "qa", "rules": ["AllTestsPass", "ArtifactsPresent"]}
    ],
    "rules": {"AllTestsPass": {"run": [sys.executable, "-c", GOOD]}},
    "max_retries": 1,
}


class Killed(BaseException):
    """The process ended here."""


class Stage:
    """A room's repository, database and handoffs; `restart` is a new process over them."""

    def __init__(self, folder: Path, store: Store, **handoffs: Any) -> None:
        self.folder, self.store = folder, store
        self.handoffs = {**HANDOFFS, **handoffs}
        names = ("AVA", "BEN", "CAT")
        self.roster = Roster({name: Member(name, "scripted", Policy(name)) for name in names})
        self.clock, self.turns = Clock(), RunningTurns()

    @classmethod
    async def open(cls, folder: Path, **handoffs: Any) -> Stage:
        repository(folder / "repo", {"a.py": "one\n", ".gitignore": ".relay\nconfig.json\n*.log\n"})
        stage = cls(folder / "repo", await engines.open_store(folder, SCHEMAS), **handoffs)
        await stage.restart()
        return stage

    async def restart(self) -> None:
        named = ("AVA", "BEN", "CAT")
        roles: dict[str, Any] = {
            name: {"role": role["name"]} for name, role in zip(named, self.handoffs["roles"], strict=False)
        }
        self.room = await Room(self.folder, *roles, **roles, handoffs=self.handoffs).open()
        settings, registry = LiveSettings(self.room.settings), self.room.registry
        voice = RoomVoice(self.roster)
        self.orders = HandoffOrders(settings, registry, self.turns, voice, clock=self.clock)
        checks = HandoffChecks(self.store, settings, registry)
        self.steps = HandoffSteps(self.store, settings, registry, voice, checks, clock=self.clock)

    async def order(self, method: str, action: Any) -> str:
        done: str = await self.store.write(lambda tx: getattr(self.orders, method)(tx, action, by="ann"))
        return done

    async def hand_on(self) -> str:
        return await self.order("hand_on", HandOn("@AVA", "@BEN", "please"))

    async def answer(self, answer: HandoffAnswer, value: str | None = None) -> str:
        action = AnswerHandoff(1, answer, value)
        await self.orders.check(action)
        return await self.order("answer", action)

    async def settle(self) -> None:
        """Let every step be done that waits for nobody."""
        for _ in range(10):
            await self.steps.look()
            tasks = [*self.steps._running.values()]
            if not tasks:
                return
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, BaseException):
                    raise ended

    async def work(self, agent: str, files: dict[str, str | bytes]) -> bool:
        """The turn of an agent: False when it was asked for nothing."""
        asked = await self.store.read(lambda tx: tx.all(Q.open_jobs_of_agent, agent=agent))
        if not asked:
            return False
        write(self.at(agent), files)

        async def end(tx: Tx) -> None:
            for row in asked:
                await ledger.change_job(tx, Job.of_row(row), JobState.DONE, now=self.clock())

        await self.store.write(end)
        return True

    def at(self, agent: str) -> Path:
        return self.folder / ".relay" / "worktrees" / agent.lower()

    async def row(self, number: int = 1) -> Handoff:
        return await self.store.read(lambda tx: journal.load(tx, number))

    async def checked(self) -> list[Event]:
        return await self.store.read(lambda tx: events.read_after(tx, 0, types=("handoff",)))

    async def asked(self, agent: str) -> list[Message]:
        said = await all_messages(self.store)
        return [message for message in said if message.kind is Kind.ADVISORY and message.to == (agent,)]

    async def said(self) -> list[str]:
        return [each.body for each in await all_messages(self.store) if each.kind is Kind.SYSTEM]


Open = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def open_stage(tmp_path: Path) -> AsyncIterator[Open]:
    stages: list[Stage] = []

    async def opened(name: str, **handoffs: Any) -> Stage:
        stages.append(await Stage.open(tmp_path / name, **handoffs))
        return stages[-1]

    yield opened
    for stage in stages:
        await stage.store.close()


async def test_receiver_has_that_tree(open_stage: Open) -> None:
    stage = await open_stage("room")
    write(stage.at("AVA"), {"work.txt": "good\n", "x.log": "ignored\n"})
    assert await stage.hand_on() == "Handoff h1 from AVA (developer) to BEN (qa): 2 rules are checked."
    await stage.settle()
    (event,) = await stage.checked()
    assert git(stage.at("BEN"), "write-tree") == event.snapshot == event.outputs["snapshot_id"]
    assert git(stage.at("BEN"), "rev-parse", "HEAD") == event.outputs["commit"]
    assert git(stage.at("BEN"), "status", "--porcelain") == ""
    assert [each["path"] for each in event.outputs["artifacts"]] == ["work.txt"]
    (told,) = await stage.asked("BEN")
    assert "Artifacts: work.txt." in told.body
    assert (await stage.row()).state is State.DONE
    assert "AVA handed on to BEN (h1): 2 of 2 rules passed." in await stage.said()
    assert await verify(stage.store) == []


async def test_receiver_keeps_work_that_has_not_landed(open_stage: Open) -> None:
    stage = await open_stage("room")
    write(stage.at("AVA"), {"work.txt": "good\n"})
    write(stage.at("BEN"), {"mine.txt": "of ben\n"})
    await stage.hand_on()
    await stage.settle()
    assert (await stage.row()).state is State.ASKED
    assert "BEN has work of its own that has not landed: mine.txt." in (await stage.said())[-1]
    assert await stage.checked() == [], "no rule ran for a receiver that cannot take it"
    (need,) = await stage.store.read(handoff_needs)
    assert "mine.txt" in need.text and abs(need.at - stage.clock()) < 60
    assert (stage.at("BEN") / "mine.txt").read_text() == "of ben\n"
    with pytest.raises(Refusal, match="No rule of handoff h1 has failed"):
        await stage.answer(HandoffAnswer.SKIP, "why not")
    (stage.at("BEN") / "mine.txt").unlink()
    await stage.answer(HandoffAnswer.RETRY)
    await stage.settle()
    assert (await stage.row()).state is State.DONE


async def test_work_begun_while_rules_ran_is_kept(open_stage: Open) -> None:
    stage = await open_stage("room")
    write(stage.at("AVA"), {"work.txt": "good\n"})
    await stage.hand_on()
    check = stage.steps._checks.check

    async def meanwhile(handoff: Handoff) -> Any:
        write(stage.at("BEN"), {"mine.txt": "of ben\n"})
        return await check(handoff)

    stage.steps._checks.check = meanwhile  # type: ignore[method-assign]
    await stage.settle()
    assert (stage.at("BEN") / "mine.txt").read_text() == "of ben\n"
    assert (await stage.row()).state is State.ASKED
    assert len(await stage.checked()) == 1
    (stage.at("BEN") / "mine.txt").unlink()
    await stage.answer(HandoffAnswer.RETRY)
    await stage.settle()
    assert (await stage.row()).state is State.DONE
    assert len(await stage.checked()) == 1, "what has passed is not checked again"


async def test_skip_hands_on_with_its_reason(open_stage: Open) -> None:
    stage = await open_stage("room", max_retries=0)
    write(stage.at("AVA"), {"work.txt": "bad\n"})
    await stage.hand_on()
    with pytest.raises(Refusal, match="waits for no answer"):
        await stage.answer(HandoffAnswer.RETRY)
    await stage.settle()
    assert (await stage.row()).state is State.ASKED
    await stage.answer(HandoffAnswer.SKIP, "seen by ann")
    await stage.settle()
    first, second = await stage.checked()
    assert first.outputs["validation"]["failure_info"]["suggested_action"]["kind"] == "escalate"
    action = second.outputs["validation"]["failure_info"]["suggested_action"]
    assert action == {"kind": "skip", "justification": "seen by ann", "by": "ann"}
    assert first.id in second.parents
    assert git(stage.at("BEN"), "write-tree") == first.snapshot
    made = await stage.store.read(lambda tx: events.read_after(tx, 0, types=("checkpoint.made",)))
    assert [each.outputs["name"] for each in made] == ["handoff:developer->qa"] * 2, (
        "of the check and of the skip"
    )
    assert [each.outputs["metadata"]["validation_passed"] for each in made] == [False, False]
    assert [each.parents[-1] for each in made] == [first.id, second.id]
    marked = await stage.store.read(lambda tx: find(tx, "handoff:developer->qa"))
    assert marked is not None and marked.commit is not None
    assert git(stage.folder, "rev-parse", f"{marked.commit}^{{tree}}") == first.snapshot == marked.tree


async def test_a_branch_that_cannot_be_is_refused_before_anything_is_recorded(open_stage: Open) -> None:
    stage = await open_stage("room", max_retries=0)
    write(stage.at("AVA"), {"work.txt": "bad\n"})
    await stage.hand_on()
    await stage.settle()
    before, checked = await stage.row(), await stage.checked()
    for name, why in (
        ("main", "is there already"),
        ("../x", "cannot be a branch's name"),
        ("-x", "cannot be a branch's name"),
        ("main/more", "cannot be beside the branch main"),
        ("Main", "cannot be beside the branch main"),
    ):
        with pytest.raises(Refusal, match=why):
            await stage.answer(HandoffAnswer.BRANCH, name)
        assert (await stage.row(), await stage.checked()) == (before, checked), name
    assert (
        await stage.answer(HandoffAnswer.BRANCH, "free") == "AVA tries handoff h1 again on the branch free."
    )


async def test_escalate_ends_it(open_stage: Open) -> None:
    stage = await open_stage("room", max_retries=1)
    write(stage.at("AVA"), {"work.txt": "bad\n"})
    await stage.hand_on()
    await stage.settle()
    await stage.work("AVA", {"work.txt": "worse\n"})
    await stage.settle()
    assert (await stage.row()).state is State.ASKED
    assert git(stage.at("AVA"), "rev-parse", "--abbrev-ref", "HEAD").endswith("-retry-1")
    write(stage.at("AVA"), {"more.txt": "not committed\n"})
    await stage.answer(HandoffAnswer.ESCALATE)
    await stage.settle()
    assert (await stage.row()).state is State.ENDED
    assert git(stage.at("AVA"), "rev-parse", "--abbrev-ref", "HEAD").endswith("/developer")
    assert git(stage.at("AVA"), "status", "--porcelain") == "?? more.txt", "it goes on where it was"
    assert (stage.at("AVA") / "work.txt").read_text() == "worse\n"
    assert git(stage.at("BEN"), "status", "--porcelain") == ""
    assert await stage.hand_on(), "another one may begin"


async def _pipeline(stage: Stage) -> None:
    """To its end, from wherever it is."""
    for _ in range(6):
        await stage.settle()
        tried = len(await stage.asked("AVA"))
        await stage.work("AVA", {"work.txt": "bad\n" if tried == 1 else "good\n"})
        await stage.settle()
        await stage.work("BEN", {"seen.txt": "by ben\n"})


async def _through(stage: Stage) -> None:
    """All of it happened once."""
    first, second = await stage.checked()
    assert [event.outputs["validation"]["passed"] for event in (first, second)] == [False, True]
    assert [len(await stage.asked(name)) for name in ("AVA", "BEN")] == [2, 1]
    assert (await stage.row()).state is State.DONE
    said = await stage.said()
    assert len(said) == len({*said}) == 3
    assert git(stage.at("BEN"), "rev-parse", "HEAD") == second.outputs["commit"]
    assert git(stage.at("BEN"), "rev-parse", "HEAD^{tree}") == second.snapshot
    assert git(stage.at("BEN"), "status", "--porcelain") == "?? seen.txt"
    assert git(stage.at("AVA"), "rev-parse", "HEAD") == second.outputs["commit"]
    assert git(stage.at("AVA"), "rev-parse", "--abbrev-ref", "HEAD").endswith("/developer")
    assert git(stage.at("AVA"), "status", "--porcelain") == ""
    assert git(stage.folder, "rev-parse", f"{second.branch}~1^{{tree}}") == first.snapshot
    assert await verify(stage.store) == []


async def test_a_pipeline_says_at_its_start_who_could_not_take_the_work(open_stage: Open) -> None:
    roles = [{"name": "developer"}, {"name": "qa"}, {"name": "deployer"}]
    rules = [
        {"from_role": "developer", "to_role": "qa", "rules": ["AllTestsPass"]},
        {"from_role": "qa", "to_role": "deployer", "rules": ["AllTestsPass"]},
    ]
    stage = await open_stage("room", roles=roles, transitions=rules)
    write(stage.at("AVA"), {"begun.txt": "of ava\n"})
    write(stage.at("CAT"), {"mine.txt": "of cat\n"})
    action = RunPipeline("do it")
    await stage.orders.check(action)
    said = await stage.order("pipeline", action)
    assert said == (
        "The pipeline begins: AVA (developer) -> BEN (qa) -> CAT (deployer).\n\n"
        "It would stop at CAT: CAT has work of its own that has not landed: mine.txt. "
        "Merge or discard it before the work gets there."
    )
    await stage.answer(HandoffAnswer.ESCALATE)
    await stage.settle()
    (stage.at("CAT") / "mine.txt").unlink()
    await stage.orders.check(action)
    assert await stage.order("pipeline", action) == said.partition("\n")[0]


async def test_every_role_that_is_missing_is_named_at_once(open_stage: Open) -> None:
    names = ("developer", "qa", "security", "deployer", "manager")
    stage = await open_stage("room", roles=[{"name": name} for name in names])
    await stage.orders.check(RunPipeline("do it"))
    with pytest.raises(Refusal, match="No agent has the roles deployer, manager"):
        await stage.order("pipeline", RunPipeline("do it"))


async def test_a_pipeline(open_stage: Open) -> None:
    stage = await open_stage("room")
    await stage.order("pipeline", RunPipeline("do it"))
    await _pipeline(stage)
    await _through(stage)


async def test_three_roles_and_back(open_stage: Open) -> None:
    """From role to role, and by command back to the first, which has what it handed on."""
    roles = [{"name": name} for name in ("developer", "qa", "deployer")]
    pairs = (("developer", "qa"), ("qa", "deployer"), ("deployer", "developer"))
    transitions = [{"from_role": a, "to_role": b, "rules": ["NoTodoComments"]} for a, b in pairs]
    stage = await open_stage("room", roles=roles, transitions=transitions, rules={})
    order = await stage.order("pipeline", RunPipeline("all of it"))
    assert order == "The pipeline begins: AVA (developer) -> BEN (qa) -> CAT (deployer)."
    for agent, path in (("AVA", "a.py"), ("BEN", "b.py"), ("CAT", "c.py")):
        await stage.settle()
        assert await stage.work(agent, {path: f"by {agent}\n"}), agent
    await stage.settle()
    assert [(await stage.row(number)).state for number in (1, 2)] == [State.DONE, State.DONE]
    assert (await stage.said())[-1] == "The pipeline is through: CAT (deployer) was the last. Task: all of it"
    first, second = await stage.checked()
    assert [first.outputs["metrics"][key] for key in ("files_modified", "loc_delta")] == [1, [1, 1]]
    assert [second.outputs["metrics"][key] for key in ("files_modified", "loc_delta")] == [1, [1, 0]]
    assert "handed on to CAT (deployer)" in (await stage.asked("BEN"))[0].body

    await stage.order("hand_on", HandOn("deployer", "developer"))
    await stage.settle()
    third = (await stage.checked())[-1]
    assert git(stage.at("AVA"), "write-tree") == third.snapshot
    assert third.outputs["metrics"]["loc_delta"] == [1, 0]
    with pytest.raises(Refusal, match="does not hand on"):
        await stage.order("hand_on", HandOn("developer", "deployer"))


class Points:
    """Counts the steps of a process that a kill may come behind, and ends it behind one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
        self.count, self.at = 0, -1
        run, write = Git.run, store.write

        async def counted_run(own: Git, *words: str, **more: Any) -> Any:
            return await self._then(lambda: run(own, *words, **more))

        async def counted_write(work: Any, **more: Any) -> Any:
            return await self._then(lambda: write(work, **more))

        monkeypatch.setattr(Git, "run", counted_run)
        monkeypatch.setattr(store, "write", counted_write)

    async def _then(self, step: Callable[[], Awaitable[Any]]) -> Any:
        done = await step()
        self.count += 1
        if self.count == self.at:
            raise Killed
        return done


@SQLITE
async def test_kill_anywhere(open_stage: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends behind any call of git, or any commit, goes on in the next."""
    whole = await open_stage("whole")
    await whole.order("pipeline", RunPipeline("do it"))
    with monkeypatch.context() as patched:
        points = Points(patched, whole.store)
        await _pipeline(whole)
    chosen = random.Random(12).sample(range(1, points.count), 8)
    for at in sorted(chosen):
        stage = await open_stage(str(at))
        await stage.order("pipeline", RunPipeline("do it"))
        with monkeypatch.context() as patched:
            points = Points(patched, stage.store)
            points.at = at
            with pytest.raises(Killed):
                await _pipeline(stage)
        await stage.restart()
        await _pipeline(stage)
        await _through(stage)
