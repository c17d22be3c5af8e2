"""Whether work may be handed on: the rules of a transition, each checked on the tree that is handed on.

Invariant: a rule has passed only when its command or its built-in check ran on that tree and found nothing. What
could not be checked has not run, and a required rule that has not run fails (003, section 4.4).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from relay.base.terminal_text import safe, safe_line
from relay.checks.exported_tree import tree_id
from relay.checks.results import Check, CheckResult, Parse, State
from relay.checks.runner import CheckRunner
from relay.config.handoffs import HandoffSettings, RuleSettings
from relay.git.run import GitError
from relay.model.refusals import Fault, Refusal
from relay.timeline.handoffs.builtin_checks import BUILT_IN, BuiltInCheck, Handed

#: The figures of a handoff (003, section 4.3), as shares of 1.
FIGURES = ("test_pass_rate", "code_coverage")
#: Characters of one sentence.
MOST_DETAIL = 600
_OF_FORMAT = {"junit": ("test_pass_rate",), "coverage-xml": ("code_coverage",)}


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What came of one rule. `detail`: one sentence for people. `exit_code`, `seconds`: of its command; None: it has
    none, or did not run. `head`, `tail`: the first and last 20 kB of output, or what a built-in check found, a line
    each. `metrics`: the figures that were read."""

    rule: str
    state: Literal["passed", "failed", "not_run"]
    required: bool
    detail: str
    exit_code: int | None = None
    seconds: float | None = None
    head: str = ""
    tail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Does the work pass, as far as this rule is asked?"""
        return self.state == "passed" or not self.required


@dataclass(frozen=True, slots=True)
class Validation:
    """What came of all rules of a transition on one tree. `metrics` has `test_pass_rate` and `code_coverage`; None:
    no rule read it."""

    tree: str
    passed: bool
    results: tuple[RuleResult, ...]
    metrics: Mapping[str, float | None]

    @property
    def failed_rules(self) -> tuple[str, ...]:
        """The required rules that did not pass."""
        return tuple(result.rule for result in self.results if not result.holds)


async def validate(
    runner: CheckRunner,
    settings: HandoffSettings,
    from_role: str,
    to_role: str,
    base_tree: str,
    tree: str,
    *,
    fresh: bool = False,
) -> Validation:
    """Check all rules of the transition on `tree`. `base_tree`: what the role began with. Both are ids of trees or
    commits that `runner.git` has.

    Every rule is checked, after one that failed too. A command that ran on this tree before is not run again unless
    `fresh`. Raises Refusal when work is not handed on so, GitError when a tree is not there.
    """
    transition = settings.transition(from_role, to_role)
    role = settings.role(from_role)
    if transition is None or role is None:
        raise no_transition(settings, from_role, to_role)
    handed = Handed(runner.git, role, await tree_id(runner.git, base_tree), await tree_id(runner.git, tree))
    checks = [
        asyncio.ensure_future(_check(runner, name, settings.rule(name), handed, fresh=fresh))
        for name in transition.rules
    ]
    try:
        results = tuple([await check for check in checks])
    finally:
        for check in checks:
            check.cancel()
        await asyncio.gather(*checks, return_exceptions=True)
    return Validation(handed.tree, all(result.holds for result in results), results, _figures(results))


def no_transition(settings: HandoffSettings, from_role: str, to_role: str) -> Refusal:
    """Work is not handed on from the one to the other: what may be."""
    pairs = ", ".join(f"{each.from_role} -> {each.to_role}" for each in settings.transitions) or "none"
    message = f"Work is not handed on from {from_role} to {to_role}."
    fix = f"Hand on as `handoffs.transitions` says: {pairs}."
    return Refusal(message, fix, Fault.MALFORMED, "no_transition")


def _figures(results: Sequence[RuleResult]) -> dict[str, float | None]:
    """The first of each, in the order of the rules."""
    return {
        name: next((result.metrics[name] for result in results if name in result.metrics), None)
        for name in FIGURES
    }


async def _check(
    runner: CheckRunner, name: str, rule: RuleSettings, handed: Handed, *, fresh: bool
) -> RuleResult:
    if rule.run:
        parse = None if rule.parse is None else Parse(rule.parse, rule.report, rule.pattern)
        check = Check(name, rule.run, rule.timeout_s, parse, rule.env)
        return _of_command(name, rule, await runner.run(check, handed.tree, fresh=fresh))
    built_in = BUILT_IN.get(name)
    if built_in is None:
        detail = f"{name} has no command, so it has not run: give `handoffs.rules.{name}.run`."
        return RuleResult(name, "not_run", rule.required, detail)
    return await _of_built_in(name, rule, built_in, handed)


async def _of_built_in(name: str, rule: RuleSettings, check: BuiltInCheck, handed: Handed) -> RuleResult:
    try:
        found = await check(handed)
    except GitError as error:
        detail = safe_line(f"{name} has not run: {str(error).rstrip('.')}.", MOST_DETAIL)
        return RuleResult(name, "not_run", rule.required, detail)
    return RuleResult(
        name, found.state, rule.required, safe_line(found.detail, MOST_DETAIL), head=safe(found.listed)
    )


def _of_command(name: str, rule: RuleSettings, result: CheckResult) -> RuleResult:
    state, detail = _verdict(name, rule, result)
    if result.reused:
        detail += " It was not run again: the result is of this very tree."
    ran = result.state is not State.NOT_RUN
    return RuleResult(
        name,
        state,
        rule.required,
        safe_line(detail, MOST_DETAIL),
        result.exit_code,
        result.seconds if ran else None,
        result.head,
        result.tail,
        result.metrics,
    )


def _verdict(
    name: str, rule: RuleSettings, result: CheckResult
) -> tuple[Literal["passed", "failed", "not_run"], str]:
    match result.state:
        case State.NOT_RUN:
            return "not_run", f"{name} has not run: {result.reason.rstrip('.')}."
        case State.TIMED_OUT:
            return "failed", f"{name} did not end within {rule.timeout_s:g} s and was ended."
        case State.FAILED if result.exit_code is not None and result.exit_code < 0:
            return "failed", f"{name} failed: its command was ended by signal {-result.exit_code}."
        case State.FAILED:
            return "failed", f"{name} failed: its command ended with exit code {result.exit_code}."
    least = rule.minimum
    if least is None and name == "AllTestsPass" and "test_pass_rate" in result.metrics:
        least = 1.0  # a command may hide the exit code of the tests, but not the report
    if least is not None:
        for figure in _figures_of(rule):
            value = result.metrics.get(figure)
            if value is None:
                return (
                    "failed",
                    f"{name} failed: no {figure} was read ({result.reason or 'it was not there'}).",
                )
            if value < least:
                return "failed", f"{name} failed: {figure} is {value:.1%}, less than {least:.1%}."
    said = "".join(f" {figure}: {value:g}." for figure, value in sorted(result.metrics.items()))
    if rule.parse is not None and result.reason:
        said += f" A figure is missing: {result.reason.rstrip('.')}."
    return "passed", f"{name} passed in {result.seconds:.1f} s.{said}"


def _figures_of(rule: RuleSettings) -> tuple[str, ...]:
    """The shares that the rule's report is to give."""
    if rule.parse == "regex":
        groups = re.compile(rule.pattern or "").groupindex
        return tuple(name for name in FIGURES if name in groups)
    return _OF_FORMAT.get(rule.parse or "", ())
