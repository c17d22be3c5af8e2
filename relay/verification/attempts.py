"""Attempts of policies on a change, as values: the first, the next, and one whose end is known already. Pure."""

from __future__ import annotations

from dataclasses import replace

from relay.verification.policies import Executor, Match, Policy
from relay.verification.verification import Change, Outcome, Result, digest_of

#: The tests of a merged tree (`merge.test`), which decide about every landing.
MERGE_TEST = "merge.test"


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
