"""The file of an exploration: all of 003, section 5.3, and what is said of one that is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from relay.config.yaml_section import named_pattern
from relay.merge.exploration.config import (
    Budget,
    Metric,
    MetricKind,
    Policy,
    TestRun,
    Variant,
    of_json,
    of_task,
)
from relay.merge.exploration.config_file import BadFile, load_exploration, read_exploration

WHOLE = """\
task: Cache the answers of lookup()
variants:
  - name: redis
    instructions: Use Redis.
    agent_config: CLAUDE
  - name: memcached
    instructions: Use Memcached.
    agent_config: {agent: CODEX, model: o5, effort: high}
    branch_name: try/memcached
  - name: in-memory
    instructions: Use a dict.
budget:
  max_duration_seconds: 60
  max_tokens: 10000
  max_tool_calls: 40
  max_cost_usd: 2.00
comparison:
  metrics:
    - TestPassRate
    - code_coverage
    - Performance: {benchmark_command: "python bench.py --n 10", lower_is_better: true}
    - LinesOfCode
    - dependency_count
    - agent_cost
    - agent_duration
    - custom:
        name: answers
        command: [python, count.py]
        extract_pattern: "answers=([0-9]+)"
        lower_is_better: false
  weights: [0.3, 0.1, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05]
auto_select: HighestScore
tests: {run: [python, -m, pytest], parse: junit, report: report.xml, timeout_s: 90}
"""


def test_a_whole_file_is_read() -> None:
    config = read_exploration(WHOLE, "explore.yaml")
    assert config.task == "Cache the answers of lookup()"
    assert config.variants == (
        Variant("redis", "Use Redis.", "CLAUDE"),
        Variant("memcached", "Use Memcached.", "CODEX", "o5", "high", "try/memcached"),
        Variant("in-memory", "Use a dict."),
    )
    assert config.budget == Budget(60.0, 10_000, 40, 2.0)
    assert [metric.kind for metric in config.metrics] == [
        *list(MetricKind)[:2],
        MetricKind.PERFORMANCE,
        MetricKind.LINES_OF_CODE,
        MetricKind.DEPENDENCY_COUNT,
        MetricKind.AGENT_COST,
        MetricKind.AGENT_DURATION,
        MetricKind.CUSTOM,
    ]
    assert config.metrics[2].command == ("python", "bench.py", "--n", "10")
    assert config.metrics[-1] == Metric(
        MetricKind.CUSTOM, "answers", False, ("python", "count.py"), "answers=(?P<value>[0-9]+)"
    )
    assert [metric.lower_is_better for metric in config.metrics] == [False, False, *[True] * 5, False]
    assert sum(config.weights) == pytest.approx(1.0)
    assert (config.policy, config.reviewer) == (Policy.HIGHEST_SCORE, None)
    assert config.tests == TestRun(("python", "-m", "pytest"), 90.0, "junit", "report.xml")


def test_a_file_comes_back_from_the_database_as_it_was() -> None:
    config = read_exploration(WHOLE, "explore.yaml")
    assert of_json(json.loads(json.dumps(config.as_json()))) == config


SHORT = "task: t\nvariants:\n  - {name: a, instructions: one}\n  - {name: b, instructions: two}\n"


def test_what_is_left_out_has_a_default() -> None:
    config = read_exploration(SHORT, "x")
    assert config.budget == Budget()
    assert config.policy is Policy.HUMAN_REVIEW
    assert config.metrics[0].kind is MetricKind.TEST_PASS_RATE
    assert sum(config.weights) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("line", "policy", "reviewer"),
    [
        ("auto_select: null", Policy.HUMAN_REVIEW, None),
        ("auto_select: cheapest_passing", Policy.CHEAPEST_PASSING, None),
        ("auto_select: BestTestRate", Policy.BEST_TEST_RATE, None),
        ("auto_select: {AgentReview: {reviewer_config: CODEX}}", Policy.AGENT_REVIEW, "CODEX"),
        ("auto_select: {agent_review: CODEX}", Policy.AGENT_REVIEW, "CODEX"),
    ],
)
def test_policies(line: str, policy: Policy, reviewer: str | None) -> None:
    config = read_exploration(SHORT + line + "\n", "x")
    assert (config.policy, config.reviewer) == (policy, reviewer)


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "is empty"),
        ("task: [", 1, "is not YAML"),
        ("- a\n", 1, "the file must be a mapping"),
        (changed("task:", "tsk:"), 1, "Did you mean `task`?"),
        (changed("task: Cache the answers of lookup()\n", ""), 1, "`task` of the file is missing"),
        (changed("task: Cache the answers of lookup()", "task: 7"), 1, "must be a text; found 7"),
        ("task: t\n", 1, "`variants` of the file is missing"),
        ("task: t\nvariants: 3\n", 2, "must be a list; found `3`"),
        (
            "task: t\nvariants:\n  - {name: a, instructions: x}\n",
            3,
            "has 1 entries; an exploration has 2 to 12",
        ),
        (changed("    instructions: Use Redis.\n", ""), 3, "`instructions` of variant 1 is missing"),
        (changed("name: memcached", "name: REDIS"), 6, "which another variant has"),
        (changed("name: redis", "name: ../up"), 3, "it has letters"),
        (changed("name: redis", "name: a.lock"), 3, "it has letters"),
        (changed("    agent_config: CLAUDE", "    agnet_config: CLAUDE"), 5, "Did you mean `agent_config`?"),
        (changed("max_tokens: 10000", "max_tokens: 1.5"), 14, "must be a whole number, 0 or more; found 1.5"),
        (changed("max_cost_usd: 2.00", "max_cost_usd: -1"), 16, "must be a number, 0 or more; found -1"),
        (changed("max_duration_seconds: 60", "max_duration_seconds: 0"), 13, "must be above 0"),
        (changed("- LinesOfCode", "- LineOfCode"), 22, "Did you mean `lines_of_code`?"),
        (changed("- dependency_count", "- LinesOfCode"), 23, "which another metric is"),
        (changed("0.05, 0.05]", "0.05, 0.15]"), 31, "the weights have the sum 1.1"),
        (changed("0.05, 0.05]", "0.1]"), 31, "there are 8 metrics and 7 weights"),
        (changed("0.05, 0.05]", "0.05, much]"), 31, "a weight must be a number"),
        (changed("answers=([0-9]+)", "answers=("), 29, "is no pattern"),
        (
            changed("        command: [python, count.py]\n", ""),
            27,
            "`command` of metric 8 (custom) is missing",
        ),
        (changed("- code_coverage", "- performance"), 20, "needs a mapping of benchmark_command"),
        (changed('"python bench.py --n 10"', '"python \'bench"'), 21, "cannot be split into words"),
        (changed("auto_select: HighestScore", "auto_select: best"), 32, "Allowed: highest_score"),
        (
            changed("auto_select: HighestScore", "auto_select: agent_review"),
            32,
            "needs the agent that reviews",
        ),
        (changed(", report: report.xml", ""), 33, "the file that the tests write"),
        (changed("report: report.xml", "report: ../up.xml"), 33, "give a path within the tree"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(BadFile) as caught:
        read_exploration(text, "explore.yaml")
    assert any(at == line and says in words for at, words in caught.value.problems), caught.value.problems
    assert f"explore.yaml:{line}: " in str(caught.value)


def test_every_fault_is_said_at_once() -> None:
    text = changed("task:", "tsk:").replace("max_tokens: 10000", "max_tokens: many")
    with pytest.raises(BadFile) as caught:
        read_exploration(text, "x")
    assert [line for line, _ in caught.value.problems] == [1, 1, 14]


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"task: \xff\n")
    with pytest.raises(BadFile, match="is not UTF-8 text"):
        load_exploration(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("[0-9]+", "(?P<value>[0-9]+)"),
        ("t=([0-9]+)", "t=(?P<value>[0-9]+)"),
        (r"\((?:a|b)([0-9]+)", r"\((?:a|b)(?P<value>[0-9]+)"),
        ("[(]([0-9])", "[(](?P<value>[0-9])"),
        ("[])(]([0-9])", "[])(](?P<value>[0-9])"),
        ("[^])(]([0-9])", "[^])(](?P<value>[0-9])"),
        ("(?P<ms>[0-9]+)ms", "(?P<ms>[0-9]+)ms"),
    ],
)
def test_a_pattern_gets_one_named_group(pattern: str, named: str) -> None:
    assert named_pattern(pattern) == named
    assert len(re.compile(named).groupindex) == 1


def test_a_task_alone_goes_to_the_agents_in_turn() -> None:
    config = of_task("do it", 3, ["CLAUDE", "CODEX"])
    assert [(variant.name, variant.agent) for variant in config.variants] == [
        ("claude-1", "CLAUDE"),
        ("codex", "CODEX"),
        ("claude-2", "CLAUDE"),
    ]
    assert config.policy is Policy.HUMAN_REVIEW
