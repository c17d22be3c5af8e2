"""What the room and agents are told of a handoff: whole sentences, each with one full stop."""

from __future__ import annotations

import re
from typing import Any

import pytest

from relay.log.events import Event
from relay.timeline.handoffs import wording
from relay.timeline.handoffs.event import HandoffMetrics, decided, outputs_of
from relay.timeline.handoffs.journal import Handoff, State
from relay.timeline.handoffs.rules import RuleResult

HANDOFF = Handoff(1, State.ASKED, "AVA", "developer", "BEN", "qa", "Do it.", "ann", 3, branch="b")
FAILED = "AllTestsPass failed: its command ended with exit code 1."
RULES = [
    RuleResult("AllTestsPass", "failed", True, FAILED, 1, 0.1, "one line.\n", ""),
    RuleResult("AllTestsPass", "failed", True, FAILED, 1),
    RuleResult("LintChecksPassed", "not_run", False, "LintChecksPassed has not run: no such program."),
]


@pytest.mark.parametrize("rules", [RULES[:1], RULES[1:2], RULES[2:], RULES])
def test_no_stop_is_doubled(rules: list[RuleResult]) -> None:
    outputs = outputs_of(HANDOFF, rules, [], HandoffMetrics(0, 0, 0, 0, 0))
    skipped = decided(outputs, {"kind": "skip", "justification": "I saw it.", "by": "ann"})

    def event(outputs: dict[str, Any]) -> Event:
        shown: Any = type("Shown", (), {"outputs": outputs})()
        found: Event = shown
        return found

    said = (
        wording.failed(HANDOFF, rules),
        wording.passed(HANDOFF, rules),
        wording.stuck(HANDOFF, "git could not do it."),
        wording.retry_prompt(HANDOFF, event(outputs)),
        wording.receiver_prompt(HANDOFF, event(skipped), "Done.", None),
    )
    for text in said:
        assert not re.search(r"\.\.|\.:|::|\.;", text), text
