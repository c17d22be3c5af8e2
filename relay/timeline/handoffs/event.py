"""The event `handoff`, with the fields of 003, section 4.3, as measured.

Invariant: nothing in it is a default: what was not measured is null, and a rule that did not run says so. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from relay.log.events import Event
from relay.model.actions import HandoffAnswer
from relay.timeline.handoffs.journal import Handoff, State
from relay.timeline.handoffs.rules import RuleResult

#: Characters of each end of what a command printed; the table of results has more of it.
_PRINTED = 4000


@dataclass(frozen=True, slots=True)
class HandoffMetrics:
    """What the outgoing role did: milliseconds from its first event to its last; its events; files and lines that its
    tree has changed; `test_pass_rate`, `code_coverage`: 0 to 1, None where no rule read it."""

    role_duration_ms: int
    events_produced: int
    files_modified: int
    loc_added: int
    loc_removed: int
    test_pass_rate: float | None = None
    code_coverage: float | None = None

    def as_json(self) -> dict[str, Any]:
        """`loc_delta`: [added, removed]."""
        values = asdict(self)
        return {**values, "loc_delta": [values.pop("loc_added"), values.pop("loc_removed")]}


def outputs_of(
    handoff: Handoff,
    rules: Sequence[RuleResult],
    artifacts: Sequence[Mapping[str, Any]],
    metrics: HandoffMetrics,
) -> dict[str, Any]:
    """The outputs of the event. `handoff.tree` is what was checked."""
    failed = [rule for rule in rules if not rule.holds]
    return {
        "handoff": handoff.number,
        "from_agent": handoff.source,
        "from_role": handoff.source_role,
        "to_agent": handoff.target,
        "to_role": handoff.target_role,
        "text": handoff.text,
        "validation": {
            "passed": not failed,
            "rules_checked": [_rule(rule) for rule in rules],
            "failure_info": _failure_info(handoff, failed) if failed else None,
        },
        "artifacts": [dict(artifact) for artifact in artifacts],
        "snapshot_id": handoff.tree,
        "commit": handoff.at_commit,
        "metrics": metrics.as_json(),
    }


def _failure_info(handoff: Handoff, failed: Sequence[RuleResult]) -> dict[str, Any]:
    reason = reasons(failed)
    retries = handoff.attempt < handoff.allowed
    action: dict[str, Any] = {
        "kind": HandoffAnswer.RETRY.value,
        "max_retries": handoff.allowed,
        "current_attempt": handoff.attempt + 1,
    }
    if not retries:
        action = {"kind": HandoffAnswer.ESCALATE.value, "reason": f"tried again {handoff.attempt} times"}
    return {
        "reason": reason,
        "failed_rules": [rule.rule for rule in failed],
        "suggested_action": action,
        "retry_role": handoff.source_role if retries else None,
        "max_retries": handoff.allowed,
        "current_attempt": handoff.attempt,
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    """A rule's result; what its command printed only where it did not pass, and its ends only."""
    shown = asdict(rule)
    printed = rule.state != "passed"
    shown["head"] = rule.head[:_PRINTED] if printed else ""
    shown["tail"] = rule.tail[-_PRINTED:] if printed else ""
    return {**shown, "metrics": dict(rule.metrics)}


def reasons(rules: Sequence[RuleResult]) -> str:
    """`AllTestsPass failed (exit code 1); ...`."""
    return "; ".join(
        f"{rule.rule} failed (exit code {rule.exit_code})" if rule.exit_code else rule.detail.rstrip(".")
        for rule in rules
    )


def decided(outputs: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a check again, with what people decided (`kind`, and what belongs to it)."""
    validation = outputs["validation"]
    failure = {**(validation["failure_info"] or {}), "suggested_action": dict(action), "retry_role": None}
    return {**outputs, "validation": {**validation, "failure_info": failure}}


def answers_of(handoff: Handoff, event: Event | None) -> tuple[HandoffAnswer, ...]:
    """What people can say of it now. `event`: of its last check or of what was decided; None: it was not checked."""
    if handoff.state is State.WORKING:
        return (HandoffAnswer.ESCALATE,)
    if handoff.state is not State.ASKED:
        return ()
    if event is None or goes_on(event):
        return (HandoffAnswer.RETRY, HandoffAnswer.ESCALATE)
    return (HandoffAnswer.RETRY, HandoffAnswer.SKIP, HandoffAnswer.BRANCH, HandoffAnswer.ESCALATE)


def goes_on(event: Event) -> bool:
    """Is the tree of this `handoff` handed on: all required rules passed, or people skipped them?"""
    validation = event.outputs["validation"]
    if validation["passed"]:
        return True
    action = (validation["failure_info"] or {}).get("suggested_action") or {}
    return bool(action.get("kind") == HandoffAnswer.SKIP.value)
