"""What an exploration is: one task, several ways to do it, what each may use, and how they are compared (003, section
5.3).

Invariant: a value of these kinds is complete and consistent; `config_file` and `of_task` make them. `of_json` of
`as_json` gives the same value, so that a process that goes on with an exploration has exactly what was asked for.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

#: Seconds that a variant may take where nobody says so: nothing runs for ever.
DEFAULT_S = 1800.0
#: Variants of one exploration.
FEWEST, MOST = 2, 12


class MetricKind(StrEnum):
    """What is compared (003, `ComparisonMetric`)."""

    TEST_PASS_RATE = "test_pass_rate"
    CODE_COVERAGE = "code_coverage"
    PERFORMANCE = "performance"
    LINES_OF_CODE = "lines_of_code"
    DEPENDENCY_COUNT = "dependency_count"
    AGENT_COST = "agent_cost"
    AGENT_DURATION = "agent_duration"
    CUSTOM = "custom"


#: Of these more is better, whatever a file says.
HIGHER_IS_BETTER = frozenset({MetricKind.TEST_PASS_RATE, MetricKind.CODE_COVERAGE})


class Policy(StrEnum):
    """How the winner is chosen (003, `AutoSelectPolicy`)."""

    HIGHEST_SCORE = "highest_score"
    CHEAPEST_PASSING = "cheapest_passing"
    BEST_TEST_RATE = "best_test_rate"
    HUMAN_REVIEW = "human_review"
    AGENT_REVIEW = "agent_review"


@dataclass(frozen=True, slots=True)
class Budget:
    """What one variant may use (003, `ResourceBudget`); None: as much as it wants. Seconds are of the clock; tokens
    all but those that were read from a cache; dollars as the agent itself reports them."""

    max_duration_seconds: float = DEFAULT_S
    max_tokens: int | None = None
    max_tool_calls: int | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do the task. `agent`: the name of a configured agent, None = the room's agents in turn; `model`,
    `effort`: instead of the agent's own; `branch`: None = relay names it."""

    name: str
    instructions: str = ""
    agent: str | None = None
    model: str | None = None
    effort: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """One column of the comparison. `command`: run in an export of the variant's tree, for `performance` and
    `custom`; `pattern`: finds the figure in what it prints, in its one named group."""

    kind: MetricKind
    name: str
    lower_is_better: bool
    command: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class TestRun:
    """How a variant is tested: a program in an export of its tree. `parse`, `report`, `pattern`: how the share of
    tests that passed is read; without them it is 1 or 0, by the exit code."""

    __test__ = False  # no class of tests, whatever its name looks like

    run: tuple[str, ...]
    timeout_s: float = 600.0
    parse: Literal["junit", "regex"] | None = None
    report: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ExplorationConfig:
    """One exploration (003, `ExplorationConfig`). `weights`: one for each metric, with the sum 1. `reviewer`: the
    agent that chooses, where the policy is `agent_review`. `tests`: None = `merge.test`, where that is set."""

    task: str
    variants: tuple[Variant, ...]
    budget: Budget = field(default_factory=Budget)
    metrics: tuple[Metric, ...] = ()
    weights: tuple[float, ...] = ()
    policy: Policy = Policy.HUMAN_REVIEW
    reviewer: str | None = None
    tests: TestRun | None = None

    def as_json(self) -> dict[str, Any]:
        """All of it as a JSON value, by the names of the fields."""
        return asdict(self)


def of_json(value: Mapping[str, Any]) -> ExplorationConfig:
    """The exploration that `as_json` wrote."""
    tests = value["tests"]
    return ExplorationConfig(
        task=value["task"],
        variants=tuple(Variant(**variant) for variant in value["variants"]),
        budget=Budget(**value["budget"]),
        metrics=tuple(
            Metric(**{**metric, "kind": MetricKind(metric["kind"]), "command": tuple(metric["command"])})
            for metric in value["metrics"]
        ),
        weights=tuple(value["weights"]),
        policy=Policy(value["policy"]),
        reviewer=value["reviewer"],
        tests=None if tests is None else TestRun(**{**tests, "run": tuple(tests["run"])}),
    )


#: What is compared where nobody says what.
DEFAULT_METRICS = (
    Metric(MetricKind.TEST_PASS_RATE, "test_pass_rate", False),
    Metric(MetricKind.LINES_OF_CODE, "lines_of_code", True),
    Metric(MetricKind.AGENT_COST, "agent_cost", True),
    Metric(MetricKind.AGENT_DURATION, "agent_duration", True),
)
DEFAULT_WEIGHTS = (0.4, 0.3, 0.15, 0.15)


def of_task(task: str, count: int, agents: Sequence[str]) -> ExplorationConfig:
    """An exploration of a task alone: `count` variants by these agents in turn; a person chooses."""
    names = [agents[at % len(agents)] for at in range(count)]
    variants = []
    for at, agent in enumerate(names):
        number = names[: at + 1].count(agent)
        name = agent.lower() + (f"-{number}" if names.count(agent) > 1 else "")
        variants.append(Variant(name, agent=agent))
    return ExplorationConfig(
        task, tuple(variants), metrics=DEFAULT_METRICS, weights=DEFAULT_WEIGHTS, policy=Policy.HUMAN_REVIEW
    )
