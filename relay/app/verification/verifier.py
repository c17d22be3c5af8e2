"""Verifies changes: which policies are for each, and what comes of them (004, Verification Gateway).

Invariants:
- each verification has one task at most, and each step of it ends in one transaction: whoever is killed in between
  goes on where it was, and a run that was cut off is begun again;
- the same tree and policy is not run twice unless somebody asks for it; a run that fails is tried once more, and
  where it passes then it is said to be flaky;
- what cannot be verified is an error with the reason. Policies with a fault verify nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.fleet.fleet import Fleet
from relay.app.verification.trees import FAILURES, FilesOnGithub, NoTree, arguments, look_up
from relay.app.worktrees.live_output import LiveOutput
from relay.config.settings import LiveSettings
from relay.git.run import GitError
from relay.model import Refusal
from relay.store.ports import Store, StoreError, Tx, is_away
from relay.verification import approvals, journal
from relay.verification.attempts import (
    first_attempt,
    merge_test_policy,
    next_attempt,
    routing,
    slug,
)
from relay.verification.executors.executor import Ended, PolicyExecutor, Run, failed_to_run
from relay.verification.policies import Executor, Match, Policy, Routing
from relay.verification.policy_files import BadPolicies
from relay.verification.policy_list import Policies
from relay.verification.verification import (
    FILES,
    FIRST,
    OVER,
    Change,
    Outcome,
    Result,
    Source,
    State,
    Verification,
    argv_of,
    asked_for,
    digest_of,
    newest,
    verdict,
)

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes it: while one is open, and while none is.
POLL_S, IDLE_S = 5.0, 60.0
_WAKES = (*journal.TYPES, *approvals.TYPES)


#: Hears that a verification's run of a policy has printed something: its number, the policy, the newest output.
Tell = Callable[[int, str, str], None]


def unheard(number: int, policy: str, tail: str) -> None:
    """Nobody listens."""


class Verifier:
    """The verifications of one room. `executors`: what carries runs out; `tell` is called with a verification and a
    policy whose run has printed something. `github` knows the files of what webhooks tell. `fleet`: an agent's change
    is verified at the member where the agent lives; None = there is one relay."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        policies: Policies,
        executors: Mapping[Executor, PolicyExecutor],
        tell: Tell = unheard,
        github: FilesOnGithub | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        self._store, self._settings, self._registry = store, settings, registry
        self._policies, self._executors, self._tell = policies, executors, tell
        self._github, self._fleet = github, fleet
        self._running: dict[int, asyncio.Task[None]] = {}
        #: Those of them that are carried here whoever leads.
        self._own: set[int] = set()
        self._wanted = asyncio.Event()
        self._live: dict[tuple[int, str], LiveOutput] = {}

    async def run(self, *, own: bool = False) -> None:
        """Go on with what is open, for ever: with what one member of a fleet does alone, or with `own`."""
        try:
            with contextlib.closing(self._store.wakeup(_WAKES)) as wakeup:
                while True:
                    await wakeup.wait(POLL_S if await self.look(own=own) else IDLE_S)
        finally:
            await self._end({*self._running} & self._own if own else {*self._running} - self._own)

    async def close(self) -> None:
        """End what runs; it is begun again by whoever looks next."""
        await self._end({*self._running})

    async def _end(self, numbers: set[int]) -> None:
        tasks = [self._running.pop(number) for number in numbers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self, *, own: bool = False) -> bool:
        """Begin what can be done now. Is any open?"""
        self._running = {number: task for number, task in self._running.items() if not task.done()}
        if await self._store.read(approvals.waiting):
            await self._store.write(approvals.expire)
        if self._registry.main is None and not self._registry.trouble:
            return True  # nobody has looked for the repository yet
        before = {*self._running}
        open_ = await self._store.read(journal.open_verifications)
        carriers = {each.number: await self._carrier(each) for each in open_}
        here = {number for number, name in carriers.items() if self._fleet and name == self._fleet.name}
        self._own = here
        # What somebody has called off since: its program is ended too.
        await self._end((before & self._running.keys()) - carriers.keys())
        there = [each for each in open_ if (each.number in here if own else not carriers[each.number])]
        for each in there:
            if each.number not in self._running:
                task = asyncio.create_task(self._go(each.number), name=f"verification-{each.number}")
                self._running[each.number] = task
        return bool(there)

    async def _carrier(self, verification: Verification) -> str:
        """The member that carries it out; empty: whoever leads."""
        change = verification.change
        if self._fleet is None or change.source in (Source.LANDING, Source.GITHUB, Source.EXPLORATION):
            return ""
        return await self._fleet.verifies(change.agent, str(change.about.get("member", "")))

    async def finished(self, number: int) -> Verification:
        """The verification once it is over. It is carried here, whether `run` runs or not."""
        with contextlib.closing(self._store.wakeup(_WAKES)) as wakeup:
            while True:
                verification = await self._store.read(lambda tx: journal.load(tx, number))
                if verification.state in OVER:
                    return verification
                task = self._running.get(number)
                if task is None or task.done():
                    task = asyncio.create_task(self._go(number), name=f"verification-{number}")
                    self._running[number] = task
                await asyncio.wait([task])
                if verification.state is State.WAITING:
                    await wakeup.wait(POLL_S)

    async def must_pass(self, agent: str, by: str, commit: str, tree: str, main: str) -> None:
        """Verify a tree that is to become the main branch's, as a batch of the landing queue. Raises Refusal where it
        does not pass; what no policy is for is not tested, and passes as such."""
        about = {"part": "batch", "entries": [], "agents": [agent]}
        summary = f"{agent}'s variant on the main branch"
        change = Change(
            journal.new_id(), Source.LANDING, agent, by, "", commit, main, tree, None, summary, None, about
        )
        made = await self._store.write(lambda tx: journal.ask(tx, change))
        done = await self.finished(made.number)
        if done.state not in (State.PASSED, State.NOT_TESTED):
            message = f"It is not merged: {done.reason or done.state} ({done.name})"
            raise Refusal(message, "This room lands only what is verified (`landing.required`).")

    async def cancel(self, number: int, reason: str) -> None:
        """End what runs of it; it has no verdict."""
        task = self._running.pop(number, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        async def work(tx: Tx) -> None:
            verification = await journal.load(tx, number)
            if verification.state not in OVER:
                await approvals.withdraw(tx, number, reason)
                await journal.cancel(tx, verification, reason)

        await self._store.write(work)

    def output(self, number: int, policy: str) -> str:
        """What a running program has printed last; empty: nothing runs."""
        live = self._live.get((number, policy))
        return "" if live is None else live.text

    # -- one verification

    async def _go(self, number: int) -> None:
        try:
            verification = await self._store.read(lambda tx: journal.load(tx, number))
            if verification.state is State.QUEUED:
                verification = await self._begin(verification)
            if verification.state in (State.RUNNING, State.WAITING):
                await self._carry(verification)
        except (StoreError, self._store.transient) as error:
            if not is_away(error):
                log.warning("verification put off", verification=number, reason=str(error))
            await asyncio.sleep(1.0)
        except Exception as error:
            log.exception("verification failed", verification=number)
            reason = f"{type(error).__name__} inside the room; its log has the details."
            await self._store.write(lambda tx: _give_up(tx, number, reason))

    async def _begin(self, verification: Verification) -> Verification:
        """Look the change up, and say which policies verify it."""
        change = verification.change
        try:
            policies = await self._policies.all()
            found = await look_up(self._registry, change, self._github)
            routing = await self._with_files(self.routing(policies, found), found)
        except BadPolicies as error:
            return await self._no_verdict(verification, f"The policies cannot be used: {error}")
        except NoTree as error:
            return await self._no_verdict(verification, str(error), State.NOT_TESTED)
        except FAILURES as error:
            return await self._no_verdict(verification, f"The change could not be looked up: {error}.")
        now_is = replace(
            verification,
            change=found,
            state=State.RUNNING,
            tier=routing.tier,
            decides=routing.decides.name if routing.decides else None,
        )

        async def work(tx: Tx) -> Verification:
            now = await journal.load(tx, verification.number)
            if now.state is not State.QUEUED:
                return now  # somebody else carries it
            done = await journal.results_of(tx, verification.number)
            attempts = {result.policy: result.attempt for result in newest(done)}
            results = [
                first_attempt(verification.number, match, found, attempts.get(match.policy.name, 0) + 1)
                for match in routing.matches
            ]
            begun = replace(now_is, began=await tx.now())
            if done:
                about = {**found.about, FIRST: {result.policy: result.attempt for result in results}}
                begun = replace(begun, change=replace(found, about=about))
            await journal.routed(tx, begun, results)
            if not results:
                what = "No policy is for it." if policies else "There are no policies."
                return await journal.end(tx, begun, State.NOT_TESTED, what)
            return begun

        return await self._store.write(work)

    async def _no_verdict(
        self, verification: Verification, reason: str, state: State = State.ERROR
    ) -> Verification:
        async def work(tx: Tx) -> Verification:
            now = await journal.load(tx, verification.number)
            return await journal.end(tx, verification, state, reason) if now.state is State.QUEUED else now

        return await self._store.write(work)

    def routing(self, policies: Sequence[Policy], change: Change) -> Routing:
        """Which of the policies verify a change (`attempts.routing`)."""
        merge = self._settings.current.merge
        test = merge_test_policy(merge.test, merge.test_timeout_s) if merge.test else None
        return routing(policies, change, test)

    async def _with_files(self, routing: Routing, change: Change) -> Routing:
        """Without the policies whose program gets the files of the change, where the change has deleted them all."""
        if not change.tree:
            return routing
        left = [
            match
            for match in routing.matches
            if FILES not in match.policy.run or await self._arguments(change.tree, match.paths)
        ]
        return replace(routing, matches=tuple(left))

    async def _arguments(self, tree: str, paths: Sequence[str]) -> tuple[str, ...]:
        assert self._registry.main is not None
        return await arguments(self._registry.scratch.git(self._registry.main), tree, paths)

    async def _carry(self, verification: Verification) -> None:
        """Run what is open, ask people about the rest, and say what came of it."""
        number = verification.number
        results = newest(await self._store.read(lambda tx: journal.results_of(tx, number)))
        open_ = [result for result in results if result.state in (Outcome.QUEUED, Outcome.RUNNING)]
        matches = await self._matches(verification)
        fresh = bool(verification.change.about.get("fresh"))
        try:
            async with asyncio.TaskGroup() as group:
                for result in open_:
                    match = matches.get(result.policy)
                    if match is None or digest_of(match) != result.digest:
                        group.create_task(self._ended(result, _GONE))
                    elif match.policy.executor is Executor.MANUAL:
                        group.create_task(self._waits(result, fresh=fresh))
                    else:
                        group.create_task(self._policy(verification, match, result))
        except ExceptionGroup as errors:
            # A database that is away is one of them for each run that wanted to write.
            raise errors.exceptions[0] from errors

        async def work(tx: Tx) -> None:
            now_is = await journal.load(tx, number)
            if now_is.state in OVER:
                return
            results = newest(asked_for(now_is, await journal.results_of(tx, number)))
            waiting = [result for result in results if result.state is Outcome.WAITING]
            asked = (
                not waiting
                or await approvals.asks_all(tx, number, waiting)
                or await approvals.covering(tx, waiting)
            )
            if not asked:
                files = sorted({p for result in waiting for p in matches[result.policy].paths})
                names = [result.policy for result in waiting]
                await approvals.ask(tx, now_is, names, files, self._settings.current.verification.approval_s)
            said = verdict(results)
            if said.state is not None:
                if waiting:
                    await approvals.withdraw(tx, number, "something else has decided it")
                await journal.end(tx, now_is, said.state, said.reason)
            elif waiting and now_is.state is not State.WAITING:
                await journal.save(tx, replace(now_is, state=State.WAITING))

        await self._store.write(work)

    async def _matches(self, verification: Verification) -> dict[str, Match]:
        try:
            policies = await self._policies.all()
        except (BadPolicies, OSError):
            return {}
        return {match.policy.name: match for match in self.routing(policies, verification.change).matches}

    # -- one policy

    async def _waits(self, result: Result, *, fresh: bool) -> None:
        """A person decides it; who has approved the same is not asked again."""

        async def work(tx: Tx) -> None:
            known = None if fresh else await journal.same_run(tx, result)
            if known is not None and known.state is Outcome.PASSED:
                await journal.reuse(tx, result, known)
            else:
                await journal.save_result(tx, replace(result, state=Outcome.WAITING))

        await self._store.write(work)

    async def _policy(self, verification: Verification, match: Match, result: Result) -> None:
        """Run one policy to its end; once more where it fails."""
        number, fresh = verification.number, bool(verification.change.about.get("fresh"))
        earlier = [
            each
            for each in asked_for(
                verification, await self._store.read(lambda tx: journal.results_of(tx, number))
            )
            if each.policy == result.policy and each.attempt < result.attempt
        ]
        known = await self._store.read(lambda tx: journal.same_run(tx, result))
        if known is not None and not fresh and result.state is Outcome.QUEUED and not earlier:
            await self._store.write(lambda tx: journal.reuse(tx, result, known))
        else:
            # A second attempt that was cut off is one still.
            ended = await self._attempt(verification, match, result, flaky=bool(earlier))
            if ended.state is Outcome.FAILED and not earlier:
                again = next_attempt(ended)
                await self._store.write(lambda tx: journal.save_result(tx, again))
                ended = await self._attempt(verification, match, again, flaky=True)
        if match.policy.requires_approval:
            # What has passed, a person has to agree to: with what ran before their eyes.
            await self._store.write(lambda tx: _ask_after(tx, result))

    async def _attempt(
        self, verification: Verification, match: Match, result: Result, *, flaky: bool = False
    ) -> Result:
        """One attempt. `flaky`: the one before failed, so if this one passes it is said."""
        policy, key = match.policy, (verification.number, match.policy.name)
        resumed = result.state is Outcome.RUNNING
        begun = await self._store.write(lambda tx: journal.begin(tx, result))
        live = self._live[key] = LiveOutput(partial(self._tell, *key))
        executor = self._executors.get(policy.executor)
        try:
            if executor is None:
                done = Ended(Outcome.ERROR, f"nothing here carries out {policy.executor}")
            else:
                assert self._registry.main is not None
                files = match.paths
                if FILES in policy.run and result.tree:
                    files = await self._arguments(result.tree, files)
                run = Run(
                    f"{verification.change.id}-{slug(policy.name)}-{result.attempt}",
                    policy,
                    verification.change,
                    result.tree,
                    argv_of(policy, files),
                    self._registry.scratch.git(self._registry.main),
                    resumed,
                    live.add,
                    verification.name,
                )
                done = await executor.run(run)
        except GitError as error:
            done = failed_to_run(f"it could not be carried out: {error}")
        finally:
            live.close()
            self._live.pop(key, None)
        return await self._ended(begun, done, flaky=flaky)

    async def _ended(self, result: Result, done: Ended, *, flaky: bool = False) -> Result:
        ended = replace(
            result,
            state=done.state,
            reason=done.reason,
            exit_code=done.exit_code,
            seconds=done.seconds,
            head=done.head,
            tail=done.tail,
            output_bytes=done.output_bytes,
            sandboxed=done.sandboxed,
            url=done.url,
            flaky=flaky and done.state is Outcome.PASSED,
        )
        if ended.flaky:
            ended = replace(ended, reason="it failed, and passed when it was run again")
        return await self._store.write(lambda tx: journal.record(tx, ended))


_GONE = Ended(Outcome.ERROR, "the policy was changed meanwhile, or is gone: verify it again")


async def _ask_after(tx: Tx, result: Result) -> None:
    """What has run is followed by a person's word, in an attempt of its own."""
    if (await journal.load(tx, result.verification)).state in OVER:
        return
    last = {each.policy: each for each in newest(await journal.results_of(tx, result.verification))}.get(
        result.policy
    )
    if last is not None and last.state is Outcome.PASSED:
        waits = replace(next_attempt(last), state=Outcome.WAITING, executor=Executor.MANUAL)
        await journal.save_result(tx, waits)


async def _give_up(tx: Tx, number: int, reason: str) -> None:
    verification = await journal.load(tx, number)
    if verification.state not in OVER:
        await journal.end(tx, verification, State.ERROR, reason)
