"""What the room says of handoffs, and what agents are told of them. Pure.

Invariant: a line that somebody else wrote (what an agent said, a file's name, what a rule printed) cannot pass for a
line of the room's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.terminal_text import lines, safe_line
from relay.log.events import Event
from relay.timeline.handoffs.event import reasons
from relay.timeline.handoffs.journal import Handoff
from relay.timeline.handoffs.rules import RuleResult

#: Characters of what an agent said, and lines of what a rule printed, that the next is told.
MOST_SAID = 4000
MOST_PRINTED = 60
MOST_NAMED = 20


def opened(handoff: Handoff, rules: int) -> str:
    return (
        f"Handoff {handoff.name} from {handoff.source} ({handoff.source_role}) to {handoff.target} "
        f"({handoff.target_role}): {_rules(rules)} checked."
    )


def _rules(count: int) -> str:
    return "no rule is" if count == 0 else "1 rule is" if count == 1 else f"{count} rules are"


def passed(handoff: Handoff, rules: Sequence[RuleResult]) -> str:
    """`AVA handed on to BEN: 3 of 3 rules passed.`"""
    count = sum(rule.state == "passed" for rule in rules)
    said = f"{count} of {len(rules)} rule{'s' * (len(rules) != 1)} passed" if rules else "no rule to check"
    left = [rule for rule in rules if rule.state != "passed"]
    beside = f" Not required: {safe_line(reasons(left))}." if left else ""
    return f"{handoff.source} handed on to {handoff.target} ({handoff.name}): {said}.{beside}"


def failed(handoff: Handoff, rules: Sequence[RuleResult]) -> str:
    """`Handoff h12 from AVA to BEN did not pass: AllTestsPass failed (exit code 1). AVA tries again, 1 of 3.`"""
    why = safe_line(reasons([rule for rule in rules if not rule.holds]))
    what = f"Handoff {handoff.name} from {handoff.source} to {handoff.target} did not pass: {why}."
    if handoff.attempt < handoff.allowed:
        return f"{what} {handoff.source} tries again, {handoff.attempt + 1} of {handoff.allowed}."
    tries = f" after {handoff.attempt} retr{'y' if handoff.attempt == 1 else 'ies'}" * (handoff.attempt > 0)
    return f"{what} Nobody tries again by itself{tries}. {question(handoff)}"


def question(handoff: Handoff) -> str:
    name = handoff.name
    return (
        f"What now? `/handoff {name} retry`, `/handoff {name} skip <reason>`, `/handoff {name} branch <name>`, or "
        f"`/handoff {name} escalate` to end it here."
    )


def stuck(handoff: Handoff, why: str) -> str:
    about = f"Handoff {handoff.name} from {handoff.source} to {handoff.target} cannot go on: "
    return f"{about}{safe_line(why)} `/handoff {handoff.name} retry` tries this again."


def finished(handoff: Handoff) -> str:
    text = safe_line(handoff.text)
    return f"The pipeline is through: {handoff.target} ({handoff.target_role}) was the last. Task: {text}"


def first_prompt(handoff: Handoff) -> str:
    """What the first agent of a pipeline is asked."""
    return (
        f"@{handoff.source}: you are the {handoff.source_role} in a pipeline. When your turn ends, your worktree is "
        f"checked and handed on to {handoff.target} ({handoff.target_role}).\n\n{_text('Task', handoff.text)}"
    )


def receiver_prompt(handoff: Handoff, event: Event, said: str, then: str | None) -> str:
    """What the receiver is told. `said`: the outgoing agent's last answer; `then`: who gets it next, if anybody."""
    outputs: Mapping[str, Any] = event.outputs
    parts = [
        f"@{handoff.target}: {handoff.source} ({handoff.source_role}) handed on to you ({handoff.target_role}). Your "
        f"worktree has exactly what {handoff.source} left, as commit {str(handoff.at_commit)[:12]}.",
        _text("Task", handoff.text),
        _artifacts(outputs["artifacts"]),
        _checked(outputs["validation"]),
        _text(f"{handoff.source} said", said),
        f"When your turn ends, your worktree is checked and handed on to {then}." if then else "",
    ]
    return "\n\n".join(filter(None, parts))


def retry_prompt(handoff: Handoff, event: Event) -> str:
    """What the retrying agent is told. `handoff.branch`: where it starts."""
    outputs: Mapping[str, Any] = event.outputs
    parts = [
        f"@{handoff.source}: your handoff {handoff.name} to {handoff.target} did not pass. Your worktree is on the "
        f"branch {handoff.branch}, from the snapshot that was checked. Mend what failed; when your turn ends it is "
        "checked again.",
        _text("Task", handoff.text),
        *(_failure(rule) for rule in outputs["validation"]["rules_checked"] if rule["state"] != "passed"),
    ]
    return "\n\n".join(filter(None, parts))


def _failure(rule: Mapping[str, Any]) -> str:
    text = str(rule["detail"]) if rule["required"] else f"{rule['detail']} It is not required."
    printed = "\n".join(str(rule.get(name) or "") for name in ("head", "tail")).strip()
    title = safe_line(text)
    return _text(title.rstrip("."), "\n".join(printed.splitlines()[-MOST_PRINTED:])) or title


def _checked(validation: Mapping[str, Any]) -> str:
    if not validation["rules_checked"]:
        return ""
    failure = validation["failure_info"] or {}
    action = failure.get("suggested_action") or {}
    named = ", ".join(
        f"{rule['rule']} {'passed' if rule['state'] == 'passed' else 'did not pass'}"
        for rule in validation["rules_checked"]
    )
    text = f"Rules: {named}."
    if "justification" in action:
        why = safe_line(str(action["justification"])).rstrip(".")
        text += f" Skipped by {safe_line(str(action['by']))}: {why}."
    return text


def _artifacts(artifacts: Sequence[Mapping[str, Any]]) -> str:
    if not artifacts:
        return ""
    named = [safe_line(str(artifact["path"])) for artifact in artifacts[:MOST_NAMED]]
    more = f" and {len(artifacts) - MOST_NAMED} more" * (len(artifacts) > MOST_NAMED)
    return f"Artifacts: {', '.join(named)}{more}."


def _text(title: str, text: str) -> str:
    """`text` below its title, moved in; empty without a text."""
    if not text.strip():
        return ""
    shown = text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines(shown))])
