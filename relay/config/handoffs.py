"""The configuration of handoffs (`handoffs`): roles, who hands on to whom, and the rules that are checked then.

Invariant: every name that is used has a meaning: a transition goes between roles that there are, and each of its
rules is one of the source's (003, section 4.4) or of the configuration's own. A rule without a command is no mistake
here: it cannot be run, so it fails when it is required.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from relay.config.checks import Problem, setting

ParseFormat = Literal["junit", "coverage-xml", "regex"]

#: The rules of 003, section 4.4, and one more.
RULE_NAMES = (
    "AllTestsPass",
    "NoCompilationErrors",
    "SecurityScanClean",
    "CodeCoverageMinimum",
    "DocumentationComplete",
    "LintChecksPassed",
    "ArtifactsPresent",
    "NoTodoComments",
)
#: What may be called a role: a part of a branch's name.
ROLE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """How a rule is checked: by a command in an export of the tree that is handed on, or by a built-in check."""

    run: tuple[str, ...] = setting(
        "the program with its arguments; no shell reads it. [] = the built-in check of ArtifactsPresent, "
        "NoTodoComments and DocumentationComplete; any other rule has then not run",
        (),
        words=True,
    )
    timeout_s: float = setting(
        "seconds until the command and all it started is ended", 600.0, low=1, high=86400
    )
    required: bool = setting("false = the handoff passes without it; the result is shown all the same", True)
    env: tuple[str, ...] = setting(
        "more environment variables of the daemon that the command gets, by name", ()
    )
    parse: ParseFormat | None = setting(
        "how figures are read after the command: from JUnit's XML, from Cobertura's, or by `pattern`", None
    )
    report: str | None = setting(
        "the file or files (`**/junit-*.xml`) that the command writes and `parse` reads; null = for `regex`, what "
        "it prints",
        None,
        empty=False,
    )
    pattern: str | None = setting(
        "for `regex`: a pattern of Python's; each of its named groups is a figure of that name (`12.5`, `93%`)",
        None,
        empty=False,
    )
    minimum: float | None = setting(
        "the least share, 0 to 1, of `test_pass_rate` or `code_coverage` that passes; fails where it was not read",
        None,
        low=0,
        high=1,
    )


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """A role, and what it must leave for the next."""

    name: str = setting("its name: a-z, 0-9, _ and -, 32 at most; unique")
    artifacts: tuple[str, ...] = setting(
        "globs, as git's `:(glob)` has them, of files that stand in the tree when this role hands on, not empty",
        (),
    )


@dataclass(frozen=True, slots=True)
class TransitionSettings:
    """From which role to which work may be handed on, and what has to hold."""

    from_role: str = setting("the role that hands on")
    to_role: str = setting("the role that gets it")
    rules: tuple[str, ...] = setting("names of rules, all of which are checked", empty=False)


ROLES = (
    RoleSettings("architect", ("PLAN.md",)),
    RoleSettings("developer"),
    RoleSettings("qa"),
    RoleSettings("security"),
    RoleSettings("deployer"),
)
TRANSITIONS = (
    TransitionSettings("architect", "developer", ("ArtifactsPresent",)),
    TransitionSettings(
        "developer",
        "qa",
        (
            "NoCompilationErrors",
            "LintChecksPassed",
            "AllTestsPass",
            "NoTodoComments",
            "DocumentationComplete",
        ),
    ),
    TransitionSettings("qa", "security", ("AllTestsPass", "CodeCoverageMinimum")),
    TransitionSettings("security", "deployer", ("AllTestsPass", "SecurityScanClean")),
)
_DEFAULT_RULE = RuleSettings()
_NO_RULES: Mapping[str, RuleSettings] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HandoffSettings:
    """Who hands on to whom, by which rules (docs/timeline.md)."""

    roles: tuple[RoleSettings, ...] = setting("the roles, in the order of the pipeline", ROLES, empty=False)
    transitions: tuple[TransitionSettings, ...] = setting(
        "which role may hand on to which, and the rules of each; others are refused", TRANSITIONS
    )
    rules: Mapping[str, RuleSettings] = setting(
        "how each rule is checked, by its name; one of the source's that is not here has no command",
        _NO_RULES,
    )
    max_retries: int = setting(
        "attempts after a failed handoff before the room asks people", 3, low=0, high=20
    )

    @property
    def pipeline(self) -> tuple[str, ...]:
        """The names of the roles in their order."""
        return tuple(role.name for role in self.roles)

    def role(self, name: str) -> RoleSettings | None:
        """The role of this name; None: there is none."""
        return next((role for role in self.roles if role.name == name), None)

    def transition(self, from_role: str, to_role: str) -> TransitionSettings | None:
        """What has to hold between the two; None: work is not handed on so."""
        pair = (from_role, to_role)
        return next((each for each in self.transitions if (each.from_role, each.to_role) == pair), None)

    def rule(self, name: str) -> RuleSettings:
        """How the rule is checked; a rule that the configuration does not name is required and has no command."""
        return self.rules.get(name, _DEFAULT_RULE)


def handoff_problems(tree: Mapping[str, Any]) -> list[Problem]:
    """What types cannot say of `handoffs` and `agents[].role` in the plain configuration."""
    found = tree.get("handoffs")
    section: Mapping[str, Any] = found if isinstance(found, dict) else {}
    problems: list[Problem] = []
    roles = _role_problems(section.get("roles"), problems)
    rules = section.get("rules")
    rules = rules if isinstance(rules, dict) else {}
    for name, rule in rules.items():
        if isinstance(rule, dict):
            problems += _rule_problems(f"handoffs.rules.{name}", rule)
    used = _transition_problems(section.get("transitions"), roles, [*RULE_NAMES, *rules], problems)
    for name in rules:
        if name not in (*RULE_NAMES, *used):
            hint = _nearest(name, RULE_NAMES) or "name it in a transition"
            problems.append(Problem(f"handoffs.rules.{name}", "is in no transition", hint=hint))
    agents = tree.get("agents")
    for index, agent in enumerate(agents if isinstance(agents, list) else []):
        role = agent.get("role") if isinstance(agent, dict) else None
        if isinstance(role, str) and role not in roles:
            problems.append(_unknown(f"agents[{index}].role", role, roles))
    return problems


def _role_problems(value: object, problems: list[Problem]) -> list[str]:
    """The names of the roles; what is wrong with them joins `problems`."""
    if not isinstance(value, list):
        return [role.name for role in ROLES]
    names: list[str] = []
    for index, role in enumerate(value):
        name = role.get("name") if isinstance(role, dict) else None
        if not isinstance(name, str):
            continue
        at = f"handoffs.roles[{index}].name"
        if not ROLE_NAME.fullmatch(name):
            hint = f'write "{name.lower()}"' if ROLE_NAME.fullmatch(name.lower()) else ""
            problems.append(Problem(at, f'found "{name[:40]}"', "a-z, 0-9, _ and -, 32 at most", hint))
        elif name in names:
            problems.append(Problem(at, f'found "{name}" twice', "a name of its own"))
        names.append(name)
    return names


def _transition_problems(
    value: object, roles: list[str], rules: list[str], problems: list[Problem]
) -> set[str]:
    """The rules that transitions name; what is wrong with these joins `problems`."""
    at = "handoffs.transitions"
    if not isinstance(value, list):
        for each in TRANSITIONS if value is None else ():
            missing = {each.from_role, each.to_role} - {*roles}
            if missing:
                what = f"the default is for other roles ({', '.join(sorted(missing))} is not among yours)"
                problems.append(Problem(at, what, hint="give transitions between your roles"))
                break
        return {rule for each in TRANSITIONS for rule in each.rules}
    used: set[str] = set()
    pairs: set[tuple[object, object]] = set()
    for index, transition in enumerate(value):
        if not isinstance(transition, dict):
            continue
        for key in ("from_role", "to_role"):
            role = transition.get(key)
            if isinstance(role, str) and role not in roles:
                problems.append(_unknown(f"{at}[{index}].{key}", role, roles))
        pair = (str(transition.get("from_role")), str(transition.get("to_role")))
        if pair in pairs:
            problems.append(
                Problem(f"{at}[{index}]", f"found {pair[0]} -> {pair[1]} twice", "each pair once")
            )
        pairs.add(pair)
        named = transition.get("rules")
        for place, name in enumerate(named if isinstance(named, list) else []):
            if isinstance(name, str) and name not in rules:
                problems.append(_unknown(f"{at}[{index}].rules[{place}]", name, rules))
            used |= {name} if isinstance(name, str) else set()
    return used


def _rule_problems(at: str, rule: Mapping[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    run, parse, report, pattern = (rule.get(key) for key in ("run", "parse", "report", "pattern"))
    if isinstance(run, list) and run and isinstance(run[0], str) and not run[0].strip():
        problems.append(Problem(f"{at}.run", "found no program", "the program, then its arguments"))
    if isinstance(parse, str) and not run:
        problems.append(Problem(f"{at}.parse", "found without a command", hint='give "run"'))
    if parse in ("junit", "coverage-xml") and not isinstance(report, str):
        problems.append(
            Problem(f"{at}.report", "is missing", f'with parse "{parse}": the file that it reads')
        )
    if isinstance(report, str) and (
        report.startswith(("/", "~")) or ".." in report.split("/") or "\0" in report
    ):
        problems.append(Problem(f"{at}.report", f'found "{report[:60]}"', "a path within the tree"))
    if parse == "regex" and not isinstance(pattern, str):
        problems.append(
            Problem(f"{at}.pattern", "is missing", 'with parse "regex": a pattern with a named group')
        )
    if isinstance(pattern, str):
        problems += _pattern_problems(f"{at}.pattern", pattern, parse)
    if rule.get("minimum") is not None and not isinstance(parse, str):
        problems.append(Problem(f"{at}.minimum", "found without a figure", hint='give "parse"'))
    env = rule.get("env")
    for index, name in enumerate(env if isinstance(env, list) else []):
        if isinstance(name, str) and (not _ENV_NAME.fullmatch(name) or name.startswith("RELAY_")):
            allowed = "a variable's name that does not begin with RELAY_"
            problems.append(Problem(f"{at}.env[{index}]", f'found "{name[:40]}"', allowed))
    return problems


def _pattern_problems(at: str, pattern: str, parse: object) -> list[Problem]:
    if parse != "regex":
        return [Problem(at, "found without regex", hint='give "parse": "regex"')]
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        return [Problem(at, f"is no pattern: {error}")]
    if not groups:
        return [Problem(at, "has no named group", "(?P<test_pass_rate>...)")]
    return []


def _unknown(at: str, name: str, names: Iterable[str]) -> Problem:
    allowed = ", ".join(dict.fromkeys(names))
    return Problem(at, f'found "{name[:40]}"', allowed, _nearest(name, names))


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), 1)
    return f"nearest: {near[0]}" if near else ""
