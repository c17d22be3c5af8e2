"""How a verification is told as a commit status: by its state, in few words."""

from __future__ import annotations

import pytest

from relay.verification.github.statuses import MOST_DESCRIPTION, status_of
from relay.verification.policies import Executor
from relay.verification.verification import Change, Outcome, Result, Source, State, Verification

CHANGE = Change("c-1", Source.GITHUB, "github:ann", "github:ann")


def result(policy: str, tier: int = 1, **more: str) -> Result:
    return Result(3, policy, 1, tier, Executor.GITHUB, "", "", Outcome.PASSED, **more)


@pytest.mark.parametrize("state", State)
def test_only_what_passed_is_success(state: State) -> None:
    wanted = {State.PASSED: "success", State.FAILED: "failure"}
    wanted |= dict.fromkeys((State.QUEUED, State.RUNNING, State.WAITING), "pending")
    told = status_of(Verification(3, CHANGE, state))
    assert told.state == wanted.get(state, "error")
    assert told.context == "relay/verification" and told.target_url is None


def test_it_says_why_or_by_what() -> None:
    ran = [result("lint", 0), result("unit", url="https://github.com/o/r/actions/runs/1")]
    passed = status_of(Verification(3, CHANGE, State.PASSED), ran)
    assert passed.description == "v3 passed: unit, lint"
    assert passed.target_url == "https://github.com/o/r/actions/runs/1"
    failed = Verification(3, CHANGE, State.FAILED, reason="unit failed (exit code 2).")
    assert status_of(failed, ran).description == "v3 failed: unit failed (exit code 2)."
    assert status_of(Verification(3, CHANGE, State.WAITING), ran).description == (
        "v3 waits for a person: unit, lint"
    )
    assert status_of(Verification(3, CHANGE, State.NOT_TESTED)).description == "v3 not tested"


def test_a_long_reason_is_cut() -> None:
    told = status_of(Verification(3, CHANGE, State.FAILED, reason="because " * 40))
    assert len(told.description) == MOST_DESCRIPTION and told.description.endswith("...")
