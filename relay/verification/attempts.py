"""Attempts of policies on a change, as values: the first, the next, and one whose end is known already. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.verification.policies import Executor, Match, Policy, Routing, route
from relay.verification.verification import Change, Outcome, Result, Source, digest_of

#: The tests of a merged tree (`merge.test`), which decide about every landing.
MERGE_TEST = "merge.test"
#: A person's look at what relay joins in a branch that is to land, where no program tests it.
JOINED = "merge.joined"


def needs_person(policy: Policy) -> bool:
    return policy.requires_approval or policy.executor is Executor.MANUAL


def merge_test_policy(argv: tuple[str, ...], timeout_s: float) -> Policy:
    """The tests of a merged tree as a policy for every file."""
    return Policy(
        MERGE_TEST, 1, Executor.INLINE, ("*",), run=argv, timeout_s=timeout_s, sandbox="off", network=True
    )


def by_person(match: Match) -> Match:
    return replace(
        match, policy=replace(match.policy, executor=Executor.MANUAL, run=(), requires_approval=True)
    )


def routing(policies: Sequence[Policy], change: Change, test: Policy | None) -> Routing:
    """Which of the policies verify a change. What is to land as part of a batch was approved before, and `test`
    decides about it too; of a branch that is to land, people alone are asked, since the batch is what is run. So they
    are of what relay joins."""
    part = change.about.get("part") if change.source is Source.LANDING else None
    files = tuple(change.files or ())
    made = route(policies, files)
    if part is None:
        return made
    if part == "join":
        look = Policy(JOINED, 4, Executor.MANUAL, ("*",), requires_approval=True)
        return replace(made, matches=(Match(look, files),))
    if part == "entry":
        asked = [match for match in made.matches if needs_person(match.policy)]
        return replace(made, matches=tuple(by_person(match) for match in asked))
    runs = [match for match in made.matches if match.policy.executor is not Executor.MANUAL]
    runs = [replace(match, policy=replace(match.policy, requires_approval=False)) for match in runs]
    if test is not None:
        runs.append(Match(test, files))
    return replace(made, matches=tuple(runs))


def first_attempt(number: int, match: Match, change: Change, attempt: int) -> Result:
    policy = match.policy
    return Result(
        number,
        policy.name,
        attempt,
        policy.tier,
        policy.executor,
        digest_of(match),
        change.tree or "",
        Outcome.QUEUED,
        always=policy.name == MERGE_TEST,
    )


def next_attempt(result: Result) -> Result:
    return Result(
        result.verification,
        result.policy,
        result.attempt + 1,
        result.tier,
        result.executor,
        result.digest,
        result.tree,
        Outcome.QUEUED,
        always=result.always,
    )


def reused_run(result: Result, known: Result, now: float) -> Result:
    return replace(
        known,
        verification=result.verification,
        policy=result.policy,
        attempt=result.attempt,
        tier=result.tier,
        always=result.always,
        reused=known.verification,
        began=now,
    )


def slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
