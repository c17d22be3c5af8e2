"""The YAML file of an exploration (003, section 5.3), read into an `ExplorationConfig`.

Invariant: a file is checked whole; `BadFile` has every fault with its line, the key, what was found and what is
allowed. Names are those of the source, in its spelling (`TestPassRate`) or in small letters (`test_pass_rate`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import yaml

from relay.base.files import read_regular
from relay.config.yaml_section import Section, kind_of, scalar_of
from relay.merge.exploration.config import (
    DEFAULT_METRICS,
    DEFAULT_S,
    DEFAULT_WEIGHTS,
    FEWEST,
    HIGHER_IS_BETTER,
    MOST,
    Budget,
    ExplorationConfig,
    Metric,
    MetricKind,
    Policy,
    TestRun,
    Variant,
)
from relay.merge.exploration.scoring import weights_problem

#: Bytes of a file.
MOST_BYTES = 1_048_576
#: What a variant may be called: a part of a ref and of a folder's name.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock$)){0,39}(?<!\.)")
#: What finds the figure of a benchmark: the last number that it prints.
_LAST_NUMBER = r"(?P<value>[0-9]+(?:\.[0-9]+)?)"
_OVERRIDES = ("agent", "model", "effort")
_E = TypeVar("_E", bound=StrEnum)


class BadFile(ValueError):
    """The file is no exploration. `problems`: (line, text), in the order of the lines."""

    def __init__(self, where: str, problems: Sequence[tuple[int, str]]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{where}:{line}: {text}" for line, text in self.problems))


def load_exploration(path: Path) -> ExplorationConfig:
    """The exploration of a file. Raises BadFile, OSError."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(str(path), [(1, f"is not UTF-8 text: {error.reason} at byte {error.start}")]) from error
    return read_exploration(text, str(path))


def read_exploration(text: str, where: str) -> ExplorationConfig:
    """The exploration of a text; `where`: how errors name it. Raises BadFile."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        raise BadFile(where, [(mark.line + 1 if mark else 1, f"is not YAML: {what}")]) from error
    problems: list[tuple[int, str]] = []
    if root is None:
        raise BadFile(where, [(1, "is empty; an exploration needs `task` and `variants`")])
    top = Section.of(
        root, "the file", ("task", "variants", "budget", "comparison", "auto_select", "tests"), problems
    )
    made = _exploration(top) if top is not None else None
    if made is None or problems:
        raise BadFile(where, problems)
    return made


def _small(word: str) -> str:
    """`TestPassRate` as `test_pass_rate`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()


def _exploration(top: Section) -> ExplorationConfig | None:
    task = top.text("task", needed=True)
    variants = _variants(top)
    metrics, weights = _comparison(top)
    policy, reviewer = _policy(top)
    budget, tests = _budget(top), _tests(top)
    if task is None or variants is None or top.problems:
        return None
    return ExplorationConfig(task, variants, budget, metrics, weights, policy, reviewer, tests)


def _variants(top: Section) -> tuple[Variant, ...] | None:
    items = top.items("variants")
    if items is None:
        return None
    if not FEWEST <= len(items) <= MOST:
        top.wrong("variants", f"has {len(items)} entries; an exploration has {FEWEST} to {MOST}")
    found: list[Variant] = []
    keys = ("name", "instructions", "agent_config", "branch_name")
    for number, node in enumerate(items, 1):
        section = Section.of(node, f"variant {number}", keys, top.problems)
        if section is None:
            continue
        name = section.text("name", needed=True) or ""
        if name and not _NAME.fullmatch(name):
            section.wrong("name", f"is {name[:60]!r}; it has letters, digits, `-`, `_` and `.`, 40 at most")
        elif name.casefold() in (other.name.casefold() for other in found):
            section.wrong("name", f"is {name!r}, which another variant has")
        branch = section.text("branch_name")
        if branch is not None and branch in (other.branch for other in found):
            section.wrong("branch_name", f"is {branch!r}, which another variant has")
        own = _agent(section)
        found.append(Variant(name, section.text("instructions", needed=True) or "", *own, branch))
    return tuple(found)


def _agent(section: Section) -> tuple[str | None, str | None, str | None]:
    """What `agent_config` says: an agent's name, or a mapping of the agent, its model and its effort."""
    node = section.values.get("agent_config")
    if isinstance(node, yaml.ScalarNode):
        return section.text("agent_config"), None, None
    own = section.section("agent_config", _OVERRIDES)
    return (None, None, None) if own is None else (own.text("agent"), own.text("model"), own.text("effort"))


def _budget(top: Section) -> Budget:
    section = top.section("budget", ("max_duration_seconds", "max_tokens", "max_tool_calls", "max_cost_usd"))
    if section is None:
        return Budget()
    seconds = section.number("max_duration_seconds")
    if seconds == 0:
        section.wrong("max_duration_seconds", "must be above 0")
    tokens, calls = (section.number(key, whole=True) for key in ("max_tokens", "max_tool_calls"))
    return Budget(
        DEFAULT_S if seconds is None else seconds,
        None if tokens is None else int(tokens),
        None if calls is None else int(calls),
        section.number("max_cost_usd"),
    )


def _comparison(top: Section) -> tuple[tuple[Metric, ...], tuple[float, ...]]:
    section = top.section("comparison", ("metrics", "weights"))
    if section is None:
        return DEFAULT_METRICS, DEFAULT_WEIGHTS
    items = section.items("metrics") or []
    metrics: list[Metric] = []
    for number, node in enumerate(items, 1):
        metric = _metric(node, f"metric {number}", top.problems)
        if metric is None:
            continue
        if metric.name in (other.name for other in metrics):
            line = node.start_mark.line + 1
            top.problems.append((line, f"metric {number} is `{metric.name}`, which another metric is"))
        metrics.append(metric)
    weights = _weights(section)
    if (
        weights is not None
        and len(metrics) == len(items)
        and (wrong := weights_problem(weights, len(metrics)))
    ):
        section.wrong("weights", f"cannot be used: {wrong}")
    return tuple(metrics), weights or ()


def _weights(section: Section) -> tuple[float, ...] | None:
    items = section.items("weights")
    if items is None:
        return None
    weights = []
    for node in items:
        value = scalar_of(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            text = f"a weight must be a number, 0 or more; found {kind_of(node)}"
            section.problems.append((node.start_mark.line + 1, text))
            return None
        weights.append(float(value))
    return tuple(weights)


def _metric(node: yaml.Node, name: str, problems: list[tuple[int, str]]) -> Metric | None:
    """A metric's name, or a mapping of its one name to what it needs."""
    word, details = _tagged(node)
    kind = _one_of(MetricKind, word, node, name, problems)
    if kind is None:
        return None
    allowed: Mapping[MetricKind, tuple[str, ...]] = {
        MetricKind.PERFORMANCE: ("benchmark_command", "extract_pattern", "lower_is_better"),
        MetricKind.CUSTOM: ("name", "command", "extract_pattern", "lower_is_better"),
    }
    if kind not in allowed:
        if details is not None:
            problems.append((node.start_mark.line + 1, f"{name}: `{kind}` takes nothing more"))
        return Metric(kind, kind.value, kind not in HIGHER_IS_BETTER)
    if details is None:
        needs = ", ".join(allowed[kind])
        problems.append((node.start_mark.line + 1, f"{name}: `{kind}` needs a mapping of {needs}"))
        return None
    section = Section.of(details, f"{name} ({kind})", allowed[kind], problems)
    if section is None:
        return None
    lower = section.truth("lower_is_better", True)
    if kind is MetricKind.PERFORMANCE:
        command, pattern = section.words("benchmark_command"), section.pattern("extract_pattern")
        return Metric(kind, kind.value, lower, command, pattern or _LAST_NUMBER)
    title = section.text("name", needed=True) or ""
    pattern = section.pattern("extract_pattern", needed=True)
    return Metric(kind, title, lower, section.words("command"), pattern)


def _policy(top: Section) -> tuple[Policy, str | None]:
    node = top.values.get("auto_select")
    if node is None or (isinstance(node, yaml.ScalarNode) and scalar_of(node) is None):
        return Policy.HUMAN_REVIEW, None
    word, details = _tagged(node)
    policy = _one_of(Policy, word, node, "`auto_select`", top.problems)
    if policy is Policy.AGENT_REVIEW:
        if isinstance(details, yaml.ScalarNode) and details.value.strip():
            return policy, details.value.strip()
        section = None
        if details is not None:
            section = Section.of(details, "`agent_review`", ("reviewer_config",), top.problems)
        reviewer = section.text("reviewer_config", needed=True) if section is not None else None
        if details is None:
            top.wrong(
                "auto_select", "needs the agent that reviews: `{agent_review: {reviewer_config: AGENT}}`"
            )
        return policy, reviewer
    if policy is not None and details is not None:
        top.wrong("auto_select", f"takes nothing more with `{policy}`")
    return policy or Policy.HUMAN_REVIEW, None


def _tests(top: Section) -> TestRun | None:
    keys = ("run", "timeout_s", "parse", "report", "pattern")
    node = top.values.get("tests")
    if node is not None and not isinstance(node, yaml.MappingNode):
        words = top.words("tests")
        return TestRun(words) if words else None
    section = top.section("tests", keys)
    if section is None:
        return None
    parse, report = section.text("parse"), section.text("report")
    if parse not in (None, "junit", "regex"):
        section.wrong("parse", f"is {parse!r}; allowed: junit, regex")
    if parse == "junit" and report is None:
        section.wrong("report", "is missing: the file that the tests write and `junit` reads")
    if report is not None and (report.startswith(("/", "~")) or ".." in report.split("/")):
        section.wrong("report", f"is {report!r}; give a path within the tree")
    pattern = section.pattern("pattern", needed=parse == "regex")
    if pattern is not None and parse != "regex":
        section.wrong("pattern", "stands without `parse: regex`")
    limit = section.number("timeout_s")
    return TestRun(
        section.words("run"),
        limit or 600.0,
        "junit" if parse == "junit" else "regex" if parse == "regex" else None,
        report,
        None if pattern is None else _share(pattern),
    )


def _share(pattern: str) -> str:
    """The same pattern with its figure under the name that shares have."""
    return re.sub(r"\(\?P<\w+>", "(?P<test_pass_rate>", pattern, count=1)


def _tagged(node: yaml.Node) -> tuple[str, yaml.Node | None]:
    """A name alone, or the one key of a mapping with its value; no name for anything else."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value), None
    if isinstance(node, yaml.MappingNode) and len(node.value) == 1:
        key, value = node.value[0]
        return str(key.value), value
    return "", None


def _one_of(
    kinds: type[_E], word: str, node: yaml.Node, name: str, problems: list[tuple[int, str]]
) -> _E | None:
    allowed = [kind.value for kind in kinds]
    if _small(word) in allowed:
        return kinds(_small(word))
    near = difflib.get_close_matches(_small(word), allowed, 1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    found = f"`{word[:60]}`" if word else kind_of(node)
    problems.append((node.start_mark.line + 1, f"{name} is {found}.{hint} Allowed: {', '.join(allowed)}"))
    return None
